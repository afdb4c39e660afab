"""Messages of `mm_ros train orientation` about its network, with a fake training instead of torch."""

import sys
from types import SimpleNamespace

import pytest

from mm_ros.cli import train_orientation
from mm_ros.cli.main import main


def figures(network: float, stress: float = 5.0) -> dict:
    def summary(mean: float) -> dict:
        return dict.fromkeys(train_orientation.FIGURES, mean) | {"kinds": {"stand": mean}}

    forward = {"as is": summary(16.0), "stress": summary(20.0)}
    return {"as captured": {"network": {"as is": summary(network), "stress": summary(stress)}, "hmd_forward": forward}}


@pytest.fixture
def trains(monkeypatch, tmp_path):
    """Run the command with a fake training that returns given errors; return its stderr."""

    def run(result: dict, capsys) -> str:
        training = SimpleNamespace(Outcome=object, TrainOptions=train_options, save=lambda *_: [])
        training.train = lambda *_: SimpleNamespace(figures=result)
        network = SimpleNamespace(NetworkPlan=lambda *_: None)
        monkeypatch.setitem(sys.modules, "mm_ros.facing.training.train", training)
        monkeypatch.setitem(sys.modules, "mm_ros.facing.training.network", network)
        monkeypatch.setattr(train_orientation, "need_torch", lambda: None)
        monkeypatch.setattr(train_orientation, "read_clips", lambda args: ([], ""))
        assert main(["train", "orientation", "--data", "x", "-o", str(tmp_path / "facing.onnx")]) == 0
        return capsys.readouterr().err

    def train_options(**_options) -> None:
        return None

    train_options.paper_steps = 1
    return run


def test_a_network_that_is_worse_than_headset_forward_is_said_loudly(trains, capsys):
    said = trains(figures(17.5), capsys)
    assert "!!! THE NETWORK IS NO BETTER THAN HEADSET-FORWARD" in said and "Do not use it" in said
    assert "as captured, as is: 17.5° against 16.0°" in said and "stress" not in said
    assert "stress: 21.0° against 20.0°" in trains(figures(9.0, 21.0), capsys)


def test_a_good_network_raises_no_doubt_and_an_unknown_one_a_plain_warning(trains, capsys):
    assert trains(figures(6.6), capsys) == ""
    assert train_orientation.doubts({}) == [
        "warning: the network was not validated (--folds 0) and may be worse than headset-forward"
    ]
