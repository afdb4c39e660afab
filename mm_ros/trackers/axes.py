"""OpenXR's and OpenVR's axes (x right, y up, z back) to ours (x forward, y left, z up)."""

from __future__ import annotations

import numpy as np

from mm_ros.core.types import F64


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
    return _TO_ROOM @ m[:, 3], quaternion_of(r)


def quaternion_of(r: F64) -> F64:
    """Shepperd: from the largest of the four, so that no division is by something small."""
    trace = r[0, 0] + r[1, 1] + r[2, 2]
    squares = np.array([trace, r[0, 0], r[1, 1], r[2, 2]])
    k = int(np.argmax(squares))
    q = np.empty(4)
    q[k] = 1.0 + 2.0 * squares[k] - trace if k else 1.0 + trace
    w_parts = (r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1])
    if k == 0:
        q[1:] = w_parts
    else:
        i = k - 1
        q[0] = w_parts[i]
        for j in range(3):
            if j != i:
                q[j + 1] = r[i, j] + r[j, i]
    return np.asarray(q / np.linalg.norm(q))
