"""Conversion between quaternions (w, x, y, z) and matrices or URDF angles, by the ROS package `tf_transformations`.

pip cannot install `tf_transformations`. If the package `tf_transformations` is missing, the package `transforms3d` is
called directly, which gives the same numbers because `tf_transformations` also calls `transforms3d`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from transforms3d import euler, quaternions

F64 = NDArray[np.float64]

try:
    import tf_transformations
except ImportError:
    tf_transformations = None

URDF_AXES = "sxyz"  # the rotation about the fixed axis x (roll) comes first, then y (pitch), then z (yaw)


def quaternion_from_matrix(rotation: Any) -> F64:
    """Convert a matrix (3, 3) of finite numbers to the quaternion (w ≥ 0) of the nearest rotation."""
    if tf_transformations is None:
        return np.asarray(quaternions.mat2quat(rotation), np.float64)
    affine = np.eye(4)
    affine[:3, :3] = rotation
    return _w_first(tf_transformations.quaternion_from_matrix(affine))


def quaternion_from_rpy(roll: float, pitch: float, yaw: float) -> F64:
    """Convert the angles of URDF files [rad] to a quaternion."""
    if tf_transformations is None:
        return np.asarray(euler.euler2quat(roll, pitch, yaw, URDF_AXES), np.float64)
    return _w_first(tf_transformations.quaternion_from_euler(roll, pitch, yaw, URDF_AXES))


def rpy_from_quaternion(q: F64) -> tuple[float, float, float]:
    """Convert a quaternion (w, x, y, z) to the angles of URDF files [rad]; the yaw is 0 if the pitch is ±90°."""
    if tf_transformations is None:
        roll, pitch, yaw = euler.quat2euler(q, URDF_AXES)
    else:
        roll, pitch, yaw = tf_transformations.euler_from_quaternion(np.roll(q, -1), URDF_AXES)
    return float(roll), float(pitch), float(yaw)


def _w_first(q: Any) -> F64:
    return np.roll(np.asarray(q, np.float64), 1)
