"""Capsules around the bodies of a robot, made from its collision shapes, and the pairs of capsules that must not touch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.robot.figure import Figure
from mm_ros.robot.kinematics import Bodies, bodies_of, least_distance, nearest, place_bodies
from mm_ros.robot.model import Robot, Shape
from mm_ros.robot.soles import shape_points

MOST_SHAPES, MOST_PAIRS = 80, 400
SMALL = 0.012  # Collision shapes whose radius is below this share of the leg length are ignored.
# The distance of two capsules is not checked if it is below this share of the leg length at zero joint angles.
APART = 0.03
WIDE = 0.4  # A capsule with a radius above this share of the leg length fits its mesh badly and is ignored.


@dataclass(frozen=True)
class Capsules:
    """Capsules of a robot. Row i of `body`, `ends` and `radius` describes capsule i: number of its body, two end points
    in the axes of the body, radius. Each row of `pairs` holds the indices of two capsules that must not touch."""

    body: NDArray[np.int64]
    ends: F64
    radius: F64
    pairs: NDArray[np.int64]


def capsules_of(figure: Figure, bodies: Bodies) -> Capsules:
    robot, leg = figure.robot, figure.leg_length
    found: list[tuple[int, F64, float]] = []
    for link, part in robot.parts.items():
        for shape in part.shapes:
            if shape.collision and len(found) < MOST_SHAPES:
                made = _capsule(robot, shape)
                if made is not None and SMALL * leg < made[1] < WIDE * leg:
                    number, pose = bodies.of_link[link]
                    placed = pose[:3] + rot.rotate(pose[3:], made[0].reshape(2, 3))
                    found.append((number, placed.reshape(-1), made[1]))
    body = np.array([f[0] for f in found], np.int64)
    ends, radius = np.array([f[1] for f in found]).reshape(-1, 6), np.array([f[2] for f in found])
    return Capsules(body, ends, radius, _pairs(figure, bodies, body, ends, radius))


class LimbDistance:
    """Smallest distance between two limbs, or between a limb and the trunk, of a robot [m]. The distance between limbs
    is infinite if the robot file has no collision geometry."""

    def __init__(self, figure: Figure) -> None:
        b = self._bodies = bodies_of(figure.robot, set(figure.roles.joints), {})
        self._capsules = capsules_of(figure, b)
        count = len(b.parent)
        self._p, self._q, self._axes = np.zeros((count, 3)), np.zeros((count, 4)), np.zeros((count, 3))

    def __call__(self, angles: dict[str, float], base: F64) -> float:
        b, c = self._bodies, self._capsules
        if not len(c.pairs):
            return math.inf
        values = np.array([angles.get(name, 0.0) for name in b.dofs])
        place_bodies(
            base, values, b.parent, b.place, b.axis, b.dof, b.factor, b.offset, self._p, self._q, self._axes
        )
        return float(least_distance(c.pairs, c.body, c.ends, c.radius, self._p, self._q))


def _capsule(robot: Robot, shape: Shape) -> tuple[F64, float] | None:
    """Return the end points of the capsule in the axes of the link, and its radius."""
    along = np.array([0.0, 0.0, 1.0])
    if shape.kind == "sphere":
        half, radius = 0.0, shape.size[0]
    elif shape.kind == "capsule":
        half, radius = shape.size[1] / 2, shape.size[0]
    elif shape.kind == "cylinder":
        half, radius = max(shape.size[1] / 2 - shape.size[0], 0.0), shape.size[0]
    else:
        return _around(shape_points(robot, shape))
    ends = np.stack([-half * along, half * along])
    return (shape.pose[:3] + rot.rotate(shape.pose[3:], ends)).reshape(-1), radius


def _around(points: F64) -> tuple[F64, float] | None:
    """Return a capsule with the volume of the box around the points, along the longest axis of the box."""
    if len(points) < 4:
        return None
    centre = (points.min(axis=0) + points.max(axis=0)) / 2
    _, _, axes = np.linalg.svd(points[:: max(len(points) // 2000, 1)] - centre, full_matrices=False)
    local = (points - centre) @ axes.T
    middle, size = (local.min(axis=0) + local.max(axis=0)) / 2, np.ptp(local, axis=0)
    order = np.argsort(size)
    radius = float(size[order[0]] + size[order[1]]) / 4
    along = axes[order[2]] * max(float(size[order[2]]) / 2 - radius, 0.0)
    centre = centre + middle @ axes
    return np.concatenate([centre - along, centre + along]), radius


def _pairs(figure: Figure, bodies: Bodies, body: NDArray[np.int64], ends: F64, radius: F64) -> NDArray[np.int64]:
    """Return pairs of capsules on two different limbs, or on a limb and the trunk. Pairs of capsules on neighbouring
    bodies and pairs that touch at zero joint angles are left out."""
    limb_of: dict[int, str] = {}
    for name, chain in figure.roles.chains.items():
        side, _, part = name.partition("_")
        if side not in ("left", "right"):
            continue
        kind = "leg" if part in ("upper_leg", "lower_leg", "foot", "toes") else "arm"
        for name_of in chain:
            limb_of[bodies.of_link[figure.robot.joint(name_of).child][0]] = f"{side} {kind}"
    starts = {}
    for link, (b, pose) in bodies.of_link.items():
        if link in figure.zero and b not in starts:
            zero = figure.zero[link]
            turn = rot.multiply(zero[3:], rot.inverse(pose[3:]))
            starts[b] = (zero[:3] - rot.rotate(turn, pose[:3]), turn)
    at = np.array(
        [starts[int(b)][0] + rot.rotate(starts[int(b)][1], e.reshape(2, 3)) for b, e in zip(body, ends, strict=True)]
    ).reshape(-1, 2, 3)
    pairs: list[tuple[float, int, int]] = []
    for i in range(len(body)):
        for j in range(i):
            same = limb_of.get(int(body[i]), "") == limb_of.get(int(body[j]), "")
            if same or _neighbours(bodies, int(body[i]), int(body[j])):
                continue
            s, t = nearest(at[i, 0], at[i, 1], at[j, 0], at[j, 1])
            way = at[i, 0] + s * (at[i, 1] - at[i, 0]) - at[j, 0] - t * (at[j, 1] - at[j, 0])
            distance = float(np.linalg.norm(way)) - radius[i] - radius[j]
            if distance > APART * figure.leg_length:
                pairs.append((distance, i, j))
    pairs.sort()
    return np.array([p[1:] for p in pairs[:MOST_PAIRS]], np.int64).reshape(-1, 2)


def _neighbours(bodies: Bodies, a: int, b: int) -> bool:
    def up(body: int) -> list[int]:
        out = [body]
        while bodies.parent[out[-1]] >= 0:
            out.append(int(bodies.parent[out[-1]]))
        return out

    ua, ub = up(a), up(b)
    common = next(x for x in ua if x in ub)
    return ua.index(common) + ub.index(common) <= 2
