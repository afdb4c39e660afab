"""Checks tracker frames for invalid numbers, which would stay in springs and averages."""

from __future__ import annotations

import math
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import LOST, ROLES, R, TrackerFrame
from mm_ros.maths.jit import njit


def check_trackers(trackers: TrackerFrame, roles: tuple[int, ...] = tuple(range(R))) -> None:
    """Raise MmRosError if a tracker of `roles` has a value that is not finite, or a rotation that is not a unit
    quaternion. The values of lost trackers are not checked."""
    t = trackers
    role = _unsound(t.positions, t.rotations, t.velocities, t.angular_velocities, t.state, roles)
    if role >= 0:
        raise MmRosError(f"tracker '{ROLES[role]}': {_complaint(t, role)}")


@njit
def _unsound(positions: Any, rotations: Any, velocities: Any, angular: Any, state: Any, roles: Any) -> int:
    for role in roles:
        if state[role] == LOST:
            continue
        total = length = 0.0
        for k in range(3):
            total += positions[role, k] + velocities[role, k] + angular[role, k]
        for k in range(4):
            length += rotations[role, k] ** 2
        if not (math.isfinite(total) and 0.8 < length < 1.25):
            return int(role)
    return -1


def _complaint(trackers: TrackerFrame, role: int) -> str:
    for name in ("positions", "rotations", "velocities", "angular_velocities"):
        values = getattr(trackers, name)[role].tolist()
        if not all(map(math.isfinite, values)):
            return f"{name} are not finite: {values}"
    return f"expected a rotation of length 1, came {trackers.rotations[role].tolist()}"
