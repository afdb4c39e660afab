"""Convert the feature vectors of a `Match` to positions and arrows. The names in the feature layout state what each
number of a feature vector is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mm_ros.body.skeleton import NAMES
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot

_NAME = re.compile(r"(?P<what>.+?)(@(?P<time>[\d.eE+-]+)s)?\.(?P<axis>[xyz])$")


ABOVE_FLOOR_M = 0.012


@dataclass
class FeatureVectors:
    """Features of motion matching as vectors in the axes of the avatar's root."""

    positions: dict[float, F64] = field(default_factory=dict)  # maps a time from now [s] to the root's position
    directions: dict[float, F64] = field(default_factory=dict)
    joints: dict[str, F64] = field(default_factory=dict)  # joint → position
    velocities: dict[str, F64] = field(default_factory=dict)  # joint → m/s

    def path(self, root: F64) -> tuple[F64, F64]:
        """Return positions and facing directions of the root in the world, two arrays (N + 1, 3). Row 0 of each array
        is the present, and rows 1 to N are the future times."""
        times = sorted(self.positions)
        places = np.array([np.zeros(3), *(self.positions[t] for t in times)])
        ways = np.array([(1.0, 0.0, 0.0), *(self.directions.get(t, (0.0, 0.0, 0.0)) for t in times)])
        return root[:3] + rot.rotate(root[3:], places), np.asarray(rot.rotate(root[3:], ways))

    def segments(self, root: F64, room_joints: F64) -> tuple[F64, F64]:
        """Return two arrays (N, 2, 3) of lines in the world: from the root to each joint, and the motion of each joint
        in 0.2 s at its velocity. The motion of a joint starts at its position feature, or, if the features do not
        contain its position, at the avatar's joint in `room_joints`."""
        places = {joint: root[:3] + rot.rotate(root[3:], v) for joint, v in self.joints.items()}
        start = root[:3] * (1, 1, 0) + np.array([0, 0, ABOVE_FLOOR_M])
        lines = np.array([(start, p) for p in places.values()]).reshape(-1, 2, 3)
        starts = {joint: places.get(joint, room_joints[NAMES.index(joint)]) for joint in self.velocities}
        ways = [(starts[j], starts[j] + 0.2 * rot.rotate(root[3:], v)) for j, v in self.velocities.items()]
        return lines, np.array(ways).reshape(-1, 2, 3)


def feature_vectors(names: Sequence[str], values: Sequence[float]) -> FeatureVectors:
    """Convert the numbers of a feature vector in physical units to positions, directions and velocities by their names;
    all other features are ignored."""
    out = FeatureVectors()
    for name, value in zip(names, values, strict=False):
        found = _NAME.match(name)
        if found is None:
            continue
        what, axis = found["what"], "xyz".index(found["axis"])
        if found["time"] is not None:
            kind = {"trajectory_position": out.positions, "trajectory_direction": out.directions}.get(what)
            if kind is not None:
                kind.setdefault(float(found["time"]), np.zeros(3))[axis] = value
            continue
        joint, _, quantity = what.rpartition("_")
        if joint in NAMES and quantity in ("position", "velocity"):
            (out.joints if quantity == "position" else out.velocities).setdefault(joint, np.zeros(3))[axis] = value
    return out
