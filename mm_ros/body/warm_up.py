"""Sample input for the warm-up of a stage, so that all code is compiled before the first real frame."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mm_ros.body.rounding import frozen
from mm_ros.body.types import TRACKED, TrackerFrame

PERIOD_NS = 11_111_111


def sample_trackers(count: int = 40) -> Iterator[TrackerFrame]:
    """Yield tracker frames of a user who walks slowly along x. The arrays of these frames are read-only like those
    between the nodes, because numba compiles separate code for read-only arrays."""
    for i in range(count):
        frame = TrackerFrame(i * PERIOD_NS)
        forward = np.array([0.008 * i, 0.0, 0.0])
        frame.positions[:3] = np.array([(0.0, 0.0, 1.65), (0.1, 0.3, 0.9), (0.1, -0.3, 0.9)]) + forward
        frame.velocities[:3] = (0.72, 0.0, 0.0)
        frame.state[:3] = TRACKED
        yield frozen(frame)
