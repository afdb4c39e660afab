"""Feature vectors of a Match as positions and arrows, by the names of the feature layout."""

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
    """Features in root space."""

    positions: dict[float, F64] = field(default_factory=dict)  # position of the root by seconds ahead
    directions: dict[float, F64] = field(default_factory=dict)
    joints: dict[str, F64] = field(default_factory=dict)  # joint → position
    velocities: dict[str, F64] = field(default_factory=dict)  # joint → m/s

    def path(self, root: F64) -> tuple[F64, F64]:
        """Return positions and directions of the future root in the world, (N + 1, 3) each, the present first."""
        times = sorted(self.positions)
        places = np.array([np.zeros(3), *(self.positions[t] for t in times)])
        ways = np.array([(1.0, 0.0, 0.0), *(self.directions.get(t, (0.0, 0.0, 0.0)) for t in times)])
        return root[:3] + rot.rotate(root[3:], places), np.asarray(rot.rotate(root[3:], ways))

    def segments(self, root: F64, room_joints: F64) -> tuple[F64, F64]:
        """Return lines from the root to each joint, and each velocity times 0.2 s; in the world, (N, 2, 3) each.

        The line of a velocity starts at the position feature of its joint, or else at the avatar's joint
        (`room_joints`).
        """
        places = {joint: root[:3] + rot.rotate(root[3:], v) for joint, v in self.joints.items()}
        start = root[:3] * (1, 1, 0) + np.array([0, 0, ABOVE_FLOOR_M])
        lines = np.array([(start, p) for p in places.values()]).reshape(-1, 2, 3)
        starts = {joint: places.get(joint, room_joints[NAMES.index(joint)]) for joint in self.velocities}
        ways = [(starts[j], starts[j] + 0.2 * rot.rotate(root[3:], v)) for j, v in self.velocities.items()]
        return lines, np.array(ways).reshape(-1, 2, 3)


def feature_vectors(names: Sequence[str], values: Sequence[float]) -> FeatureVectors:
    """Parse physical feature values by their names; other names are ignored."""
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
