"""Interface and base class of the tracker sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mm_ros.body.landmarks import Landmarks
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import AvatarPose, Calibration, TrackerFrame

# Whether the grip buttons of the left and of the right controller are held; None if this is unknown.
Grips = tuple[bool | None, bool | None]
UNKNOWN_GRIPS: Grips = (None, None)


class TrackerSource(Protocol):
    """A source of tracker frames, whose method `poll` is called by one thread.

    The time stamps of frames are in the clock of `now_ns`, the argument of `poll`. Poses in frames are in ROS axes, and
    the floor is near z = 0.
    """

    rate: float  # rate at which `poll` is called [Hz]
    trusted: bool  # true for a simulated source, whose poses are not refused when they stay constant
    own_clock: bool  # true if the source calls `wake` for each new frame, false if the source is polled at `rate`
    wake: Callable[[], None]
    hand_pose: str  # convention of the hand poses (`hand_poses.py`), or empty if the convention must be estimated
    grips: Grips | None  # None if the source has no buttons

    def open(self) -> None:
        """Open the source. Raise MmRosError if this machine lacks a library; an absent device is not an error."""

    def poll(self, now_ns: int) -> TrackerFrame | None:
        """Return the next tracker frame whose time has come, or None. Call `poll` until it returns None, because
        several frames may be due after a delay."""

    def close(self) -> None: ...

    def truth(self) -> AvatarPose | None:
        """Return the true body at the last frame, or None if the true body is not known."""

    def truth_skeleton(self) -> Skeleton | None: ...

    def landmarks(self) -> list[Landmarks]:
        """Return the landmarks that have arrived since the last call, up to the last frame."""

    def calibration(self) -> Calibration | None:
        """Return the calibration of the user, or None if the source has no calibration."""

    def status(self) -> str:
        """Return a message about a problem of the device, or an empty text if there is no problem."""


def _nothing() -> None:
    pass


class Source:
    """Base class of a source that has no true body, no landmarks and no calibration."""

    rate = 90.0
    trusted = False
    own_clock = False
    hand_pose = "wrist"
    grips: Grips | None = None

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
