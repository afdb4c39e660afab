"""Inertialization: after a jump the pose is that of the new motion plus a decaying offset.

An offset is a vector with three numbers: a displacement in metres, or a rotation vector that is applied in the axes of
the parent joint. A new offset keeps value and velocity of the pose continuous, also while an earlier offset still
decays. The offset decays by a critically damped spring with the half-life `halflife`, or by the quintic polynomial of
Bollo 2018 ("Inertialization"), which is zero after `blend_time` at the latest. The thesis of Ponton (2022) describes
spring and polynomial in its equations 3.29 to 3.32.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mm_ros.body.types import F64
from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Quat, Row, Vec
from mm_ros.maths.springs import decay3

SPRING, QUINTIC = 0, 1
NEGLIGIBLE = 1e-7  # An offset below `NEGLIGIBLE` [m or rad] is ignored, because its direction is inaccurate.


class Offsets(NamedTuple):
    """State of N offsets that decay after a jump; a spring uses only `offset` and `rate`, a quintic uses all fields."""

    offset: F64  # (N, 3)
    rate: F64  # (N, 3)
    axis: F64  # (N, 3)
    curve: F64  # (N, 6) coefficients from t⁵ to t⁰
    length: F64  # (N,) duration of the decay of each offset [s]
    elapsed: F64  # (N,) s


def make_offsets(n: int) -> Offsets:
    return Offsets(
        np.zeros((n, 3)), np.zeros((n, 3)), np.zeros((n, 3)), np.zeros((n, 6)), np.zeros(n), np.zeros(n)
    )


@njit
def quintic(x0: float, v0: float, blend_time: float) -> tuple[float, float, float, float, float, float, float]:
    """Return the coefficients (t⁵ to t⁰) of the quintic with value `x0` > 0 and rate `v0` at t = 0, and its duration.

    At the end of the duration, value, velocity and acceleration of the quintic are 0.
    """
    v0 = min(v0, 0.0)  # The offset's initial rate is at most 0, because an offset that grows at first would overshoot.
    t = blend_time
    if v0 < 0.0:
        t = min(t, -5.0 * x0 / v0)  # The duration is limited, because the offset would cross zero in a longer decay.
    t = max(t, 1e-4)
    a0 = max(0.0, (-8.0 * v0 * t - 20.0 * x0) / (t * t))
    k = a0 * t * t
    return (
        -(k + 6.0 * v0 * t + 12.0 * x0) / (2.0 * t**5),
        (3.0 * k + 16.0 * v0 * t + 30.0 * x0) / (2.0 * t**4),
        -(3.0 * k + 12.0 * v0 * t + 20.0 * x0) / (2.0 * t**3),
        0.5 * a0,
        v0,
        x0,
        t,
    )


@njit
def start_offset(o: Any, i: int, offset: Row, rate: Row, kind: int, blend_time: float) -> None:
    """Start the decay of the offset with index `i` at the given value and rate."""
    quat.put3(o.offset, i, offset)
    quat.put3(o.rate, i, rate)
    if kind != QUINTIC:
        return
    size = quat.norm(offset)
    o.elapsed[i] = 0.0
    if size < NEGLIGIBLE:
        o.length[i] = 0.0
        return
    axis = quat.scale(offset, 1.0 / size)
    quat.put3(o.axis, i, axis)
    c = quintic(size, quat.dot(rate, axis), blend_time)
    for k in range(6):
        o.curve[i, k] = c[k]
    o.length[i] = c[6]


@njit
def decay_offset(o: Any, i: int, kind: int, halflife: float, dt: float) -> tuple[Vec, Vec]:
    if kind != QUINTIC:
        x, v = decay3(quat.get3(o.offset, i), quat.get3(o.rate, i), halflife, dt)
    else:
        o.elapsed[i] += dt
        x, v = _on_curve(o, i)
    quat.put3(o.offset, i, x)
    quat.put3(o.rate, i, v)
    return x, v


@njit
def _on_curve(o: Any, i: int) -> tuple[Vec, Vec]:
    t = o.elapsed[i]
    if t >= o.length[i]:
        return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    x = 0.0
    v = 0.0
    for k in range(6):
        v = v * t + x
        x = x * t + o.curve[i, k]
    axis = quat.get3(o.axis, i)
    return quat.scale(axis, x), quat.scale(axis, v)


@njit
def with_offset(q: Row, w: Row, offset: Row, rate: Row) -> tuple[Quat, Vec]:
    """Return rotation and angular velocity of exp(`offset`) · `q`, where `rate` is the rate of the offset and `w` is
    the angular velocity of `q`."""
    d = quat.exp(offset)
    return quat.normalize(quat.mul(d, q)), quat.add(quat.velocity_of_exp(offset, rate), quat.rotate(d, w))


@njit
def offset_between(from_q: Row, from_w: Row, to_q: Row, to_w: Row) -> tuple[Vec, Vec]:
    """Return the offset, and its rate, that `with_offset` must add to the motion `to` to give the motion `from`."""
    d = quat.mul_inv(from_q, to_q)
    x = quat.log(d)
    n = quat.norm(x)
    if n > 0.95 * math.pi:  # Near the angle π the rotation vector can jump, so its rate is set to 0.
        return x, (0.0, 0.0, 0.0)
    return x, quat.rate_of_log(x, quat.sub(from_w, quat.rotate(d, to_w)))
