"""What every source of trackers is."""

from __future__ import annotations

from typing import Protocol

from mm_ros.core.skeleton import Skeleton
from mm_ros.core.types import AvatarPose, Calibration, TrackerFrame


class TrackerSource(Protocol):
    """`poll` gives the newest sample not given before, or None. Nanoseconds of the node's clock."""

    rate: float  # Hz, nominal

    def open(self) -> None: ...

    def poll(self, now_ns: int) -> TrackerFrame | None: ...

    def close(self) -> None: ...

    def truth(self) -> AvatarPose | None:
        """The true body at the last sample, where the source knows it."""
        ...

    def truth_skeleton(self) -> Skeleton | None: ...

    def calibration(self) -> Calibration | None:
        """The user's measures, where the source knows them."""
        ...
