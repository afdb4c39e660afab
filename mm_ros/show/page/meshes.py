"""Make meshes of headset, controllers and body trackers from tapered capsules."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.shape import Bone
from mm_ros.maths import rotations as rot

Mesh = tuple[NDArray[np.float32], NDArray[np.uint32]]

SIDES, CAP_RINGS = 16, 5


def capsule(bone: Bone) -> Mesh:
    """Return the mesh of a tapered capsule: a part of a cone with a half sphere at each end."""
    way = bone.end - bone.start
    length = float(np.linalg.norm(way))
    tilt = np.arcsin(np.clip((bone.radius_start - bone.radius_end) / max(length, 1e-6), -0.9, 0.9))
    low = np.linspace(-np.pi / 2, tilt, CAP_RINGS)
    high = np.linspace(tilt, np.pi / 2, CAP_RINGS)
    heights = np.concatenate([bone.radius_start * np.sin(low), length + bone.radius_end * np.sin(high)])
    radii = np.concatenate([bone.radius_start * np.cos(low), bone.radius_end * np.cos(high)])
    around = np.linspace(0, 2 * np.pi, SIDES, endpoint=False)
    ring = np.stack([np.cos(around), np.sin(around), np.zeros(SIDES)], -1)
    points = radii[:, None, None] * ring + heights[:, None, None] * np.array([0.0, 0.0, 1.0])
    turn = rot.between(np.array([0.0, 0.0, 1.0]), way if length > 1e-6 else np.array([0.0, 0.0, 1.0]))
    vertices = bone.start + rot.rotate(turn, points.reshape(-1, 3))
    return vertices.astype(np.float32), _tube_faces(len(heights))


def _tube_faces(rings: int) -> NDArray[np.uint32]:
    i, j = np.meshgrid(np.arange(rings - 1), np.arange(SIDES), indexing="ij")
    a, b = i * SIDES + j, i * SIDES + (j + 1) % SIDES
    c, d = a + SIDES, b + SIDES
    return np.concatenate([np.stack([a, b, d], -1).reshape(-1, 3), np.stack([a, d, c], -1).reshape(-1, 3)]).astype(
        np.uint32
    )


def joined(meshes: list[Mesh]) -> Mesh:
    shift, vertices, faces = 0, [], []
    for v, f in meshes:
        vertices.append(v)
        faces.append(f + shift)
        shift += len(v)
    return np.concatenate(vertices), np.concatenate(faces).astype(np.uint32)


def _straight(start: tuple[float, float, float], end: tuple[float, float, float], r0: float, r1: float) -> Mesh:
    return capsule(Bone(0, np.array(start), np.array(end), r0, r1))


def headset() -> Mesh:
    """Return the mesh of a headset with visor and strap; the x axis of the mesh points forward."""
    visor = [_straight((x, -0.07, 0.0), (x, 0.07, 0.0), 0.045, 0.045) for x in (0.0, -0.03)]
    return joined([*visor, _straight((-0.03, 0.09, 0.0), (-0.17, 0.085, 0.01), 0.012, 0.012),
                   _straight((-0.03, -0.09, 0.0), (-0.17, -0.085, 0.01), 0.012, 0.012)])  # fmt: skip


def controller(side: float) -> Mesh:
    """Return the mesh of a VR controller with grip and ring, of the left one if `side` is +1, of the right one if
    −1."""
    grip = _straight((-0.05, 0.0, -0.0), (0.05, 0.0, 0.0), 0.018, 0.02)
    around = np.linspace(0, 2 * np.pi, 12)
    ring = [
        _straight(
            (0.06 + 0.045 * np.cos(a), 0.02 * side, 0.045 * np.sin(a)),
            (0.06 + 0.045 * np.cos(b), 0.02 * side, 0.045 * np.sin(b)), 0.006, 0.006,
        )
        for a, b in pairwise(around)
    ]  # fmt: skip
    return joined([grip, *ring])


def puck() -> Mesh:
    return _straight((0.0, 0.0, -0.01), (0.0, 0.0, 0.012), 0.035, 0.03)
