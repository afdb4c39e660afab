"""Classify frames by kind of motion, from the root's velocity and yaw rate and the head height."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import odd_window, savitzky_golay
from mm_ros.motion.contacts import central_difference

KINDS = ("idle", "turn", "walk", "run", "back", "side", "crouch", "other")
IDLE, TURN, WALK, RUN, BACK, SIDE, CROUCH, OTHER = range(len(KINDS))

STANDING_SPEED = 0.25  # m/s; slower motion is idle or turn
TURN_RATE = np.radians(30)  # rad/s
RUN_SPEED = 2.1  # m/s; people change from walking to running near this speed
CROUCH_RATIO = 0.82  # a head below this ratio of its standing height means crouching
LYING_RATIO = 0.45  # a head below this ratio means lying, crawling or rolling
_AHEAD, _BEHIND = np.radians(50), np.radians(130)


def root_motion(clip: Clip) -> tuple[F64, F64]:
    """Return the smoothed velocity (F, 2) in root space, m/s, and yaw rate (F,), rad/s."""
    window = odd_window(0.5, clip.rate)
    velocity = savitzky_golay(central_difference(clip.positions[:, 0], clip.rate), window, 1)
    yaws = np.unwrap(rot.yaw_of(clip.rotations[:, 0].astype(np.float64)))
    local = rot.rotate(rot.from_yaw(-yaws), velocity)
    return local[:, :2], savitzky_golay(central_difference(yaws, clip.rate), window, 1)


def kinds_of(clip: Clip) -> tuple[NDArray[np.int8], tuple[str, ...]]:
    """Return the kind of each frame (F,) as an index into the names, and the names."""
    velocity, yaw_rate = root_motion(clip)
    positions, _ = clip.globals()
    ratio = savitzky_golay(positions[:, HEAD, 2] / clip.skeleton.head_height, odd_window(0.5, clip.rate), 1)
    speed = np.linalg.norm(velocity, axis=1)
    angle = np.abs(np.arctan2(velocity[:, 1], velocity[:, 0]))
    out = np.full(len(clip), WALK, np.int8)
    out[angle > _AHEAD] = SIDE
    out[angle > _BEHIND] = BACK
    out[(out == WALK) & (speed > RUN_SPEED)] = RUN
    out[speed < STANDING_SPEED] = IDLE
    out[(speed < STANDING_SPEED) & (np.abs(yaw_rate) > TURN_RATE)] = TURN
    out[(ratio < CROUCH_RATIO) & (out != RUN)] = CROUCH
    out[ratio < LYING_RATIO] = OTHER
    return out, KINDS
