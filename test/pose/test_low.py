"""Low postures: a squat and a bow, sitting, kneeling and lying, from the head and the hands alone."""

from dataclasses import replace

import numpy as np
import pytest

from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import (
    CHEST,
    HEAD,
    HIPS,
    LEFT_FOOT,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    RIGHT_FOOT,
    RIGHT_LOWER_ARM,
    RIGHT_LOWER_LEG,
    default_skeleton,
)
from mm_ros.body.types import TRACKED, Calibration, TrackerFrame, rest_pose
from mm_ros.maths import rotations as rot
from mm_ros.pose.postprocess import PostSettings, PostStage
from mm_ros.tracking.calibration import from_skeleton

SKELETON = default_skeleton()
HEADSET = np.array([0.10, 0.0, 0.08])


def played(head, pitch, hands, seconds=3.0):
    """The joints over time of a standing motion whose user lowers the head (x, z) from standing within 1 s."""
    stage = PostStage(PostSettings(), SKELETON, from_skeleton(SKELETON))
    out = []
    for i in range(int(seconds * 60)):
        u = min(i / 60, 1.0)
        frame = TrackerFrame(int(i * 1e9 / 60))
        turn = rot.exp(np.array([0.0, u * pitch, 0.0]))
        joint = np.array([u * head[0], 0.0, SKELETON.head_height + u * (head[1] - SKELETON.head_height)])
        frame.rotations[0], frame.positions[0] = turn, joint + rot.rotate(turn, HEADSET)
        for role, side in ((1, 0.2), (2, -0.2)):
            frame.positions[role] = joint + np.array([hands[0], side, -0.8 + u * (hands[1] + 0.8)])
        frame.state[:3] = TRACKED
        out.append(room_joints(stage.step(rest_pose(SKELETON, frame.stamp_ns), frame))[0])
    return np.array(out)


def test_a_squat_bends_the_knees_and_a_bow_the_back():
    squat = played((0.1, 1.15), 0.0, (0.45, -0.1), 1.2)[-1]
    bow = played((0.4, 1.15), 1.1, (0.05, -0.7), 1.2)[-1]
    assert squat[HIPS, 2] < bow[HIPS, 2] - 0.05
    assert squat[HEAD, 0] - squat[HIPS, 0] < bow[HEAD, 0] - bow[HIPS, 0] - 0.05


@pytest.mark.parametrize(
    ("head", "hands", "behind", "off"),
    [((0.15, 1.22), (0.4, -0.2), 0.20, 0.08), ((0.40, 1.30), (0.1, -0.6), 0.08, 0.13)],
    ids=["squat in balance", "lunge"],
)
def test_who_looks_ahead_while_the_head_sinks_keeps_the_trunk_up(head, hands, behind, off):
    """The true hips are `behind` the head [m]: a trunk that leans by 18° in the squat, by 7° in the lunge."""
    joints = played(head, 0.05, hands, 1.4)[-1]
    assert abs(joints[HEAD, 0] - joints[HIPS, 0] - behind) < off


@pytest.mark.parametrize(
    ("head", "pitch", "hands"),
    [
        ((-0.2, 1.17), 0.1, (0.3, -0.5)),
        ((0.3, 0.85), 0.1, (0.2, -0.4)),
        ((0.5, 0.55), 0.3, (0.0, -0.5)),
        ((-0.5, 0.18), -1.4, (0.4, -0.1)),
        ((0.6, 0.18), 1.0, (0.1, -0.1)),
    ],
    ids=["sits", "kneels", "crawls", "on the back", "on the front"],
)
def test_the_body_stays_above_the_floor_and_comes_to_rest(head, pitch, hands):
    joints = played(head, pitch, hands, 5.0)
    assert joints[60:, HIPS, 2].min() > 0.04
    assert joints[:, [LEFT_FOOT, RIGHT_FOOT], 2].min() > 0.0
    assert joints[:, [LEFT_LOWER_LEG, RIGHT_LOWER_LEG], 2].min() > -0.01
    assert joints[:, [LEFT_LOWER_ARM, RIGHT_LOWER_ARM], 2].min() > 0.03
    feet = joints[-30:, [LEFT_FOOT, RIGHT_FOOT]]
    assert np.abs(feet - feet[-1]).max() < 0.02
    assert abs(joints[-1, HEAD, 2] - head[1]) < 0.03


def test_the_trunk_of_a_body_that_lies_is_straight():
    for head, pitch, hands in (((-0.5, 0.18), -1.4, (0.4, -0.1)), ((0.6, 0.18), 1.0, (0.1, -0.1))):
        joints = played(head, pitch, hands, 5.0)[-1]
        assert joints[CHEST, 2] < max(joints[HIPS, 2], joints[HEAD, 2]) + 0.02


def test_a_body_that_sits_has_its_feet_in_front():
    joints = played((-0.2, 1.17), 0.1, (0.3, -0.5), 4.0)[-1]
    feet = joints[[LEFT_FOOT, RIGHT_FOOT], 0].mean()
    assert feet - joints[HIPS, 0] > 0.3
    assert joints[HEAD, 0] - joints[HIPS, 0] < 0.2


def test_a_held_squat_stays_on_its_feet():
    joints = played((0.05, 1.17), 0.1, (0.45, -0.1), 5.0)
    feet = joints[:, [LEFT_FOOT, RIGHT_FOOT], :2]
    assert np.abs(feet - feet[0]).max() < 0.03


def bent_by(drop, sigma):
    """Angle of the line from hips to head [deg] of a standing user whose head is lower than measured by `drop` [m]."""
    stage = PostStage(PostSettings(), SKELETON, replace(from_skeleton(SKELETON), head_height_sigma=sigma))
    for i in range(60):
        frame = TrackerFrame(int(i * 1e9 / 60))
        frame.positions[0] = np.array([0.0, 0.0, SKELETON.head_height - drop]) + HEADSET
        frame.state[0] = TRACKED
        joints = room_joints(stage.step(rest_pose(SKELETON, frame.stamp_ns), frame))[0]
    line = joints[HEAD] - joints[HIPS]
    return np.degrees(np.arctan2(np.hypot(line[0], line[1]), line[2]))


def test_an_uncertain_height_is_not_taken_for_a_bent_back():
    assert bent_by(0.12, 0.10) < bent_by(0.12, 0.01) - 3.0
    assert bent_by(0.40, 0.10) > bent_by(0.12, 0.10) + 3.0


def test_standing_is_not_changed():
    joints = played((0.0, SKELETON.head_height - 0.03), 0.0, (0.2, -0.8), 1.2)[-1]
    assert abs(joints[HIPS, 0] - joints[HEAD, 0]) < 0.06


def test_the_default_measures_are_those_of_the_tests():
    np.testing.assert_allclose(Calibration().headset_in_head[:3], HEADSET)
