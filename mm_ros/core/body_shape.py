"""The avatar's visible body: one tapered capsule a bone. For RViz's URDF, the viewer, and pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mm_ros.core import quat
from mm_ros.core.skeleton import DEFAULT_TIPS, NAMES, PARENTS, Skeleton, default_skeleton
from mm_ros.core.types import F64, AvatarPose

# Radius at the joint and at the bone's end, metres, of a person of 1.75 m.
_RADII = {
    "hips": (0.115, 0.115), "spine": (0.11, 0.115), "chest": (0.12, 0.125), "upper_chest": (0.115, 0.06),
    "neck": (0.055, 0.05), "head": (0.08, 0.1),
    "shoulder": (0.06, 0.06), "upper_arm": (0.052, 0.042), "lower_arm": (0.04, 0.03), "hand": (0.035, 0.022),
    "upper_leg": (0.085, 0.06), "lower_leg": (0.056, 0.04), "foot": (0.042, 0.04), "toes": (0.04, 0.028),
}  # fmt: skip
SHORTEST_M = 0.001  # bones that are shorter have no capsule: some skeletons have joints in the same place
# Where a bone leads when a joint has several children.
_TRUNK = {"hips": "spine", "upper_chest": "neck"}


@dataclass(frozen=True)
class Bone:
    """A capsule in its joint's axes, from `start` to `end`."""

    joint: int
    start: F64
    end: F64
    radius_start: float
    radius_end: float

    @property
    def name(self) -> str:
        return NAMES[self.joint]


def bones(skeleton: Skeleton) -> tuple[Bone, ...]:
    """All bones that can be seen, the pelvis across the hip joints and the width of the chest included."""
    scale = skeleton.head_height / default_skeleton().head_height
    out = [_bone(skeleton, j, scale) for j in range(1, len(NAMES))]
    for parent, left, right, radius in (
        ("hips", "left_upper_leg", "right_upper_leg", 0.1),
        ("upper_chest", "left_shoulder", "right_shoulder", 0.1),
    ):
        ends = [np.asarray(skeleton.offsets[NAMES.index(n)], np.float64) for n in (left, right)]
        reach = 1.0 if parent == "hips" else 2.2  # the chest is wider than the collar bones' roots
        middle = (ends[0] + ends[1]) / 2
        ends = [middle + reach * (e - middle) for e in ends]
        out.append(Bone(NAMES.index(parent), ends[0], ends[1], radius * scale, radius * scale))
    return tuple(b for b in out if np.linalg.norm(b.end - b.start) >= SHORTEST_M)


def _bone(skeleton: Skeleton, j: int, scale: float) -> Bone:
    name = NAMES[j]
    children = [k for k in range(len(NAMES)) if PARENTS[k] == j]
    if name in _TRUNK:
        children = [NAMES.index(_TRUNK[name])]
    end = np.asarray(skeleton.offsets[children[0]] if children else np.array(DEFAULT_TIPS[name]) * scale, np.float64)
    first, last = _RADII[name.removeprefix("left_").removeprefix("right_")]
    start = np.zeros(3)
    if name == "head":  # a skull, not a pole
        start, end = np.array([0.02, 0.0, 0.05]) * scale, np.array([0.025, 0.0, 0.11]) * scale
    return Bone(j, start, end, first * scale, last * scale)


def room_joints(pose: AvatarPose) -> tuple[F64, F64]:
    """Positions (J, 3) and rotations (J, 4) of the joints in the room."""
    p, q = np.empty(pose.positions.shape), np.empty(pose.rotations.shape)
    p[0], q[0] = pose.root[:3], pose.root[3:]
    quat.forward_kinematics(PARENTS, pose.positions, pose.rotations, p, q)
    return p, q
