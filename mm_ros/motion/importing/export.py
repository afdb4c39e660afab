"""Export canonical clips as BVH files with the joint names, axes, unit and channel order of another software."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HIPS, NAMES, TIPS, Skeleton
from mm_ros.maths import rotations as rot
from mm_ros.motion.bvh.reader import CHANNELS, Bvh
from mm_ros.motion.importing.evidence import AXES, room_from_axis

Array = Any


@dataclass(frozen=True)
class Dialect:
    """Conventions of a software that writes BVH files.

    Joints that are not in `names` are left out, and their children become children of the next joint above.
    """

    names: Mapping[str, str] = field(default_factory=lambda: {n: n for n in NAMES[1:]})
    up: str = "Y+"
    unit_to_m: float = 0.01
    order: str = "ZYX"  # order of the rotation channels of each joint
    joint_axes: Mapping[str, Array] = field(default_factory=dict)  # maps a joint to its rotation (4,) in the T-pose
    extra_root: str = ""  # name of an additional joint above the hips that does not move; may be empty
    positions_everywhere: bool = False  # whether all joints have position channels, instead of only the hips
    offset_repeats_frame_0: bool = False  # whether the OFFSET of the hips in the file is their position in frame 0


def to_bvh(clip: Clip, dialect: Dialect | None = None) -> Bvh:
    d = dialect or Dialect()
    p, q = (x.astype(np.float64) for x in clip.globals())
    back = rot.inverse(room_from_axis(AXES.index(d.up)))
    skeleton, canonical = clip.skeleton, clip.skeleton.names
    joints = [j for j in range(1, len(skeleton)) if canonical[j] in d.names]
    joints.sort(key=lambda j: (*reversed(skeleton.ancestors(j)), j))  # parents before children
    above = {j: _above(skeleton, j, joints) for j in joints}
    own = {j: np.asarray(d.joint_axes.get(canonical[j], (1.0, 0, 0, 0)), np.float64) for j in joints}
    g = {
        j: rot.multiply(
            np.broadcast_to(back, q[:, j].shape), rot.multiply(q[:, j], np.broadcast_to(own[j], q[:, j].shape))
        )
        for j in joints
    }
    at = {j: rot.rotate(np.broadcast_to(back, q[:, j].shape), p[:, j]) / d.unit_to_m for j in joints}
    names = ([d.extra_root] if d.extra_root else []) + [d.names[canonical[j]] for j in joints]
    first = 1 if d.extra_root else 0
    index = {j: first + i for i, j in enumerate(joints)}
    parents = [-1] * first + [index[above[j]] if above[j] else first - 1 for j in joints]
    rest = clip.skeleton.rest_positions().astype(np.float64)
    offsets, columns, channels = [np.zeros(3)] * first, [], []
    if d.extra_root:
        channels.append((0, 1, 2, *_rotation_codes(d.order)))
        columns.append(np.zeros((len(clip), 6)))
    for j in joints:
        a = above[j]
        local_q = rot.multiply(rot.inverse(g[a]), g[j]) if a else g[j]
        if a:
            offset = rot.rotate(rot.inverse(own[a]), rest[j] - rest[a]) / d.unit_to_m
            moving = np.broadcast_to(offset, (len(clip), 3))
        else:
            moving = at[j]
            offset = moving[0] if d.offset_repeats_frame_0 else np.zeros(3)
        offsets.append(offset)
        angles = np.degrees(np.unwrap(euler(local_q, d.order), axis=0))
        six = not a or d.positions_everywhere
        channels.append(((0, 1, 2) if six else ()) + _rotation_codes(d.order))
        columns.append(np.concatenate([moving, angles], axis=1) if six else angles)
    leaves = [j for j in joints if j not in above.values() and (canonical[j] in TIPS or j >= len(NAMES))]
    tips = [(index[j], rot.rotate(rot.inverse(own[j]), _tip(skeleton, j)) / d.unit_to_m) for j in leaves]
    return Bvh(
        tuple(names), np.array(parents, np.int64), np.array(offsets), tuple(channels),
        np.array([i for i, _ in tips], np.int64), np.array([t for _, t in tips]).reshape(-1, 3),
        1 / clip.rate, np.concatenate(columns, axis=1).round(6), clip.name,
    )  # fmt: skip


def _above(skeleton: Skeleton, j: int, joints: list[int]) -> int:
    return next((a for a in skeleton.ancestors(j) if a >= HIPS and a in joints), 0)


def _tip(skeleton: Skeleton, j: int) -> Array:
    """Return the end of the bone of the last joint in a chain of joints, in the axes of this joint."""
    return np.asarray(TIPS.get(skeleton.names[j], skeleton.offsets[j]), np.float64)


def _rotation_codes(order: str) -> tuple[int, ...]:
    return tuple(CHANNELS.index(f"{axis}rotation") for axis in order)


def euler(q: Array, order: str) -> Array:
    """Convert quaternions to Euler angles (…, 3) in radians of the rotation R(order[0]) · R(order[1]) · R(order[2])."""
    i, j, k = ("XYZ".index(a) for a in order)
    sign = 1.0 if (j - i) % 3 == 1 else -1.0
    m = rot.to_matrix(q)
    middle = np.arcsin(np.clip(sign * m[..., i, k], -1, 1))
    first = np.arctan2(-sign * m[..., j, k], m[..., k, k])
    last = np.arctan2(-sign * m[..., i, j], m[..., i, i])
    return np.stack([first, middle, last], axis=-1)
