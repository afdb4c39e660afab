"""Draw robots with primitive shapes, mesh files, or capsules along the limbs of a robot without geometry."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import Skeleton, default_skeleton
from mm_ros.body.types import F64, AvatarPose, rest_pose
from mm_ros.maths import rotations as rot
from mm_ros.robot.figure import Figure
from mm_ros.robot.follow import RobotState, t_pose_of
from mm_ros.robot.kinematics import LinkPoses
from mm_ros.robot.model import Robot
from mm_ros.robot.model import Shape as RobotShape
from mm_ros.robot.soles import mesh_of
from mm_ros.show import film
from mm_ros.show.render import BODY, Camera, Image, Shape, follow, render, write_gif, write_png

ROBOT = (0.55, 0.57, 0.60)
AROUND = 16
MOST_TRIANGLES = 60_000
FILM_RATE, BESIDE_M = 20.0, 1.1
THIN = 0.045  # radius of the capsules that replace missing geometry, as a share of the leg length

Mesh = tuple[F64, NDArray[np.int64]]


def link_meshes(figure: Figure) -> dict[str, Mesh]:
    """Return the mesh (vertices, triangles) of each link of a robot in the axes of the link. A robot without geometry
    gets capsules between its joints."""
    robot, out, total = figure.robot, {}, 0
    for name, part in robot.parts.items():
        drawn = [s for s in part.shapes if not s.collision] or list(part.shapes)
        meshes = [m for s in drawn if len((m := shape_mesh(robot, s))[1])]
        total += sum(len(f) for _, f in meshes)
        if meshes:
            out[name] = _joined(meshes)
    if total > MOST_TRIANGLES:
        out = {name: _thinned(m, MOST_TRIANGLES / total) for name, m in out.items()}
    shaped = sum(bool(part.shapes) for part in robot.parts.values())
    return out if 2 * len(out) > shaped > 0 else _sticks(figure)  # if half of the meshes are missing, draw capsules


def _joined(meshes: list[Mesh]) -> Mesh:
    counts = np.cumsum([0, *(len(v) for v, _ in meshes)])
    return np.concatenate([v for v, _ in meshes]), np.concatenate(
        [f + n for (_, f), n in zip(meshes, counts, strict=False)]
    )


def _thinned(mesh: Mesh, share: float) -> Mesh:
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
    """Return the mesh (vertices, triangles) of a shape in the axes of its link."""
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
        vertices = vertices[faces.reshape(-1)]  # own vertices for each triangle make the edges of the box sharp
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
    """Return the mesh of a capsule along the z axis, or of a cylinder if `flat` is true."""
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
    """Meshes of the links of a robot, which are drawn at the poses of the links."""

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
    """Draw a picture of the robot in the pose nearest to the T-pose, beside the avatar in the T-pose, both seen from
    the front."""
    skeleton = default_skeleton()
    state = t_pose_of(figure)
    base = np.concatenate([[state.base[0], state.base[1] + 1.1, state.base[2]], state.base[3:]])
    body = film.figure(skeleton, *room_joints(rest_pose(skeleton)), BODY, (0.0, -1.0, 0.0))
    shapes = [body, *RobotSkin(figure).shapes(figure.robot.links(state.by_name(), base))]
    write_png(path, render(shapes, Camera((6.0, 1.2, 1.6), (0.0, 0.0, 0.85), 0.5), 720, 420))


def write_film(
    path: Path, figure: Figure, skeleton: Skeleton, poses: Sequence[AvatarPose], states: Sequence[RobotState],
    progress: Callable[..., None] | None = None, rate: float = 60.0,
) -> int:  # fmt: skip
    """Write a film (.mp4, .gif) of avatar and robot, or a picture (.png) of the middle frame, and return the number of
    pictures. `poses` and `states` have `rate` frames per second."""
    skin, place = RobotSkin(figure), LinkPoses(figure.robot)
    step = max(round(rate / FILM_RATE), 1)
    chosen = list(range(0, len(poses), step)) if path.suffix != ".png" else [len(poses) // 2]
    start = poses[0].root[:2] - states[0].base[:2]
    shift = np.array([start[0], start[1] + BESIDE_M, 0.0])
    pictures = []
    for n, i in enumerate(chosen):
        root, base = poses[i].root, states[i].base
        # In the film, the robot starts beside the avatar, and the distance between both changes, because the robot's
        # path is scaled by the length of its legs.
        beside = np.concatenate([base[:3] + shift, base[3:]])
        middle = (root[:2] + beside[:2]) / 2
        apart = float(np.linalg.norm(root[:2] - beside[:2]))
        shapes = [film.figure(skeleton, *room_joints(poses[i]), BODY)]
        shapes += skin.shapes(place(states[i].by_name(), beside))
        camera = follow(float(middle[0]), float(middle[1]), 3.4 + apart, -0.7, 1.3)
        pictures.append(render(shapes, camera, 560, 420))
        if progress is not None:
            progress("drawing", n + 1, len(chosen))
    if path.suffix == ".gif":
        write_gif(path, pictures, rate / step)
    elif path.suffix == ".png":
        write_png(path, pictures[0])
    else:
        _write_mp4(path, pictures, rate / step)
    return len(pictures)


def check_film(path: Path) -> None:
    """Raise MmRosError if a film in the format of `path` cannot be written on this machine, before poses are computed.
    """
    if path.suffix.lower() == ".mp4" and find_spec("cv2") is None:
        raise MmRosError(f"a .mp4 film needs OpenCV. Install it: {setup_command('webcam')}; or name a .gif")


def _write_mp4(path: Path, pictures: Sequence[Image], rate: float) -> None:
    import cv2

    height, width = pictures[0].shape[:2]
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        temporary = Path(folder) / "film.mp4"
        writer = cv2.VideoWriter(str(temporary), cv2.VideoWriter_fourcc(*"mp4v"), rate, (width, height))
        for picture in pictures:
            writer.write(np.ascontiguousarray(picture[:, :, ::-1]))
        writer.release()
        temporary.replace(path)
