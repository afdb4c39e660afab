"""Turns of the whole avatar, on the database that comes with mm_ros: legs step, planted feet do not pivot."""

import math

import numpy as np
import pytest
from toys import trackers

from mm_ros.avatar import Avatar, AvatarSettings
from mm_ros.body import skeleton as sk
from mm_ros.body.types import TRACKED, BodyOrientation
from mm_ros.facing.orientation import OrientationSettings
from mm_ros.maths import rotations as rot
from mm_ros.motion import metrics
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.files import read_database
from mm_ros.tracking.calibration import from_skeleton, standing_headset_height

RATE = 90
TOLD = AvatarSettings(orientation=OrientationSettings(predictor="hmd_forward"))  # the facing is given
FEET = ((sk.LEFT_FOOT, sk.LEFT_TOES), (sk.RIGHT_FOOT, sk.RIGHT_TOES))
STEP_HEIGHT, DOWN_HEIGHT = 0.015, 0.01  # m above the toe's lowest height: above is a step, below is on the floor
STILL = 0.15  # m/s


@pytest.fixture(scope="module")
def database():
    return read_database(default_database_path())


def standing_user(avatar: Avatar, t: float, yaw: float, turn: float = 0.0):
    """Trackers of a user with a level head above the hips and the hands beside them."""
    height = standing_headset_height(avatar.matcher.database.skeleton)
    out = trackers(t, (*(0.1 * np.array([math.cos(yaw), math.sin(yaw)])), height), yaw)
    out.angular_velocities[0] = (0, 0, turn)
    for role, side in ((1, 1), (2, -1)):
        out.positions[role] = *(0.3 * side * np.array([-math.sin(yaw), math.cos(yaw)])), 0.9
        out.rotations[role], out.state[role] = rot.from_yaw(yaw + side * math.pi / 2), TRACKED
        out.angular_velocities[role] = (0, 0, turn)
    for role in range(3):
        x, y = out.positions[role, :2]
        out.velocities[role] = (-turn * y, turn * x, 0)
    return out


def joints_of(poses) -> np.ndarray:
    local = np.stack([p.positions for p in poses]).astype(float)
    turns = np.stack([p.rotations for p in poses]).astype(float)
    local[:, 0], turns[:, 0] = [p.root[:3] for p in poses], [p.root[3:] for p in poses]
    return np.asarray(rot.forward_kinematics(sk.PARENTS, local, turns)[0])


def runs_of(flags: np.ndarray, shortest_s: float) -> list[tuple[int, int]]:
    return [(a, b) for a, b in metrics.stances(flags, 1 / RATE, shortest_s)]


def steps_and_pivots(joints: np.ndarray) -> tuple[int, float]:
    """Number of lifts of a toe, and the largest turn of a foot [deg] while its toe is on the floor and still."""
    steps, pivot = 0, 0.0
    for ankle, toe in FEET:
        height = joints[:, toe, 2] - joints[:, toe, 2].min()
        steps += len(runs_of(height > STEP_HEIGHT, 0.05))
        speed = np.linalg.norm(np.gradient(joints[:, toe, :2], 1 / RATE, axis=0), axis=-1)
        d = joints[:, toe, :2] - joints[:, ankle, :2]
        heading = np.unwrap(np.arctan2(d[:, 1], d[:, 0]))
        for a, b in runs_of((height < DOWN_HEIGHT) & (speed < STILL), 0.1):
            pivot = max(pivot, float(np.degrees(np.ptp(heading[a:b]))))
    return steps, pivot


@pytest.mark.parametrize("seconds", [0.8, 1.2, 2.0])
@pytest.mark.parametrize("way", [1, -1])
def test_a_turn_of_90_degrees_on_the_spot_takes_steps_and_no_planted_foot_pivots(database, seconds, way):
    avatar = Avatar(database, from_skeleton(database.skeleton), TOLD)
    poses, whole = [], way * math.pi / 2
    for i in range(round((2 + seconds + 1.5) * RATE)):
        t = i / RATE
        u = min(max((t - 2) / seconds, 0), 1)
        yaw = whole * (1 - math.cos(math.pi * u)) / 2
        turn = whole * math.pi / seconds * math.sin(math.pi * u) / 2 if 0 < u < 1 else 0.0
        frame = standing_user(avatar, t, yaw, turn)
        poses.append(avatar.step(frame, BodyOrientation(frame.stamp_ns, frame.epoch, yaw, turn, 0.02, "truth")))
    joints = joints_of(poses)[round(1.5 * RATE) :]
    steps, pivot = steps_and_pivots(joints)
    assert steps >= 2
    assert pivot < 10
    turned = metrics.facing_of_pelvis(joints)
    assert math.degrees(abs(math.remainder(turned[-1] - whole, 2 * math.pi))) < 20


@pytest.mark.parametrize("angle", [30, 45, -90])
def test_a_snap_turn_makes_the_legs_step(database, angle):
    """The play space turns about the user in one frame, within an epoch."""
    avatar = Avatar(database, from_skeleton(database.skeleton), TOLD)
    poses = []
    for i in range(4 * RATE):
        yaw = math.radians(angle) if i >= 2 * RATE else 0.0
        frame = standing_user(avatar, i / RATE, yaw)
        if i == 2 * RATE:
            frame.new_from_old = np.array([0, 0, 0, *rot.from_yaw(math.radians(angle))])
        poses.append(avatar.step(frame, BodyOrientation(frame.stamp_ns, frame.epoch, yaw, 0.0, 0.02, "truth")))
    joints = joints_of(poses)[round(1.5 * RATE) :]
    steps, pivot = steps_and_pivots(joints)
    assert steps >= (2 if abs(angle) > 40 else 0)  # a small turn needs no steps
    assert pivot < 10
    turned = metrics.facing_of_pelvis(joints)[-1]
    assert abs(math.degrees(math.remainder(turned - math.radians(angle), 2 * math.pi))) < 20
