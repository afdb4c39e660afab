"""Skin mesh of an avatar for pictures and the browser: a surface around the T-pose of a skeleton, with joint weights
for each vertex.

The surface encloses tapered capsules, called flesh, with smooth transitions. The method of surface nets extracts the
surface on a grid, so that the skin fits any skeleton. The URDF file for RViz contains the capsules, but no skin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.shape import Bone
from mm_ros.body.skeleton import LEFT_HAND, NAMES, TIPS, Skeleton, default_skeleton
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot

F32 = NDArray[np.float32]
CELL_M = 0.014  # edge length of the grid cells from which the skin surface is extracted
# A joint whose capsules are this distance [m] farther from a vertex of the skin than the capsules of the nearest joint
# has 1/e of the nearest joint's weight.
FOLLOW_M = 0.02
FAR = 1.0  # distance [m] from the skin that is stored for grid points far from all capsules of the body
SMOOTHINGS = 6
FURTHER_RADIUS_M = 0.011  # radius of the capsules of fingers and of other joints after the canonical joints
LAST_BONE = 0.8  # length of the last bone of a finger divided by the length of the bone before it

# Each row of the tables describes a tapered capsule of a person of 1.75 m by its joint, its start, its end, and the
# radii at both ends. Start and end of a capsule are a share of the way from the joint to its child, and metres forward,
# left and up from there. The rows describe the left side of the body, and are mirrored for the right side.
_Row = tuple[str, tuple[float, float, float, float], tuple[float, float, float, float], float, float]
_MITTEN: tuple[_Row, ...] = (  # capsules that draw the fingers of a skeleton without finger joints
    ("left_hand", (0, 0.018, 0.085, 0), (0, 0.012, 0.165, -0.006), 0.017, 0.013),
    ("left_hand", (0, -0.018, 0.085, 0), (0, -0.012, 0.155, -0.006), 0.017, 0.013),
    ("left_hand", (0, 0.03, 0.03, -0.004), (0, 0.056, 0.085, -0.01), 0.017, 0.014),
)
_FLESH: tuple[_Row, ...] = (
    ("hips", (0, -0.008, 0.075, -0.03), (0, -0.008, -0.075, -0.03), 0.09, 0.09),
    ("hips", (0, -0.035, 0.065, -0.07), (0, 0.0, 0.058, 0.06), 0.08, 0.085),
    ("hips", (0, -0.035, -0.065, -0.07), (0, 0.0, -0.058, 0.06), 0.08, 0.085),
    ("spine", (0, 0.002, 0.052, -0.04), (0, 0.004, 0.055, 0.1), 0.086, 0.089),
    ("spine", (0, 0.002, -0.052, -0.04), (0, 0.004, -0.055, 0.1), 0.086, 0.089),
    ("chest", (0, 0.006, 0.056, -0.03), (0, 0.012, 0.068, 0.1), 0.089, 0.096),
    ("chest", (0, 0.006, -0.056, -0.03), (0, 0.012, -0.068, 0.1), 0.089, 0.096),
    ("upper_chest", (0, 0.012, 0.07, -0.03), (0, 0.0, 0.09, 0.07), 0.096, 0.08),
    ("upper_chest", (0, 0.012, -0.07, -0.03), (0, 0.0, -0.09, 0.07), 0.096, 0.08),
    ("upper_chest", (0, -0.012, 0.05, 0.14), (0, -0.012, -0.05, 0.14), 0.052, 0.052),
    ("upper_chest", (0, -0.012, 0.12, 0.105), (0, -0.012, -0.12, 0.105), 0.056, 0.056),
    ("neck", (-0.2, -0.002, 0, 0), (1, -0.004, 0, 0.02), 0.058, 0.052),
    ("head", (0, -0.012, 0, 0.1), (0, 0.028, 0, 0.092), 0.089, 0.082),
    ("head", (0, 0.03, 0, 0.075), (0, 0.047, 0, 0.008), 0.074, 0.046),
    ("left_shoulder", (0.25, 0, 0, 0.0), (0.95, 0, 0, -0.012), 0.054, 0.06),
    ("left_upper_arm", (0.0, 0, 0, -0.01), (0.25, 0, 0, -0.008), 0.061, 0.053),
    ("left_upper_arm", (0.2, 0, 0, -0.004), (1, 0, 0, 0), 0.05, 0.038),
    ("left_lower_arm", (0, 0, 0, 0), (0.3, 0, 0, 0), 0.039, 0.043),
    ("left_lower_arm", (0.3, 0, 0, 0), (1, 0, 0, 0), 0.043, 0.027),
    ("left_hand", (0, 0.018, 0.03, 0), (0, 0.022, 0.085, 0), 0.02, 0.018),
    ("left_hand", (0, -0.018, 0.03, 0), (0, -0.02, 0.085, 0), 0.02, 0.018),
    *_MITTEN,
    ("left_upper_leg", (-0.05, 0, -0.002, 0), (0.45, 0.004, -0.004, 0), 0.09, 0.078),
    ("left_upper_leg", (0.45, 0.004, -0.004, 0), (1, 0, 0, 0.03), 0.078, 0.058),
    ("left_lower_leg", (-0.03, 0.004, 0, 0), (0.1, 0.002, 0, 0), 0.056, 0.053),
    ("left_lower_leg", (0.12, -0.01, 0, 0), (0.42, -0.012, 0, 0), 0.054, 0.052),
    ("left_lower_leg", (0.42, -0.01, 0, 0), (1, 0, 0, 0.01), 0.051, 0.038),
    ("left_foot", (0, -0.035, 0, -0.033), (0, 0.01, 0, 0), 0.036, 0.042),
    ("left_foot", (0, 0.0, 0, 0), (0.75, 0.0, 0, 0.025), 0.042, 0.03),
    ("left_foot", (0, -0.03, 0, -0.034), (1, -0.01, 0.018, 0.02), 0.034, 0.031),
    ("left_foot", (0, -0.03, 0, -0.034), (1, -0.01, -0.014, 0.02), 0.034, 0.031),
    ("left_toes", (0, -0.01, 0.018, 0.018), (0, 0.055, 0.014, 0.011), 0.031, 0.025),
    ("left_toes", (0, -0.01, -0.016, 0.018), (0, 0.042, -0.018, 0.009), 0.031, 0.023),
)


@dataclass(frozen=True)
class Skin:
    """Skin mesh with V vertices in the rest pose, whose root is at the origin. Each vertex follows four joints, whose
    weights sum to one."""

    vertices: F32
    normals: F32
    faces: NDArray[np.uint32]
    joints: NDArray[np.intp]
    weights: F32
    rest: F64  # (J, 3) positions of the joints in the rest pose, in which all rotations are the identity

    def posed(self, positions: F64, rotations: F64) -> tuple[F64, F64]:
        """Return the vertices and normals of the skin in the room, for the positions (J, 3) and rotations (J, 4) of the
        joints in the room."""
        turns = rot.to_matrix(np.asarray(rotations, np.float64))
        moves = np.asarray(positions, np.float64) - np.einsum("jab,jb->ja", turns, self.rest)
        turn = np.einsum("vk,vkab->vab", self.weights, turns[self.joints])
        move = np.einsum("vk,vka->va", self.weights, moves[self.joints])
        return (
            np.einsum("vab,vb->va", turn, self.vertices) + move,
            np.einsum("vab,vb->va", turn, self.normals),
        )

    def dense_weights(self) -> F32:
        """Return the skin weights of all joints for each vertex (V, J)."""
        out = np.zeros((len(self.vertices), len(self.rest)), np.float32)
        np.put_along_axis(out, self.joints, self.weights, axis=1)
        return out


@dataclass(frozen=True)
class _Flesh:

    joints: NDArray[np.intp]
    start: F64
    end: F64
    radii: F64  # (B, 2)

    def distance(self, b: int, points: F64) -> F64:
        """Return the distance of points from the surface of capsule b [m], which is negative inside the capsule."""
        way = self.end[b] - self.start[b]
        t = np.clip((points - self.start[b]) @ way / max(float(way @ way), 1e-12), 0.0, 1.0)
        near: F64 = np.linalg.norm(points - self.start[b] - t[..., None] * way, axis=-1)
        out: F64 = near - (self.radii[b, 0] + t * (self.radii[b, 1] - self.radii[b, 0]))
        return out


_SKINS: dict[int, Skin] = {}


def skin(skeleton: Skeleton) -> Skin:
    """Return the skin mesh of a skeleton. The first call of `skin` for a skeleton takes about 0.3 s."""
    if skeleton.hash not in _SKINS:
        _SKINS[skeleton.hash] = _make(skeleton)
    return _SKINS[skeleton.hash]


def flesh_bones(skeleton: Skeleton) -> tuple[Bone, ...]:
    """Return the tapered capsules under the skin, each in the axes of its joint."""
    flesh, rest = _flesh(skeleton, _scale(skeleton)), np.asarray(skeleton.rest_positions(), np.float64)
    rows = zip(flesh.joints, flesh.start, flesh.end, flesh.radii, strict=True)
    return tuple(Bone(int(j), start - rest[j], end - rest[j], float(r[0]), float(r[1])) for j, start, end, r in rows)


def _scale(skeleton: Skeleton) -> float:
    return float(skeleton.head_height / default_skeleton().head_height)


def _make(skeleton: Skeleton) -> Skin:
    scale = _scale(skeleton)
    flesh = _flesh(skeleton, scale)
    cell = CELL_M * scale
    field, corner = _field(flesh, cell)
    points, faces = _surface_net(field)
    vertices = corner + cell * points
    share = _shares(flesh, skeleton.parents, vertices, FOLLOW_M * scale)
    for _ in range(SMOOTHINGS):  # Taubin smoothing removes ridges of the mesh and keeps its volume.
        for step in (0.5, -0.53):
            vertices = vertices + step * (_mean_of_neighbours(vertices, faces) - vertices)
        share = _mean_of_neighbours(share, faces)
    joints = np.argsort(-share, axis=1)[:, :4]
    weights = np.take_along_axis(share, joints, 1)
    return Skin(
        vertices.astype(np.float32),
        vertex_normals(vertices, faces).astype(np.float32),
        faces,
        joints,
        (weights / weights.sum(1, keepdims=True)).astype(np.float32),
        np.asarray(skeleton.rest_positions(), np.float64),
    )


def vertex_normals(vertices: F64, faces: NDArray[np.uint32]) -> F64:
    """Return the normal of each vertex (V, 3): the mean normal of its triangles, weighted by their area."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    across = np.cross(b - a, c - a)
    total = np.zeros_like(vertices, np.float64)
    for k in range(3):
        for axis in range(3):
            total[:, axis] += np.bincount(faces[:, k], across[:, axis], len(vertices))
    out: F64 = total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    return out


