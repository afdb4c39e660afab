"""Estimate from camera landmarks which foot leads: a hint for the matcher (feature kind `leading_foot`).

Hips and shoulders define the front of the body, so the pose of the camera is not needed. Facing and position still come
from the trackers. Camera images arrive late, so the feature compares the feet at two past times, which also shows how
the step continues.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from mm_ros.body.landmarks import (
    LEFT_ANKLE,
    LEFT_HIP,
    LEFT_SHOULDER,
    RIGHT_ANKLE,
    RIGHT_HIP,
    RIGHT_SHOULDER,
    Landmarks,
)
from mm_ros.body.types import F64

KEPT = 64  # images
WINDOW_S = 0.08  # images within this time of a requested time are averaged; nearer ones weigh more
NEEDED = np.array([LEFT_HIP, RIGHT_HIP, LEFT_ANKLE, RIGHT_ANKLE])
VISIBLE, SURE = 0.5, 0.5  # minimum visibility of the needed landmarks, minimum confidence of the image


def left_foot_ahead(positions: F64) -> float:
    """Distance of the left ankle in front of the right one, along the body's front [m]; NaN if the front is unclear."""
    hips = positions[LEFT_HIP, :2] - positions[RIGHT_HIP, :2]
    shoulders = positions[LEFT_SHOULDER, :2] - positions[RIGHT_SHOULDER, :2]
    left = hips / max(math.hypot(*hips), 1e-6) + shoulders / max(math.hypot(*shoulders), 1e-6)
    breadth = math.hypot(*left)
    if breadth < 1.0:  # the directions of hips and shoulders do not agree
        return math.nan
    apart = positions[LEFT_ANKLE, :2] - positions[RIGHT_ANKLE, :2]
    return float(apart[0] * left[1] - apart[1] * left[0]) / breadth


class LeadingFoot:
    """Keeps the results of recent images (`watch`) and averages them around requested times (`at`)."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque(maxlen=KEPT)

    def clear(self) -> None:
        self._seen.clear()

    def watch(self, seen: Landmarks) -> None:
        if self._seen and seen.stamp_ns <= self._seen[-1][0]:
            self._seen.clear()  # time has jumped back
        if seen.confidence >= SURE and seen.visibility[NEEDED].min() >= VISIBLE:
            ahead = left_foot_ahead(seen.positions)
            if math.isfinite(ahead):
                self._seen.append((seen.stamp_ns, ahead))

    def at(self, stamp_ns: int, times: Sequence[float]) -> F64 | None:
        """Return the distance (T,) [m] of the left foot in front of the right one at `times` [s] relative to
        `stamp_ns`; None if images are missing at one of these times."""
        if not self._seen:
            return None
        when, ahead = (np.array(x) for x in zip(*self._seen, strict=True))
        seconds = (when - stamp_ns) * 1e-9
        out = np.empty(len(times))
        for i, t in enumerate(times):
            w = np.maximum(WINDOW_S - np.abs(seconds - t), 0.0)
            if w.sum() <= 0:
                return None
            out[i] = float(w @ ahead) / float(w.sum())
        return out
