"""Computes velocity and angular velocity of a tracked device from its last poses and their times.

A parabola is fitted to the last samples, and the velocity is its slope at the newest sample. The difference of the last
two samples would be half a sample late and would contain the jitter of the stamps, and a low-pass filter would delay
the velocity. The slope of the parabola has no delay while the acceleration is constant over the samples.
"""

from __future__ import annotations

import numpy as np

from mm_ros.body.types import F64
from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Vec

KEPT = 16  # number of samples of a device that are kept, which last more than 60 ms at 240 Hz


@njit
def end_slopes(times: F64, values: F64, count: int) -> Vec:
    """Return the slope (3,) of a least-squares parabola at the newest sample, which is row 0.

    With fewer than four samples, a line is fitted instead of a parabola. The `times` [s] are relative to the newest
    sample, so they are not positive.
    """
    if count < 2:
        return (0.0, 0.0, 0.0)
    order = 3 if count >= 4 else 2
    a = np.zeros((3, 3))
    b = np.zeros((3, 3))
    scale = 1.0 / max(-times[count - 1], 1e-6)  # The fit uses times that are scaled to −1 … 0, against rounding errors.
    for i in range(count):
        t = times[i] * scale
        basis = (1.0, t, t * t)
        for j in range(order):
            for k in range(order):
                a[j, k] += basis[j] * basis[k]
            for k in range(3):
                b[j, k] += basis[j] * values[i, k]
    for j in range(order, 3):
        a[j, j] = 1.0
    det = (
        a[0, 0] * (a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1])
        - a[0, 1] * (a[1, 0] * a[2, 2] - a[1, 2] * a[2, 0])
        + a[0, 2] * (a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0])
    )
    if abs(det) < 1e-12:  # no slope, because the samples have the same time
        return (0.0, 0.0, 0.0)
    c0 = a[1, 2] * a[2, 0] - a[1, 0] * a[2, 2]
    c1 = a[0, 0] * a[2, 2] - a[0, 2] * a[2, 0]
    c2 = a[0, 2] * a[1, 0] - a[0, 0] * a[1, 2]
    s = scale / det
    return (
        s * (c0 * b[0, 0] + c1 * b[1, 0] + c2 * b[2, 0]),
        s * (c0 * b[0, 1] + c1 * b[1, 1] + c2 * b[2, 1]),
        s * (c0 * b[0, 2] + c1 * b[1, 2] + c2 * b[2, 2]),
    )


@njit
def end_velocities(times: F64, positions: F64, rotations: F64, held: int, window: float) -> tuple[Vec, Vec]:
    """Return the linear and the angular velocity of a device at its newest sample, row 0, in room axes."""
    t = np.zeros(held)
    p = np.zeros((held, 3))
    r = np.zeros((held, 3))
    newest = quat.get4(rotations, 0)
    count = 0
    for i in range(held):
        t[i] = times[i] - times[0]
        # At least four samples are used, even if they are older than `window` [s], so that a slow source has a
        # velocity. Samples older than 4 · `window` are not used, because they are from before a gap.
        if t[i] < -window and (i >= 4 or t[i] < -4.0 * window):
            break
        for k in range(3):
            p[i, k] = positions[i, k] - positions[0, k]
        quat.put3(r, i, quat.log(quat.mul_inv(quat.get4(rotations, i), newest)))
        count += 1
    return end_slopes(t, p, count), end_slopes(t, r, count)