def _mean_of_neighbours(values: F64, faces: NDArray[np.uint32]) -> F64:
    heads, tails = faces[:, [0, 1, 2]].ravel(), faces[:, [1, 2, 0]].ravel()
    count = np.bincount(heads, minlength=len(values))
    columns = [np.bincount(heads, values[tails, k], len(values)) for k in range(values.shape[1])]
    out: F64 = np.stack(columns, -1) / np.maximum(count, 1)[:, None]
    return out


def _flesh(skeleton: Skeleton, scale: float) -> _Flesh:
    rest = np.asarray(skeleton.rest_positions(), np.float64)
    joints, start, end, radii = [], [], [], []
    fingers = bool((skeleton.parents[len(NAMES) :] == LEFT_HAND).any())
    for name, a, b, r0, r1 in (row for row in _FLESH if not (fingers and row in _MITTEN)):
        for side in ("left", "right") if name.startswith("left") else ("",):
            joint = skeleton.index(name.replace("left", side) if side else name)
            way = _way(skeleton, joint, scale)
            mirror = np.array([1.0, -1.0 if side == "right" else 1.0, 1.0]) * scale
            joints.append(joint)
            start.append(rest[joint] + a[0] * way + mirror * a[1:])
            end.append(rest[joint] + b[0] * way + mirror * b[1:])
            radii.append((r0 * scale, r1 * scale))
    for j in range(len(NAMES), len(skeleton)):  # all joints after the canonical joints, for example finger joints
        below = np.flatnonzero(skeleton.parents == j)
        joints.append(j)
        start.append(rest[j])
        end.append(rest[j] + (skeleton.offsets[below[0]] if len(below) else LAST_BONE * skeleton.offsets[j]))
        radii.append((FURTHER_RADIUS_M * scale,) * 2)
    return _Flesh(np.array(joints), np.array(start), np.array(end), np.array(radii))


