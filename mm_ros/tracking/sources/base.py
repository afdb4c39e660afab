"""Interface of a tracker source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mm_ros.body.landmarks import Landmarks
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import AvatarPose, Calibration, TrackerFrame


class TrackerSource(Protocol):
    """Source of tracker frames, polled from one thread.

    Stamps are in the poller's clock (`now_ns`), poses in ROS axes with the floor near z = 0.
    """

    rate: float  # Hz; rate of `poll`
    trusted: bool  # true for a simulated source, in which constant poses are correct
    own_clock: bool  # calls `wake` when a frame is ready; else the source is polled at `rate`
    wake: Callable[[], None]
    hand_pose: str  # convention of the hand poses (`hand_poses.py`); empty if unknown: it is estimated.
    # Whether the grip buttons of the left and right controller are held now; None: the source has no buttons
    grips: tuple[bool, bool] | None

    def open(self) -> None:
        """Open the source; raise MmRosError if this machine lacks what it needs. An absent device is not an error."""

    def poll(self, now_ns: int) -> TrackerFrame | None:
        """Return the next frame that is due, or None. After a delay several frames may be due, so call `poll` until it
        returns None."""

    def close(self) -> None: ...

    def truth(self) -> AvatarPose | None:
        """True body of the last frame, or None."""

    def truth_skeleton(self) -> Skeleton | None: ...

    def landmarks(self) -> list[Landmarks]:
        """Landmarks that arrived up to the last frame, each returned once."""

    def calibration(self) -> Calibration | None:
        """Calibration of the user, or None."""

    def status(self) -> str:
        """Message about a problem of the device; empty if there is none."""


def _nothing() -> None:
    pass


class Source:
    """Base class of a source without truth, landmarks and calibration."""

    rate = 90.0
    trusted = False
    own_clock = False
    hand_pose = "wrist"
    grips: tuple[bool, bool] | None = None

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
