"""The source `openxr`. A thread samples the OpenXR runtime, and connects again after the connection was lost.

The method `status` reports a call to the runtime that hangs.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.body.timeline import is_identity
from mm_ros.body.types import TrackerFrame
from mm_ros.tracking.room import compose
from mm_ros.tracking.sources.base import UNKNOWN_GRIPS, Grips, Source
from mm_ros.tracking.sources.clocks import SteadyShift, in_clock

RETRY_S = 0.5  # time between two attempts to connect to the OpenXR runtime [s]
HUNG_S = 1.0  # time without an answer of the OpenXR runtime after which the user gets a message


class OpenXrSource(Source):
    own_clock = True
    hand_pose = "openxr_grip"
    grips: Grips | None = UNKNOWN_GRIPS

    def __init__(self, rate: float = 90.0, make_session: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self.rate = rate
        self._make_session = make_session
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._latest: TrackerFrame | None = None
        self._beat_ns = 0  # time at which the last call to the OpenXR runtime returned
        self._trouble = "not connected yet"
        self._epoch = -1
        self._shift = SteadyShift()

    def open(self) -> None:
        if self._make_session is None:
            self._make_session = _library()
        self._beat_ns = time.monotonic_ns()
        self._thread = threading.Thread(target=self._run, name="openxr", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread. A call that hangs in the runtime cannot be cancelled, so the thread is a daemon."""
        self._stop.set()
        self._thread.join(timeout=1.0)

    def poll(self, now_ns: int) -> TrackerFrame | None:
        with self._lock:
            frame, self._latest = self._latest, None
        if frame is None:
            return None
        return in_clock(frame, self._shift.of(now_ns))

    def status(self) -> str:
        silent_s = (time.monotonic_ns() - self._beat_ns) * 1e-9
        if silent_s > HUNG_S + RETRY_S:
            return f"the OpenXR runtime has not answered for {silent_s:.0f} s; restart the runtime"
        return self._trouble

    # ---- OpenXR thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._one_session()
            except Exception as error:
                # After any error of the OpenXR runtime, the thread connects again, and the node continues.
                self._trouble = describe(error)
            self._beat_ns = time.monotonic_ns()
            self._stop.wait(RETRY_S)

    def _one_session(self) -> None:
        assert self._make_session is not None
        session = self._make_session()
        self._epoch += 1
        first = self._epoch
        try:
            self._trouble = session.warning
            self._sample_until_lost(session, first)
        finally:
            self.grips = UNKNOWN_GRIPS
            session.close()

    def _sample_until_lost(self, session: Any, first_epoch: int) -> None:
        period = 1.0 / self.rate
        due = time.monotonic()
        while not self._stop.is_set():
            frame = session.sample()
            self.grips = session.grips
            self._beat_ns = time.monotonic_ns()
            if frame is not None:
                # A new session starts a new epoch, because the time since the last session is not known.
                self._epoch = frame.epoch = first_epoch + frame.epoch
                self._put(frame)
                self.wake()
            due = max(due + period, time.monotonic() - period)
            time.sleep(max(0.0, due - time.monotonic()))

    def _put(self, frame: TrackerFrame) -> None:
        """Keep the newest frame until it is polled, with the re-centring of older frames that were not polled."""
        with self._lock:
            if self._latest is not None and not is_identity(self._latest.new_from_old):
                frame.new_from_old = compose(frame.new_from_old, self._latest.new_from_old)
            self._latest = frame


def _library() -> Callable[[], Any]:
    # Without the variable `XR_LOADER_DEBUG` the OpenXR loader prints an error at each attempt to connect.
    os.environ.setdefault("XR_LOADER_DEBUG", "none")
    try:
        from mm_ros.tracking.sources.openxr_session import OpenXrSession
    except ImportError as error:
        raise MmRosError(f"the source 'openxr' needs pyopenxr ({error}): {setup_command('openxr')}") from error
    return OpenXrSession


# messages to the user for errors of the OpenXR runtime
_WORDS = {
    "RuntimeUnavailableError": "no OpenXR runtime is set on this machine (XR_RUNTIME_JSON, or "
    "/etc/xdg/openxr/1/active_runtime.json)",
    "RuntimeFailureError": "the OpenXR runtime's service is not running",
    "InstanceLostError": "the connection to the OpenXR runtime was lost; waiting for it",
    "SessionLostError": "the OpenXR runtime ended the session; waiting for it",
    "FormFactorUnavailableError": "the OpenXR runtime is running, but no headset is connected",
}


def describe(error: Exception) -> str:
    name = type(error).__name__
    return _WORDS.get(name, f"{name}: {error}" if str(error) else name)
