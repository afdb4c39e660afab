"""A person in a headset who walks about a room: slow steps, stops, turns, looks, reaches, crouches, points, waves.

Planned in chapters that begin and end standing still, made when somebody asks for their time; the same seed is the same
person doing the same things.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mm_ros.core import rotations as rot
from mm_ros.core.clip import Clip
from mm_ros.core.procedural.body import Manner, make_motion
from mm_ros.core.procedural.footsteps import LEFT, RIGHT, Step
from mm_ros.core.procedural.gestures import Gesture, apply_gestures
from mm_ros.core.procedural.smooth import ramp
from mm_ros.core.procedural.wish import RATE, Leg, make_wish
from mm_ros.core.skeleton import Skeleton, default_skeleton
from mm_ros.core.types import F32

CHAPTER_S = 60.0
STILL_START_S, STILL_END_S = 2.0, 3.4  # so long that a chapter's ends know nothing of its inside
BLEND_S = 0.2
NEEDS_A_HAND = ("reach", "reach low", "point", "wave", "hold", "tiptoe")


class SyntheticUser:
    """`scale` makes the same person taller; `room_m` is half the side of the square they stay in."""

    def __init__(self, seed: int = 0, scale: float = 1.0, room_m: float = 1.4) -> None:
        self.seed, self.scale, self.room_m = seed, scale, room_m
        self.skeleton: Skeleton = default_skeleton().scaled(scale)
        self._clips: list[Clip] = []
        self._script = _Script(np.random.default_rng([seed, 0]), room_m)
        self._feet: tuple[Step, Step] | None = None
        a, b, c, d = np.random.default_rng([seed, 1]).uniform(-1, 1, 4)
        self._manner = Manner(1 + 0.15 * a, 1 + 0.2 * b, 0.32 + 0.08 * c, 1 + 0.2 * d)

    @property
    def planned_s(self) -> float:
        return sum(len(clip) for clip in self._clips) / RATE

    @property
    def chapters(self) -> list[Clip]:
        """What has been planned so far, one clip a chapter; they join without a seam."""
        return self._clips

    def extend(self) -> None:
        """Plan one more chapter (about 0.1 s of work for a minute of motion)."""
        chapter = self._script.chapter(CHAPTER_S)
        wish = make_wish(chapter.legs, BLEND_S, chapter.position, chapter.yaw)
        t = np.arange(len(wish)) / RATE
        wish.liveliness = ramp(t, 0.1, STILL_START_S) * ramp(t[-1] - t, 0.1, 1.5)
        index = len(self._clips)
        clip, steps = make_motion("synthetic user", wish, self.seed * 1009 + index, self._manner, self._feet)
        self._feet = tuple(next(s for s in reversed(steps) if s.foot == foot) for foot in (LEFT, RIGHT))  # type: ignore[assignment]
        self._script.arrive((float(wish.position[-1, 0]), float(wish.position[-1, 1])), float(wish.yaw[-1]))
        clip = apply_gestures(clip, chapter.gestures)
        positions = clip.positions.copy()
        positions[:, 1:] = self.skeleton.offsets[1:]
        positions[:, :2] = clip.positions[:, :2] * np.float32(self.scale)
        self._clips.append(
            replace(clip, positions=positions, skeleton=self.skeleton, tags=chapter.tags, subject=f"user {self.seed}")
        )

    def clip(self, seconds: float) -> Clip:
        """The first `seconds` as one clip."""
        frames = max(2, round(seconds * RATE))
        while sum(map(len, self._clips)) < frames:
            self.extend()
        starts = np.cumsum([0, *map(len, self._clips)])
        tags = tuple(
            (name, a + int(start), b + int(start))
            for clip, start in zip(self._clips, starts, strict=False)
            for name, a, b in clip.tags
        )
        whole = replace(
            self._clips[0],
            positions=np.concatenate([c.positions for c in self._clips]),
            rotations=_one_cover(np.concatenate([c.rotations for c in self._clips])),
            tags=tags,
        )
        return whole.cut(0, frames)

    def at(self, t: float) -> tuple[F32, F32]:
        """Local positions (J, 3) and rotations (J, 4) at t ≥ 0 seconds; joint 0 is the root in the room."""
        while t > self.planned_s - 3 / RATE:
            self.extend()
        at = max(t, 0.0) * RATE
        i = int(at)
        u = at - i
        frames = [self._frame(max(k, 0)) for k in range(i - 1, i + 3)]
        p, q = [f[0] for f in frames], [f[1] for f in frames]
        q = [k * np.where((k * q[1]).sum(-1, keepdims=True) < 0, -1, 1).astype(np.float32) for k in q]
        return _cubic(p, u), np.asarray(rot.normalize(_cubic(q, u)), np.float32)

    def _frame(self, i: int) -> tuple[F32, F32]:
        for clip in self._clips:
            if i < len(clip):
                return clip.positions[i], clip.rotations[i]
            i -= len(clip)
        raise IndexError(i)


def _cubic(x: list[F32], u: float) -> F32:
    """Catmull-Rom between x[1] and x[2]: velocities stay continuous, as trackers report them."""
    z, a, b, c = x
    return np.asarray(a + u / 2 * (b - z + u * (2 * z - 5 * a + 4 * b - c + u * (3 * (a - b) + c - z))), np.float32)


def _one_cover(q: F32) -> F32:
    flips = np.where((q[1:, :1] * q[:-1, :1]).sum(-1, keepdims=True) < 0, -1, 1).astype(np.float32)
    out = q.copy()
    out[1:, :1] *= np.cumprod(flips, axis=0)
    return out


@dataclass
class _Chapter:
    position: tuple[float, float]
    yaw: float
    legs: list[Leg] = field(default_factory=list)
    gestures: list[Gesture] = field(default_factory=list)
    tags: tuple[tuple[str, int, int], ...] = ()


class _Script:
    """Draws what the person does next, and keeps account of where that leads."""

    def __init__(self, rng: np.random.Generator, room_m: float) -> None:
        self.rng, self.room_m = rng, room_m
        self.position = np.zeros(2)
        self.yaw = 0.0
        self._busy = [0.0, 0.0]  # until when each hand does something

    def arrive(self, position: tuple[float, float], yaw: float) -> None:
        self.position, self.yaw = np.array(position), yaw

    def chapter(self, seconds: float) -> _Chapter:
        self._chapter = _Chapter((float(self.position[0]), float(self.position[1])), self.yaw)
        self._legs = self._chapter.legs
        self._time = 0.0
        self._busy = [0.0, 0.0]
        tags: list[tuple[str, int, int]] = []
        self._add(Leg(STILL_START_S))
        kinds: list[tuple[str, float, Callable[[], None]]] = [
            ("walk", 5.0, self._walk),
            ("look", 2.0, self._look),
            ("turn", 2.0, self._turn),
            ("shuffle", 2.0, self._shuffle),
            ("reach", 2.0, self._reach),
            ("reach low", 1.0, self._reach_low),
            ("crouch", 1.0, self._crouch),
            ("point", 1.0, self._point),
            ("wave", 0.6, self._wave),
            ("hold", 1.5, self._hold_controllers),
            ("tiptoe", 0.4, self._tiptoe),
        ]
        weights = np.array([w for _, w, _ in kinds])
        last = -1
        while self._time < seconds - STILL_END_S:
            k = int(self.rng.choice(len(kinds), p=weights / weights.sum()))
            if k == last and kinds[k][0] != "walk":
                continue
            if kinds[k][0] in NEEDS_A_HAND and min(self._busy) > self._time:
                continue
            last = k
            start = self._time
            kinds[k][2]()
            tags.append((kinds[k][0], round(start * RATE), round(self._time * RATE)))
        quiet = max(self._busy) - self._time
        self._add(Leg(STILL_END_S + max(0.0, quiet)))
        self._chapter.tags = tuple(tags)
        return self._chapter

    def _add(self, leg: Leg) -> None:
        self._legs.append(leg)
        self._time += max(1, round(leg.seconds * RATE)) / RATE
        self.yaw += leg.turn * leg.seconds
        self.position = self.position + np.array(leg.room) * leg.seconds

    def _uniform(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def _side(self) -> int:
        """The right hand is the handier one; a hand that does something else is not taken."""
        side = RIGHT if self.rng.random() < 0.65 else LEFT
        return side if self._busy[side] <= self._time else LEFT + RIGHT - side

    def _gesture(
        self, side: int, rise: float, hold: float, fall: float, target: tuple[float, float, float], **more: Any
    ) -> None:
        """Begins now, or when the hand has come back."""
        start = max(self._time, self._busy[side] + 0.1)
        gesture = Gesture(side, start, rise, hold, fall, target, **more)
        self._busy[side] = gesture.stop
        self._chapter.gestures.append(gesture)

    def _stand(self, seconds: float, **posture: Any) -> None:
        self._add(Leg(seconds, **posture))

    def _look(self) -> None:
        for _ in range(int(self.rng.integers(1, 4))):
            self._stand(
                self._uniform(0.6, 1.6), look_yaw=self._uniform(-1.0, 1.0), look_pitch=self._uniform(-0.35, 0.5)
            )
        self._stand(self._uniform(0.4, 1.2))

    def _turn(self) -> None:
        angle = float(self.rng.choice([45, 90, 90, 135, 180]) * self.rng.choice([-1, 1])) + self._uniform(-15, 15)
        rate = self._uniform(1.1, 2.1)
        radians = float(np.radians(angle))
        self._add(Leg(abs(radians) / rate, turn=float(np.copysign(rate, radians))))
        self._stand(self._uniform(0.3, 1.2))

    def _goal(self, least: float, most: float) -> np.ndarray:
        for _ in range(50):
            goal = self.rng.uniform(-self.room_m, self.room_m, 2)
            if least < np.hypot(*(goal - self.position)) < most:
                return goal
        return np.zeros(2)

    def _walk(self) -> None:
        """Turn towards a place while setting off, go there, perhaps looking elsewhere."""
        way = self._goal(0.7, 2.4) - self.position
        distance = float(np.hypot(*way))
        angle = float(rot.wrap_angle(np.arctan2(way[1], way[0]) - self.yaw))
        speed = self._uniform(0.4, 0.95) * min(1.0, 0.5 + distance / 3)
        rate = self._uniform(1.3, 2.0)
        turn_s = max(0.25, abs(angle) / rate)
        early = self._uniform(0.5, 0.95) if abs(angle) > 1.0 else 0.0  # share of the turn made standing
        if early:
            self._add(Leg(turn_s * early, turn=angle / turn_s))
        seconds = distance / speed
        rest = turn_s * (1 - early)
        direction = way / distance * speed
        room = (float(direction[0]), float(direction[1]))
        turning = min(rest, 0.8 * seconds)
        self._add(Leg(turning, room=room, turn=angle * (1 - early) / turning))
        elsewhere = self._uniform(-0.8, 0.8) if self.rng.random() < 0.4 else 0.0
        left = seconds - turning
        self._add(Leg(0.6 * left, room=room, look_yaw=elsewhere, look_pitch=self._uniform(-0.1, 0.25)))
        self._add(Leg(0.4 * left, room=room))
        self._stand(self._uniform(0.3, 2.0))

    def _shuffle(self) -> None:
        """A few steps aside or back, facing on."""
        goal = self._goal(0.35, 1.1)
        way = goal - self.position
        distance = float(np.hypot(*way))
        direction = way / distance * self._uniform(0.3, 0.5)
        seconds = distance / float(np.hypot(*direction))
        self._add(Leg(seconds, room=(float(direction[0]), float(direction[1])), turn=self._uniform(-0.15, 0.15)))
        self._stand(self._uniform(0.3, 1.2))

    def _reach(self) -> None:
        side = self._side()
        up = self._uniform(-0.30, 0.42)
        target = (self._uniform(0.38, 0.56), self._uniform(0.02, 0.40), up)
        rise, hold, fall = self._uniform(0.55, 0.9), self._uniform(0.3, 1.2), self._uniform(0.6, 1.0)
        lean = max(0.0, 0.25 - 0.3 * up) * self._uniform(0.4, 1.0)
        look = (0.35 if side == LEFT else -0.35) * target[1] / 0.3
        self._gesture(side, rise, hold, fall, target, stays=True)
        self._stand(rise + hold, lean=lean, look_yaw=look, look_pitch=float(np.clip(-0.9 * up, -0.4, 0.5)))
        self._stand(fall)

    def _reach_low(self) -> None:
        side = self._side()
        depth = self._uniform(0.12, 0.40)
        rise, hold, fall = self._uniform(0.9, 1.3), self._uniform(0.4, 1.2), self._uniform(0.9, 1.2)
        self._gesture(side, rise, hold, fall, (0.35, 0.20, -0.52), elbow=(-0.6, 0.5, -0.4), stays=True)
        self._stand(rise + hold, sink=depth, lean=0.35 + 1.1 * depth, look_pitch=0.45)
        self._stand(fall + 0.3)

    def _crouch(self) -> None:
        depth = self._uniform(0.15, 0.42)
        lean = 0.2 + 1.0 * depth
        seconds = self._uniform(1.4, 3.5)
        self._stand(seconds, sink=depth, lean=lean, look_yaw=self._uniform(-0.6, 0.6))
        if self.rng.random() < 0.4:
            heading = np.array([np.cos(self.yaw), np.sin(self.yaw)])
            speed = 0.35
            if np.abs(self.position + heading * speed * 1.8).max() < self.room_m:
                step = heading * speed
                self._add(Leg(1.8, room=(float(step[0]), float(step[1])), sink=depth, lean=lean))
        self._stand(self._uniform(1.0, 1.6))

    def _point(self) -> None:
        side = self._side()
        hold = self._uniform(0.8, 1.8)
        outward = self._uniform(-0.05, 0.5)
        self._gesture(side, 0.6, hold, 0.8, (0.60, outward, self._uniform(0.02, 0.35)), elbow=(-0.1, 0.4, -1.0))
        look = (1 if side == LEFT else -1) * float(np.arctan2(outward, 0.6))
        self._stand(0.6 + hold, look_yaw=0.8 * look)
        self._stand(self._uniform(0.5, 1.2))

    def _wave(self) -> None:
        side = self._side()
        hold = self._uniform(1.2, 2.4)
        self._gesture(side, 0.6, hold, 0.8, (0.22, 0.38, 0.36), elbow=(0.0, 0.8, -0.8), wave_hz=self._uniform(1.4, 2.0))
        self._stand(0.6 + hold)
        self._stand(0.9)

    def _hold_controllers(self) -> None:
        """Both hands before the body, as people hold controllers; they walk or turn with it."""
        hold = self._uniform(3.0, 8.0)
        for side in (LEFT, RIGHT):
            target = (self._uniform(0.26, 0.36), self._uniform(0.08, 0.18), self._uniform(-0.26, -0.05))
            self._gesture(
                side, self._uniform(0.6, 0.8), hold, self._uniform(0.7, 1.0), target, elbow=(-0.5, 0.45, -1.0)
            )
        self._stand(0.8, look_pitch=0.15)
        if self.rng.random() < 0.7:
            (self._walk if self.rng.random() < 0.5 else self._shuffle)()

    def _tiptoe(self) -> None:
        side = self._side()
        hold = self._uniform(0.6, 1.2)
        self._gesture(side, 0.9, hold, 0.9, (0.28, 0.16, 0.62), elbow=(0.3, 0.8, -0.3), stays=True)
        self._stand(0.9 + hold, tiptoe=self._uniform(0.3, 0.5), look_pitch=-0.45)
        self._stand(1.0)
