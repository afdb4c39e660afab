"""`mm_ros robot show`: films and motion files of a robot that follows a recorded user."""

import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")
pytest.importorskip("daqp", reason="daqp is not installed (extra 'robot')")
from PIL import Image

from mm_ros.cli.main import main
from mm_ros.show import robot as robot_pictures

ROBOT = str(Path(__file__).resolve().parents[2] / "config" / "robots" / "mm_humanoid.urdf")


@pytest.fixture(scope="module")
def user(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("robot_show") / "user"
    assert main(["synth", "session", "-o", str(path), "--seconds", "2"]) == 0
    return str(path)


def show(user: str, output: Path) -> None:
    assert main(["robot", "show", ROBOT, user, "-o", str(output), "--seconds", "0.5"]) == 0


def test_motion_files_have_a_row_for_each_thirtieth_of_a_second(user, tmp_path):
    show(user, tmp_path / "a.csv")
    rows = np.loadtxt(tmp_path / "a.csv", delimiter=",")
    assert rows.shape[1] == 3 + 4 + 29 and 14 <= len(rows) <= 16
    assert np.allclose(np.linalg.norm(rows[:, 3:7], axis=1), 1.0)
    show(user, tmp_path / "a.pkl")
    with (tmp_path / "a.pkl").open("rb") as handle:
        motion = pickle.load(handle)  # written by this test
    assert motion["fps"] == 30 and motion["dof_pos"].shape == (len(rows), 29)
    assert np.allclose(motion["dof_pos"], rows[:, 7:], atol=1e-4)


def test_pictures_and_films_show_two_bodies(user, tmp_path):
    show(user, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.convert("L").getextrema()[0] < 100  # two dark bodies before a light floor
    show(user, tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames >= 14


def test_a_film_that_cannot_be_written_is_refused_before_any_work(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(robot_pictures, "find_spec", lambda name: None)
    assert main(["robot", "show", "absent.urdf", "absent", "-o", str(tmp_path / "a.mp4")]) == 2
    assert "a .mp4 film needs OpenCV" in capsys.readouterr().err
