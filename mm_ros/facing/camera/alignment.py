"""Estimates the yaw and pitch of the camera by alignment of camera landmarks (nose and wrists) with the trackers.

Fletcher 2023 computes the pitch of the camera, and then its yaw and horizontal shift, by constrained least squares.
Because the camera does not move, this module keeps the sums of the least squares over time, which averages the noise of
single pictures. The sums are the matrix H = Σ w r qᵀ with weights w, where r is a point in room axes and q the same
point in camera axes, both relative to their mean. For a given pitch and G = H Ry(pitch)ᵀ, the best yaw is atan2(G₁₀ −
G₀₁, G₀₀ + G₁₁). The estimated pitch is the one at which the points r and q agree best. The noise of the landmarks
averages out in H, so it causes no constant error of yaw and pitch.
"""

from __future__ import annotations

import math

import numpy as np

from mm_ros.body.landmarks import LEFT_WRIST, NOSE, RIGHT_WRIST
from mm_ros.body.types import F32, F64
from mm_ros.facing import fitted
from mm_ros.maths.jit import njit

POINTS = 3  # number of body points to which the camera is aligned: nose, left wrist and right wrist
PITCH_STEPS = 24
GOLDEN = 0.6180339887498949  # golden ratio minus 1, for the golden-section search of the pitch


@njit
def turned(p: F64, yaw: float, pitch: float, out: F64) -> None:
    """Write the points `p`, rotated by Rz(yaw) Ry(pitch), to `out`. A positive `pitch` turns forward down."""
    c, s = math.cos(pitch), math.sin(pitch)
    cy, sy = math.cos(yaw), math.sin(yaw)
    for i in range(len(p)):
        x, y, z = c * p[i, 0] + s * p[i, 2], p[i, 1], c * p[i, 2] - s * p[i, 0]
        out[i, 0], out[i, 1], out[i, 2] = cy * x - sy * y, sy * x + cy * y, z


@njit
def _gain(h: F64, pitch: float) -> tuple[float, float]:
    """Return how well points of room and camera agree for a camera pitch, and the best yaw [rad] for this pitch."""
    c, s = math.cos(pitch), math.sin(pitch)
    across = c * h[1, 0] + s * h[1, 2] - h[0, 1]
    along = c * h[0, 0] + s * h[0, 2] + h[1, 1]
    return math.hypot(across, along) - s * h[2, 0] + c * h[2, 2], math.atan2(across, along)


@njit
def best_yaw(h: F64, pitch: float) -> float:
    return _gain(h, pitch)[1]


@njit
def best_pitch(h: F64, low: float, high: float) -> float:
    """Return the camera pitch [rad] for which points of room and camera agree best, by a golden-section search."""
    step = (high - low) / PITCH_STEPS
    best, at = -1e300, low
    for i in range(PITCH_STEPS + 1):
        g = _gain(h, low + i * step)[0]
        if g > best:
            best, at = g, low + i * step
    a, b = max(at - step, low), min(at + step, high)
    for _ in range(40):
        left, right = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
        if _gain(h, left)[0] > _gain(h, right)[0]:
            b = right
        else:
            a = left
    return (a + b) / 2


@njit
def centred(p: F64, w: F64, out: F64) -> None:
    total = max(w.sum(), 1e-12)
    for k in range(3):
        mean = 0.0
        for i in range(len(p)):
            mean += w[i] * p[i, k]
        mean /= total
        for i in range(len(p)):
            out[i, k] = p[i, k] - mean


@njit
def add_products(h: F64, room: F64, camera: F64, w: F64) -> float:
    """Add Σ w r qᵀ to `h`, and return Σ w (x² + y²) of the points `room`; all points are relative to their mean."""
    spread = 0.0
    for i in range(len(room)):
        for a in range(3):
            for b in range(3):
                h[a, b] += w[i] * room[i, a] * camera[i, b]
        spread += w[i] * (room[i, 0] ** 2 + room[i, 1] ** 2)
    return spread


@njit
def align(room: F64, camera: F64, w: F64, pitch: float) -> tuple[float, float, float, float]:
    """Return yaw and shift (x, y, z) of one picture: the least-squares solution of room = Rz(yaw) Ry(pitch) camera +
    shift."""
    r, q, h = np.empty_like(room), np.empty_like(camera), np.zeros((3, 3))
    centred(room, w, r)
    centred(camera, w, q)
    add_products(h, r, q, w)
    yaw = best_yaw(h, pitch)
    turned(camera, yaw, pitch, q)
    total, shift = max(w.sum(), 1e-12), np.zeros(3)
    for i in range(len(room)):
        for k in range(3):
            shift[k] += w[i] * (room[i, k] - q[i, k]) / total
    return yaw, shift[0], shift[1], shift[2]


@njit
def residuals(
    room: F64, camera: F64, w: F64, yaw: float, pitch: float, sight: float
) -> tuple[float, float, float, float]:
    """Return the mean squared distances of aligned camera points from `room` in depth, across and in height [m²].

    The fourth returned value is the mean squared horizontal distance of the points `room` from their mean [m²].
    """
    r, q, back = np.empty_like(room), np.empty_like(camera), np.empty_like(camera)
    centred(room, w, r)
    centred(camera, w, q)
    turned(q, yaw, pitch, back)
    deep, across, high, spread, total = 0.0, 0.0, 0.0, 0.0, max(w.sum(), 1e-12)
    c, s = math.cos(sight), math.sin(sight)
    for i in range(len(room)):
        x, y = r[i, 0] - back[i, 0], r[i, 1] - back[i, 1]
        deep += w[i] * (c * x + s * y) ** 2 / total
        across += w[i] * (c * y - s * x) ** 2 / total
        high += w[i] * (r[i, 2] - back[i, 2]) ** 2 / total
        spread += w[i] * (r[i, 0] ** 2 + r[i, 1] ** 2) / total
    return deep, across, high, spread


def three(positions: F64) -> F64:
    """Return the positions of nose, left wrist and right wrist (3, 3) among the 33 landmarks (33, 3)."""
    return np.ascontiguousarray(positions[[NOSE, LEFT_WRIST, RIGHT_WRIST]], np.float64)


def ray_yaw(image_x: float, field_of_view: float) -> float:
    """Return the yaw [rad] of the ray through a picture column, relative to the camera and positive to the left.

    `image_x` is the position of the column in the picture, from 0 at the left edge to 1 at the right edge.
    """
    return -math.atan((2 * image_x - 1) * math.tan(field_of_view / 2))


def visible(visibility: F32) -> F64:
    """Return the visibility (3,) of nose and wrists from 0 to 1. Visibilities up to the constant `HIDDEN` are replaced
    by 0."""
    v = np.asarray(visibility, np.float64)[[NOSE, LEFT_WRIST, RIGHT_WRIST]]
    return np.asarray(np.where(v > fitted.HIDDEN, v, 0.0))


def warm_up() -> None:
    p, w = np.eye(3), np.ones(3)
    align(p, p, w, 0.1)
    residuals(p, p, w, 0.0, 0.0, 0.0)
    best_pitch(np.eye(3), -0.5, 0.5)
