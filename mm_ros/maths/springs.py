"""Critically damped springs and dampers, exact in dt: two half steps equal one step.

`halflife` [s]: time after which about half of the way to the goal is done. The functions take numbers or arrays;
`decay3` takes and returns tuples of three. If dt ≤ 0, the functions change nothing.

Holden, "Spring-It-On"; thesis Eq. 3.27, 3.28 with w = 2 ln 2 / halflife.
"""

from __future__ import annotations

import math
from typing import Any

from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Row, Vec

SHORTEST_S = 1e-6  # minimum half-life, so that a half-life of 0 acts at once without 0 · ∞
LN2 = 0.6931471805599453  # natural logarithm of 2


@njit
def _stiffness(halflife: float) -> float:
    return 2.0 * LN2 / max(halflife, SHORTEST_S)


@njit
def damping_share(halflife: float, dt: float) -> float:
    """Share of the way to the goal that a damper covers in dt."""
    return -math.expm1(-LN2 * max(dt, 0.0) / max(halflife, SHORTEST_S))


@njit
def damp(x: Any, goal: Any, halflife: float, dt: float) -> Any:
    """Exponential approach, without velocity."""
    return x + (goal - x) * damping_share(halflife, dt)


@njit
def factors(halflife: float, dt: float) -> tuple[float, float, float, float]:
    """Coefficients (xx, xv, vx, vv) of the step x' = xx·x + xv·v, v' = vx·x + vv·v, with x relative to the goal."""
    y = _stiffness(halflife)
    t = min(max(dt, 0.0), 700.0 / y)  # for larger exponents e^−yt is 0
    e = math.exp(-y * t)
    return (e * (1.0 + y * t), e * t, -e * y * y * t, e * (1.0 - y * t))


@njit
def decay(x: Any, v: Any, halflife: float, dt: float) -> Any:
    """Spring to zero; returns (x, v)."""
    xx, xv, vx, vv = factors(halflife, dt)
    return x * xx + v * xv, x * vx + v * vv


@njit
def spring(x: Any, v: Any, goal: Any, halflife: float, dt: float) -> Any:
    """Spring to `goal`; returns (x, v)."""
    d, w = decay(x - goal, v, halflife, dt)
    return goal + d, w


@njit
def spring_angle(x: float, v: float, goal: float, halflife: float, dt: float) -> tuple[float, float]:
    """Spring of an angle along the shorter arc; returns (x in −π … π, v)."""
    d, w = decay(quat.wrap(x - goal), v, halflife, dt)
    return quat.wrap(goal + d), w


@njit
def spring_velocity(x: Any, v: Any, a: Any, goal_velocity: Any, halflife: float, dt: float) -> Any:
    """Step of a motion whose velocity follows `goal_velocity` by a spring, for input by sticks. Returns (x, v, a);
    exact in dt.
    """
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
