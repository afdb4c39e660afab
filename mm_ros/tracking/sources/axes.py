"""OpenXR's and OpenVR's axes (x right, y up, z back) to ours (x forward, y left, z up)."""

from __future__ import annotations

import numpy as np

from mm_ros.body.types import F64
from mm_ros.maths.transformations import quaternion_from_matrix


def position(x: float, y: float, z: float) -> tuple[float, float, float]:
    return -z, -x, y


def rotation(x: float, y: float, z: float, w: float) -> tuple[float, float, float, float]:
    """Quaternion, to w first: its vector part turns like any other vector."""
    return w, -z, -x, y


# Rows: our axes in theirs.
_TO_ROOM: F64 = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def from_matrix(m: F64) -> tuple[F64, F64]:
    """(3, 4) device to room, both in their axes → position and quaternion (w first) in ours."""
    r = _TO_ROOM @ m[:, :3] @ _TO_ROOM.T
    return _TO_ROOM @ m[:, 3], quaternion_from_matrix(r)
