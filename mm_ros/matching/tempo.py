"""Catching up or waiting by playing faster or slower: feet stay planted, which a pull at the root cannot do."""

from __future__ import annotations

import math

from mm_ros.body.types import F64, Trajectory
from mm_ros.matching.root_control import wrap

SLOWEST_TEMPO, SLOWEST_TURN = 0.2, 0.4  # m/s, rad/s: below, no tempo brings a body anywhere
CATCH_UP_S = 0.4
TEMPO_HALFLIFE_S = 0.1


def wished_tempo(own: F64, root: F64, wish: Trajectory, limit: float) -> float:
    """`own`: the motion's velocity (forward, left, turn) at tempo 1; `root`: x, y, yaw; at most `limit` from 1."""
    x, y, yaw = (float(v) for v in root)
    forward, left, turn = (float(v) for v in own)
    speed = math.hypot(forward, left)
    if speed > SLOWEST_TEMPO:
        c, s = math.cos(yaw), math.sin(yaw)
        to_x, to_y = float(wish.position[0]) - x, float(wish.position[1]) - y
        behind = (forward * (c * to_x + s * to_y) + left * (c * to_y - s * to_x)) / speed
        return 1.0 + max(-limit, min(limit, behind / (speed * CATCH_UP_S)))
    if abs(turn) > SLOWEST_TURN:
        behind = wrap(wish.yaw - yaw) * math.copysign(1.0, turn)
        return 1.0 + max(-limit, min(limit, behind / (abs(turn) * CATCH_UP_S)))
    return 1.0
