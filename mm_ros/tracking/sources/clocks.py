"""Converts stamps from CLOCK_MONOTONIC, which is the clock of the devices, to the clock of the poller."""

from __future__ import annotations

import time
from dataclasses import replace

from mm_ros.body.types import TrackerFrame

EVERY_NS = 1_000_000_000
CLEARLY_NS = 100_000  # A clock difference that exceeds the one in use by more than this [ns] replaces it at once.


class SteadyShift:
    """Measures the difference between the clock of the poller and CLOCK_MONOTONIC, as the maximum of each second.

    The poller reads its own clock first, so the measured difference is too small if the process is interrupted before
    it reads CLOCK_MONOTONIC. If each stamp were converted with a newly measured difference, velocities would be noisy.
    """

    def __init__(self) -> None:
        self._shift_ns: int | None = None
        self._largest_ns = 0  # largest difference between the poller's clock and CLOCK_MONOTONIC since `_at_ns`
        self._at_ns = 0

    def of(self, now_ns: int) -> int:
        here_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        found_ns = now_ns - here_ns
        if self._shift_ns is None or found_ns > self._shift_ns + CLEARLY_NS:
            self._shift_ns, self._largest_ns, self._at_ns = found_ns, found_ns, here_ns
        self._largest_ns = max(self._largest_ns, found_ns)
        if here_ns - self._at_ns > EVERY_NS:
            self._shift_ns, self._largest_ns, self._at_ns = self._largest_ns, found_ns, here_ns
        return self._shift_ns


def in_clock(frame: TrackerFrame, shift_ns: int) -> TrackerFrame:
    sampled = frame.sampled_ns.copy()
    sampled[sampled != 0] += shift_ns
    return replace(frame, stamp_ns=frame.stamp_ns + shift_ns, sampled_ns=sampled)
