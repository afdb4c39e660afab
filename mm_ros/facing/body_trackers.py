"""Measure the facing by body trackers on waist and feet, and learn how each tracker is rotated on the body."""

from __future__ import annotations

import math

from mm_ros.body.types import F64
from mm_ros.facing import fitted
from mm_ros.maths.rotations import wrap_angle

UNTURNED = (1.0, 0.0, 0.0, 0.0)  # quaternion (w, x, y, z) of no rotation


class MountedTracker:
    """Measures the facing of the user's body by one body tracker on the waist or a foot.

    The facing is the tracker's change of yaw since its first sample, plus the body's learned facing at that sample.
    """

    def __init__(self, role: int) -> None:
        self.role, self.sigma, self.lasts_s = role, fitted.TRACKER_SIGMA[role], fitted.TRACKER_LASTS_S[role]
        self.reset()

    def reset(self) -> None:
        self._first: tuple[float, ...] | None = None
        self._zero = self._learned_s = 0.0

    def facing(self, rotation: F64, predicted: float, dt: float, learn: bool) -> float:
        """Return the facing of the user's body [rad] when the body tracker has the rotation `rotation`.

        If `learn` is true, the rotation of the tracker on the body is learned from the facing `predicted` [rad]. If
        `learn` is false, the x axis of the tracker must point forward.
        """
        if self._first is None:
            self._first = tuple(rotation.tolist()) if learn else UNTURNED
        turn = turn_between(self._first, rotation)
        if learn:
            self._learned_s = min(self._learned_s + dt, fitted.MOUNTING_LEARNED_FOR_S)
            share = dt / self._learned_s if self._learned_s > 0 else 1.0
            self._zero = float(wrap_angle(self._zero + share * wrap_angle(predicted - turn - self._zero)))
        return float(wrap_angle(self._zero + turn))


def turn_between(first: tuple[float, ...] | F64, now: F64) -> float:
    """Return the angle [rad] by which a tracker turned about the vertical from rotation `first` to rotation `now`."""
    w, x, y, z = now
    fw, fx, fy, fz = first
    return 2 * math.atan2(z * fw - w * fz - x * fy + y * fx, w * fw + x * fx + y * fy + z * fz)
