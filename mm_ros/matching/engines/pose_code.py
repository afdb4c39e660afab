"""Convert poses to pose vectors and vice versa. A pose vector is the output of the decompressor for one frame.

A pose vector contains the rotations of the joints, the position of the hips, the velocity of the root in root axes, and
the contacts of both feet. A rotation is stored as the first two columns of its matrix. The positions of the other
joints follow from the skeleton, and the velocities of the joints follow from two consecutive frames.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mm_ros.body.skeleton import HIPS, NAMES
from mm_ros.body.types import F32
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Quat, Row

MOVED = len(NAMES) - 1  # A pose vector has the rotations of all joints except the root.
ROTATIONS = slice(0, 6 * MOVED)
HIPS_POSITION = slice(6 * MOVED, 6 * MOVED + 3)
ROOT_VELOCITY = slice(6 * MOVED + 3, 6 * MOVED + 6)  # m/s forward, m/s left, rad/s
# Contacts are 1 or -1 in the training data, and log odds in the output of the decompressor network.
CONTACTS = slice(6 * MOVED + 6, 6 * MOVED + 8)
WIDTH = 6 * MOVED + 8


def encode(positions: Any, rotations: Any, root_velocity: Any, contacts: Any) -> F32:
    """Make pose vectors (N, WIDTH) from local positions and rotations of the joints, root velocities (N, 3) and
    contacts (N, 2), which are 0 or 1."""
    out = np.empty((len(positions), WIDTH), np.float32)
    matrices = rot.to_matrix(np.asarray(rotations)[:, 1:])
    out[:, ROTATIONS] = np.concatenate([matrices[..., 0], matrices[..., 1]], -1).reshape(len(out), -1)
    out[:, HIPS_POSITION] = np.asarray(positions)[:, HIPS]
    out[:, ROOT_VELOCITY] = root_velocity
    out[:, CONTACTS] = np.asarray(contacts) * 2.0 - 1.0
    return out


@njit
def rotation_of(x: Row, y: Row) -> Quat:
    """Convert the first two columns `x` and `y` of a rotation matrix to a quaternion.

    The vector `x` is normalized, and `y` is made orthogonal to `x`. A fixed axis replaces a vector of length 0.
    """
    a = quat.unit(x, (1.0, 0.0, 0.0))
    b = quat.unit(quat.sub(y, quat.scale(a, quat.dot(a, y))), quat.unit((-a[1], a[0], 0.0), (0.0, 1.0, 0.0)))
    c = quat.cross(a, b)
    w2, x2 = 1.0 + a[0] + b[1] + c[2], 1.0 + a[0] - b[1] - c[2]
    y2, z2 = 1.0 - a[0] + b[1] - c[2], 1.0 - a[0] - b[1] + c[2]
    largest = max(w2, x2, y2, z2)
    k = 0.5 / math.sqrt(largest)
    if w2 == largest:
        return quat.normalize((w2 * k, (b[2] - c[1]) * k, (c[0] - a[2]) * k, (a[1] - b[0]) * k))
    if x2 == largest:
        return quat.normalize(((b[2] - c[1]) * k, x2 * k, (a[1] + b[0]) * k, (c[0] + a[2]) * k))
    if y2 == largest:
        return quat.normalize(((c[0] - a[2]) * k, (a[1] + b[0]) * k, y2 * k, (b[2] + c[1]) * k))
    return quat.normalize(((a[1] - b[0]) * k, (c[0] + a[2]) * k, (b[2] + c[1]) * k, z2 * k))


@njit
def decode(code: Row, offsets: Row, positions: Row, rotations: Row) -> None:
    """Decode one pose vector to local positions (J, 3) and rotations (J, 4) of the joints; the root gets the identity.
    """
    count = offsets.shape[0]
    for j in range(1, count):
        at = 6 * (j - 1)
        for k in range(3):
            positions[j, k] = offsets[j, k]
        x = (float(code[at]), float(code[at + 1]), float(code[at + 2]))
        y = (float(code[at + 3]), float(code[at + 4]), float(code[at + 5]))
        quat.put4(rotations, j, rotation_of(x, y))
    at = 6 * (count - 1)
    for k in range(3):
        positions[HIPS, k] = code[at + k]
        positions[0, k] = 0.0
        rotations[0, k + 1] = 0.0
    rotations[0, 0] = 1.0
