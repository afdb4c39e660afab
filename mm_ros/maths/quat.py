"""Compiled functions of vectors and quaternions (w, x, y, z), which return tuples to avoid memory allocation.

The arguments are tuples or rows of arrays; the file maths/rotations.py has the same functions for arrays (…, 4).
"""

from __future__ import annotations

import math
from typing import Any

from mm_ros.maths.jit import njit

Vec = tuple[float, float, float]
Quat = tuple[float, float, float, float]
Row = Any  # type of vectors and quaternions: a tuple, or a row of an array, with 3 or 4 numbers

IDENTITY: Quat = (1.0, 0.0, 0.0, 0.0)  # no rotation


@njit
def get3(a: Any, j: int) -> Vec:
    return (float(a[j, 0]), float(a[j, 1]), float(a[j, 2]))


@njit
def get4(a: Any, j: int) -> Quat:
    return (float(a[j, 0]), float(a[j, 1]), float(a[j, 2]), float(a[j, 3]))


@njit
def put3(a: Any, j: int, v: Row) -> None:
    a[j, 0] = v[0]
    a[j, 1] = v[1]
    a[j, 2] = v[2]


@njit
def put4(a: Any, j: int, q: Row) -> None:
    a[j, 0] = q[0]
    a[j, 1] = q[1]
    a[j, 2] = q[2]
    a[j, 3] = q[3]


@njit
def add(a: Row, b: Row) -> Vec:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


@njit
def sub(a: Row, b: Row) -> Vec:
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@njit
def scale(a: Row, k: float) -> Vec:
    return (a[0] * k, a[1] * k, a[2] * k)


@njit
def mix(a: Row, b: Row, share_of_b: float) -> Vec:
    return add(a, scale(sub(b, a), share_of_b))


@njit
def dot(a: Row, b: Row) -> float:
    return float(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


@njit
def cross(a: Row, b: Row) -> Vec:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@njit
def norm(a: Row) -> float:
    return math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])


@njit
def unit(a: Row, otherwise: Row) -> Vec:
    """Return the vector `a` scaled to length 1, or the vector `otherwise` if the length of `a` is 0."""
    n = norm(a)
    if n < 1e-12:
        return (otherwise[0], otherwise[1], otherwise[2])
    return (a[0] / n, a[1] / n, a[2] / n)


@njit
def shortened(a: Row, longest: float) -> Vec:
    n = norm(a)
    return scale(a, longest / n) if n > longest else (a[0], a[1], a[2])


@njit
def across(a: Row, axis: Row) -> Vec:
    """Return the component of the vector `a` that is perpendicular to the unit vector `axis`."""
    return sub(a, scale(axis, dot(a, axis)))


