"""Turn the hips of the played motion so that the body faces the desired direction.

The root turns only with the steps, because otherwise the feet would slide; the remaining angle to the desired direction
is turned between hips and legs, while the feet stay in place.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mm_ros.body.kinematics import ARM_STRIDE, LEG_STRIDE
from mm_ros.body.skeleton import (
    CHEST,
    HIPS,
    LEFT_SHOULDER,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    SPINE,
    UPPER_CHEST,
)
from mm_ros.body.types import F32, F64
from mm_ros.matching import fitted
from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Vec
from mm_ros.maths.springs import spring

# The hips turn fully toward the desired facing if the horizontal part of the body's left axis (length 1) exceeds
# `LEVEL`, and not at all below `STEEP`, because an almost vertical axis does not determine the facing.
STEEP, LEVEL = 0.3, 0.7


class BodyFacing:
    """Turn the avatar's hips toward the desired facing, and store the present turn of the hips and its rate."""

    def __init__(self) -> None:
        self._state = np.zeros(2)
        self._fresh = True

    def reset(self) -> None:
        self._fresh = True

    def turn(
        self, positions: F32, rotations: F32, angular: F32, root_yaw: float, desired_yaw: float, limit: float, dt: float
    ) -> None:
        """Turn the hips of a pose in place toward the desired facing by at most `limit` [rad]."""
        turn_hips(positions, rotations, angular, self._state, root_yaw, desired_yaw, limit, dt, self._fresh)
        self._fresh = False


@njit
def turn_hips(
    positions: F32, rotations: F32, angular: F32, state: F64, root_yaw: float, desired_yaw: float, limit: float,
    dt: float, fresh: bool,
) -> None:  # fmt: skip
    left = left_of_body(positions, rotations)
    flat = math.hypot(left[0], left[1])
    u = min(max((flat - STEEP) / (LEVEL - STEEP), 0.0), 1.0)
    lacking = quat.wrap(desired_yaw - root_yaw - math.atan2(-left[0], left[1]))
    goal = u * u * (3.0 - 2.0 * u) * min(max(lacking, -limit), limit)
    if fresh:
        state[0], state[1] = goal, 0.0
    elif dt > 0.0:
        state[0], state[1] = spring(state[0], state[1], goal, fitted.TURN_HALFLIFE_S, dt)
    q, hips = quat.from_yaw(state[0]), quat.get4(rotations, HIPS)
    turned = quat.mul(q, hips)
    quat.put4(rotations, HIPS, quat.normalize(turned))
    rate = quat.rotate(q, quat.get3(angular, HIPS))
    quat.put3(angular, HIPS, (rate[0], rate[1], rate[2] + state[1]))
    # The legs turn back by the angle of the hips, so that the feet step as in the played motion.
    back, back_rate = quat.inv_mul(turned, hips), quat.unrotate(hips, (0.0, 0.0, -state[1]))
    for leg in (LEFT_UPPER_LEG, LEFT_UPPER_LEG + LEG_STRIDE):
        quat.put4(rotations, leg, quat.normalize(quat.mul(back, quat.get4(rotations, leg))))
        quat.put3(angular, leg, quat.add(quat.rotate(back, quat.get3(angular, leg)), back_rate))


@njit
def left_of_body(positions: Any, rotations: Any) -> Vec:
    """Return the mean of two unit vectors in root axes, from the right to the left hip and from the right to the left
    shoulder, like the function `facing_of_body`."""
    right_leg = LEFT_UPPER_LEG + LEG_STRIDE
    hips = quat.sub(quat.get3(positions, LEFT_UPPER_LEG), quat.get3(positions, right_leg))
    arms = quat.sub(_arm(positions, rotations, 0), _arm(positions, rotations, ARM_STRIDE))
    for j in (UPPER_CHEST, CHEST, SPINE):
        arms = quat.rotate(quat.get4(rotations, j), arms)
    both = quat.add(quat.unit(hips, (0.0, 1.0, 0.0)), quat.unit(arms, (0.0, 1.0, 0.0)))
    return quat.rotate(quat.get4(rotations, HIPS), quat.scale(both, 0.5))


@njit
def _arm(positions: Any, rotations: Any, stride: int) -> Vec:
    """Return the position of the left or right upper-arm joint in the axes of the upper chest."""
    shoulder = LEFT_SHOULDER + stride
    upper_arm = quat.rotate(quat.get4(rotations, shoulder), quat.get3(positions, LEFT_UPPER_ARM + stride))
    return quat.add(quat.get3(positions, shoulder), upper_arm)
