"""A synthetic headset user, who walks in a room, stops, turns, looks around, crouches and moves the hands.

The motion consists of chapters of one minute. A chapter is computed when its time is requested, and the user stands
still at its start and end. Equal seeds give equal motion.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import Skeleton, default_skeleton
from mm_ros.body.types import F32
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import catmull_rom, continuous
from mm_ros.motion.procedural.body import Manner, make_motion
from mm_ros.motion.procedural.desired_motion import RATE, make_desired_motion
from mm_ros.motion.procedural.footsteps import LEFT, RIGHT, Step
from mm_ros.motion.procedural.gestures import apply_gestures
from mm_ros.motion.procedural.script import STILL_START_S, Script
from mm_ros.motion.procedural.smooth import ramp

CHAPTER_S = 60.0  # duration of a chapter
BLEND_S = 0.2  # blend time between two segments (legs) of a walk


class SyntheticUser:
    """A synthetic user in a square room.

    `scale` is the size of the body relative to the default skeleton. `room_m` is half the length of a wall [m].
    """

    def __init__(self, seed: int = 0, scale: float = 1.0, room_m: float = 1.4) -> None:
        self.seed, self.scale, self.room_m = seed, scale, room_m
        self.skeleton: Skeleton = default_skeleton().scaled(scale)
        self._clips: list[Clip] = []
        self._planned = 0
        self._script = Script(np.random.default_rng([seed, 0]), room_m)
        self._feet: tuple[Step, Step] | None = None
        a, b, c, d = np.random.default_rng([seed, 1]).uniform(-1, 1, 4)
        self._manner = Manner(1 + 0.15 * a, 1 + 0.2 * b, 0.32 + 0.08 * c, 1 + 0.2 * d)

    @property
    def planned_s(self) -> float:
        return sum(len(clip) for clip in self._clips) / RATE

    @property
    def chapters(self) -> list[Clip]:
        """Clips of the chapters that are already computed; each chapter continues the motion of the chapter before."""
        return self._clips

    def forget_first(self) -> None:
        """Delete the first chapter to free memory; the time in `clip` and `at` then begins with the next chapter."""
        del self._clips[0]

    def extend(self) -> None:
        """Compute one more chapter, which takes about 0.1 s."""
        chapter = self._script.chapter(CHAPTER_S)
        desired = make_desired_motion(chapter.legs, BLEND_S, chapter.position, chapter.yaw)
        t = np.arange(len(desired)) / RATE
        desired.liveliness = ramp(t, 0.1, STILL_START_S) * ramp(t[-1] - t, 0.1, 1.5)
        index, self._planned = self._planned, self._planned + 1
        clip, steps = make_motion("synthetic user", desired, self.seed * 1009 + index, self._manner, self._feet)
        self._feet = tuple(next(s for s in reversed(steps) if s.foot == foot) for foot in (LEFT, RIGHT))  # type: ignore[assignment]
        self._script.arrive((float(desired.position[-1, 0]), float(desired.position[-1, 1])), float(desired.yaw[-1]))
        clip = apply_gestures(clip, chapter.gestures)
        positions = clip.positions.copy()
        positions[:, 1:] = self.skeleton.offsets[1:]
        positions[:, :2] = clip.positions[:, :2] * np.float32(self.scale)
        self._clips.append(
            replace(clip, positions=positions, skeleton=self.skeleton, tags=chapter.tags, subject=f"user {self.seed}")
        )

    def clip(self, seconds: float) -> Clip:
        """Return the first `seconds` of the motion as one clip."""
        frames = max(2, round(seconds * RATE))
        while sum(map(len, self._clips)) < frames:
            self.extend()
        starts = np.cumsum([0, *map(len, self._clips)])
        tags = tuple(
            (name, a + int(start), b + int(start))
            for clip, start in zip(self._clips, starts, strict=False)
            for name, a, b in clip.tags
        )
        rotations = np.concatenate([c.rotations for c in self._clips])
        rotations[:, 0] = continuous(rotations[:, 0])
        whole = replace(
            self._clips[0],
            positions=np.concatenate([c.positions for c in self._clips]),
            rotations=rotations,
            tags=tags,
        )
        return whole.cut(0, frames)

    def at(self, t: float) -> tuple[F32, F32]:
        """Return positions (J, 3) and rotations (J, 4) of all joints relative to their parents at time `t` [s]."""
        while t > self.planned_s - 3 / RATE:
            self.extend()
        at = max(t, 0.0) * RATE
        i = int(at)
        u = at - i
        frames = [self._frame(max(k, 0)) for k in range(i - 1, i + 3)]
        p, q = [f[0] for f in frames], [f[1] for f in frames]
        q = [k * np.where((k * q[1]).sum(-1, keepdims=True) < 0, -1, 1).astype(np.float32) for k in q]
        return np.asarray(catmull_rom(p, u), np.float32), np.asarray(rot.normalize(catmull_rom(q, u)), np.float32)

    def _frame(self, i: int) -> tuple[F32, F32]:
        for clip in self._clips:
            if i < len(clip):
                return clip.positions[i], clip.rotations[i]
            i -= len(clip)
        raise IndexError(i)
