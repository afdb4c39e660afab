"""The commands `mm_ros import` and `mm_ros info`."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bvh_dialects import DIALECTS, walks
from toys import toy_database

from mm_ros.body.types import Calibration
from mm_ros.cli import info
from mm_ros.cli.main import main
from mm_ros.motion import files
from mm_ros.motion.bvh.reader import write_bvh
from mm_ros.motion.features import FeatureLayout, steered_layout
from mm_ros.motion.files import write_database
from mm_ros.motion.importing.export import to_bvh
from mm_ros.motion.summary import heat, heat_text, of_clips
from mm_ros.tracking.files import write_calibration


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i, name in enumerate(("walk 1.3", "back 0.9", "side 0.5")):
        write_bvh(to_bvh(walks()[name], DIALECTS["Xsens"]), tmp_path / f"m_{i:02}.bvh")
    return tmp_path


def test_import_then_info(folder: Path, capsys: pytest.CaptureFixture[str]):
    database, report = folder / "mine.mmdb", folder / "mine.report.md"
    assert main(["import", str(folder), "-o", str(database), "--jobs", "1", "--json", str(folder / "i.json")]) == 0
    said = capsys.readouterr().out
    assert "3 clips" in said and "stance drift" in said
    assert "Xsens" in report.read_text() and (folder / "mine.report.svg").is_file()
    assert json.loads((folder / "i.json").read_text())["clips"] == 3
    assert main(["info", str(database), "--json", str(folder / "j.json")]) == 0
    said = capsys.readouterr().out
    assert "minutes walk" in said and "Time spent at each velocity" in said
    assert json.loads((folder / "j.json").read_text())["kind"] == "database"


def test_info_prints_the_coverage_and_the_doubts(folder: Path, capsys: pytest.CaptureFixture[str]):
    database = folder / "mine.mmdb"
    assert main(["import", str(folder), "-o", str(database), "--jobs", "1", "--stooped", "0", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["info", str(database), "--json", str(folder / "i.json")]) == 0
    said, got = capsys.readouterr().out, json.loads((folder / "i.json").read_text())
    minutes = {name: clip.seconds / 60 for name, clip in walks().items()}
    sides = got["coverage"]["sideways to the left"] + got["coverage"]["sideways to the right"]
    found = {"walk 1.3": got["coverage"]["walking forward"], "back 0.9": got["coverage"]["walking backward"]}
    for name, length in (found | {"side 0.5": sides}).items():
        assert 0.4 * minutes[name] < length <= minutes[name] + 0.01, name  # each clip starts and stops
    assert got["coverage"]["running"] == got["coverage"]["squatting or lower"] == 0.0
    assert "coverage, minutes" in said
    for name in ("running", "squatting or lower", "crouching"):
        assert f"? little motion: {name} (0 min)" in said.splitlines()


def test_info_shows_the_weights_that_differ_from_the_built_in_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The layout that users copied from config/features.yaml before it had the built-in weights."""
    usual = toy_database(2.0)
    flat = FeatureLayout(tuple(replace(f, weight=1.0) for f in usual.layout.features))
    write_database(usual, tmp_path / "usual.mmdb")
    write_database(replace(usual, layout=flat), tmp_path / "flat.mmdb")
    said = {}
    for name in ("usual", "flat"):
        assert main(["info", str(tmp_path / f"{name}.mmdb"), "--json", str(tmp_path / f"{name}.json")]) == 0
        said[name] = json.loads((tmp_path / f"{name}.json").read_text())
    assert said["usual"]["weights"] == "built-in" and "weights" not in said["flat"]
    assert said["flat"]["weight trajectory_position"] == "1 (built-in: 6)"
    assert said["flat"]["weight trajectory_direction"] == "1 (built-in: 4)"
    assert "weight hips_velocity" not in said["flat"]
    assert "1 (built-in: 6)" in capsys.readouterr().out


def test_info_compares_weights_with_the_built_in_layout_of_the_same_features():
    said = []
    for weight in (1.0, 2.0):
        layout = steered_layout()
        layout = FeatureLayout((*layout.features[:-1], replace(layout.features[-1], weight=weight)))
        said.append(dict(info._weights(layout)))
    assert said == [{"weights": "built-in"}, {"weight trajectory_velocity": "2 (built-in: 1)"}]


def test_info_prints_the_version_of_a_database(tmp_path: Path):
    write_database(toy_database(2.0), tmp_path / "toy.mmdb")
    assert main(["info", str(tmp_path / "toy.mmdb"), "--json", str(tmp_path / "i.json")]) == 0
    assert json.loads((tmp_path / "i.json").read_text())["file version"] == files.VERSION


def test_info_prints_a_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "anna.yaml"
    write_calibration(Calibration(user="anna", calibrated=True, head_height=1.67, head_height_sigma=0.01), file)
    assert main(["info", str(file), "--json", str(tmp_path / "i.json")]) == 0
    said = json.loads((tmp_path / "i.json").read_text())
    assert (said["kind"], said["user"], said["file version"], said["calibrated"]) == ("calibration", "anna", 1, "yes")
    assert (said["head height, m"], said["arm span, m"]) == ("1.670 ± 0.010", 0.0)
    assert "anna" in capsys.readouterr().out
    file.write_text(file.read_text().replace("version: 1", "version: 7"))
    assert main(["info", str(file)]) == 2
    assert "expected a calibration of version 1, came 7" in capsys.readouterr().err


def test_nothing_is_overwritten_silently(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "mine.mmdb").write_text("precious")
    assert main(["import", str(folder), "-o", str(folder / "mine.mmdb")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (folder / "mine.mmdb").read_text() == "precious"


def test_a_draft_of_a_joint_map_can_be_used_at_once(folder: Path, capsys: pytest.CaptureFixture[str]):
    file, draft = str(folder / "m_00.bvh"), str(folder / "map.yaml")
    assert main(["import", file, "--draft-map", draft]) == 0
    text = Path(draft).read_text()
    assert "hips: Hips" in text and "left_upper_arm: LeftShoulder" in text
    assert main(["import", file, "--map", draft]) == 0
    assert "given map" in capsys.readouterr().out


def test_info_on_a_file_and_on_nothing(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["info", str(folder / "m_01.bvh")]) == 0
    assert "minutes back" in capsys.readouterr().out
    assert main(["info", str(folder / "nowhere")]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_the_heat_map_has_left_on_the_left():
    summary = of_clips([walks()["side 0.5"]])
    seconds, _, left = heat(summary)
    assert seconds.sum() == pytest.approx(summary.seconds, rel=0.02)
    goes_left = seconds[:, left[:-1] > 0.2].sum() > seconds[:, left[:-1] < -0.3].sum()
    assert goes_left == (np.median(summary.velocities[:, 1]) > 0)
    line = next(row for row in heat_text(summary).splitlines() if row.startswith("+0.00"))
    inside = line[line.index("|") + 1 : -1]
    half = len(inside) // 2
    assert (len(inside[:half].split()) > 0) == goes_left


def test_plot_writes_a_picture(folder: Path):
    pytest.importorskip("matplotlib")
    assert main(["info", str(folder / "m_00.bvh"), "--plot", str(folder / "p.png")]) == 0
    assert (folder / "p.png").read_bytes()[:4] == b"\x89PNG"
