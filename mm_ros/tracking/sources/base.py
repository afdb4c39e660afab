"""What a source of trackers is, to those who poll it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mm_ros.body.landmarks import Landmarks
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import AvatarPose, Calibration, TrackerFrame


class TrackerSource(Protocol):
    """Polled from one thread. Stamps are in the poller's clock (`now_ns`), poses in ROS axes, floor near z = 0."""

    rate: float  # Hz, of poll
    trusted: bool  # simulated: poses that stand perfectly still are meant so
    own_clock: bool  # has a thread of its own and calls `wake` when there is something to poll; else poll at `rate`
    wake: Callable[[], None]

    def open(self) -> None:
        """Raises MmRosError when this machine cannot have such a source at all; a device that is away is no error."""

    def poll(self, now_ns: int) -> TrackerFrame | None:
        """The next sample that is due; None when there is none. Ask until then: after a delay several may be."""

    def close(self) -> None: ...

    def truth(self) -> AvatarPose | None:
        """The body behind the last sample, where the source knows it."""

    def truth_skeleton(self) -> Skeleton | None: ...

    def landmarks(self) -> list[Landmarks]:
        """What a camera told up to the last sample, each once, where the source knows it."""

    def calibration(self) -> Calibration | None:
        """The user's measures, where the source knows them."""

    def status(self) -> str:
        """A sentence on the device when something is wrong with it; empty when all is well."""


def _nothing() -> None:
    pass


class Source:
    """The answers of a source that knows no truth and no calibration."""

    rate = 90.0
    trusted = False
    own_clock = False

    def __init__(self) -> None:
        self.wake: Callable[[], None] = _nothing

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def truth(self) -> AvatarPose | None:
        return None

    def truth_skeleton(self) -> Skeleton | None:
        return None

    def landmarks(self) -> list[Landmarks]:
        return []

    def calibration(self) -> Calibration | None:
        return None

    def status(self) -> str:
        return ""
