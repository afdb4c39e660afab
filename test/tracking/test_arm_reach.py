"""Arm span from the reach of the hands, and the avatar's arms from it."""

import numpy as np
import pytest

from mm_ros.body.arm import SHOULDER_ASIDE, SHOULDER_BELOW
from mm_ros.body.skeleton import WHOLE, default_skeleton
from mm_ros.body.types import TRACKED, Calibration, TrackerFrame
from mm_ros.maths import rotations as rot
from mm_ros.tracking.calibration import avatar_scale, avatar_segments, from_standing_height
from mm_ros.tracking.reach import PALM, ArmReach

HEIGHT = 1.6


def frames(arm, spread):
    """Frames of a user whose arms of length `arm` swing in front, or are spread to both sides."""
    for i in range(400):
        f = TrackerFrame(10**9 + i * 11_111_111)
        f.positions[0], f.state[:3] = (0.10, 0.0, HEIGHT + 0.08), TRACKED
        for side, s in enumerate((1.0, -1.0)):
            up = 0.5 + 0.8 * np.sin(i / 30)
            along = np.array([0.1, s * 0.99, 0.05]) if spread else np.array([np.sin(up), 0.0, -np.cos(up)])
            shoulder = np.array([-0.015 * HEIGHT, s * SHOULDER_ASIDE * HEIGHT, HEIGHT - SHOULDER_BELOW * HEIGHT])
            f.positions[1 + side] = shoulder + (arm + PALM) * along / np.linalg.norm(along)
        yield f


def estimate(arm, spread):
    reach = ArmReach()
    spans = [s for f in frames(arm, spread) if (s := reach.step(f, HEIGHT)) is not None]
    return spans[-1] / 2 - PALM - SHOULDER_ASIDE * HEIGHT


def test_spread_arms_are_measured_and_others_stay_near_the_prior():
    assert estimate(0.62, spread=True) == pytest.approx(0.62, abs=0.02)
    assert estimate(0.50, spread=False) == pytest.approx(0.345 * HEIGHT, abs=0.01)  # bent arms do not shorten
    assert 0.56 < estimate(0.64, spread=False) < 0.64


def test_the_avatars_arms_get_the_users_length():
    calibration = from_standing_height(1.68, arm_span=2 * (PALM + 0.17 * 1.0 + 0.60))
    skeleton = default_skeleton()
    scaled = skeleton.scaled(avatar_scale(calibration, skeleton), avatar_segments(calibration, skeleton))
    assert scaled.arm_length == pytest.approx(0.60, abs=0.002)
    assert avatar_segments(Calibration(), skeleton) == WHOLE  # not measured
    assert avatar_segments(from_standing_height(1.68, arm_span=0.5), skeleton).arms == pytest.approx(0.8)


def test_a_turned_headset_turns_the_shoulders():
    turn = rot.from_yaw(1.0)
    reach, spans = ArmReach(), []
    for f in frames(0.62, spread=True):
        f.positions[:3] = rot.rotate(turn, f.positions[:3])
        f.rotations[:3] = rot.multiply(turn, f.rotations[:3])
        spans += [span for span in [reach.step(f, HEIGHT)] if span is not None]
    assert spans[-1] / 2 - PALM - SHOULDER_ASIDE * HEIGHT == pytest.approx(0.62, abs=0.02)
