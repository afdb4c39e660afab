"""Filters and interpolation of sampled values, angles and quaternions. Axis 0 is time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mm_ros.maths import rotations as rot

Array = Any


def wrap(angle: float) -> float:
    """Return the angle in −π … π. `rotations.wrap_angle` does the same for arrays, and `quat.wrap` in compiled code."""
    return math.remainder(angle, 2 * math.pi)


def smoothstep(share: Array) -> Array:
    """Return 0 … 1 with slope 0 at both ends, for shares from 0 to 1."""
    return share * share * (3 - 2 * share)


def odd_window(seconds: float, rate: float) -> int:
    """Return the odd number of frames nearest to `seconds` (31 frames at 60 Hz are 31/60 s)."""
    return 2 * round((seconds * rate - 1) / 2) + 1


def savitzky_golay(values: Array, window: int, order: int = 3) -> Array:
    """Smooth along axis 0 over an odd `window` of frames. The polynomials of the first and last window fit the ends."""
    values = np.asarray(values, np.float64)
    window = min(window, len(values) if len(values) % 2 else len(values) - 1)
    if window <= order:
        return np.array(values)
    half = window // 2
    t = np.arange(-half, half + 1) / half
    basis = np.vander(t, order + 1, increasing=True)
    fit = np.linalg.pinv(basis)  # matrix that maps the values of a window to the coefficients of the polynomial
    flat = values.reshape(len(values), -1)
    out = np.empty_like(flat)
    kernel = fit[0][::-1]
    for c in range(flat.shape[1]):
        out[half : len(flat) - half, c] = np.convolve(flat[:, c], kernel, "valid")
    out[:half] = (basis @ fit @ flat[:window])[:half]
    out[len(flat) - half :] = (basis @ fit @ flat[-window:])[half + 1 :]
    return np.asarray(out.reshape(values.shape))


def continuous(q: Array) -> Array:
    """Choose the signs of quaternions so that each is close to the frame before, along axis 0."""
    signs = np.where((q[1:] * q[:-1]).sum(-1) < 0, -1.0, 1.0)
    return np.concatenate([q[:1], q[1:] * np.cumprod(signs, axis=0)[..., None].astype(q.dtype)])


def catmull_rom(points: Sequence[Array], t: Array) -> Array:
    """Catmull–Rom spline from the second (t = 0) to the third (t = 1) of four points; velocities are continuous."""
    before, a, b, after = points
    return a + t / 2 * (b - before + t * (2 * before - 5 * a + 4 * b - after + t * (3 * (a - b) + after - before)))


def cubic(values: Array, at: Array) -> Array:
    """Interpolate along axis 0 by a Catmull–Rom spline at the fractional frames `at`."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return np.repeat(values, len(at), axis=0)
    i = np.minimum(at.astype(np.int64), len(values) - 2)
    t = (at - i).reshape((-1,) + (1,) * (values.ndim - 1))
    padded = np.concatenate([2 * values[:1] - values[1:2], values, 2 * values[-1:] - values[-2:-1]])
    return np.asarray(catmull_rom([padded[i + k] for k in range(4)], t))


def spherical(q: Array, at: Array) -> Array:
    """Interpolate quaternions along axis 0 by a spherical cubic (squad) at the fractional frames `at`."""
    q = continuous(np.asarray(q, np.float64))
    if len(q) < 2:
        return np.repeat(q, len(at), axis=0)
    i = np.minimum(at.astype(np.int64), len(q) - 2)
    t = (at - i).reshape((-1,) + (1,) * (q.ndim - 1))
    inverse = rot.inverse(q)
    ahead = rot.log(rot.multiply(inverse[:-1], q[1:]))
    back = rot.log(rot.multiply(inverse[1:], q[:-1]))
    bend = np.zeros((*q.shape[:-1], 3))
    bend[1:-1] = -(ahead[1:] + back[:-1]) / 4
    inner = rot.multiply(q, rot.exp(bend))
    out = slerp(slerp(q[i], q[i + 1], t), slerp(inner[i], inner[i + 1], t), 2 * t * (1 - t))
    return np.asarray(rot.normalize(out))


def slerp(a: Array, b: Array, t: Array) -> Array:
    """Interpolate between quaternions without changing their signs: a at t = 0, b at 1; `t` (…, 1)."""
    return rot.multiply(a, rot.exp(t * rot.log(rot.multiply(rot.inverse(a), b))))
