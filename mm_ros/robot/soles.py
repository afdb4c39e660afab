"""Find the soles of a robot: the points of a foot that touch the floor. The points of a sole are those of the foot's
collision shapes, else of its meshes, else of an estimated box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.robot.load import mesh_path
from mm_ros.robot.model import Robot, Shape

MESH_KINDS = (".stl", ".obj", ".dae", ".ply")
MOST_MESH_BYTES = 64 << 20
DEPTH = (0.005, 0.5)  # Minimum and maximum plausible height of an ankle above its sole, as shares of the leg length.
LEVEL_RAD = 0.14  # A sole that is tilted by less than this at zero joint angles counts as level.
# Assumed dimensions of an unknown sole as shares of the leg length: depth below the ankle, length ahead of the ankle,
# length behind the ankle, half the width.
ESTIMATE = (0.09, 0.23, 0.12, 0.05)


@dataclass(frozen=True)
class Sole:
    """Bottom face of a robot's foot. `points` (N, 3), `ankle` and `ball` are in the axes of the foot's link. `level` is
    the rotation of the foot's link when the sole is level and the foot points to +x. The ankle is at the height
    `height` above the sole [m]."""

    link: str
    points: F64
    ankle: F64
    ball: F64
    level: F64
    height: float
    length: float
    source: str  # collision, mesh, estimate


def find_sole(
    robot: Robot, links: Sequence[str], zero: dict[str, F64], ankle: F64, leg: float, front: F64,
    stated: dict[str, float],
) -> Sole:  # fmt: skip
    """Return the sole of one foot of a robot. `links` holds the link of the foot, followed by the links that move with
    the foot. `zero` has the poses of all links at zero joint angles in the axes of the base; `ankle` is the position of
    the ankle in the axes of the base. The rotation `front` turns the robot's front to +x. `stated` holds the dimensions
    of the sole from robot.yaml."""
    points, source = _cloud(robot, links, zero, ankle, leg, front)
    if stated:
        depth, toe, heel, half = (
            stated.get(key, v * leg) for key, v in zip(("height", "toe", "heel", "half_width"), ESTIMATE, strict=True)
        )
        points, source = _box(depth, toe, heel, half), "robot.yaml"
    tilt = _tilt(points)
    if abs(tilt) < LEVEL_RAD:
        tilt = 0.0
    turn = rot.exp(np.array([0.0, -tilt, 0.0]))
    level_points = rot.rotate(turn, points)
    outline = _support(level_points)
    low = float(outline[:, 2].min())
    flat = outline[outline[:, 2] < low + 0.02 * leg]
    heel, toe, side = float(flat[:, 0].min()), float(flat[:, 0].max()), float((flat[:, 1].min() + flat[:, 1].max()) / 2)
    ball = np.array([heel + 0.7 * (toe - heel), side, low])
    link = zero[links[0]]
    level = rot.multiply(turn, rot.multiply(front, link[3:]))
    in_link = rot.inverse(level)
    own = rot.rotate(rot.inverse(link[3:]), ankle - link[:3])
    placed, ball = own + rot.rotate(in_link, outline), own + rot.rotate(in_link, ball)
    return Sole(links[0], placed, own, ball, level, -low, toe - heel, source)


def _cloud(
    robot: Robot, links: Sequence[str], zero: dict[str, F64], ankle: F64, leg: float, front: F64
) -> tuple[F64, str]:
    """Return points of the foot relative to the ankle, in axes with x to the front, and the source of the points:
    "collision", "mesh" or "estimate"."""
    for source, collision, meshes in (("collision", True, True), ("mesh", False, True)):
        found = []
        for name in links:
            part = robot.parts.get(name)
            for s in part.shapes if part is not None else ():
                if s.collision == collision and (meshes or s.kind != "mesh"):
                    p = shape_points(robot, s)
                    found.append(zero[name][:3] + rot.rotate(zero[name][3:], p))
        cloud = rot.rotate(front, np.concatenate(found) - ankle) if found else np.zeros((0, 3))
        if len(cloud) and np.isfinite(cloud).all() and DEPTH[0] * leg < -cloud[:, 2].min() < DEPTH[1] * leg:
            return cloud, source
    return _box(*(v * leg for v in ESTIMATE)), "estimate"


def _box(depth: float, toe: float, heel: float, half: float) -> F64:
    return np.array([[x, y, -depth] for x in (toe, -heel) for y in (half, -half)])


def _tilt(points: F64) -> float:
    """Return the pitch of the sole of a robot's foot at zero joint angles [rad]. In side view, the sole is the edge of
    the foot's lower convex hull that is below the ankle."""
    order = np.lexsort((points[:, 2], points[:, 0]))
    hull: list[Any] = []
    for x, z in points[order][:, [0, 2]]:
        while len(hull) > 1:
            (x0, z0), (x1, z1) = hull[-2:]
            if (x1 - x0) * (z - z0) > (z1 - z0) * (x - x0):
                break
            hull.pop()
        hull.append((x, z))
    at = 0.0 if hull[0][0] < 0 < hull[-1][0] else (hull[0][0] + hull[-1][0]) / 2
    for (xa, za), (xb, zb) in pairwise(hull):
        if xa <= at <= xb and xb > xa:
            return float(np.arctan2(za - zb, xb - xa))
    return 0.0


