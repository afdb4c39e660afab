"""Poses of an avatar's joints relative to their parents and in the room, in arrays that are allocated once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.skeleton import (
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    LEFT_SHOULDER,
    RIGHT_HAND,
    RIGHT_LOWER_LEG,
    Skeleton,
    default_skeleton,
)
from mm_ros.body.types import F64
from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Row

ARM_STRIDE = RIGHT_HAND - LEFT_HAND  # index of a joint of the right arm minus index of the same joint of the left arm
LEG_STRIDE = RIGHT_LOWER_LEG - LEFT_LOWER_LEG


class Body(NamedTuple):
    """Arrays of the joint poses of one avatar. Local poses are relative to the parent joint; row 0 is the root in the
    room."""

    parents: NDArray[np.int32]
    positions: F64  # (J, 3) local
    rotations: F64  # (J, 4) local
    room_positions: F64  # (J, 3)
    room_rotations: F64  # (J, 4)


def make_body(skeleton: Skeleton | None = None) -> Body:
    """Allocate the joint arrays for a skeleton, or for the canonical joints if `skeleton` is None."""
    parents = (skeleton or default_skeleton()).parents.copy()
    q = np.zeros((len(parents), 4))
    q[:, 0] = 1.0
    return Body(parents, np.zeros((len(q), 3)), q, np.zeros((len(q), 3)), q.copy())


def limb_lengths(skeleton: Skeleton) -> F64:
    """Return the lengths of upper arm, lower arm, thigh and shin of both sides, (2, 4) [m]."""
    o = skeleton.offsets.astype(np.float64)
    out = np.zeros((2, 4))
    for side in range(2):
        out[side, 0] = np.linalg.norm(o[LEFT_LOWER_ARM + side * ARM_STRIDE])
        out[side, 1] = np.linalg.norm(o[LEFT_HAND + side * ARM_STRIDE])
        out[side, 2] = np.linalg.norm(o[LEFT_LOWER_LEG + side * LEG_STRIDE])
        out[side, 3] = np.linalg.norm(o[LEFT_FOOT + side * LEG_STRIDE])
    return out


@njit
def update_room(body: Any, first: int, stop: int) -> None:
    """Compute the room poses of the joints from `first` to `stop` − 1 from the poses of their parents and their local
    poses."""
    for j in range(first, stop):
        k = body.parents[j]
        if k < 0:
            quat.put3(body.room_positions, j, quat.get3(body.positions, j))
            quat.put4(body.room_rotations, j, quat.get4(body.rotations, j))
            continue
        q = quat.get4(body.room_rotations, k)
        p = quat.add(quat.get3(body.room_positions, k), quat.rotate(q, quat.get3(body.positions, j)))
        quat.put3(body.room_positions, j, p)
        quat.put4(body.room_rotations, j, quat.mul(q, quat.get4(body.rotations, j)))


@njit
def update_limbs(body: Any) -> None:
    """Compute the room poses of the joints of arms and legs, and of all joints after the canonical joints."""
    update_room(body, LEFT_SHOULDER, len(body.parents))


@njit
def turn_joint(body: Any, j: int, room_rotation: Row) -> None:
    """Set the rotation of joint j in the room. The rotation of the joint's parent in the room must be up to date. The
    room poses of the joint's children do not change before a call of `update_room`."""
    k = body.parents[j]
    local = quat.normalize(quat.inv_mul(quat.get4(body.room_rotations, k), room_rotation))
    quat.put4(body.rotations, j, local)
    quat.put4(body.room_rotations, j, room_rotation)
