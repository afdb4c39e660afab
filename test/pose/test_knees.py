"""Knees of the published pose when the matched leg is straight and has no plane of its own."""

import math
from dataclasses import replace

import numpy as np
import pytest
from test_postprocess import SKELETON, matched, room, stage, trackers

from mm_ros.body.skeleton import LEFT_UPPER_LEG, RIGHT_UPPER_LEG
from mm_ros.maths import rotations as rot
from mm_ros.motion.metrics_feet import knee_beyond_straight_deg

RATE = 90


def straight_legged(i: int, turn_out: float, yaw: float):
    """Legs as in the rest pose, straight to the last digit, turned out at the hips by `turn_out`."""
    pose = matched(i, (0.0, 0.0, yaw))
    q, p = pose.rotations.copy(), SKELETON.offsets.copy()
    p[0] = 0
    for leg, side in ((LEFT_UPPER_LEG, 1), (RIGHT_UPPER_LEG, -1)):
        q[leg : leg + 4] = (1, 0, 0, 0)
        q[leg] = rot.from_yaw(side * turn_out)
    return replace(pose, rotations=q, positions=p)


@pytest.mark.parametrize("turn_out", [0.0, 0.35, -0.2])
@pytest.mark.parametrize("yaw", [0.0, 2.5])
def test_a_head_that_comes_down_bends_straight_knees_ahead_and_back_without_a_flip(turn_out: float, yaw: float) -> None:
    post, knees, beyond = stage(), [], []
    for i in range(4 * RATE):
        down = 0.11 * (1 - math.cos(math.pi * i / RATE))
        frame = trackers(i, (0.0, 0.0, 0.02 - down))
        around = rot.from_yaw(yaw)
        frame.positions[:3] = rot.rotate(around, frame.positions[:3])
        frame.rotations[:3] = rot.multiply(around, frame.rotations[:3])
        p, q = room(post.step(straight_legged(i, turn_out, yaw), frame))
        beyond.append(knee_beyond_straight_deg(p[None], q[None])[0])
        knees.append([_knee(p, leg, yaw) for leg in (LEFT_UPPER_LEG, RIGHT_UPPER_LEG)])
    bent, angle = np.array(knees)[..., 0], np.array(knees)[..., 1]
    assert max(beyond) < 1e-3
    assert bent.max(0).min() > 0.1 and bent.min(0).max() < 0.06  # bent, and nearly straight again
    clear = bent > 0.01
    assert np.abs(angle - [turn_out, -turn_out])[clear].max() < math.radians(12)
    assert np.abs(np.diff(bent, axis=0)).max() < 0.02


def _knee(p: np.ndarray, leg: int, yaw: float) -> tuple[float, float]:
    """Distance of the knee from the line hip–ankle, and its direction as yaw relative to the facing."""
    hip, knee, ankle = p[leg], p[leg + 1], p[leg + 2]
    line = (ankle - hip) / np.linalg.norm(ankle - hip)
    out = (knee - hip) - line * ((knee - hip) @ line)
    return float(np.linalg.norm(out)), float(rot.wrap_angle(math.atan2(out[1], out[0]) - yaw))
