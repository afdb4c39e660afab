"""Change the playback speed of clips so that the avatar catches up with the user or waits for the user.

Unlike a correction of the root, a change of the playback speed does not make standing feet slide.
"""

from __future__ import annotations

import math

from mm_ros.body.types import F64, Trajectory
from mm_ros.matching import fitted
from mm_ros.matching.root_control import wrapped
from mm_ros.maths.jit import njit


def desired_tempo(own: F64, root: F64, desired: Trajectory, limit: float) -> float:
    """Return the playback speed relative to the speed of the clip, between 1 - `limit` and 1 + `limit`.

    `own` is the velocity of the clip's root (forward, left, turn), and `root` is x, y, yaw of the avatar in the room.
    """
    return _tempo(own, root, desired.position, desired.yaw, limit)


@njit
def _tempo(own: F64, root: F64, position: F64, desired_yaw: float, limit: float) -> float:
    x, y, yaw = root[0], root[1], root[2]
    forward, left, turn = own[0], own[1], own[2]
    speed = math.hypot(forward, left)
    change = 0.0
    if speed > fitted.SLOWEST_TEMPO:
        c, s = math.cos(yaw), math.sin(yaw)
        to_x, to_y = position[0] - x, position[1] - y
        behind = (forward * (c * to_x + s * to_y) + left * (c * to_y - s * to_x)) / speed
        change = behind / (speed * fitted.CATCH_UP_S)
    elif abs(turn) > fitted.SLOWEST_TURN:
        change = wrapped(desired_yaw - yaw) * math.copysign(1.0, turn) / (abs(turn) * fitted.CATCH_UP_S)
    return 1.0 + max(-limit, min(limit, change))
