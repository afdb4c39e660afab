"""Motion of a known body as a live source: trackers by core/simulated_trackers.py, the body as the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mm_ros.core.calibration import from_skeleton
from mm_ros.core.clip import Clip
from mm_ros.core.simulated_trackers import Simulation, TrackerTrack, simulate_clip
from mm_ros.core.skeleton import Skeleton
from mm_ros.core.truth import TruthTrack, truth_of_clip
from mm_ros.core.types import AvatarPose, Calibration, TrackerFrame
from mm_ros.trackers.base import Source

PERFECT = Simulation()


class ClipSource(Source):
    """Plays clips of one skeleton one after the other, then again from the start, each in a new epoch."""

    trusted = True

    def __init__(self, clips: list[Clip], simulation: Simulation = PERFECT, loop: bool = True) -> None:
        super().__init__()
        self.rate = simulation.rate
        self._clips, self._simulation, self._loop = clips, simulation, loop
        self._epoch = -1
        self._truth: AvatarPose | None = None
        self._start_ns: int | None = None
        self._done = -1  # last sample of the clip that was handed out

    def open(self) -> None:
        self._next_clip()

    def _next_clip(self) -> None:
        self._epoch += 1
        clip = self._clips[self._epoch % len(self._clips)]
        self._track: TrackerTrack = simulate_clip(clip, replace(self._simulation, seed=self._seed()))
        self._body: TruthTrack = truth_of_clip(clip, self._simulation.rate)
        self._start_ns, self._done = None, -1

    def _seed(self) -> int:
        return self._simulation.seed + 1000 * self._epoch

    def poll(self, now_ns: int) -> TrackerFrame | None:
        if self._start_ns is None:
            self._start_ns = now_ns
        i = int((now_ns - self._start_ns) * 1e-9 * self.rate + 0.5)
        if i <= self._done:
            return None
        if i >= len(self._track):
            if not self._loop and self._epoch + 1 >= len(self._clips):
                return None
            self._next_clip()
            return self.poll(now_ns)
        self._done = i
        out = self._track.frame(i)
        out.stamp_ns, out.epoch = now_ns, self._epoch
        out.sampled_ns = np.full_like(out.sampled_ns, now_ns)
        self._truth = self._body.pose(i, now_ns, self._epoch)
        return out

    def truth(self) -> AvatarPose | None:
        return self._truth

    def truth_skeleton(self) -> Skeleton | None:
        return self._clips[0].skeleton

    def calibration(self) -> Calibration | None:
        return from_skeleton(self._clips[0].skeleton)
