"""Matrices and URDF angles ↔ quaternions (w, x, y, z), by ROS's `tf_transformations`.

If that package is not installed (it cannot be installed by pip), `transforms3d` gives the same numbers, because
`tf_transformations` wraps it. Compiled code uses maths/quat.py.
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

URDF_AXES = "sxyz"  # roll, pitch and yaw turn about fixed axes x, y, z, in this order


def quaternion_from_matrix(rotation: Any) -> F64:
    """Quaternion of a finite rotation matrix (3, 3), of the nearest rotation when it is rounded. w is 0 or more."""
    if tf_transformations is None:
        return np.asarray(quaternions.mat2quat(rotation), np.float64)
    affine = np.eye(4)
    affine[:3, :3] = rotation
    return _w_first(tf_transformations.quaternion_from_matrix(affine))


def quaternion_from_rpy(roll: float, pitch: float, yaw: float) -> F64:
    """Quaternion of URDF's angles [rad]."""
    if tf_transformations is None:
        return np.asarray(euler.euler2quat(roll, pitch, yaw, URDF_AXES), np.float64)
    return _w_first(tf_transformations.quaternion_from_euler(roll, pitch, yaw, URDF_AXES))


def rpy_from_quaternion(q: F64) -> tuple[float, float, float]:
    """URDF's angles [rad] of a quaternion (w, x, y, z). The yaw is 0 at a pitch of ±90°."""
    if tf_transformations is None:
        roll, pitch, yaw = euler.quat2euler(q, URDF_AXES)
    else:
        roll, pitch, yaw = tf_transformations.euler_from_quaternion(np.roll(q, -1), URDF_AXES)
    return float(roll), float(pitch), float(yaw)


def _w_first(q: Any) -> F64:
    return np.roll(np.asarray(q, np.float64), 1)
