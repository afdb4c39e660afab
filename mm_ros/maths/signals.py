"""Filters and interpolation of values, angles and quaternions at a constant sampling rate. Axis 0 is time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mm_ros.maths import rotations as rot

Array = Any


def wrap(angle: float) -> float:
    """Wrap a single angle to −π … π; use `rotations.wrap_angle` for arrays and `quat.wrap` in compiled code."""
    return math.remainder(angle, 2 * math.pi)


def smoothstep(share: Array) -> Array:
    """Map `share` (0 to 1) to a smooth S-shaped curve from 0 to 1 with slope 0 at both ends."""
    return share * share * (3 - 2 * share)


def odd_window(seconds: float, rate: float) -> int:
    """Convert a filter window in seconds to the nearest odd number of frames, at `rate` frames per second."""
    return 2 * round((seconds * rate - 1) / 2) + 1


def savitzky_golay(values: Array, window: int, order: int = 3) -> Array:
    """Smooth values along axis 0 by a Savitzky–Golay filter with an odd `window` of frames."""
    values = np.asarray(values, np.float64)
    window = min(window, len(values) if len(values) % 2 else len(values) - 1)
    if window <= order:
        return np.array(values)
    half = window // 2
    t = np.arange(-half, half + 1) / half
    basis = np.vander(t, order + 1, increasing=True)
    fit = np.linalg.pinv(basis)  # matrix that maps the values in a window to the polynomial fitted to them
    flat = values.reshape(len(values), -1)
    out = np.empty_like(flat)
    kernel = fit[0][::-1]
    for c in range(flat.shape[1]):
        out[half : len(flat) - half, c] = np.convolve(flat[:, c], kernel, "valid")
    out[:half] = (basis @ fit @ flat[:window])[:half]
    out[len(flat) - half :] = (basis @ fit @ flat[-window:])[half + 1 :]
    return np.asarray(out.reshape(values.shape))


def continuous(q: Array) -> Array:
    """Choose the signs of quaternions so that each quaternion is close to that of the frame before (axis 0)."""
    signs = np.where((q[1:] * q[:-1]).sum(-1) < 0, -1.0, 1.0)
    return np.concatenate([q[:1], q[1:] * np.cumprod(signs, axis=0)[..., None].astype(q.dtype)])


def catmull_rom(points: Sequence[Array], t: Array) -> Array:
    """Interpolate between the second (t = 0) and the third (t = 1) of four points by a Catmull–Rom spline."""
    before, a, b, after = points
    return a + t / 2 * (b - before + t * (2 * before - 5 * a + 4 * b - after + t * (3 * (a - b) + after - before)))


def cubic(values: Array, at: Array) -> Array:
    """Interpolate values along axis 0 by a Catmull–Rom spline; `at` holds fractional frame numbers."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return np.repeat(values, len(at), axis=0)
    i = np.minimum(at.astype(np.int64), len(values) - 2)
    t = (at - i).reshape((-1,) + (1,) * (values.ndim - 1))
    padded = np.concatenate([2 * values[:1] - values[1:2], values, 2 * values[-1:] - values[-2:-1]])
    return np.asarray(catmull_rom([padded[i + k] for k in range(4)], t))


def spherical(q: Array, at: Array) -> Array:
    """Interpolate quaternions along axis 0 by a spherical cubic spline (squad); `at` holds fractional frame numbers."""
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
    """Interpolate from quaternions `a` (t = 0) to `b` (t = 1) without changing their signs."""
    return rot.multiply(a, rot.exp(t * rot.log(rot.multiply(rot.inverse(a), b))))
