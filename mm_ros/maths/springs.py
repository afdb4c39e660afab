"""Critically damped springs and exponential dampers, which smooth a value `x` with velocity `v`.

One step of duration dt [s] gives the same result as two steps of half this duration. If dt ≤ 0, springs and dampers
leave their values unchanged. `halflife` [s] is the time in which a value covers about half of the distance to its goal.
All functions accept numbers and arrays, except `decay3`, which takes and returns tuples of three numbers.

The equations of the springs are those in the article "Spring-It-On" by Holden, and equations 3.27 and 3.28 in the
thesis of Ponton 2022 with w = 2 ln 2 / halflife.
"""

from __future__ import annotations

import math
from typing import Any

from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Row, Vec

SHORTEST_S = 1e-6  # minimum half-life of springs and dampers [s], which avoids a division by zero
LN2 = 0.6931471805599453  # natural logarithm of 2


@njit
def _stiffness(halflife: float) -> float:
    return 2.0 * LN2 / max(halflife, SHORTEST_S)


@njit
def damping_share(halflife: float, dt: float) -> float:
    """Return the share (0 to 1) of the distance to the goal that an exponential damper covers in dt."""
    return -math.expm1(-LN2 * max(dt, 0.0) / max(halflife, SHORTEST_S))


@njit
def damp(x: Any, goal: Any, halflife: float, dt: float) -> Any:
    """Move `x` towards `goal` by an exponential damper, which unlike a spring keeps no velocity."""
    return x + (goal - x) * damping_share(halflife, dt)


@njit
def factors(halflife: float, dt: float) -> tuple[float, float, float, float]:
    """Return (xx, xv, vx, vv) of a spring step towards 0: the new x is xx·x + xv·v, and the new v is vx·x + vv·v."""
    y = _stiffness(halflife)
    t = min(max(dt, 0.0), 700.0 / y)  # t is limited, because exp(−y t) underflows for large t
    e = math.exp(-y * t)
    return (e * (1.0 + y * t), e * t, -e * y * y * t, e * (1.0 - y * t))


@njit
def decay(x: Any, v: Any, halflife: float, dt: float) -> Any:
    """Move `x` with velocity `v` towards zero by a spring; return the new (x, v)."""
    xx, xv, vx, vv = factors(halflife, dt)
    return x * xx + v * xv, x * vx + v * vv


@njit
def spring(x: Any, v: Any, goal: Any, halflife: float, dt: float) -> Any:
    """Move `x` with velocity `v` towards `goal` by a spring; return the new (x, v)."""
    d, w = decay(x - goal, v, halflife, dt)
    return goal + d, w


@njit
def spring_angle(x: float, v: float, goal: float, halflife: float, dt: float) -> tuple[float, float]:
    """Move the angle `x` with velocity `v` towards `goal` by a spring, along the shorter arc; return the new (x, v)."""
    d, w = decay(quat.wrap(x - goal), v, halflife, dt)
    return quat.wrap(goal + d), w


@njit
def spring_velocity(x: Any, v: Any, a: Any, goal_velocity: Any, halflife: float, dt: float) -> Any:
    """Move a position `x` whose velocity follows `goal_velocity` by a spring; return the new (x, v, a)."""
    y = _stiffness(halflife)
    t = max(dt, 0.0)
    j0 = v - goal_velocity
    j1 = a + j0 * y
    e = math.exp(-y * t)
    moved = (j0 + j1 / y) * ((1.0 - e) / y) - j1 * (e * t / y) + goal_velocity * t
    d, da = decay(j0, a, halflife, dt)
    return x + moved, goal_velocity + d, da


@njit
def decay3(x: Row, v: Row, halflife: float, dt: float) -> tuple[Vec, Vec]:
    xx, xv, vx, vv = factors(halflife, dt)
    return (
        quat.add(quat.scale(x, xx), quat.scale(v, xv)),
        quat.add(quat.scale(x, vx), quat.scale(v, vv)),
    )
