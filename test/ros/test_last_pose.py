"""The file of the last pose: what a killed postprocessor leaves to its successor."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import AvatarPose, rest_pose
from mm_ros.ros import last_pose
from mm_ros.ros.last_pose import SETTLED_S, WAIT_S, LastPose, Reunion

POSE = replace(rest_pose(default_skeleton(), 5), run=7, root=np.array([1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0]))


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path))
    monkeypatch.setenv("ROS_DOMAIN_ID", "0")
    return tmp_path / "last_pose"


def left_by_a_killed_process(*poses: AvatarPose) -> Path:
    store = LastPose("anna")
    for pose in poses:
        store.write(pose)
    return store._path


def test_the_newest_pose_is_read() -> None:
    left_by_a_killed_process(replace(POSE, run=1), replace(POSE, run=2), POSE)
    found = LastPose("anna").read()
    assert found is not None and (found.run, found.stamp_ns, found.skeleton) == (7, 5, POSE.skeleton)
    for name in ("root", "positions", "rotations"):
        assert np.array_equal(getattr(found, name), getattr(POSE, name))
    assert LastPose("berta").read() is None


def test_after_a_proper_end_there_is_none(folder: Path) -> None:
    store = LastPose("anna")
    store.write(POSE)
    store.close()
    assert not list(folder.iterdir())


def test_a_pose_half_written_leaves_the_one_before() -> None:
    path = left_by_a_killed_process(replace(POSE, run=1), POSE)
    content = bytearray(path.read_bytes())
    content[100] ^= 1  # in the first slot, which holds the second pose
    path.write_bytes(content)
    found = LastPose("anna").read()
    assert found is not None and found.run == 1


@pytest.mark.parametrize("content", [b"", b"\xff" * 1000, os.urandom(10_000), bytes(5)])
def test_damage_gives_no_pose(content: bytes) -> None:
    path = left_by_a_killed_process(POSE)
    path.write_bytes(content)
    assert LastPose("anna").read() is None


def test_an_implausible_and_an_old_pose_are_not_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    left_by_a_killed_process(replace(POSE, root=np.full(7, np.nan)))
    assert LastPose("anna").read() is None
    left_by_a_killed_process(POSE)
    monkeypatch.setattr(last_pose, "NEWEST_S", 0.0)
    assert LastPose("anna").read() is None


def test_a_link_and_a_folder_that_cannot_be_written_are_not_used(folder: Path) -> None:
    folder.mkdir(parents=True)
    target = folder.parent / "thesis.tex"
    target.write_text("years of work")
    (folder / "0.anna").symlink_to(target)
    store = LastPose("anna")
    store.write(POSE)
    assert store.read() is None and target.read_text() == "years of work"


def test_the_number_of_listeners_is_read() -> None:
    LastPose("anna").write(POSE, (3, 1_000_000))
    store = LastPose("anna")
    assert store.read() is not None and store.listeners == (3, 65535)


def seconds_waited(expected: tuple[int, int], found: list[tuple[float, tuple[int, int]]]) -> tuple[float, bool]:
    """Time until the wait ends, and whether all listeners were there. `found`: listeners from each time [s] on."""
    reunion = Reunion(expected)
    for i in range(1000):
        now_s = i * 0.01
        listeners = [count for since_s, count in found if since_s <= now_s][-1]
        if reunion.over or not reunion.waits(listeners, round((now_s + 5) * 1e9)):
            return now_s, reunion.complete
    raise AssertionError("the wait does not end")


def test_without_former_listeners_nothing_is_waited_for() -> None:
    assert seconds_waited((0, 0), [(0, (0, 0))]) == (0.0, True)


def test_the_wait_ends_shortly_after_the_last_of_the_former_listeners_was_found() -> None:
    waited, complete = seconds_waited((2, 1), [(0, (0, 0)), (0.3, (3, 0)), (0.5, (2, 1))])
    assert complete and waited == pytest.approx(0.5 + SETTLED_S, abs=0.011)


@pytest.mark.parametrize("found", [(1, 1), (2, 0)])
def test_the_wait_is_bounded_when_a_listener_has_gone(found: tuple[int, int]) -> None:
    waited, complete = seconds_waited((2, 1), [(0, (0, 0)), (0.3, found)])
    assert not complete and waited == pytest.approx(WAIT_S, abs=0.011)


def test_a_listener_that_leaves_again_is_waited_for() -> None:
    waited, complete = seconds_waited((1, 0), [(0, (1, 0)), (0.1, (0, 0)), (0.4, (1, 0))])
    assert complete and waited == pytest.approx(0.4 + SETTLED_S, abs=0.011)
