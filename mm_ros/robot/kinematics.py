"""Compiled kinematics of a robot: poses of its bodies, and the equations that the robot follower solves.

A body is a group of the robot's links that move together. The unknowns of the solver are 6 + n numbers: translation and
rotation of the base in world axes, then the change of each of the n independent joint angles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F64
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit
from mm_ros.robot.model import MOVING, Robot

I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Bodies:
    """Bodies of a robot; row b of each array describes body b. `place` is the pose of a body in its parent body when
    the joint angle is 0; the base has the parent −1. The angle of the joint that moves a body is factor · angles[dof] +
    offset. `of_link` maps each link to the number of its body and the constant pose of the link in this body."""

    parent: I64
    place: F64  # (B, 7)
    axis: F64  # (B, 3)
    dof: I64
    factor: F64
    offset: F64
    dofs: tuple[str, ...]
    of_link: dict[str, tuple[int, F64]]


def bodies_of(robot: Robot, active: set[str], rest: dict[str, float]) -> Bodies:
    """Return the bodies that are moved by the joints in `active` or by joints that mimic these. All remaining joints of
    the robot keep the angles in `rest`."""
    dofs: list[str] = []
    rows: list[tuple[int, F64, F64, int, float, float]] = [(-1, _identity(), np.array([1.0, 0, 0]), -1, 0.0, 0.0)]
    of_link: dict[str, tuple[int, F64]] = {robot.base: (0, _identity())}
    needed = {_source(robot, name)[0] for name in active}
    for j in robot.joints:
        body, pose = of_link[j.parent]
        source, factor, offset = _source(robot, j.name)
        if j.kind in MOVING and source in needed:
            if source not in dofs:
                dofs.append(source)
            rows.append((body, j.moved(pose, 0.0), j.axis, dofs.index(source), factor, offset))
            of_link[j.child] = (len(rows) - 1, _identity())
        else:
            of_link[j.child] = (body, j.moved(pose, factor * rest.get(source, 0.0) + offset))
    parents, places, axes, dof, factors, offsets = zip(*rows, strict=True)
    return Bodies(
        np.array(parents, np.int64), np.array(places), np.array(axes), np.array(dof, np.int64), np.array(factors),
        np.array(offsets), tuple(dofs), of_link,
    )  # fmt: skip


def _source(robot: Robot, name: str) -> tuple[str, float, float]:
    """Return the independent joint that determines the angle of the joint `name`, with factor and offset."""
    factor, offset = 1.0, 0.0
    for _ in range(len(robot.joints)):
        mimic = robot.joint(name).mimic
        if mimic is None:
            break
        factor, offset, name = factor * mimic.factor, offset + factor * mimic.offset, mimic.joint
    return name, factor, offset


def _identity() -> F64:
    return np.array([0.0, 0, 0, 1, 0, 0, 0])


def body_point(bodies: Bodies, link: str, point: F64) -> tuple[int, F64]:
    """Return the number of the body that contains a link, and a point of the link in the axes of the body."""
    body, pose = bodies.of_link[link]
    return body, pose[:3] + rot.rotate(pose[3:], point)


@njit
def place_bodies(base: Any, angles: Any, parent: Any, place: Any, axis: Any, dof: Any, factor: Any, offset: Any,
                 p: Any, q: Any, axes: Any) -> None:  # fmt: skip
    """Fill the positions `p`, rotations `q` and joint axes `axes` of the bodies in the world."""
    quat.put3(p, 0, (base[0], base[1], base[2]))
    quat.put4(q, 0, quat.normalize((base[3], base[4], base[5], base[6])))
    for b in range(1, len(parent)):
        k = parent[b]
        turn = quat.get4(q, k)
        quat.put3(p, b, quat.add(quat.get3(p, k), quat.rotate(turn, (place[b, 0], place[b, 1], place[b, 2]))))
        turn = quat.mul(turn, (place[b, 3], place[b, 4], place[b, 5], place[b, 6]))
        a = quat.get3(axis, b)
        quat.put3(axes, b, quat.rotate(turn, a))
        turn = quat.mul(turn, quat.about(a, factor[b] * angles[dof[b]] + offset[b]))
        quat.put4(q, b, quat.normalize(turn))


@njit
def _turning(b: int, parent: Any, dof: Any, factor: Any, axes: Any, out: Any) -> None:
    """Fill `out` with the Jacobian (3, N) of the angular velocity of body b."""
    out[:] = 0.0
    for i in range(3):
        out[i, 3 + i] = 1.0
    while b > 0:
        for i in range(3):
            out[i, 6 + dof[b]] += factor[b] * axes[b, i]
        b = parent[b]


@njit
def _moving(b: int, point: Any, parent: Any, dof: Any, factor: Any, p: Any, axes: Any, out: Any) -> None:
    """Fill `out` with the Jacobian (3, N) of the velocity of a point that is fixed in body b."""
    out[:] = 0.0
    for i in range(3):
        out[i, i] = 1.0
    r = (point[0] - p[0, 0], point[1] - p[0, 1], point[2] - p[0, 2])
    for i in range(3):
        e = (1.0 if i == 0 else 0.0, 1.0 if i == 1 else 0.0, 1.0 if i == 2 else 0.0)
        c = quat.cross(e, r)
        for k in range(3):
            out[k, 3 + i] = c[k]
    while b > 0:
        c = quat.cross(quat.get3(axes, b), (point[0] - p[b, 0], point[1] - p[b, 1], point[2] - p[b, 2]))
        for k in range(3):
            out[k, 6 + dof[b]] += factor[b] * c[k]
        b = parent[b]


@njit
def _add(h: Any, g: Any, jac: Any, row: int, weight: float, residual: float) -> None:
    w = weight * weight
    n = len(g)
    for i in range(n):
        a = w * jac[row, i]
        if a != 0.0:
            g[i] += a * residual
            for k in range(n):
                h[i, k] += a * jac[row, k]


@njit
def normal_equations(
    parent: Any, dof: Any, factor: Any, p: Any, q: Any, axes: Any,
    turn_body: Any, turn_target: Any, turn_weight: Any,
    way_body: Any, way_local: Any, way_target: Any, way_weight: Any,
    point_body: Any, point_local: Any, point_target: Any, point_weight: Any,
    angles: Any, rest: Any, rest_weight: float, damping: float, h: Any, g: Any, jac: Any,
) -> None:  # fmt: skip
    """Fill the matrix `h` and the vector `g` of the least-squares problem of the robot follower. The solution of the
    least-squares problem brings bodies to target rotations, lines to target directions and points to target
    positions."""
    h[:] = 0.0
    g[:] = 0.0
    for t in range(len(turn_body)):
        b = turn_body[t]
        if turn_weight[t, 0] + turn_weight[t, 1] + turn_weight[t, 2] > 0.0:
            error = quat.log(quat.mul_inv(quat.get4(turn_target, t), quat.get4(q, b)))
            _turning(b, parent, dof, factor, axes, jac)
            for i in range(3):
                _add(h, g, jac, i, turn_weight[t, i], error[i])
    for t in range(len(way_body)):
        b = way_body[t]
        if way_weight[t] > 0.0:
            d = quat.rotate(quat.get4(q, b), quat.get3(way_local, t))
            _turning(b, parent, dof, factor, axes, jac)
            for k in range(len(g)):
                c = quat.cross((jac[0, k], jac[1, k], jac[2, k]), d)
                jac[0, k], jac[1, k], jac[2, k] = c[0], c[1], c[2]
            for i in range(3):
                _add(h, g, jac, i, way_weight[t], way_target[t, i] - d[i])
    for t in range(len(point_body)):
        b = point_body[t]
        at = quat.add(quat.get3(p, b), quat.rotate(quat.get4(q, b), quat.get3(point_local, t)))
        _moving(b, at, parent, dof, factor, p, axes, jac)
        for i in range(3):
            if point_weight[t, i] > 0.0:
                _add(h, g, jac, i, point_weight[t, i], point_target[t, i] - at[i])
    for i in range(len(g)):
        h[i, i] += damping * damping
    for i in range(len(angles)):
        h[6 + i, 6 + i] += rest_weight * rest_weight
        g[6 + i] += rest_weight * rest_weight * (rest[i] - angles[i])


@njit
def nearest(a: Any, b: Any, c: Any, d: Any) -> tuple[float, float]:
    """Find the nearest points of the line segments a–b and c–d, and return the place of each point on its segment from
    0 to 1."""
    u, v, w = quat.sub(b, a), quat.sub(d, c), quat.sub(a, c)
    uu, uv, vv, uw, vw = quat.dot(u, u), quat.dot(u, v), quat.dot(v, v), quat.dot(u, w), quat.dot(v, w)
    det = uu * vv - uv * uv
    s = 0.0 if det < 1e-12 else min(max((uv * vw - vv * uw) / det, 0.0), 1.0)
    t = 0.0 if vv < 1e-12 else min(max((uv * s + vw) / vv, 0.0), 1.0)
    s = 0.0 if uu < 1e-12 else min(max((uv * t - uw) / uu, 0.0), 1.0)
    return s, t


@njit
def near_pairs(
    pairs: Any, body: Any, ends: Any, radius: Any, margin: float, gap: float, parent: Any, dof: Any, factor: Any,
    p: Any, q: Any, axes: Any, rows: Any, lower: Any, n: int, jac: Any, other: Any,
) -> int:  # fmt: skip
    """Add a linear constraint for each pair of capsules that is nearer than `margin`; it keeps the pair at least `gap`
    apart."""
    for k in range(len(pairs)):
        i, j = pairs[k, 0], pairs[k, 1]
        bi, bj = body[i], body[j]
        qi, qj, pi, pj = quat.get4(q, bi), quat.get4(q, bj), quat.get3(p, bi), quat.get3(p, bj)
        a = quat.add(pi, quat.rotate(qi, (ends[i, 0], ends[i, 1], ends[i, 2])))
        b = quat.add(pi, quat.rotate(qi, (ends[i, 3], ends[i, 4], ends[i, 5])))
        c = quat.add(pj, quat.rotate(qj, (ends[j, 0], ends[j, 1], ends[j, 2])))
        d = quat.add(pj, quat.rotate(qj, (ends[j, 3], ends[j, 4], ends[j, 5])))
        s, t = nearest(a, b, c, d)
        at, to = quat.mix(a, b, s), quat.mix(c, d, t)
        way = quat.sub(at, to)
        length = quat.norm(way)
        distance = length - radius[i] - radius[j]
        if distance > margin or length < 1e-6 or n >= len(rows):
            continue
        normal = quat.scale(way, 1.0 / length)
        _moving(bi, at, parent, dof, factor, p, axes, jac)
        _moving(bj, to, parent, dof, factor, p, axes, other)
        for m in range(rows.shape[1]):
            rows[n, m] = (
                normal[0] * (jac[0, m] - other[0, m]) + normal[1] * (jac[1, m] - other[1, m])
                + normal[2] * (jac[2, m] - other[2, m])
            )  # fmt: skip
        lower[n] = gap - distance
        n += 1
    return n


@njit
def floor_rows(
    feet: Any, soles: Any, balls: Any, near: float, parent: Any, dof: Any, factor: Any, p: Any, q: Any, axes: Any,
    rows: Any, lower: Any, n: int, jac: Any,
) -> int:  # fmt: skip
    """Add linear constraints that keep the lowest points of the robot's soles above the floor, and return the number of
    all constraints. The points `soles` (feet, points, 3) are relative to the ball of each foot, in the axes of the
    foot's body. Each foot of the robot gets at most three constraints."""
    for i in range(len(feet)):
        b = feet[i]
        if b < 0:
            continue
        turn, start = quat.get4(q, b), quat.get3(p, b)
        taken = (-1, -1, -1)
        for _ in range(3):
            best, low = -1, near
            for k in range(soles.shape[1]):
                if k in (taken[0], taken[1]):
                    continue
                local = (soles[i, k, 0] + balls[i, 0], soles[i, k, 1] + balls[i, 1], soles[i, k, 2] + balls[i, 2])
                z = start[2] + quat.rotate(turn, local)[2]
                if z < low:
                    best, low = k, z
            if best < 0 or n >= len(rows):
                break
            taken = (best, taken[0], taken[1])
            local = (soles[i, best, 0] + balls[i, 0], soles[i, best, 1] + balls[i, 1], soles[i, best, 2] + balls[i, 2])
            _moving(b, quat.add(start, quat.rotate(turn, local)), parent, dof, factor, p, axes, jac)
            for m in range(rows.shape[1]):
                rows[n, m] = jac[2, m]
            lower[n] = -low
            n += 1
    return n


