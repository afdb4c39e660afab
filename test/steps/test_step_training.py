"""Training of the step network learns from steps, and its file gives the same numbers as torch."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import torch

from mm_ros.base.errors import MmRosError
from mm_ros.cli import train_steps
from mm_ros.cli.main import main
from mm_ros.facing.model_file import MODELS, OnnxModel
from mm_ros.motion.procedural.user import SyntheticUser
from mm_ros.steps.inputs import CHANNELS, INPUTS, layout_hash
from mm_ros.steps.training import measure
from mm_ros.steps.training.augment import Augmentation, window
from mm_ros.steps.training.data import ANKLES, smoothed_speed, sources_of, touchdowns_of
from mm_ros.steps.training.network import NetworkPlan, StepNetwork, loss, network_of
from mm_ros.steps.training.train import TrainOptions, fit, metadata_of, save, shares_of, stacked


@pytest.fixture(scope="module")
def sources():
    return sources_of([SyntheticUser(3).clip(30.0)])


def options(**more) -> TrainOptions:
    return TrainOptions(windows=4, ticks=120, plan=NetworkPlan(16, 16), **more)


def test_a_file_gives_the_numbers_of_torch(sources, tmp_path) -> None:
    torch.manual_seed(0)
    network = StepNetwork(NetworkPlan(16, 24))
    with torch.no_grad():
        for p in network.parameters():
            p.copy_(p.half().float())
    path = save(network, tmp_path / "steps.onnx", metadata_of(network, options(), sources, ["35"], "me", {}))
    model = OnnxModel(path, "steps", layout_hash())
    x = np.random.default_rng(0).normal(size=(30, INPUTS)).astype(np.float32)
    state, found = model.nothing(), []
    for row in x:
        out, state = model.step(row[None], state, True)
        found.append(out[0])
    with torch.no_grad():
        expected = network(torch.from_numpy(x)[None])[0][0].numpy()
        read = network_of(path)(torch.from_numpy(x)[None])[0][0].numpy()
    assert np.array(found) == pytest.approx(expected, abs=1e-5) and read == pytest.approx(expected, abs=1e-5)
    assert model.metadata["credit"] == "me" and '"35"' in model.metadata["data"]


def test_training_reduces_the_loss_on_windows_that_it_has_not_seen(sources) -> None:
    rng = np.random.default_rng(99)
    batch = stacked([window(sources, shares_of(sources, 0.0), 120, Augmentation(), rng) for _ in range(16)])
    values = []
    for batches in (1, 40):
        network = fit(sources, options(batches=batches), lambda *_: None)
        with torch.no_grad():
            values.append(float(loss(network(batch["inputs"])[0], batch)))
    assert values[1] < 0.8 * values[0]


@pytest.fixture
def few_clips(monkeypatch) -> None:
    monkeypatch.setattr(train_steps, "read_clips", lambda args: ([
        replace(SyntheticUser(5).clip(8.0), subject="35"), SyntheticUser(6).clip(8.0),
        replace(SyntheticUser(7).clip(8.0), subject="07")], "me"))  # fmt: skip
    monkeypatch.setattr(measure, "CHOOSING_S", 8.0)


def test_the_command_writes_its_best_network_and_says_how_many_batches_it_had(tmp_path, few_clips, capsys) -> None:
    out, figures = tmp_path / "steps.onnx", tmp_path / "figures.json"
    words = ["--batches", "2", "--units", "8", "--no-procedural", "--json", str(figures)]
    assert main(["train", "steps", "--data", "nowhere", "-o", str(out), *words]) == 0
    model, said = OnnxModel(out, "steps", layout_hash()), json.loads(figures.read_text())
    assert said["batches"] == 2 and set(said) >= {"captured", "procedural", "scores"}
    assert '"35"' in model.metadata["data"] and json.loads(model.metadata["figures"])["chosen_on"][0] == "07"
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".onnx"] == ["steps.onnx"]


def test_the_command_trains_a_network_further(sources, tmp_path, few_clips) -> None:
    first, again = tmp_path / "first.onnx", tmp_path / "again.onnx"
    save(fit(sources, options(batches=20), lambda *_: None), first, metadata_of(
        StepNetwork(NetworkPlan(16, 16)), options(), sources, [], "me", {}))  # fmt: skip
    words = ["--continue-from", str(first), "--batches", "1", "--no-procedural"]
    assert main(["train", "steps", "--data", "nowhere", "-o", str(again), *words]) == 0
    before, after = network_of(first), network_of(again)
    assert after.plan == NetworkPlan(16, 16) and torch.equal(before.mean, after.mean)
    with torch.no_grad():
        both = zip(before.parameters(), after.parameters(), strict=True)
        moved = max(float((a - b).abs().max()) for a, b in both)
    assert 0 < moved < 0.01  # one batch changes each weight by the learning rate at most
    figures = json.loads(OnnxModel(again, "steps", layout_hash()).metadata["figures"])
    assert figures["started_from_sha256"] == hashlib.sha256(first.read_bytes()).hexdigest()


def test_a_network_of_another_kind_is_not_trained_further(tmp_path, capsys) -> None:
    words = ["--data", "nowhere", "-o", str(tmp_path / "steps.onnx"), "--continue-from", str(MODELS / "facing.onnx")]
    assert main(["train", "steps", *words]) == 2
    said = capsys.readouterr().err
    assert "facing" in said and "Traceback" not in said


def test_nothing_to_train_on_is_refused() -> None:
    with pytest.raises(MmRosError, match="no motion to train on"):
        fit([], options(batches=1), lambda *_: None)


def test_a_touchdown_needs_a_fast_and_long_enough_way() -> None:
    t = np.arange(240) / 60

    def landings(metres: float, seconds: float) -> int:
        ankles = np.zeros((240, 6))
        ankles[:, 0] = metres * np.clip((t - 1) / seconds, 0, 1)
        return int(touchdowns_of(smoothed_speed(ankles)[:, 0], ankles[:, :3]).sum())

    assert (landings(0.5, 0.5), landings(0.04, 0.1), landings(0.5, 2.9)) == (1, 0, 0)


def test_lost_hands_leave_no_input_and_all_targets(sources) -> None:
    rng = np.random.default_rng(5)
    drawn = window(sources, np.ones(1), 120, Augmentation(no_hands=1.0), rng)
    assert not drawn.inputs[:, 24:].any() and drawn.moves.max() <= 1 and np.isfinite(drawn.ankles).all()


def test_sources_hold_devices_ankles_and_contacts(sources) -> None:
    c = sources[0].columns
    assert 1.4 < c[:, 2].mean() < 1.9 and 0.03 < c[:, ANKLES][:, [2, 5]].min() < 0.2
    assert np.array_equal(c[:, CHANNELS - 2 : CHANNELS], np.ones((len(c), 2)))


def test_the_command_does_not_overwrite_a_file(tmp_path, capsys) -> None:
    (tmp_path / "a.onnx").touch()
    assert main(["train", "steps", "--data", "nowhere", "-o", str(tmp_path / "a.onnx")]) == 2
    assert "--force" in capsys.readouterr().err