def _way(skeleton: Skeleton, joint: int, scale: float) -> F64:
    """Return the vector from a joint to its first child, or to the tip of its bone if it has no child [m]."""
    tip = TIPS.get(skeleton.names[joint])
    if tip is not None:
        return np.array(tip) * scale
    return np.asarray(skeleton.offsets[np.flatnonzero(skeleton.parents == joint)[0]], np.float64)


def _field(flesh: _Flesh, cell: float) -> tuple[F64, F64]:
    """Return the distance from the smoothly joined capsules at each point of a grid [m], and the first corner of the
    grid."""
    margin = flesh.radii.max() + 3 * cell
    corner = np.minimum(flesh.start, flesh.end).min(0) - margin
    size = np.ceil((np.maximum(flesh.start, flesh.end).max(0) + margin - corner) / cell).astype(int)
    field = np.full(size, FAR)
    for b in range(len(flesh.joints)):
        blend = float(np.clip(0.55 * flesh.radii[b].min(), 0.006, 0.035))
        reach = flesh.radii[b].max() + blend + 2 * cell
        low = np.floor((np.minimum(flesh.start[b], flesh.end[b]) - reach - corner) / cell).astype(int)
        high = np.ceil((np.maximum(flesh.start[b], flesh.end[b]) + reach - corner) / cell).astype(int) + 1
        low, high = np.maximum(low, 0), np.minimum(high, size)
        block = tuple(slice(x, y) for x, y in zip(low, high, strict=True))
        grid = np.stack(np.meshgrid(*(np.arange(x, y) for x, y in zip(low, high, strict=True)), indexing="ij"), -1)
        own, there = flesh.distance(b, corner + cell * grid), field[block]
        overlap = np.maximum(blend - np.abs(own - there), 0.0)
        field[block] = np.minimum(own, there) - overlap**2 / (4 * blend)
    return field, corner


