"""Convert the avatar to the body model SMPL with rotations of 21 joints and positions of 24 points, and limit the speed
of the rotations."""

from __future__ import annotations

import math

import numpy as np

from mm_ros.body.skeleton import (  # fmt: skip
    CHEST,
    HEAD,
    HIPS,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    LEFT_SHOULDER,
    LEFT_TOES,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    NECK,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_LOWER_ARM,
    RIGHT_LOWER_LEG,
    RIGHT_SHOULDER,
    RIGHT_TOES,
    RIGHT_UPPER_ARM,
    RIGHT_UPPER_LEG,
    SPINE,
    UPPER_CHEST,
    Skeleton,
)
from mm_ros.body.types import F64, AvatarPose
from mm_ros.maths import rotations as rot
from mm_ros.robot.guard import Command, GuardSettings, Limiter

# Joints of the avatar in the order of the body model SMPL, whose last two points, the ends of the hands, are left out.
SMPL = (
    HIPS, LEFT_UPPER_LEG, RIGHT_UPPER_LEG, SPINE, LEFT_LOWER_LEG, RIGHT_LOWER_LEG, CHEST, LEFT_FOOT, RIGHT_FOOT,
    UPPER_CHEST, LEFT_TOES, RIGHT_TOES, NECK, LEFT_SHOULDER, RIGHT_SHOULDER, HEAD, LEFT_UPPER_ARM, RIGHT_UPPER_ARM,
    LEFT_LOWER_ARM, RIGHT_LOWER_ARM, LEFT_HAND, RIGHT_HAND,
)  # fmt: skip
HAND_M = 0.08  # distance from the wrist to the end of the hand in the body model SMPL [m]
ARM_DOWN_RAD = math.radians(75)  # angle of the upper arms below the horizontal in the start pose of the SMPL body
SMPL_AXES = [1, 2, 0]  # The axes of SMPL are x left, y up, z forward; those of the avatar x forward, y left, z up.


def rotation_vectors(pose: AvatarPose) -> F64:
    """Return the rotation vectors (21, 3) of all joints of SMPL except the pelvis, in the axes of the avatar [rad]."""
    return np.asarray(rot.log(pose.rotations[list(SMPL[1:])].astype(np.float64)))


def standing() -> F64:
    """Return the rotation vectors (21, 3) of a body that stands upright with hanging arms, in the axes of the avatar
    [rad]."""
    out = np.zeros((21, 3))
    out[SMPL.index(LEFT_UPPER_ARM) - 1, 0] = -ARM_DOWN_RAD
    out[SMPL.index(RIGHT_UPPER_ARM) - 1, 0] = ARM_DOWN_RAD
    return out


def smpl_pose(vectors: F64) -> F64:
    """Convert rotation vectors (…, 21, 3) from the axes of the avatar to the axes of SMPL."""
    return np.asarray(vectors[..., SMPL_AXES])


def smpl_points(vectors: F64, skeleton: Skeleton) -> F64:
    """Return the positions (N, 24, 3) of the points of SMPL relative to the pelvis [m], in the axes of the pelvis: x
    forward, y to the left, z up."""
    n = len(vectors)
    positions = np.tile(skeleton.offsets.astype(np.float64), (n, 1, 1))
    positions[:, : HIPS + 1] = 0.0
    rotations = np.zeros((n, len(skeleton), 4))
    rotations[..., 0] = 1.0
    rotations[:, list(SMPL[1:])] = rot.exp(vectors)
    p, q = skeleton.kinematics(positions, rotations)
    hands = [
        p[:, j] + rot.rotate(q[:, j], np.tile([0.0, y, 0.0], (n, 1)))
        for j, y in ((LEFT_HAND, HAND_M), (RIGHT_HAND, -HAND_M))
    ]
    return np.concatenate([p[:, list(SMPL)], np.stack(hands, axis=1)], axis=1)


class BodyGuard:
    """Guard of the SMPL body: starts the body from a standing pose, limits its speed and acceleration, and stops it
    when the commands of the robot stop."""

    def __init__(self, settings: GuardSettings) -> None:
        self.settings = settings
        farthest = np.full(63, 2 * math.pi)
        self._moved = Limiter(standing().reshape(-1), -farthest, farthest)
        self._from, self._ran = self._moved.x, False

    def step(self, body: F64, command: Command) -> tuple[F64, F64]:
        """Return the limited rotation vectors (21, 3) of the SMPL body and their rates, to be sent with the robot
        command `command`."""
        s, dt = self.settings, 1 / self.settings.rate
        if command.runs:
            if not self._ran:
                self._from = self._moved.x
            target = _nearest(body, self._moved.x.reshape(-1, 3)).reshape(-1)
            wanted = self._from + command.share * (target - self._from)
            self._moved.track(wanted, np.zeros(63), s.command_speed, s.command_acceleration, dt)
        else:
            self._moved.brake(s.command_acceleration, dt)
        self._ran = command.runs
        return self._moved.x.reshape(21, 3), self._moved.v.reshape(21, 3)


def _nearest(vectors: F64, to: F64) -> F64:
    """Return equivalent rotation vectors that are nearest to the vectors `to`; they may be longer than π rad."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    other = vectors * (1 - 2 * math.pi / np.maximum(length, 1e-9))
    nearer = np.linalg.norm(other - to, axis=1, keepdims=True) < np.linalg.norm(vectors - to, axis=1, keepdims=True)
    return np.asarray(np.where(nearer & (length > 1.0), other, vectors))
