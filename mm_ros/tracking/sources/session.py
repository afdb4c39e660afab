"""The source `session`, which plays a recorded session with present stamps. The gate checks the played samples again.

Unlike the source `session`, `mm_ros replay` publishes a recorded session unchanged and with the recorded stamps.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.landmarks import Landmarks
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import AvatarPose, Calibration, TrackerFrame
from mm_ros.sessions.session import Session, read_session
from mm_ros.sessions.tables import read_table
from mm_ros.tracking.sources.base import Source

PAUSE_NS = 1_000_000_000  # pause between the end of the session and its next repetition [ns]

TOO_OLD_NS = 100_000_000  # samples that are later than this [ns] are skipped
BACK_NS = 100_000_000  # minimum jump of the clock back in time after which the session starts again


class SessionSource(Source):
    def __init__(self, path: str, loop: bool = True) -> None:
        super().__init__()
        if not path:
            raise MmRosError("the source 'session' needs a path: a rosbag2 folder, or a table (.csv)")
        self._path, self._loop = Path(path), loop
        self._truth: AvatarPose | None = None
        self._start_ns: int | None = None
        self._last_ns = 0
        self._next = self._next_picture = 0
        self._rounds = 0

    def open(self) -> None:
        table = self._path.suffix == ".csv"
        self.hand_pose = "" if table else "wrist"  # hand poses in a session are in the convention `wrist`
        self._session = Session(read_table(self._path)) if table else read_session(self._path)
        self._truths = {pose.stamp_ns: pose for pose in self._session.truth}
        steps = np.diff([f.stamp_ns for f in self._session.frames])
        period = float(np.median(steps)) * 1e-9 if len(steps) else 0.0
        # The stamps of the recorded samples are irregular, so the source is polled at twice their rate, and each sample
        # is at most half a period late.
        self.rate = float(np.clip(2.0 / period, 10.0, 500.0)) if period > 0 else 90.0

    def poll(self, now_ns: int) -> TrackerFrame | None:
        frames = self._session.frames
        if self._start_ns is None:
            self._start_ns = now_ns
        if now_ns < self._last_ns - BACK_NS:  # A simulated clock was set back.
            self._begin_again(now_ns)
        self._last_ns = now_ns
        at = frames[0].stamp_ns + now_ns - self._start_ns
        if self._next >= len(frames):
            if self._loop and at > frames[-1].stamp_ns + PAUSE_NS:
                self._begin_again(now_ns)
            return None
        # A poll returns one sample, so that no sample is lost if polls are irregular. Samples that are more than
        # `TOO_OLD_NS` late are skipped.
        while self._next + 1 < len(frames) and frames[self._next + 1].stamp_ns < at - TOO_OLD_NS:
            self._next += 1
        if frames[self._next].stamp_ns > at:
            return None
        self._next += 1
        return self._in_new_time(frames[self._next - 1], self._start_ns - frames[0].stamp_ns)

    def _begin_again(self, now_ns: int) -> None:
        self._start_ns, self._next, self._next_picture, self._rounds = now_ns, 0, 0, self._rounds + 1

    def _in_new_time(self, frame: TrackerFrame, shift_ns: int) -> TrackerFrame:
        sampled = frame.sampled_ns.copy()
        sampled[sampled != 0] += shift_ns
        epoch = frame.epoch + self._rounds * (self._session.frames[-1].epoch + 1)
        stamp_ns = frame.stamp_ns + shift_ns
        truth = self._truths.get(frame.stamp_ns)
        self._truth = None if truth is None else replace(truth, stamp_ns=stamp_ns, epoch=epoch)
        return replace(frame, stamp_ns=stamp_ns, epoch=epoch, sampled_ns=sampled)

    def landmarks(self) -> list[Landmarks]:
        """Return the landmarks that have arrived since the last call, up to the last returned frame."""
        frames, seen = self._session.frames, self._session.sightings
        if self._next == 0 or self._start_ns is None:
            return []
        first, until = self._next_picture, frames[self._next - 1].stamp_ns
        while self._next_picture < len(seen) and seen[self._next_picture].arrives_ns <= until:
            self._next_picture += 1
        shift = self._start_ns - frames[0].stamp_ns
        due = (s.landmarks for s in seen[first : self._next_picture])
        return [replace(m, stamp_ns=m.stamp_ns + shift) for m in due]

    def status(self) -> str:
        return self._session.damage

    def truth(self) -> AvatarPose | None:
        return self._truth

    def truth_skeleton(self) -> Skeleton | None:
        return self._session.truth_skeleton

    def calibration(self) -> Calibration | None:
        return self._session.calibration
