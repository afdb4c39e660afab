import math

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.motion.features import HORIZON_S
from mm_ros.trajectory.path import PathSettings, PathStage, smooth_line

SQUARE = [(0, 0), (3, 0), (3, 3), (0, 3)]


def walked(points, speeds=None, yaws=None, more: float = 1.5, **settings):
    path = PathStage(PathSettings(**settings), HORIZON_S)
    path.set_path(points, speeds, yaws)
    return path, [path.step(round(i / 90 * 1e9)) for i in range(round((path.seconds + more) * 90))]


def test_goes_through_the_key_points_and_stops_at_the_end():
    _, targets = walked(SQUARE)
    places = np.array([w.position for w in targets])
    for key in SQUARE:
        assert np.linalg.norm(places - key, axis=1).min() < 0.02
    last = targets[-1]
    assert last.position == pytest.approx([0, 3])
    assert not last.velocity.any()
    assert last.positions == pytest.approx(np.tile([0, 3], (3, 1)))


def test_speed_and_acceleration_stay_within_what_was_asked():
    _, targets = walked(SQUARE, [0.8, 0.8, 1.6, 1.6], acceleration=1.0)
    velocity = np.diff([w.position for w in targets], axis=0) * 90
    speed = np.linalg.norm(velocity, axis=1)
    assert speed.max() < 1.61
    smooth = np.convolve(speed, np.ones(9) / 9, "valid")
    assert np.abs(np.diff(smooth) * 90).max() < 1.4


def test_it_is_smooth():
    _, targets = walked(SQUARE)
    way = np.diff([w.position for w in targets], axis=0)
    moving = np.linalg.norm(way, axis=1) > 1e-3
    yaw = np.unwrap(np.arctan2(way[moving, 1], way[moving, 0]))
    assert np.abs(np.diff(yaw)).max() * 90 < math.radians(400)


def test_the_predicted_position_is_reached():
    _, targets = walked(SQUARE)
    assert targets[90].positions[2] == pytest.approx(targets[180].position, abs=1e-3)
    assert targets[90].directions[2] == pytest.approx(
        [math.cos(targets[180].yaw), math.sin(targets[180].yaw)], abs=0.05
    )


def test_facing_is_along_the_way_or_as_given():
    _, targets = walked([(0, 0), (4, 0)])
    assert targets[100].yaw == pytest.approx(0, abs=1e-6)
    _, strafing = walked([(0, 0), (4, 0)], yaws=[math.pi / 2, math.pi / 2])
    assert strafing[100].yaw == pytest.approx(math.pi / 2)


def test_the_smallest_paths():
    _, targets = walked([(1, 2)])
    assert targets[-1].position == pytest.approx([1, 2])
    _, twice = walked([(0, 0), (0, 0), (1, 0)])
    assert np.isfinite([w.position for w in twice]).all()
    assert twice[-1].position == pytest.approx([1, 0])


def test_reset_walks_again():
    path, _ = walked([(0, 0), (2, 0)])
    path.reset()
    assert path.step(10**12).position == pytest.approx([0, 0])


def test_the_curve_ends_on_its_keys():
    points, place = smooth_line(np.array(SQUARE, float))
    assert points[0] == pytest.approx(SQUARE[0]) and points[-1] == pytest.approx(SQUARE[-1])
    assert place[0] == 0 and place[-1] == 3


def test_invalid_values_are_refused():
    path = PathStage(PathSettings(), HORIZON_S)
    for points in ([], [(0, 0, 0)], [(0, math.nan)]):
        with pytest.raises(MmRosError, match="path"):
            path.set_path(points)
    with pytest.raises(MmRosError, match="speeds"):
        path.set_path([(0, 0), (1, 1)], [1.0])
    with pytest.raises(MmRosError, match="yaws"):
        path.set_path([(0, 0), (1, 1)], None, [math.inf, 0])
