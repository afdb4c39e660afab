"""Where the camera stands, from where it sees the user's nose: its yaw as well, and who in a picture is somebody else.

Resection. With u = (cos yaw, sin yaw), the nose p by the headset is at (x, y) = (u·p + e, u⟂·p + f) in the camera's
axes, and the picture says y/x. So each picture is one equation, linear in θ = (u, e, f): v·θ = 0. The sums Σ v vᵀ fade
as the camera's others do; e and f drop out, and the best u is the lesser axis of a 2 × 2 matrix. Landmarks' depth and
the hands have no part in it: it is sure as soon as the user has walked across the picture and towards the camera, and
says nothing before.
"""

from __future__ import annotations

import math

import numpy as np

from mm_ros.body.types import F64

GUESSED_M, GUESS_COUNTS_S = 3.0, 0.02  # from the camera to the user, until lines cross
ELSEWHERE_M = 0.5  # beside the line through the user, or …
ELSEWHERE = 4.0  # … times the usual miss, whichever is more
NEEDED_S = 1.0
SCATTERED_M = 0.4  # lines that pass each other at such distances are not through one person
MISS_M = 0.05  # nothing is known better
MISS_LASTS_S = 1.0
FIELD_OF_VIEW_ERROR = 0.025  # rad, of the yaw: lenses, and a field of view that is not quite as told


class Place:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._m, self._heard_s = np.zeros((4, 4)), 0.0

    def carry(self, yaw: float, shift: F64) -> None:
        """The room has moved under the user, and with it the camera."""
        c, s, (x, y, *_) = math.cos(yaw), math.sin(yaw), shift
        old_from_new = np.array([[c, s, 0, 0], [-s, c, 0, 0], [x, y, 1, 0], [y, -x, 0, 1]], np.float64)
        self._m = old_from_new.T @ self._m @ old_from_new

    def learn(self, nose: F64, slope: float, dt: float, halflife_s: float) -> None:
        """`slope`: y/x of the nose's ray in the camera's axes."""
        v = _equation(nose, slope)
        keep = 0.5 ** (dt / halflife_s)
        self._m = keep * self._m + dt * np.outer(v, v)
        self._heard_s = keep * self._heard_s + dt

    def yaw(self, near: float) -> tuple[float, float]:
        """The best, of the two that are opposite the one near to what is believed; its variance."""
        if self._heard_s < NEEDED_S:
            return near, math.inf
        s = self._without_place()
        gap = math.hypot(s[0, 0] - s[1, 1], 2 * s[0, 1])
        least = (s[0, 0] + s[1, 1] - gap) / 2
        if gap < 1e-9:
            return near, math.inf
        yaw = math.atan2(2 * s[0, 1], s[0, 0] - s[1, 1]) / 2 + math.pi / 2
        yaw += math.pi * round((near - yaw) / math.pi)
        miss2 = max(least, 0.0) / self._heard_s + MISS_M**2
        return yaw, miss2 * MISS_LASTS_S / gap + FIELD_OF_VIEW_ERROR**2

    def usual_miss(self, yaw: float) -> float:
        u = np.array([math.cos(yaw), math.sin(yaw)])
        return math.sqrt(max(float(u @ self._without_place() @ u), 0.0) / max(self._heard_s, 1e-9))

    def scattered(self, yaw: float) -> bool:
        return self._heard_s > NEEDED_S and self.usual_miss(yaw) > SCATTERED_M

    def elsewhere(self, nose: F64, slope: float, yaw: float) -> bool:
        """The one in the picture is not where the user is."""
        if self._heard_s < NEEDED_S:
            return False
        return abs(self.miss(nose, slope, yaw)) > max(ELSEWHERE_M, ELSEWHERE * self.usual_miss(yaw))

    def miss(self, nose: F64, slope: float, yaw: float) -> float:
        """How far the line through the nose in the picture passes beside the user's own [m]."""
        u = np.array([math.cos(yaw), math.sin(yaw)])
        guess = np.array([GUESS_COUNTS_S, 1e-6])
        wanted = -self._m[2:, :2] @ u + guess * (GUESSED_M - float(u @ nose[:2]), 0.0)
        place = np.linalg.solve(self._m[2:, 2:] + np.diag(guess), wanted)
        return float(_equation(nose, slope) @ np.concatenate([u, place])) / math.hypot(1.0, slope)

    def _without_place(self) -> F64:
        """What is left of the sums for u when e and f are the best for it."""
        m = self._m
        return np.asarray(m[:2, :2] - m[:2, 2:] @ np.linalg.solve(m[2:, 2:] + 1e-9 * np.eye(2), m[2:, :2]))


def _equation(nose: F64, slope: float) -> F64:
    x, y = float(nose[0]), float(nose[1])
    return np.array([y - slope * x, -x - slope * y, -slope, 1.0])
