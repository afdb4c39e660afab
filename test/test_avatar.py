import math
import tracemalloc

import numpy as np
import pytest
from toys import toy_database, trackers

from mm_ros.avatar import Avatar, AvatarSettings
from mm_ros.base.errors import MmRosError
from mm_ros.body import skeleton as sk
from mm_ros.body.rounding import rounded_pose, rounded_trajectory
from mm_ros.body.types import HEAD_ROLE, LEFT_HAND_ROLE, LOST, ROLES, TRACKED
from mm_ros.facing.orientation import OrientationSettings
from mm_ros.matching.matcher import MatcherSettings
from mm_ros.maths import rotations as rot
from mm_ros.motion import metrics
from mm_ros.motion import metrics_feet as metrics_motion
from mm_ros.tracking.calibration import from_skeleton, standing_headset_height

RATE = 90
HEADSET = OrientationSettings(predictor="hmd_forward")


@pytest.fixture(scope="module")
def database():
    return toy_database()


@pytest.fixture
def avatar(database):
    return make(database)


def make(database, **matcher) -> Avatar:
    settings = AvatarSettings(orientation=HEADSET, matcher=MatcherSettings(**matcher))
    return Avatar(database, from_skeleton(database.skeleton), settings)


def walk(t: float) -> tuple[float, float]:
    """Position and speed of a user who stands for 1 s, walks for 2 s and stands."""
    return 1.2 * min(max(t - 1, 0), 2), 1.2 * (1 < t < 3)


def frame(avatar: Avatar, t: float, epoch: int = 0, yaw: float = 0.0, turn: float = 0.0):
    x, v = walk(t)
    height = standing_headset_height(avatar.matcher.database.skeleton)
    out = trackers(t, (x, 0.0, height), yaw, (v, 0.0, 0.0), epoch)
    out.angular_velocities[HEAD_ROLE] = (0, 0, turn)
    out.positions[1:3] = (x, 0.35, 0.9), (x, -0.35, 0.9)
    out.velocities[1:3] = (v, 0.0, 0.0)
    out.state[1:3] = TRACKED
    return out


def run(avatar: Avatar, seconds: float, start: float = 0.0):
    return [avatar.step(frame(avatar, start + i / RATE)) for i in range(round(seconds * RATE))]


def test_the_avatar_goes_where_the_user_goes(avatar):
    poses = run(avatar, 5)
    for i, pose in enumerate(poses):
        hips = walk(i / RATE)[0] - 0.13
        assert abs(pose.root[0] - hips) < 0.1 + 0.05
    assert poses[-1].root[0] == pytest.approx(2.27, abs=0.12)
    assert np.isfinite([p.rotations for p in poses]).all()


def test_the_desired_position_is_never_farther_than_the_accuracy(database):
    for accuracy in (0.1, 0.3):
        avatar = make(database, position_accuracy=accuracy)
        for i in range(5 * RATE):
            pose = avatar.step(frame(avatar, i / RATE))
            away = np.linalg.norm(pose.root[:2] - avatar.last.desired.position)
            assert away <= accuracy + 1e-3


def test_starts_and_stops_with_the_user(avatar):
    poses = run(avatar, 5)
    roots = np.array([p.root[:2] for p in poses])
    user = np.array([[walk(i / RATE)[0], 0.0] for i in range(len(poses))])
    assert metrics.start_lag_s(user, roots, 1 / RATE) == pytest.approx([0.1], abs=0.2)
    assert metrics.stop_lag_s(user, roots, 1 / RATE) == pytest.approx([0.1], abs=0.2)


def test_the_same_samples_give_the_same_poses(database):
    one, two = run(make(database), 3), run(make(database), 3)
    for a, b in zip(one, two, strict=True):
        assert (a.root == b.root).all() and (a.rotations == b.rotations).all() and (a.positions == b.positions).all()


