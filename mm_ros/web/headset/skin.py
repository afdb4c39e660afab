"""The avatar's skin as one file for the page."""

from __future__ import annotations

import struct

import numpy as np

from mm_ros.body.mesh import skin
from mm_ros.body.skeleton import HEAD, NECK, Skeleton

SEEN_FROM_INSIDE = 0.02  # share of head and neck of a vertex above which its triangles are left out in first person


def skin_file(skeleton: Skeleton) -> bytes:
    """Numbers of vertices, triangles, triangles in first person, joints; then rest positions of the joints, vertices,
    normals, weights (f4), joints of the weights (u1), triangles in the order *first person*, *rest* (u4)."""
    made = skin(skeleton)
    own = made.weights * np.isin(made.joints, (HEAD, NECK))
    hidden = (own.sum(1) > SEEN_FROM_INSIDE)[made.faces].any(1)
    faces = np.concatenate([made.faces[~hidden], made.faces[hidden]])
    counts = struct.pack("<4I", len(made.vertices), len(faces), int((~hidden).sum()), len(made.rest))
    arrays = (
        made.rest.astype("<f4"), made.vertices.astype("<f4"), made.normals.astype("<f4"), made.weights.astype("<f4"),
        made.joints.astype("u1"), faces.astype("<u4"),
    )  # fmt: skip
    return counts + b"".join(a.tobytes() for a in arrays)