@njit
def least_distance(pairs: Any, body: Any, ends: Any, radius: Any, p: Any, q: Any) -> float:
    """Return the smallest distance between the capsules of a pair, which is negative if the capsules overlap."""
    least = 1e9
    for k in range(len(pairs)):
        i, j = pairs[k, 0], pairs[k, 1]
        qi, qj, pi, pj = quat.get4(q, body[i]), quat.get4(q, body[j]), quat.get3(p, body[i]), quat.get3(p, body[j])
        a = quat.add(pi, quat.rotate(qi, (ends[i, 0], ends[i, 1], ends[i, 2])))
        b = quat.add(pi, quat.rotate(qi, (ends[i, 3], ends[i, 4], ends[i, 5])))
        c = quat.add(pj, quat.rotate(qj, (ends[j, 0], ends[j, 1], ends[j, 2])))
        d = quat.add(pj, quat.rotate(qj, (ends[j, 3], ends[j, 4], ends[j, 5])))
        s, t = nearest(a, b, c, d)
        least = min(least, quat.norm(quat.sub(quat.mix(a, b, s), quat.mix(c, d, t))) - radius[i] - radius[j])
    return least


class LinkPoses:
    """Compiled counterpart of `Robot.links`: computes the poses of all links of a robot, for drawing."""

    def __init__(self, robot: Robot) -> None:
        b = self._bodies = bodies_of(robot, set(robot.moving), {})
        self._links = tuple(b.of_link)
        self._body = np.array([b.of_link[name][0] for name in self._links], np.int64)
        self._in_body = np.array([b.of_link[name][1] for name in self._links])
        count = len(b.parent)
        self._p, self._q, self._axes = np.zeros((count, 3)), np.zeros((count, 4)), np.zeros((count, 3))

    def __call__(self, angles: dict[str, float], base: F64) -> dict[str, F64]:
        b = self._bodies
        values = np.array([angles.get(name, 0.0) for name in b.dofs])
        place_bodies(
            base, values, b.parent, b.place, b.axis, b.dof, b.factor, b.offset, self._p, self._q, self._axes
        )
        p, q = self._p[self._body], self._q[self._body]
        at = p + rot.rotate(q, self._in_body[:, :3])
        poses = np.concatenate([at, rot.multiply(q, self._in_body[:, 3:])], axis=1)
        return dict(zip(self._links, poses, strict=True))