@njit
def mul(a: Row, b: Row) -> Quat:
    return (
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


@njit
def inv(q: Row) -> Quat:
    return (q[0], -q[1], -q[2], -q[3])


@njit
def inv_mul(a: Row, b: Row) -> Quat:
    """a⁻¹ b."""
    return mul(inv(a), b)


@njit
def mul_inv(a: Row, b: Row) -> Quat:
    """a b⁻¹."""
    return mul(a, inv(b))


@njit
def rotate(q: Row, v: Row) -> Vec:
    u = (q[1], q[2], q[3])
    t = scale(cross(u, v), 2.0)
    c = cross(u, t)
    return (v[0] + q[0] * t[0] + c[0], v[1] + q[0] * t[1] + c[1], v[2] + q[0] * t[2] + c[2])


@njit
def unrotate(q: Row, v: Row) -> Vec:
    return rotate(inv(q), v)


@njit
def normalize(q: Row) -> Quat:
    """Scale a quaternion to length 1; return the identity for a quaternion of length 0."""
    n = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    if n < 1e-12:
        return (1.0, 0.0, 0.0, 0.0)
    return (q[0] / n, q[1] / n, q[2] / n, q[3] / n)


@njit
def exp(v: Row) -> Quat:
    """Convert a rotation vector (axis × angle) to a quaternion, with full precision also for small angles."""
    angle = norm(v)
    k = 0.5 - angle * angle / 48.0 if angle < 1e-4 else math.sin(0.5 * angle) / angle
    return (math.cos(0.5 * angle), k * v[0], k * v[1], k * v[2])


@njit
def log(q: Row) -> Vec:
    """Convert a quaternion of either sign to a rotation vector of length ≤ π."""
    s = -1.0 if q[0] < 0.0 else 1.0
    n = math.sqrt(q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    k = 2.0 * s if n < 1e-9 else 2.0 * s * math.atan2(n, s * q[0]) / n
    return (k * q[1], k * q[2], k * q[3])


@njit
def angle_of(q: Row) -> float:
    """Rotation angle, 0 … π."""
    return 2.0 * math.atan2(math.sqrt(q[1] * q[1] + q[2] * q[2] + q[3] * q[3]), abs(q[0]))


@njit
def about(axis: Row, angle: float) -> Quat:
    """Return the quaternion of a rotation by `angle` about the unit vector `axis`."""
    s = math.sin(0.5 * angle)
    return (math.cos(0.5 * angle), s * axis[0], s * axis[1], s * axis[2])


@njit
def between(a: Row, b: Row) -> Quat:
    """Return the shortest rotation from unit vector `a` to unit vector `b`; its axis is arbitrary if `b` is −`a`."""
    w = 1.0 + dot(a, b)
    if w < 1e-9:
        side = (1.0, 0.0, 0.0) if abs(a[0]) < 0.9 else (0.0, 1.0, 0.0)
        n = cross(a, side)
        return normalize((0.0, n[0], n[1], n[2]))
    c = cross(a, b)
    return normalize((w, c[0], c[1], c[2]))


@njit
def share(q: Row, part: float) -> Quat:
    """Return the rotation `q` with its angle (along the shorter arc) multiplied by `part`."""
    return exp(scale(log(q), part))


@njit
def slerp(a: Row, b: Row, share_of_b: float) -> Quat:
    """Interpolate from quaternion `a` to `b` along the shorter arc; the result may have the other sign than `b`."""
    return normalize(mul(share(mul_inv(b, a), share_of_b), a))


@njit
def twist(q: Row, axis: Row) -> float:
    """Return the twist angle (−π … π) of the rotation `q` about the unit vector `axis`, or 0 if it is undefined."""
    s = q[1] * axis[0] + q[2] * axis[1] + q[3] * axis[2]
    if abs(s) < 1e-12 and abs(q[0]) < 1e-12:
        return 0.0
    return wrap(2.0 * math.atan2(s, q[0]))


@njit
def wrap(angle: float) -> float:
    """Angle in −π … π."""
    return math.atan2(math.sin(angle), math.cos(angle))


@njit
def from_yaw(yaw: float) -> Quat:
    return (math.cos(0.5 * yaw), 0.0, 0.0, math.sin(0.5 * yaw))


@njit
def yaw_of(q: Row) -> float:
    """Return the yaw [rad] of the direction to which the quaternion `q` rotates the x axis."""
    return math.atan2(2.0 * (q[0] * q[3] + q[1] * q[2]), 1.0 - 2.0 * (q[2] * q[2] + q[3] * q[3]))


@njit
def aligning(bone: Row, side: Row, to_bone: Row, to_side: Row) -> Quat:
    """Return the rotation that maps unit vector `bone` to `to_bone`, and `side` as close to `to_side` as possible."""
    q = between(bone, to_bone)
    have = across(rotate(q, side), to_bone)
    want = across(to_side, to_bone)
    turn = math.atan2(dot(cross(have, want), to_bone), dot(have, want))
    return normalize(mul(about(to_bone, turn), q))


@njit
def forward_kinematics(
    parents: Any, local_positions: Any, local_rotations: Any, positions: Any, rotations: Any
) -> None:
    """Write the room poses of all joints to `positions` and `rotations`, whose row 0 must hold the pose of the root."""
    for j in range(1, len(parents)):
        k = parents[j]
        q = get4(rotations, k)
        put3(positions, j, add(get3(positions, k), rotate(q, get3(local_positions, j))))
        put4(rotations, j, mul(q, get4(local_rotations, j)))


@njit
def velocity_of_exp(x: Row, rate: Row) -> Vec:
    """Convert the time derivative `rate` of the rotation vector `x` to the angular velocity of the rotation."""
    t = norm(x)
    a = 0.5 - t * t / 24.0 if t < 1e-3 else (1.0 - math.cos(t)) / (t * t)
    b = 1.0 / 6.0 - t * t / 120.0 if t < 1e-3 else (t - math.sin(t)) / (t * t * t)
    c = cross(x, rate)
    return add(rate, add(scale(c, a), scale(cross(x, c), b)))


@njit
def rate_of_log(x: Row, velocity: Row) -> Vec:
    """Convert an angular velocity to the time derivative of the rotation vector `x` (inverse of `velocity_of_exp`)."""
    t = norm(x)
    b = 1.0 / 12.0 + t * t / 720.0 if t < 1e-2 else (1.0 - 0.5 * t / math.tan(0.5 * t)) / (t * t)
    c = cross(x, velocity)
    return add(sub(velocity, scale(c, 0.5)), scale(cross(x, c), b))
