"""A live source that plays the motion of a known body, with simulated trackers and the true body."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import AvatarPose, Calibration, R, TrackerFrame
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.simulation import Simulation, TrackerTrack, simulate_clip
from mm_ros.tracking.sources.base import Source
from mm_ros.tracking.truth import TruthTrack, truth_of_clip

EARLY_NS = 1_000_000  # time by which a sample may be returned before its due time, because timers may be early
TOO_OLD_S = 0.1  # samples that are later than this [s] are skipped


@dataclass(frozen=True)
class Segment:
    """Part of the motion; if `fresh` is true, this part does not continue the part before and has a new epoch."""

    track: TrackerTrack
    body: TruthTrack
    skeleton: Skeleton
    fresh: bool


class PlayedSource(Source):
    """Plays segments of simulated motion in real time, and makes the next segment in a thread meanwhile."""

    trusted = True

    def __init__(self, segments: Iterator[Segment], rate: float) -> None:
        super().__init__()
        self.rate = rate
        self._segments = segments
        self._epoch = 0
        self._start_ns: int | None = None
        self._done = -1  # index in the present segment of the sample that `poll` last returned
        self._stamp_ns = 0  # time stamp of the sample that `poll` last returned

    def open(self) -> None:
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="segments")
        self._now: Segment | None = next(self._segments)
        self._prefetch()

    def close(self) -> None:
        self._maker.shutdown(wait=False, cancel_futures=True)

    def _prefetch(self) -> None:
        self._next: Future[Segment | None] = self._maker.submit(next, self._segments, None)

    def poll(self, now_ns: int) -> TrackerFrame | None:
        """Return the next sample that is due, with its due time as stamp, or None."""
        if self._now is None:
            return None
        if self._start_ns is None:
            self._start_ns = now_ns
        due = int((now_ns + EARLY_NS - self._start_ns) * 1e-9 * self.rate)
        if due < self._done - self.rate:  # A simulated clock was set back by more than a second.
            self._start_ns, self._done, self._epoch = now_ns, -1, self._epoch + 1
            due = 0
        i = self._done + 1 if due - self._done < TOO_OLD_S * self.rate else due
        if i > due:
            return None
        if i >= len(self._now.track):
            self._advance(now_ns)
            return self.poll(now_ns)
        self._done = i
        stamp_ns = self._start_ns + round(i * 1e9 / self.rate)
        self._stamp_ns = stamp_ns
        sampled = np.empty(R, np.int64)
        sampled.fill(stamp_ns)
        return TrackerFrame(stamp_ns, self._epoch, *self._now.track.row(i), sampled)

    def _advance(self, now_ns: int) -> None:
        assert self._now is not None and self._start_ns is not None
        length_ns = round(len(self._now.track) * 1e9 / self.rate)
        self._now = self._next.result()
        if self._now is None:
            return
        self._prefetch()
        self._epoch += self._now.fresh
        # If `poll` is called more than 1 s after the end of a segment, the next segment starts now.
        late = now_ns - self._start_ns - length_ns
        self._start_ns = now_ns if self._now.fresh or late > 1_000_000_000 else self._start_ns + length_ns
        self._done = -1

    def truth(self) -> AvatarPose | None:
        if self._now is None or self._done < 0:
            return None
        return self._now.body.pose(self._done, self._stamp_ns, self._epoch)

    def truth_skeleton(self) -> Skeleton | None:
        return None if self._now is None else self._now.skeleton

    def calibration(self) -> Calibration | None:
        return None if self._now is None else from_skeleton(self._now.skeleton)


def segments_of_clips(clips: list[Clip], simulation: Simulation, loop: bool = True) -> Iterator[Segment]:
    """Yield one segment per clip, each with a new epoch and other random noise."""
    count = 0
    while loop or count < len(clips):
        clip = clips[count % len(clips)]
        options = replace(simulation, seed=simulation.seed + count)
        track, body = simulate_clip(clip, options), truth_of_clip(clip, simulation.rate)
        yield Segment(track, body, clip.skeleton, fresh=count > 0)
        count += 1
