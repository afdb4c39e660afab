"""Write the skin mesh of the avatar as one file for the headset page."""

from __future__ import annotations

import struct

from mm_ros.body.mesh import skin
from mm_ros.body.skeleton import Skeleton


def skin_file(skeleton: Skeleton) -> bytes:
    """Return the content of the file with the skin mesh of a body with the skeleton `skeleton`. The file of a skin mesh
    begins with the numbers of vertices, triangles and joints, and 0, followed by rest positions of the joints,
    vertices, normals and weights (f4), the joints of the weights (u1), and triangles (u4)."""
    made = skin(skeleton)
    arrays = (
        made.rest.astype("<f4"), made.vertices.astype("<f4"), made.normals.astype("<f4"), made.weights.astype("<f4"),
        made.joints.astype("u1"), made.faces.astype("<u4"),
    )  # fmt: skip
    counts = struct.pack("<4I", len(made.vertices), len(made.faces), len(made.rest), 0)
    return counts + b"".join(a.tobytes() for a in arrays)
