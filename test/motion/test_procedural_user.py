"""The synthetic user moves continuously, stays in the room, and does all activities."""

from __future__ import annotations

import numpy as np
import pytest
from gait import knee_angles

from mm_ros.body.skeleton import HEAD, HIPS, LEFT_HAND, LEFT_TOES, PARENTS, RIGHT_HAND, RIGHT_TOES
from mm_ros.maths import rotations as rot
from mm_ros.motion.procedural.user import RATE, SyntheticUser


@pytest.fixture(scope="module")
def user() -> SyntheticUser:
    return SyntheticUser(seed=3)


@pytest.fixture(scope="module")
def joints(user):
    clip = user.clip(150)
    return clip, clip.globals()[0].astype(float)


def test_stays_in_the_room(joints):
    assert np.abs(joints[1][:, HIPS, :2]).max() < 1.4 + 0.35


def test_walks_stands_turns_crouches_and_uses_the_hands(joints):
    clip, p = joints
    speed = np.linalg.norm(np.diff(p[:, HIPS, :2], axis=0), axis=1) * RATE
    assert (speed < 0.05).mean() > 0.15
    assert (speed > 0.35).mean() > 0.15
    assert p[:, HEAD, 2].min() < 0.85 * p[:, HEAD, 2].max()
    assert max((p[:, h, 2] - p[:, HEAD, 2]).max() for h in (LEFT_HAND, RIGHT_HAND)) > -0.15
    yaw = np.unwrap(rot.yaw_of(clip.rotations[:, 0].astype(float)))
    assert np.ptp(yaw) > np.pi
    assert {"walk", "look", "turn", "reach"} <= {name for name, _, _ in clip.tags}


def test_looks_around_also_while_walking(user):
    clip = user.clip(300)
    _, q = clip.globals()
    gap = rot.wrap_angle(rot.yaw_of(q[:, HEAD].astype(float)) - rot.yaw_of(q[:, 0].astype(float)))
    assert np.abs(gap).max() > 0.6


def test_never_jumps(joints):
    clip, p = joints
    speed = np.linalg.norm(np.diff(p, axis=0), axis=-1) * RATE
    assert speed[:, [HEAD, HIPS]].max() < 1.6
    assert speed.max() < 7
    acceleration = np.linalg.norm(np.diff(p, 2, axis=0), axis=-1) * RATE**2
    assert acceleration[:, [HEAD, HIPS]].max() < 12
    assert knee_angles(clip).min() > 2.0


def test_chapters_join_without_a_step(user):
    clip = user.clip(200)
    p = clip.globals()[0].astype(float)
    step = np.linalg.norm(np.diff(p, axis=0), axis=-1).max(axis=1)
    for end in np.cumsum([len(c) for c in user._clips])[:-1]:
        if end < len(step):
            assert step[end - 2 : end + 2].max() < 1.5e-3


def test_planted_feet_do_not_slide(joints):
    p = joints[1]
    for toes in (LEFT_TOES, RIGHT_TOES):
        down = p[:, toes, 2] < 0.0151
        kept = np.convolve(down, np.ones(5), "same") == 5
        moved = np.linalg.norm(np.diff(p[:, toes, :2], axis=0), axis=1)[kept[1:] & kept[:-1]]
        assert moved.max() < 5e-4


def test_same_seed_same_person_however_it_is_asked():
    whole, stepwise = SyntheticUser(seed=9), SyntheticUser(seed=9)
    stepwise.clip(5)
    assert np.array_equal(whole.clip(90).rotations, stepwise.clip(90).rotations)
    assert not np.array_equal(whole.clip(10).rotations, SyntheticUser(seed=10).clip(10).rotations)


def test_pose_at_a_frame_is_the_frame_and_between_it_is_between(user):
    clip = user.clip(70)
    for i in (0, 100, 3700):
        p, q = user.at(i / RATE)
        assert np.allclose(p, clip.positions[i], atol=1e-5)
        assert np.allclose(np.abs((q * clip.rotations[i]).sum(-1)), 1, atol=1e-5)
    p, q = user.at(10.0 + 0.5 / RATE)
    a = clip.cut(600, 602)
    middle, _ = rot.forward_kinematics(PARENTS, p, q)
    assert np.linalg.norm(middle - a.globals()[0].mean(axis=0), axis=-1).max() < 0.005


def test_a_taller_person_is_the_same_one_scaled():
    small, tall = SyntheticUser(seed=2), SyntheticUser(seed=2, scale=1.1)
    a, b = small.clip(8).globals()[0], tall.clip(8).globals()[0]
    assert np.allclose(1.1 * a, b, atol=1e-4)
    assert tall.skeleton.head_height == pytest.approx(1.1 * small.skeleton.head_height, rel=1e-5)
