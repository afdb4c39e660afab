"""Detect the kind of motion (walk, turn, …) in each frame, from the velocity of the root and the height of the head."""

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

STANDING_SPEED = 0.25  # root speed [m/s] below which a person stands or turns on the spot
TURN_RATE = np.radians(30)  # yaw rate [rad/s] above which a standing person turns
RUN_SPEED = 2.1  # root speed [m/s] above which a person runs instead of walking
CROUCH_RATIO = 0.82  # a person crouches if the head is below this share of its height in upright standing
LYING_RATIO = 0.45  # a person lies, crawls or rolls if the head is below this share of its height in upright standing
_AHEAD, _BEHIND = np.radians(50), np.radians(130)


def root_motion(clip: Clip) -> tuple[F64, F64]:
    """Return the smoothed velocity (F, 2) of the root [m/s] in its own axes, and its yaw rate (F,) [rad/s]."""
    window = odd_window(0.5, clip.rate)
    velocity = savitzky_golay(central_difference(clip.positions[:, 0], clip.rate), window, 1)
    yaws = np.unwrap(rot.yaw_of(clip.rotations[:, 0].astype(np.float64)))
    local = rot.rotate(rot.from_yaw(-yaws), velocity)
    return local[:, :2], savitzky_golay(central_difference(yaws, clip.rate), window, 1)


def kinds_of(clip: Clip) -> tuple[NDArray[np.int8], tuple[str, ...]]:
    """Return the index of the kind of motion in each frame (F,), and the names of all kinds."""
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
