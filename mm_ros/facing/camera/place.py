"""Resection: estimates the position and yaw of the camera from the directions in which pictures show the user's nose.

The headset gives the position p of the nose in the room. With u = (cos yaw, sin yaw) and the unknowns e and f for the
position of the camera, the nose is at (x, y) = (u·p + e, u⟂·p + f) in camera axes. A picture shows the slope y/x of the
ray to the nose. Each picture gives one linear equation v·θ = 0 for the unknowns θ = (u, e, f). The class `Place` keeps
the sum Σ v vᵀ over all pictures, in which old pictures lose weight. If e and f are eliminated, the best u is the minor
axis of a 2 × 2 matrix. Resection uses neither the depth of landmarks nor the hands, and is accurate as soon as the user
has walked across the picture and towards the camera. Resection also shows whether a person in a picture is the user.
"""

from __future__ import annotations

import math

import numpy as np

from mm_ros.body.types import F64
from mm_ros.facing import fitted


class Place:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._m, self._observed_s = np.zeros((4, 4)), 0.0

    def carry(self, yaw: float, shift: F64) -> None:
        """Rotate the camera by `yaw` [rad] and move it by `shift` (3,) [m], because the axes of the room changed."""
        c, s, (x, y, *_) = math.cos(yaw), math.sin(yaw), shift
        old_from_new = np.array([[c, s, 0, 0], [-s, c, 0, 0], [x, y, 1, 0], [y, -x, 0, 1]], np.float64)
        self._m = old_from_new.T @ self._m @ old_from_new

    def learn(self, nose: F64, slope: float, dt: float, halflife_s: float) -> None:
        """Add the direction of the nose in one picture to the equations for the pose of the camera.

        `nose` is the position of the user's nose in the room, computed from the headset. `slope` is y/x of the ray to
        the nose in camera axes.
        """
        v = _equation(nose, slope)
        keep = 0.5 ** (dt / halflife_s)
        self._m = keep * self._m + dt * np.outer(v, v)
        self._observed_s = keep * self._observed_s + dt

    def yaw(self, near: float) -> tuple[float, float]:
        """Return the camera yaw [rad] and its variance [rad²]; of two opposite yaws that fit, the nearer to `near`."""
        if self._observed_s < fitted.PLACE_NEEDED_S:
            return near, math.inf
        s = self._without_place()
        gap = math.hypot(s[0, 0] - s[1, 1], 2 * s[0, 1])
        least = (s[0, 0] + s[1, 1] - gap) / 2
        if gap < 1e-9:
            return near, math.inf
        yaw = math.atan2(2 * s[0, 1], s[0, 0] - s[1, 1]) / 2 + math.pi / 2
        yaw += math.pi * round((near - yaw) / math.pi)
        miss2 = max(least, 0.0) / self._observed_s + fitted.MISS_M**2
        return yaw, miss2 * fitted.MISS_LASTS_S / gap + fitted.FIELD_OF_VIEW_ERROR**2

    def usual_miss(self, yaw: float) -> float:
        u = np.array([math.cos(yaw), math.sin(yaw)])
        return math.sqrt(max(float(u @ self._without_place() @ u), 0.0) / max(self._observed_s, 1e-9))

    def scattered(self, yaw: float) -> bool:
        return self._observed_s > fitted.PLACE_NEEDED_S and self.usual_miss(yaw) > fitted.SCATTERED_M

    def elsewhere(self, nose: F64, slope: float, yaw: float) -> bool:
        """Return true if the person in the picture is at another place than the user."""
        if self._observed_s < fitted.PLACE_NEEDED_S:
            return False
        return abs(self.miss(nose, slope, yaw)) > max(fitted.ELSEWHERE_M, fitted.ELSEWHERE * self.usual_miss(yaw))

    def miss(self, nose: F64, slope: float, yaw: float) -> float:
        """Return the signed distance [m] between the user's nose and the ray on which the picture shows a nose."""
        u = np.array([math.cos(yaw), math.sin(yaw)])
        guess = np.array([fitted.GUESS_COUNTS_S, 1e-6])
        wanted = -self._m[2:, :2] @ u + guess * (fitted.GUESSED_M - float(u @ nose[:2]), 0.0)
        place = np.linalg.solve(self._m[2:, 2:] + np.diag(guess), wanted)
        return float(_equation(nose, slope) @ np.concatenate([u, place])) / math.hypot(1.0, slope)

    def _without_place(self) -> F64:
        m = self._m
        return np.asarray(m[:2, :2] - m[:2, 2:] @ np.linalg.solve(m[2:, 2:] + 1e-9 * np.eye(2), m[2:, :2]))


def _equation(nose: F64, slope: float) -> F64:
    x, y = float(nose[0]), float(nose[1])
    return np.array([y - slope * x, -x - slope * y, -slope, 1.0])