def _surface_net(field: F64) -> tuple[F64, NDArray[np.uint32]]:
    """Return the vertices (V, 3) of the surface in units of grid cells, and its faces. Each grid cell that the surface
    crosses gets one vertex, the mean of the points at which the surface crosses the cell's edges."""
    inside = field < 0
    size = np.array(field.shape) - 1
    total, count = np.zeros((*size, 3)), np.zeros(size, int)
    for axis in range(3):
        head, tail = [slice(None)] * 3, [slice(None)] * 3
        head[axis], tail[axis] = slice(0, -1), slice(1, None)
        a, b = field[tuple(head)], field[tuple(tail)]
        at = np.argwhere(inside[tuple(head)] != inside[tuple(tail)])
        point = at.astype(np.float64)
        va, vb = a[tuple(at.T)], b[tuple(at.T)]
        point[:, axis] += va / (va - vb)
        others = [k for k in range(3) if k != axis]
        for step in ((0, 0), (0, 1), (1, 0), (1, 1)):  # offsets of the four grid cells that share one edge of the grid
            cell = at.copy()
            cell[:, others] -= step
            kept = ((cell >= 0) & (cell < size)).all(1)
            np.add.at(total, tuple(cell[kept].T), point[kept])
            np.add.at(count, tuple(cell[kept].T), 1)
    number = np.full(size, -1)
    crossed = count > 0
    number[crossed] = np.arange(crossed.sum())
    return total[crossed] / count[crossed][:, None], _quads(inside, number)


def _quads(inside: NDArray[np.bool_], number: NDArray[np.intp]) -> NDArray[np.uint32]:
    """Return two triangles around each grid edge that the surface crosses. The vertices of each triangle are
    counter-clockwise, seen from outside."""
    out = []
    for axis in range(3):
        head, tail = [slice(None)] * 3, [slice(None)] * 3
        head[axis], tail[axis] = slice(0, -1), slice(1, None)
        first = inside[tuple(head)]
        at = np.argwhere(first != inside[tuple(tail)])
        u, v = np.eye(3, dtype=int)[(axis + 1) % 3], np.eye(3, dtype=int)[(axis + 2) % 3]
        corners = np.stack([number[tuple((at - s).T)] for s in (u + v, v, 0 * u, u)], -1)
        outward = first[tuple(at.T)]
        corners[~outward] = corners[~outward][:, ::-1]
        out += [corners[:, [0, 1, 2]], corners[:, [0, 2, 3]]]
    return np.concatenate(out).astype(np.uint32)


def _shares(flesh: _Flesh, parents: NDArray[np.int32], vertices: F64, follow: float) -> F64:
    """Return the skin weights (V, J): for each vertex, the weights of the nearest joint, its parent and its children,
    by the distance of their capsules."""
    away = np.full((len(vertices), len(parents)), np.inf)
    for b, joint in enumerate(flesh.joints):
        away[:, joint] = np.minimum(away[:, joint], flesh.distance(b, vertices))
    near = np.eye(len(parents), dtype=bool)
    for j, parent in enumerate(parents):
        if parent > 0:
            near[j, parent] = near[parent, j] = True
    share: F64 = np.where(near[away.argmin(1)], np.exp(-(away - away.min(1, keepdims=True)) / follow), 0.0)
    share /= share.sum(1, keepdims=True)
    return share
