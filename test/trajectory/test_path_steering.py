"""Paths with speeds, pauses and loops, and paths that begin elsewhere."""

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.motion.features import HORIZON_S
from mm_ros.trajectory.path import PathSettings, PathStage

RING = [(0, 0), (3, 0), (3, 3), (0, 3)]


def walk(stage, seconds, first_s=1.0):
    targets = [stage.step(round((first_s + i / 60) * 1e9)) for i in range(round(seconds * 60))]
    return np.array([t.position for t in targets]), targets


def test_a_path_that_begins_elsewhere_is_walked_to():
    stage = PathStage(PathSettings(), HORIZON_S)
    stage.set_path([(0, 0), (3, 0)])
    walk(stage, 2.0)
    here = stage.step(round(3.01e9)).position
    stage.set_path([(0, 4), (4, 4)])
    places, _ = walk(stage, 14.0, 3.02)
    assert np.linalg.norm(places[0] - here) < 0.05
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).max() * 60 < 1.3
    assert np.linalg.norm(places - (0, 4), axis=1).min() < 0.05
    assert places[-1] == pytest.approx((4, 4))


def test_a_loop_goes_on_at_its_speed():
    stage = PathStage(PathSettings(loop=True, cornering=20.0), HORIZON_S)
    stage.set_path(RING)
    places, _ = walk(stage, 3 * stage.seconds)
    speeds = np.linalg.norm(np.diff(places, axis=0), axis=1) * 60
    assert speeds[180:].min() > 1.0 and speeds.max() < 1.3
    late = places[round(2 * stage.seconds * 60) :]
    assert all(np.linalg.norm(late - key, axis=1).min() < 0.05 for key in RING)


def test_it_stands_at_a_pause_and_walks_at_the_speed_of_each_part():
    stage = PathStage(PathSettings(speeds=(1.0, 1.0, 0.5, 0.5), pauses=(0.0, 2.0)), HORIZON_S)
    stage.set_path([(0, 0), (4, 0), (8, 0), (12, 0)])
    places, targets = walk(stage, stage.seconds)
    speeds = np.linalg.norm(np.diff(places, axis=0), axis=1) * 60
    still = places[:-1][speeds < 0.01]
    assert np.sum(np.linalg.norm(still - (4, 0), axis=1) < 0.02) > 100
    fast, slow = (speeds[np.abs(places[:-1, 0] - x) < 0.3].mean() for x in (2.0, 10.0))
    assert (fast, slow) == (pytest.approx(1.0, abs=0.05), pytest.approx(0.5, abs=0.05))
    assert all(np.isfinite(t.positions).all() for t in targets)


def test_a_goal_is_reached_with_its_heading_and_points_are_walked_in_turn():
    stage = PathStage(PathSettings(), HORIZON_S)
    walk(stage, 0.1)
    stage.go_to((2.0, 1.0), 1.5)
    assert stage.step(round(9e9)) is not None
    _, targets = walk(stage, 6.0, 9.1)
    assert targets[-1].position == pytest.approx((2, 1)) and targets[-1].yaw == pytest.approx(1.5)
    stage.append((4, 1))
    walk(stage, 0.5, 16.0)
    stage.append((4, 3))
    places, _ = walk(stage, 9.0, 17.0)
    assert np.linalg.norm(places - (4, 1), axis=1).min() < 0.1 and places[-1] == pytest.approx((4, 3))


@pytest.mark.parametrize(
    "points",
    [[(0, 0), (1e6, 0)], np.zeros((1_000_000, 2)), [(0, 0), (np.inf, 1)], [(0, 0, 1)]],
    ids=("long", "many", "infinite", "height"),
)
def test_absurd_paths_are_refused_and_the_old_one_stays(points):
    stage = PathStage(PathSettings(), HORIZON_S)
    stage.set_path([(0, 0), (3, 0)])
    with pytest.raises(MmRosError, match="path"):
        stage.set_path(points)
    assert walk(stage, 5.0)[0][-1] == pytest.approx((3, 0))
