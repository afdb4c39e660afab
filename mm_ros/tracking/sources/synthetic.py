"""The source `synthetic`: the motion of the synthetic user (motion/procedural/user.py), with noise and without end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.types import identity_pose
from mm_ros.motion.procedural.user import SyntheticUser
from mm_ros.tracking.simulation import Simulation, simulate
from mm_ros.tracking.sources.played import PlayedSource, Segment
from mm_ros.tracking.truth import truth_of_clip

# The noise of a headset at rest is about 0.3 mm in the recordings of data/vr_sessions.
NOISE = Simulation(noise_m=0.0003, noise_rad=0.001)
OVERLAP = 3  # number of frames before and after a part of the motion that its cubic interpolation needs


def synthetic_source(rate: float, seed: int, scale: float = 1.0) -> PlayedSource:
    return PlayedSource(user_segments(SyntheticUser(seed, scale), replace(NOISE, rate=rate, seed=seed)), rate)


def first_segment() -> Segment:
    """Return the first segment of a synthetic user; call it before a fork, so that child processes share compiled
    functions."""
    return next(user_segments(SyntheticUser(0), NOISE))


def user_segments(user: SyntheticUser, simulation: Simulation) -> Iterator[Segment]:
    """Yield one segment per chapter of the user's motion, whose samples continue from chapter to chapter."""
    axes = identity_pose()[3:]  # rotation from head joint to head axes in all parts of the motion
    begins = sample = count = 0
    while True:
        here = min(count, 1)  # index of the present part of the motion in `user.chapters`
        while len(user.chapters) < here + 2:
            user.extend()
        piece, lead = with_neighbours(user.chapters, here)
        rate, length = piece.rate, len(user.chapters[here])
        last = int(np.ceil((begins + length) / rate * simulation.rate - 1e-6))
        times = np.arange(sample, last) / simulation.rate - (begins - lead) / rate
        positions, rotations = piece.globals()
        options = replace(simulation, seed=simulation.seed * 1009 + count)
        track = simulate(positions, rotations, rate, options, 0, axes, times)
        yield Segment(track, truth_of_clip(piece, simulation.rate, times), user.skeleton, fresh=False)
        begins, sample, count = begins + length, last, count + 1
        if here:
            user.forget_first()


def with_neighbours(chapters: list[Clip], k: int) -> tuple[Clip, int]:
    """Return chapter k with a few frames of the neighbouring chapters, and the number of frames before chapter k."""
    before = chapters[k - 1].cut(len(chapters[k - 1]) - OVERLAP, len(chapters[k - 1])) if k else None
    parts = [*([before] if before is not None else []), chapters[k], chapters[k + 1].cut(0, OVERLAP)]
    whole = replace(
        chapters[k],
        positions=np.concatenate([c.positions for c in parts]),
        rotations=np.concatenate([c.rotations for c in parts]),
        tags=(),
    )
    return whole, 0 if before is None else OVERLAP


def user_clip(seconds: float, seed: int = 0, scale: float = 1.0) -> Clip:
    return SyntheticUser(seed, scale).clip(seconds)
