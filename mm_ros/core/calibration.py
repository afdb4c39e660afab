"""From a user's measures to what the stages need: height of the head joint, scale of the avatar."""

from __future__ import annotations

import numpy as np

from mm_ros.core.errors import MmRosError
from mm_ros.core.skeleton import HEAD, Skeleton
from mm_ros.core.types import F64, Calibration

HEADSET_IN_HEAD: tuple[float, float, float] = (0.10, 0.0, 0.08)  # m, head axes: x forward, z up
CONTROLLER_ALONG_HAND = 0.08  # m, wrist to grip


def head_joint_height(calibration: Calibration) -> float:
    """Height of the head joint standing upright, m."""
    return float(calibration.head_height - calibration.headset_in_head[2])


def avatar_scale(calibration: Calibration, skeleton: Skeleton) -> float:
    """User over skeleton: 1.1 means that the user is larger."""
    return head_joint_height(calibration) / skeleton.head_height


def standing_headset_height(skeleton: Skeleton) -> float:
    """Height at which a person of these bones carries the headset, standing upright, m."""
    return float(skeleton.rest_positions()[HEAD, 2]) + HEADSET_IN_HEAD[2]


def from_standing_height(
    head_height: float, user: str = "default", calibrated: bool = True, arm_span: float = 0.0
) -> Calibration:
    """`head_height`: of the headset above the floor, standing upright."""
    if not 0.8 <= head_height <= 2.3:
        raise MmRosError(
            f"standing height of the headset: came {head_height:.2f} m, expected 0.8 to 2.3 m. "
            "Is the floor set right, and did the user stand upright?"
        )
    return Calibration(
        user=user, calibrated=calibrated, head_height=float(head_height), arm_span=float(arm_span)
    )


def from_skeleton(skeleton: Skeleton, user: str = "default") -> Calibration:
    """The calibration that a user of these very bones would get."""
    return from_standing_height(standing_headset_height(skeleton), user)


def offset_pose(position: tuple[float, float, float]) -> F64:
    return np.array([*position, 1.0, 0.0, 0.0, 0.0])
