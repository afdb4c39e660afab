"""Make films of avatars: poses over time become pictures, with the true body beside the avatar. The films of the demo,
the reports and the docs are made by `film.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mm_ros.body.mesh import skin
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import F64, AvatarPose
from mm_ros.show.render import BODY, GHOST, Camera, Image, Shape, follow, render

BESIDE_M = 1.1  # distance [m] between two neighbouring bodies in a film


@dataclass(frozen=True)
class Actor:
    """Body in a film: one pose for each picture, or None for pictures that do not show the body."""

    skeleton: Skeleton
    poses: Sequence[AvatarPose | None]
    color: tuple[float, float, float] = BODY


def film(
    actors: Sequence[Actor],
    width: int = 400,
    height: int = 360,
    bearing: float = -1.1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Image]:
    """Draw the bodies `actors` side by side; the camera smoothly follows the body `actors[0]`."""
    paths = np.array([_floor(actor) for actor in actors])
    target = _smoothed(paths[0])
    side = np.array([-np.sin(bearing), np.cos(bearing), 0.0])
    out = []
    for i in range(len(target)):
        middle = target[i] + side[:2] * BESIDE_M * (len(actors) - 1) / 2
        there = [(k * BESIDE_M * side, actor, actor.poses[i]) for k, actor in enumerate(actors)]
        shapes = [
            figure(actor.skeleton, *room_joints(pose, actor.skeleton), actor.color, shift)
            for shift, actor, pose in there
            if pose
        ]
        out.append(render(shapes, _camera(middle, len(actors), bearing), width, height))
        if progress:
            progress(i + 1, len(target))
    return out


def figure(
    skeleton: Skeleton,
    positions: F64,
    rotations: F64,
    color: tuple[float, float, float] = BODY,
    shift: F64 | tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Shape:
    """Return the mesh of a body, for `render`, from the positions and rotations of its joints in the world."""
    mesh = skin(skeleton if len(positions) == len(skeleton) else skeleton.canonical)
    vertices, normals = mesh.posed(positions, rotations)
    return Shape(vertices + np.asarray(shift), normals, mesh.faces, color)


def _camera(at: F64, actors: int, bearing: float) -> Camera:
    return follow(float(at[0]), float(at[1]), 3.6 + 0.5 * (actors - 1), bearing, 1.4)


def _floor(actor: Actor) -> F64:
    out = np.full((len(actor.poses), 2), np.nan)
    for i, pose in enumerate(actor.poses):
        if pose is not None:
            out[i] = pose.root[:2]
    known = np.flatnonzero(np.isfinite(out[:, 0]))
    if not len(known):
        return np.zeros_like(out)
    return np.stack([np.interp(np.arange(len(out)), known, out[known, k]) for k in range(2)], -1)


def _smoothed(path: F64, half: int = 6) -> F64:
    padded = np.pad(path, ((half, half), (0, 0)), mode="edge")
    window = np.hanning(2 * half + 1)
    window /= window.sum()
    return np.stack([np.convolve(padded[:, k], window, mode="valid") for k in range(2)], -1)


__all__ = ["BODY", "GHOST", "Actor", "figure", "film"]
