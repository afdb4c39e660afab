"""Converts poses from the axes of OpenXR and OpenVR (x right, y up, z back) to ROS axes (x forward, y left, z up)."""

from __future__ import annotations

import numpy as np

from mm_ros.body.types import F64
from mm_ros.maths.transformations import quaternion_from_matrix


def position(x: float, y: float, z: float) -> tuple[float, float, float]:
    return -z, -x, y


def rotation(x: float, y: float, z: float, w: float) -> tuple[float, float, float, float]:
    """Convert a quaternion (x, y, z, w) in OpenXR axes to a quaternion (w, x, y, z) in ROS axes."""
    return w, -z, -x, y


# rotation matrix from OpenXR axes to ROS axes
_TO_ROOM: F64 = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def from_matrix(m: F64) -> tuple[F64, F64]:
    """Convert the pose matrix (3, 4) of a device in OpenVR axes to position and quaternion (w, x, y, z) in ROS axes."""
    r = _TO_ROOM @ m[:, :3] @ _TO_ROOM.T
    return _TO_ROOM @ m[:, 3], quaternion_from_matrix(r)
