"""Play a recorded session with a chosen rate, pauses, loops and seeks. The player uses neither ROS nor a clock: the
caller passes `now`, any steady time [s]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body import plausible
from mm_ros.sessions.bag import BagMessage
from mm_ros.sessions.definitions import typestore
from mm_ros.sessions.messages import time_ns


@dataclass(frozen=True)
class Due:
    message: BagMessage
    at: float  # time at which the message was due, in the clock of the argument `now` [s]
    run: int  # number of loops and seeks so far, each of which invalidates the state of receivers
    origin: float  # time `now` at which the session time `from_ns` was or would have been played [s]
    from_ns: int


class Player:
    """Player of recorded messages, which must be in the order of their log time."""

    def __init__(
        self,
        messages: list[BagMessage],
        rate: float = 1.0,
        start_s: float = 0.0,
        loop: bool = False,
        rest_s: float = 1.0,
    ) -> None:
        if not messages:
            raise MmRosError("there is nothing to play")
        if not 0.01 <= rate <= 100:
            raise MmRosError(f"rate: expected 0.01 to 100, came {rate:g}")
        self.messages, self.rate, self.loop, self.rest_s = messages, rate, loop, rest_s
        self.first_ns, self.last_ns = messages[0].logged_ns, messages[-1].logged_ns
        self._logged = np.array([m.logged_ns for m in messages], np.int64)
        self.run = -1
        self._paused_at: float | None = None
        self._origin: float | None = None
        self._from_ns = self._checked(start_s)
        self._next = 0

    @property
    def seconds(self) -> float:
        return (self.last_ns - self.first_ns) * 1e-9

    def _checked(self, start_s: float) -> int:
        if not 0 <= start_s <= max(self.seconds, 0.0):
            raise MmRosError(f"start: expected 0 to {self.seconds:.1f} s, came {start_s:g}")
        return self.first_ns + round(start_s * 1e9)

    def begin(self, now: float) -> None:
        self._set(self._from_ns, now)

    def seek(self, start_s: float, now: float) -> None:
        self._set(self._checked(start_s), now)

    def _set(self, at_ns: int, now: float) -> None:
        self._from_ns, self._origin = at_ns, now
        self._next = int(np.searchsorted(self._logged, at_ns))
        self.run += 1
        if self._paused_at is not None:
            self._paused_at = now

    def pause(self, now: float) -> None:
        if self._paused_at is None:
            self._paused_at = now

    def resume(self, now: float) -> None:
        if self._paused_at is not None and self._origin is not None:
            self._origin += now - self._paused_at
        self._paused_at = None

    @property
    def paused(self) -> bool:
        return self._paused_at is not None

    def position_ns(self, now: float) -> int:
        """Time of the recording that is played at the time `now` [ns], for the topic /clock."""
        if self._origin is None:
            return self._from_ns
        at = now if self._paused_at is None else self._paused_at
        return self._from_ns + round(max(0.0, at - self._origin) * self.rate * 1e9)

    def _time_of(self, logged_ns: int) -> float:
        assert self._origin is not None
        return self._origin + (logged_ns - self._from_ns) * 1e-9 / self.rate

    def wait_s(self, now: float) -> float:
        """Time until the next message is due [s]; it is infinite during a pause and at the end of the session."""
        if self.paused or self._origin is None:
            return math.inf
        if self._next < len(self.messages):
            return max(0.0, self._time_of(int(self._logged[self._next])) - now)
        return max(0.0, self._time_of(self.last_ns) + self.rest_s - now) if self.loop else math.inf

    @property
    def ended(self) -> bool:
        return not self.loop and self._next >= len(self.messages)

    def take(self, now: float) -> Due | None:
        """Return the next message if it is due at the time `now` [s], else None; a loop begins again after its end."""
        if self.wait_s(now) > 0:
            return None
        if self._next >= len(self.messages):
            self._set(self.first_ns, self._time_of(self.last_ns) + self.rest_s)
        message = self.messages[self._next]
        self._next += 1
        assert self._origin is not None
        return Due(message, self._time_of(message.logged_ns), self.run, self._origin, self._from_ns)


class Rewriter:
    """Changes the time stamps and epochs of played messages: each loop or seek starts a new epoch, and time stamps can
    be replaced by those of the present."""

    def __init__(self, messages: list[BagMessage], rate: float, frame: str = "") -> None:
        """`frame` is the published name of the world frame; an empty name keeps the recorded name. A new frame name
        does not change the coordinates of poses."""
        self._rate, self._frame = rate, frame
        counted = (m.decode().epoch for m in messages if m.type.endswith(("/TrackerArray", "/Landmarks")))
        self._epochs = 1 + max(counted, default=0)

    def rewritten(self, message: BagMessage, run: int, present: tuple[int, int] | None) -> bytes:
        """Return the serialized message `message` with changed stamps and epoch. `present` is a pair of a time in
        the session and the present time that replaces it [ns]; if `present` is None, the stamps do not change. Stamps
        are computed as integers, so that equal stamps of messages, such as trackers and truth, remain equal."""
        if run == 0 and present is None and not self._frame:
            return message.data
        m: Any = message.decode()
        if hasattr(m, "epoch"):
            m.epoch = (m.epoch + run * self._epochs) % 2**32
        if self._frame and hasattr(m, "header") and not message.type.endswith("/Landmarks"):
            m.header.frame_id = self._frame
        if present is not None and hasattr(m, "header"):
            self._restamp(m, *present)
        return bytes(typestore().serialize_cdr(m, message.type))

    def _restamp(self, m: Any, then_ns: int, now_ns: int) -> None:
        for stamp in [m.header.stamp, *(t.sampled for t in getattr(m, "trackers", []))]:
            ns = time_ns(stamp)
            if ns == 0:
                continue
            moved = now_ns + (ns - then_ns if self._rate == 1.0 else round((ns - then_ns) / self._rate))
            sec, nanosec = divmod(moved, 1_000_000_000)
            plausible.stamp_ns(sec, nanosec, "stamp of a message, moved to the present")
            stamp.sec, stamp.nanosec = sec, nanosec
        if self._rate != 1.0:
            self._quicken(m)

    def _quicken(self, m: Any) -> None:
        for t in getattr(m, "trackers", []):
            for v in (t.twist.linear, t.twist.angular):
                v.x, v.y, v.z = (float(k * self._rate) for k in (v.x, v.y, v.z))
        for name in ("velocities", "angular_velocities", "root_velocity"):
            if hasattr(m, name):
                setattr(m, name, getattr(m, name) * np.float32(self._rate))
