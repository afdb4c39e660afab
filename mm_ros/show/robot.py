"""Robots as meshes: primitive shapes, mesh files, or capsules along the limbs of a robot without geometry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import F64, rest_pose
from mm_ros.maths import rotations as rot
from mm_ros.robot.figure import Figure
from mm_ros.robot.model import Robot
from mm_ros.robot.model import Shape as RobotShape
from mm_ros.robot.soles import mesh_of
from mm_ros.show import film
from mm_ros.show.render import BODY, Camera, Shape, render, write_png

ROBOT = (0.55, 0.57, 0.60)
AROUND = 16
MOST_TRIANGLES = 60_000
THIN = 0.045  # radius of a capsule without geometry, of the leg

Mesh = tuple[F64, NDArray[np.int64]]


def link_meshes(figure: Figure) -> dict[str, Mesh]:
    """Vertices and triangles of each link in its own axes; capsules along the joints where the file has no geometry."""
    robot, out, total = figure.robot, {}, 0
    for name, part in robot.parts.items():
        drawn = [s for s in part.shapes if not s.collision] or list(part.shapes)
        meshes = [m for s in drawn if len((m := shape_mesh(robot, s))[1])]
        total += sum(len(f) for _, f in meshes)
        if meshes:
            out[name] = _joined(meshes)
    if total > MOST_TRIANGLES:
        out = {name: _thinned(m, MOST_TRIANGLES / total) for name, m in out.items()}
    return out if out else _sticks(figure)


def _joined(meshes: list[Mesh]) -> Mesh:
    counts = np.cumsum([0, *(len(v) for v, _ in meshes)])
    return np.concatenate([v for v, _ in meshes]), np.concatenate(
        [f + n for (_, f), n in zip(meshes, counts, strict=False)]
    )


def _thinned(mesh: Mesh, share: float) -> Mesh:
    """Merge vertices on a grid until about this share of the triangles is left."""
    vertices, faces = mesh
    size = np.ptp(vertices, axis=0).max()
    for cells in (96, 64, 44, 30, 20, 14, 10):
        grid = np.round((vertices - vertices.min(axis=0)) / max(size, 1e-6) * cells).astype(np.int64)
        _, first, index = np.unique(grid, axis=0, return_index=True, return_inverse=True)
        merged = index.reshape(-1)[faces]
        kept = merged[(merged[:, 0] != merged[:, 1]) & (merged[:, 1] != merged[:, 2]) & (merged[:, 0] != merged[:, 2])]
        if len(kept) <= max(share * len(faces), 60):
            break
    return vertices[first], kept


def _sticks(figure: Figure) -> dict[str, Mesh]:
    """A capsule from each joint to each of its next joints."""
    out: dict[str, list[Mesh]] = {}
    radius = THIN * figure.leg_length
    for j in figure.robot.joints:
        if np.linalg.norm(j.origin[:3]) > radius:
            out.setdefault(j.parent, []).append(capsule(np.zeros(3), j.origin[:3], radius))
    for limb in figure.limbs.values():
        tip = limb.end + 0.25 * (limb.end - limb.bend) if limb.kind == "arm" else None
        if tip is not None:
            ends = (figure.in_link(limb.tip, limb.end), figure.in_link(limb.tip, tip))
            out.setdefault(limb.tip, []).append(capsule(*ends, radius))
    return {name: _joined(meshes) for name, meshes in out.items()}


def shape_mesh(robot: Robot, shape: RobotShape) -> Mesh:
    """Vertices and triangles of a shape in the axes of its link."""
    if shape.kind == "mesh":
        vertices, faces = mesh_of(robot, shape.file)
        vertices = vertices * np.array(shape.size) if len(shape.size) == 3 else vertices
    elif shape.kind == "box":
        x, y, z = np.array(shape.size) / 2
        vertices = np.array([[a * x, b * y, c * z] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], np.float64)
        faces = np.array(
            [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6],
             [0, 6, 4], [1, 5, 7], [1, 7, 3]]
        )  # fmt: skip
        vertices = vertices[faces.reshape(-1)]  # own vertices for each triangle: the edges stay sharp
        faces = np.arange(36).reshape(-1, 3)
    else:
        radius = shape.size[0]
        half = shape.size[1] / 2 if len(shape.size) > 1 else 0.0
        vertices, faces = _revolved(radius, half, shape.kind == "cylinder")
    return (shape.pose[:3] + rot.rotate(shape.pose[3:], vertices), faces) if len(vertices) else (vertices, faces)


def capsule(a: F64, b: F64, radius: float) -> Mesh:
    way = b - a
    length = float(np.linalg.norm(way))
    vertices, faces = _revolved(radius, length / 2, False)
    turn = rot.between(np.array([0.0, 0.0, 1.0]), way) if length > 1e-9 else np.array([1.0, 0, 0, 0])
    return (a + b) / 2 + rot.rotate(turn, vertices), faces


def _revolved(radius: float, half: float, flat: bool) -> Mesh:
    """A capsule, or a cylinder when `flat`, along z."""
    if flat:
        profile = [(0.0, -half), (radius, -half), (radius, -half), (radius, half), (radius, half), (0.0, half)]
    else:
        angles = np.linspace(-np.pi / 2, np.pi / 2, 9)
        profile = [(radius * np.cos(t), radius * np.sin(t) + (half if t > 1e-9 else -half)) for t in angles]
        profile.insert(5, (radius, half))
    around = np.arange(AROUND) * 2 * np.pi / AROUND
    vertices = np.array([[r * np.cos(a), r * np.sin(a), z] for r, z in profile for a in around])
    faces = []
    for i in range(len(profile) - 1):
        for k in range(AROUND):
            a, b = i * AROUND + k, i * AROUND + (k + 1) % AROUND
            faces += [[a, b, b + AROUND], [a, b + AROUND, a + AROUND]]
    return vertices, np.array(faces)


class RobotSkin:
    """Draws a robot at given link poses."""

    def __init__(self, figure: Figure) -> None:
        self.meshes = link_meshes(figure)
        self._normals = {name: _normals(*mesh) for name, mesh in self.meshes.items()}

    def shapes(self, links: dict[str, F64], color: tuple[float, float, float] = ROBOT) -> list[Shape]:
        out = []
        for name, (vertices, faces) in self.meshes.items():
            pose = links[name]
            out.append(
                Shape(
                    pose[:3] + rot.rotate(pose[3:], vertices), rot.rotate(pose[3:], self._normals[name]),
                    faces.astype(np.uint32), color,
                )
            )  # fmt: skip
        return out


def _normals(vertices: F64, faces: NDArray[np.int64]) -> F64:
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    flat = np.cross(b - a, c - a)
    out = np.zeros_like(vertices)
    for i in range(3):
        np.add.at(out, faces[:, i], flat)
    return np.asarray(out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12))


def write_t_pose_picture(figure: Figure, path: Path) -> None:
    """Draw the robot at zero angles beside the avatar in T-pose, both on the floor and facing the camera."""
    skeleton = default_skeleton()
    lowest = min(
        [float(figure.limbs[f"{side} leg"].end[2]) - sole.height for side, sole in figure.soles.items()]
        or [min(float(p[2]) for p in figure.zero.values())]
    )
    base = np.concatenate([[0.0, 1.1, -lowest], figure.front])
    body = film.figure(skeleton, *room_joints(rest_pose(skeleton)), BODY)
    body = Shape(body.vertices - [0, 1.0, 0], body.normals, body.faces, body.color)
    shapes = [body, *RobotSkin(figure).shapes(figure.robot.links({}, base))]
    write_png(path, render(shapes, Camera((6.0, 1.2, 1.6), (0.0, 0.0, 0.85), 0.5), 720, 420))
