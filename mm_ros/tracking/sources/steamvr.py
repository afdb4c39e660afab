"""The source `steamvr`, which reads the poses of SteamVR's devices from a separate process."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.base.own_python import module_command
from mm_ros.body.types import TrackerFrame, role_index
from mm_ros.tracking.sources.base import UNKNOWN_GRIPS, Grips, Source
from mm_ros.tracking.sources.clocks import SteadyShift, in_clock
from mm_ros.tracking.sources.steamvr_process import frame_of

RETRY_S = 1.0  # time from the end of the OpenVR process to its next start [s]
HUNG_S = 3.0  # time without an answer of the OpenVR process after which the user gets a message


class SteamVrSource(Source):
    """Reads poses of SteamVR's devices from the OpenVR process, which `command` replaces by another one in tests."""

    own_clock = True
    hand_pose = "steamvr_raw"
    grips: Grips | None = UNKNOWN_GRIPS

    def __init__(self, rate: float = 90.0, serials: dict[str, str] | None = None, command: Sequence[str] = ()) -> None:
        super().__init__()
        self.rate = rate
        for role in serials or {}:
            role_index(role)  # refuses unknown roles
        worker = module_command("mm_ros.tracking.sources.steamvr_process", str(rate), json.dumps(serials or {}))
        self._command = list(command) or worker
        self._needs_library = not command
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._latest: TrackerFrame | None = None
        self._trouble = "not connected yet"
        self._received_at = time.monotonic()
        self._epochs = -1
        self._shift = SteadyShift()

    def open(self) -> None:
        if self._needs_library and find_spec("openvr") is None:
            raise MmRosError(f"the source 'steamvr' needs openvr: {setup_command('steamvr')}")
        self._thread = threading.Thread(target=self._run, name="steamvr", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._end()
        self._thread.join(timeout=2.0)

    def poll(self, now_ns: int) -> TrackerFrame | None:
        with self._lock:
            frame, self._latest = self._latest, None
        return None if frame is None else in_clock(frame, self._shift.of(now_ns))

    def status(self) -> str:
        silent_s = time.monotonic() - self._received_at
        return f"SteamVR has not answered for {silent_s:.0f} s" if silent_s > HUNG_S else self._trouble

    def _run(self) -> None:
        while not self._stop.is_set():
            self._epochs += 1
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
            )
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self._take(line)
            self._process.wait()
            self.grips = UNKNOWN_GRIPS
            if self._process.returncode not in (0, 2):
                self._trouble = f"the SteamVR process ended with code {self._process.returncode}; it is restarted"
            self._stop.wait(RETRY_S)

    def _take(self, line: str) -> None:
        self._received_at = time.monotonic()
        try:
            parsed = frame_of(line)
        except (ValueError, KeyError, TypeError, IndexError):
            return  # the OpenVR library also prints to stdout, and such lines are ignored
        if isinstance(parsed, str):
            self._trouble = parsed
            return
        frame, self.grips = parsed
        frame.epoch += 1000 * self._epochs
        with self._lock:
            self._latest = frame
        self.wake()

    def _end(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
