"""Functions of quaternions (w, x, y, z) in numpy arrays (…, 4). Compiled code uses the functions of maths/quat.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any  # type of numpy arrays of floats; `Any`, because numpy's type stubs are imprecise in arithmetic


def multiply(a: Array, b: Array) -> Array:
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def inverse(q: Array) -> Array:
    return q * np.array([1, -1, -1, -1], q.dtype)


def rotate(q: Array, v: Array) -> Array:
    u = q[..., 1:]
    t = 2 * np.cross(u, v)
    return v + q[..., :1] * t + np.cross(u, t)


def normalize(q: Array) -> Array:
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def exp(rotation_vector: Array) -> Array:
    """Convert a rotation vector (axis × angle) to a quaternion, with full precision also for small angles."""
    angle = np.linalg.norm(rotation_vector, axis=-1, keepdims=True)
    half = angle / 2
    s = np.where(angle < 1e-6, 0.5 - angle**2 / 48, np.sin(half) / np.where(angle < 1e-6, 1, angle))
    return np.concatenate([np.cos(half), s * rotation_vector], axis=-1)


def log(q: Array) -> Array:
    """Convert a quaternion of either sign to a rotation vector of length ≤ π."""
    q = np.where(q[..., :1] < 0, -q, q)
    n = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    k = np.where(n < 1e-9, 2.0, 2 * np.arctan2(n, q[..., :1]) / np.where(n < 1e-9, 1, n))
    return k * q[..., 1:]


def from_yaw(yaw: Array | float) -> Array:
    half = np.asarray(yaw) / 2
    zero = np.zeros_like(half)
    return np.stack([np.cos(half), zero, zero, np.sin(half)], axis=-1)


def yaw_of(q: Array) -> Array:
    """Return the yaw [rad] of the direction to which the quaternion `q` rotates the x axis."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    return np.asarray(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))


def to_matrix(q: Array) -> Array:
    w, x, y, z = np.moveaxis(q, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(r, axis=-1) for r in rows], axis=-2)


def between(a: Array, b: Array) -> Array:
    """Return the shortest rotation from direction `a` to direction `b`; its axis is arbitrary if `b` is −`a`."""
    a = a / np.linalg.norm(a, axis=-1, keepdims=True)
    b = b / np.linalg.norm(b, axis=-1, keepdims=True)
    w = 1 + (a * b).sum(-1, keepdims=True)
    side = np.where(np.abs(a[..., :1]) < 0.9, np.array([1.0, 0, 0]), np.array([0, 1.0, 0]))
    xyz = np.where(w < 1e-9, np.cross(a, side), np.cross(a, b))
    return normalize(np.concatenate([np.where(w < 1e-9, 0.0, w), xyz], axis=-1))


def unit(v: Array) -> Array:
    """Scale vectors (…, 3) to length 1; zero vectors do not change."""
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12)


def wrap_angle(a: Any) -> Any:
    """Angle in −π … π."""
    return (a + math.pi) % (2 * math.pi) - math.pi


def forward_kinematics(parents: Array, positions: Array, rotations: Array) -> tuple[Array, Array]:
    """Convert joint positions (…, J, 3) and rotations (…, J, 4) to the room; joint 0 must already be in the room."""
    p, q = positions.copy(), rotations.copy()
    for j in range(1, len(parents)):
        k = parents[j]
        q[..., j, :] = multiply(q[..., k, :], rotations[..., j, :])
        p[..., j, :] = p[..., k, :] + rotate(q[..., k, :], positions[..., j, :])
    return p, q