def _support(points: F64) -> F64:
    around = np.arange(12) * np.pi / 6
    ways = [[0.0, 0.0, -1.0]]
    for tilt in (0.05, 0.5, 1.0):
        ways += [[np.sin(tilt) * np.cos(a), np.sin(tilt) * np.sin(a), -np.cos(tilt)] for a in around]
    best = np.argmax(np.array(ways) @ points.T, axis=1)
    return np.asarray(points[np.unique(best)])


def shape_points(robot: Robot, shape: Shape) -> F64:
    """Return points on the surface of a shape, in the axes of the shape's link. A mesh that cannot be read has no
    points."""
    if shape.kind == "mesh":
        points = mesh_points(robot, shape.file)
        points = points * np.array(shape.size) if len(shape.size) == 3 else points
    elif shape.kind == "box":
        corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
        points = corners * np.array(shape.size)
    elif shape.kind == "sphere":
        points = shape.size[0] * _ball()
    else:
        radius, length = shape.size[0], shape.size[1]
        if shape.kind == "capsule":
            points = radius * _ball()
        else:
            around = np.arange(16) * np.pi / 8
            points = np.stack([radius * np.cos(around), radius * np.sin(around), np.zeros(16)], axis=1)
        up = np.array([0, 0, length / 2])
        points = np.concatenate([points + up, points - up])
    return np.asarray(shape.pose[:3] + rot.rotate(shape.pose[3:], points)) if len(points) else np.zeros((0, 3))


def _ball() -> F64:
    grid = np.array([[x, y, z] for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if x or y or z], np.float64)
    return np.asarray(grid / np.linalg.norm(grid, axis=1, keepdims=True))


def mesh_points(robot: Robot, file: str) -> F64:
    """Return the vertices of a mesh; none if the mesh file is missing or cannot be read."""
    return mesh_of(robot, file)[0]


def mesh_of(robot: Robot, file: str) -> tuple[F64, Any]:
    """Return the vertices and triangles of a mesh file of a robot. If the mesh file is missing or cannot be read, both
    returned arrays are empty."""
    nothing = np.zeros((0, 3)), np.zeros((0, 3), np.int64)
    path = mesh_path(robot, file)
    if path is None or path.suffix.lower() not in MESH_KINDS or path.stat().st_size > MOST_MESH_BYTES:
        return nothing
    try:
        import trimesh
    except ImportError:
        return nothing
    try:
        mesh: Any = trimesh.load(Path(path), force="mesh", process=False, skip_materials=True)
        vertices = np.asarray(mesh.vertices, np.float64).reshape(-1, 3)
    except Exception:  # For a damaged mesh, trimesh can raise any error; the sole is then estimated.
        return nothing
    return (vertices, np.asarray(mesh.faces, np.int64)) if np.isfinite(vertices).all() else nothing
