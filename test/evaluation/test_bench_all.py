"""`mm_ros bench all`: one report of all figures and its changes since an earlier report."""

import json

import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.cli import main as cli
from mm_ros.cli.bench_all import _read, figures, given, machine, ratios
from mm_ros.motion import shared_data


def test_figures_are_found_at_all_levels():
    assert figures({"a": {"b": 1, "c": [2.5, {"d": 3}]}, "text": "x", "flag": True, "none": None}) == {
        "a.b": 1.0, "a.c.0": 2.5, "a.c.1.d": 3.0,
    }  # fmt: skip


def test_the_largest_change_comes_first_in_either_direction():
    old, new = {"s": {"a": 1.0, "b": 10.0, "c": 5.0}}, {"s": {"a": 1.1, "b": 2.0, "c": 5.0}}
    assert [r[0] for r in ratios(old, new)] == ["s.b", "s.a", "s.c"]
    assert ratios(old, new)[0][3] == "0.20"


def test_the_machine_and_figures_of_one_report_only_are_left_out():
    assert ratios({"machine": {"cores": 2}, "a": 1.0}, {"machine": {"cores": 4}, "b": 1.0}) == []


def test_the_machine_is_named():
    assert {"python", "cpu", "cores", "versions"} <= set(machine())


def test_a_file_that_is_no_report_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("[1, 2]")
    with pytest.raises(MmRosError, match="bench all"):
        _read(tmp_path / "x.json")
    with pytest.raises(MmRosError, match="bench all"):
        _read(tmp_path / "missing.json")
    (tmp_path / "y.json").write_text(json.dumps({"a": 1}))
    assert _read(tmp_path / "y.json") == {"a": 1}


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", [n for n in cli.available()["bench"] if n != "all"])
def test_the_arguments_of_each_bench_are_accepted(name, quick):
    parser, _ = cli.verb_parser("bench", name)
    assert parser.parse_args(given(name, quick))


def test_without_cmu_files_benches_are_skipped_with_the_reason_and_the_robot_follows_procedural_motion(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(shared_data, "BESIDE", tmp_path / "absent")
    monkeypatch.delenv("MM_ROS_DATA", raising=False)
    report = tmp_path / "all.json"
    words = ["bench", "all", "--quick", "--benches", "paper,thesis,engines,robot", "--json", str(report)]
    assert cli.main(words) == 0
    printed = capsys.readouterr().out
    assert printed.count("skipped: the shared motion data is missing. It is CMU motion capture") == 3
    result = json.loads(report.read_text())
    assert result["robot"]["results"][0]["robot"] == "mm_humanoid" and result["paper"] is None


@pytest.mark.parametrize("name", ["search", "thesis", "paper"])
def test_the_help_of_a_bench_names_its_data(name, capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main(["bench", name, "--help"])
    assert "MM_ROS_DATA" in capsys.readouterr().out
