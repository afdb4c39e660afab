import math
from dataclasses import replace

import numpy as np
import pytest
from toys import desired, toy_database

from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import HIPS, LEFT_FOOT, RIGHT_FOOT, canonical_kinematics, default_skeleton
from mm_ros.matching.body_facing import BodyFacing, left_of_body
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.motion.metrics import facing_of_body

RATE = 90


@pytest.fixture(scope="module")
def database():
    return toy_database()


def facing(pose) -> float:
    """Yaw of hips and shoulders of a pose in the room [deg]."""
    positions, rotations = pose.positions.astype(np.float64), pose.rotations.astype(np.float64)
    positions[0], rotations[0] = pose.root[:3], pose.root[3:]
    p, _ = canonical_kinematics(positions[None], rotations[None])
    return math.degrees(facing_of_body(np.asarray(p))[0])


def root_yaw(pose) -> float:
    return math.degrees(2 * math.atan2(pose.root[6], pose.root[3]))


def standing(database, turned_deg: float, source: str = "test", **settings):
    """Return a user who stands after a turn by an angle that the root's accuracy allows."""
    matcher = MatcherStage(MatcherSettings(**settings), database)
    poses = []
    for i in range(RATE):
        yaw = math.radians(turned_deg) if i else 0.0
        poses.append(matcher.step(replace(desired(i / RATE, yaw=yaw), source=source))[0])
    return poses


def test_the_hips_turn_to_the_desired_facing_while_the_root_cannot(database):
    off = standing(database, 8.0, hips_turn=0.0)[-1]
    on = standing(database, 8.0)[-1]
    assert root_yaw(on) == root_yaw(off) < 4.0
    assert facing(off) < 4.0
    assert facing(on) == pytest.approx(8.0, abs=0.1)


def test_the_feet_stay_while_the_hips_turn(database):
    on, off = (standing(database, 8.0, hips_turn=x)[-1] for x in (0.5, 0.0))
    feet = [LEFT_FOOT, RIGHT_FOOT]
    (p, q), (still_p, still_q) = room_joints(on), room_joints(off)
    assert np.linalg.norm(p[feet] - still_p[feet], axis=1).max() < 0.02
    assert np.degrees(np.abs(rot.yaw_of(q[feet]) - rot.yaw_of(still_q[feet]))).max() < 0.1


def test_the_turn_is_limited(database):
    off = standing(database, 8.0, hips_turn=0.0)[-1]
    limited = standing(database, 8.0, hips_turn=math.radians(2.0))[-1]
    assert facing(limited) - facing(off) == pytest.approx(2.0, abs=0.05)


def test_steered_motion_keeps_its_own_facing(database):
    off, on = (standing(database, 3.0, "joystick", steered_hips_turn=x)[-1] for x in (0.0, 0.5))
    default = standing(database, 3.0, "joystick")[-1]
    assert facing(default) == facing(off) != facing(on)


def test_the_turn_has_no_leap_and_its_rate_is_published(database):
    poses, still = (standing(database, 8.0, hips_turn=x) for x in (0.5, 0.0))
    turned = np.radians([facing(a) - facing(b) for a, b in zip(poses, still, strict=True)])
    rates = [float(a.angular_velocities[HIPS, 2] - b.angular_velocities[HIPS, 2])
             for a, b in zip(poses, still, strict=True)]  # fmt: skip
    assert np.abs(np.diff(turned)).max() < 0.03
    assert np.abs(np.diff(turned) * RATE - (np.array(rates)[1:] + np.array(rates)[:-1]) / 2).max() < 0.15


def body(about_x_deg: float = 0.0, yaw: float = 0.3):
    """Local positions, rotations and rates of a person who lies on the side by `about_x_deg`."""
    skeleton = default_skeleton()
    rotations = np.zeros((len(skeleton), 4), np.float32)
    rotations[:, 0] = 1.0
    half = math.radians(about_x_deg) / 2
    rolled = (math.cos(half), math.sin(half), 0.0, 0.0)
    rotations[HIPS] = quat.mul(quat.from_yaw(yaw), rolled)
    return skeleton.offsets.astype(np.float32), rotations, np.zeros((len(skeleton), 3), np.float32)


def test_the_direction_is_that_of_the_metric():
    positions, rotations, _ = body()
    left = left_of_body(positions, rotations)
    assert math.atan2(-left[0], left[1]) == pytest.approx(0.3, abs=1e-6)


def test_a_body_on_its_side_is_not_turned():
    positions, rotations, angular = body(about_x_deg=90.0)
    before = rotations.copy()
    BodyFacing().turn(positions, rotations, angular, 0.0, 1.0, 0.5, 0.01)
    assert np.abs(rotations - before).max() < 1e-6 and not angular.any()


def test_a_reset_forgets_the_turn():
    facing_stage = BodyFacing()
    first = body()
    facing_stage.turn(*first, 0.0, 0.6, 0.5, 0.01)
    facing_stage.reset()
    second = body()
    facing_stage.turn(*second, 0.0, 0.3, 0.5, 0.01)
    assert np.allclose(second[1], body()[1], atol=1e-6)
