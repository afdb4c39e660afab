"""Critically damped springs and dampers, exact in dt: two half steps equal one.

`halflife` is in seconds; the way to the goal is about half done after one. The functions take numbers or arrays;
`decay3` takes and gives tuples of three. dt ≤ 0 leaves everything as it is.

Holden, "Spring-It-On"; thesis Eq. 3.27, 3.28 with w = 2 ln 2 / halflife.
"""

from __future__ import annotations

import math
from typing import Any

from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Row, Vec

SHORTEST_S = 1e-6  # shorter half-lives are this long: at once, and no 0 · ∞
LN2 = 0.6931471805599453


@njit
def _stiffness(halflife: float) -> float:
    return 2.0 * LN2 / max(halflife, SHORTEST_S)


@njit
def damping_share(halflife: float, dt: float) -> float:
    """How much of the way to the goal a damper goes in dt."""
    return -math.expm1(-LN2 * max(dt, 0.0) / max(halflife, SHORTEST_S))


@njit
def damp(x: Any, goal: Any, halflife: float, dt: float) -> Any:
    """Exponential approach, without velocity."""
    return x + (goal - x) * damping_share(halflife, dt)


@njit
def factors(halflife: float, dt: float) -> tuple[float, float, float, float]:
    """The step as a matrix: x' = xx·x + xv·v, v' = vx·x + vv·v, with x from the goal."""
    y = _stiffness(halflife)
    t = min(max(dt, 0.0), 700.0 / y)  # beyond that e^−yt is 0 anyway
    e = math.exp(-y * t)
    return (e * (1.0 + y * t), e * t, -e * y * y * t, e * (1.0 - y * t))


@njit
def decay(x: Any, v: Any, halflife: float, dt: float) -> Any:
    """Spring to zero: (x, v)."""
    xx, xv, vx, vv = factors(halflife, dt)
    return x * xx + v * xv, x * vx + v * vv


@njit
def spring(x: Any, v: Any, goal: Any, halflife: float, dt: float) -> Any:
    """Spring to `goal`: (x, v)."""
    d, w = decay(x - goal, v, halflife, dt)
    return goal + d, w


@njit
def spring_angle(x: float, v: float, goal: float, halflife: float, dt: float) -> tuple[float, float]:
    """The short way round; the angle comes back in −π … π."""
    d, w = decay(quat.wrap(x - goal), v, halflife, dt)
    return quat.wrap(goal + d), w


@njit
def spring_velocity(x: Any, v: Any, a: Any, goal_velocity: Any, halflife: float, dt: float) -> Any:
    """A mover whose velocity follows `goal_velocity` by a spring: (x, v, a). The integral is exact. For sticks."""
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