def test_warming_up_changes_nothing(database):
    cold, warm = make(database), make(database)
    warm.warm_up()
    for a, b in zip(run(cold, 1), run(warm, 1), strict=True):
        assert (a.rotations == b.rotations).all() and a.segment == b.segment


def test_late_and_double_samples_give_nothing_and_harm_nothing(database):
    avatar, other = make(database), make(database)
    run(avatar, 1), run(other, 1)
    assert avatar.step(frame(avatar, 0.95)) is None
    assert avatar.step(frame(avatar, 1 - 1 / RATE)) is None
    assert (avatar.step(frame(avatar, 1.0)).rotations == other.step(frame(other, 1.0)).rotations).all()


def test_a_new_epoch_resets(avatar):
    run(avatar, 2)
    pose = avatar.step(frame(avatar, 0.0, epoch=1))
    assert avatar.last.match.reason == "start"
    assert pose.root[0] == pytest.approx(avatar.last.desired.position[0], abs=1e-6)


def test_what_crosses_a_topic_is_rounded_already(avatar):
    run(avatar, 1)
    steps = avatar.last
    again = rounded_pose(steps.pose)
    for name in ("root", "positions", "rotations", "velocities", "angular_velocities"):
        assert getattr(again, name).dtype == getattr(steps.pose, name).dtype
        assert (getattr(again, name) == getattr(steps.pose, name)).all()
    desired = rounded_trajectory(steps.desired)
    assert (desired.positions == steps.desired.positions).all() and (
        desired.directions == steps.desired.directions
    ).all()


def test_no_memory_is_gathered(avatar):
    run(avatar, 1)
    tracemalloc.start()
    run(avatar, 1, 1)
    before = tracemalloc.get_traced_memory()[0]
    run(avatar, 3, 2)
    growth = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert growth < 100_000


@pytest.mark.parametrize("role", [HEAD_ROLE, LEFT_HAND_ROLE])
@pytest.mark.parametrize("what", ["positions", "rotations", "velocities", "angular_velocities"])
def test_bad_trackers_get_a_sentence_and_leave_nothing_behind(avatar, role, what):
    run(avatar, 1)
    bad = frame(avatar, 1.0)
    getattr(bad, what)[role, 0] = math.nan
    with pytest.raises(MmRosError, match=f"'{ROLES[role]}': {what} are not finite"):
        avatar.step(bad)
    pose = avatar.step(frame(avatar, 1.1))
    assert pose is not None and np.isfinite(pose.rotations).all() and np.isfinite(pose.root).all()


def test_a_rotation_of_no_length_gets_a_sentence(avatar):
    bad = frame(avatar, 1.0)
    bad.rotations[LEFT_HAND_ROLE] = 0.0
    with pytest.raises(MmRosError, match="expected a rotation of length 1"):
        avatar.step(bad)


def test_values_of_a_lost_tracker_are_ignored(avatar):
    lost = frame(avatar, 1.0)
    lost.state[LEFT_HAND_ROLE] = LOST
    lost.positions[LEFT_HAND_ROLE] = lost.rotations[LEFT_HAND_ROLE] = math.nan
    pose = avatar.step(lost)
    assert pose is not None and np.isfinite(pose.rotations).all()


def test_feet_stay_near_the_floor_and_the_head_at_the_headset(avatar):
    poses = run(avatar, 4)
    local = np.stack([p.positions for p in poses]).astype(float)
    turns = np.stack([p.rotations for p in poses]).astype(float)
    local[:, 0], turns[:, 0] = [p.root[:3] for p in poses], [p.root[3:] for p in poses]
    joints, _ = rot.forward_kinematics(sk.PARENTS, local, turns)
    head = joints[RATE:, sk.HEAD] + [0.10, 0, 0.08]
    user = [frame(avatar, i / RATE).positions[HEAD_ROLE] for i in range(RATE, len(poses))]
    assert np.median(np.linalg.norm(head - user, axis=1)) < 0.02
    assert np.percentile(metrics_motion.floor_penetration_m(joints), 99) < 0.03
