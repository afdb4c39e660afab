"""Poses of the avatar's joints in the room, and tapered capsules that draw bones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import Skeleton, default_skeleton
from mm_ros.body.types import F64, AvatarPose
from mm_ros.maths import quat


@dataclass(frozen=True)
class Bone:
    """Tapered capsule from `start` to `end`, in the axes of its joint [m]."""

    joint: int
    start: F64
    end: F64
    radius_start: float
    radius_end: float


_CANONICAL = default_skeleton().parents


def room_joints(pose: AvatarPose, skeleton: Skeleton | None = None) -> tuple[F64, F64]:
    """Return positions (J, 3) and rotations (J, 4) of the joints of a pose in the room. If `skeleton` is None, only the
    canonical joints are returned."""
    parents = _CANONICAL if skeleton is None else skeleton.parents
    if len(pose.positions) < len(parents):
        raise MmRosError(f"the pose has {len(pose.positions)} joints; expected the {len(parents)} of its skeleton")
    p, q = np.empty((len(parents), 3)), np.empty((len(parents), 4))
    p[0], q[0] = pose.root[:3], pose.root[3:]
    quat.forward_kinematics(parents, pose.positions, pose.rotations, p, q)
    return p, q
