"""Inverse kinematics of chains of two bones, and rotations from axes, for arrays of many frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.maths import rotations as rot

Array = Any


def about(axis: int, angle: Array) -> Array:
    """Return quaternions (…, 4) of rotations by `angle` about the axis x (0), y (1) or z (2)."""
    half = np.asarray(angle, float) / 2
    out = np.zeros((*half.shape, 4))
    out[..., 0] = np.cos(half)
    out[..., 1 + axis] = np.sin(half)
    return out


def from_axes(x: Array, y: Array, z: Array) -> Array:
    """Return quaternions of the rotations that map the axes of the room to the orthonormal axes `x`, `y` and `z`."""
    m00, m11, m22 = x[..., 0], y[..., 1], z[..., 2]
    candidates = np.stack(
        [
            np.stack([1 + m00 + m11 + m22, y[..., 2] - z[..., 1], z[..., 0] - x[..., 2], x[..., 1] - y[..., 0]], -1),
            np.stack([y[..., 2] - z[..., 1], 1 + m00 - m11 - m22, y[..., 0] + x[..., 1], z[..., 0] + x[..., 2]], -1),
            np.stack([z[..., 0] - x[..., 2], y[..., 0] + x[..., 1], 1 - m00 + m11 - m22, z[..., 1] + y[..., 2]], -1),
            np.stack([x[..., 1] - y[..., 0], z[..., 0] + x[..., 2], z[..., 1] + y[..., 2], 1 - m00 - m11 + m22], -1),
        ],
        -2,
    )
    best = np.argmax(np.stack([candidates[..., i, i] for i in range(4)], -1), -1)
    picked = np.take_along_axis(candidates, best[..., None, None].repeat(4, -1), -2)[..., 0, :]
    q = picked / np.linalg.norm(picked, axis=-1, keepdims=True)
    return np.where(q[..., :1] < 0, -q, q)


def two_bones(start: Array, end: Array, pole: Array, upper: float, lower: float) -> tuple[Array, Array, Array]:
    """Bend a chain of two bones from `start` to `end`, so that its middle joint is on the side to which `pole` points.

    Return three unit vectors in the room: the directions of both bones, and the direction of the middle joint from the
    line between `start` and `end`. If `end` is out of reach, the chain is straight and points to `end`.
    """
    reach = end - start
    distance = np.linalg.norm(reach, axis=-1, keepdims=True)
    along = reach / np.maximum(distance, 1e-9)
    d = np.clip(distance, abs(upper - lower) + 1e-6, upper + lower - 1e-9)
    side = rot.unit(pole - (pole * along).sum(-1, keepdims=True) * along)
    cosine = np.clip((upper**2 + d**2 - lower**2) / (2 * upper * d), -1, 1)
    middle = upper * (cosine * along + np.sqrt(1 - cosine**2) * side)
    return middle / upper, rot.unit(along * d - middle), side


def leg_rotations(hip: Array, ankle: Array, forward: Array, thigh: float, shank: float) -> tuple[Array, Array]:
    """Return the rotations of thigh and shin in the room, with the knee in the direction `forward`."""
    upper, lower, side = two_bones(hip, ankle, forward, thigh, shank)
    # The hinge of the knee is the y axis of thigh and shin, whose z axes point up along the bones, and x axes forward.
    hinge = rot.unit(np.cross(-upper, side))
    return tuple(from_axes(rot.unit(np.cross(hinge, -bone)), hinge, -bone) for bone in (upper, lower))


def mirror_quaternion(q: Array) -> Array:
    """Mirror rotations at the x–z plane, which exchanges left and right."""
    return q * np.array([1.0, -1.0, 1.0, -1.0])
