"""Room poses of the avatar's joints, and the tapered capsule that draws a bone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mm_ros.body.skeleton import PARENTS
from mm_ros.body.types import F64, AvatarPose
from mm_ros.maths import quat


@dataclass(frozen=True)
class Bone:
    """A tapered capsule in its joint's axes, from `start` to `end` [m]."""

    joint: int
    start: F64
    end: F64
    radius_start: float
    radius_end: float


def room_joints(pose: AvatarPose) -> tuple[F64, F64]:
    """Positions (J, 3) and rotations (J, 4) of the joints in the room."""
    p, q = np.empty(pose.positions.shape), np.empty(pose.rotations.shape)
    p[0], q[0] = pose.root[:3], pose.root[3:]
    quat.forward_kinematics(PARENTS, pose.positions, pose.rotations, p, q)
    return p, q
