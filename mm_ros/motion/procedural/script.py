"""Random sequences of activities of the synthetic user: segments (legs) of the desired motion, and gestures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mm_ros.maths import rotations as rot
from mm_ros.motion.procedural.desired_motion import RATE, Leg
from mm_ros.motion.procedural.footsteps import LEFT, RIGHT
from mm_ros.motion.procedural.gestures import Gesture

# Time [s] for which the user stands still at the start and at the end of a chapter
STILL_START_S, STILL_END_S = 2.0, 3.4
NEEDS_A_HAND = ("reach", "reach low", "point", "wave", "hold", "tiptoe")


@dataclass
class Chapter:
    position: tuple[float, float]
    yaw: float
    legs: list[Leg] = field(default_factory=list)
    gestures: list[Gesture] = field(default_factory=list)
    tags: tuple[tuple[str, int, int], ...] = ()


class Script:
    """A generator of random activities, which computes the position and facing of the synthetic user."""

    def __init__(self, rng: np.random.Generator, room_m: float) -> None:
        self.rng, self.room_m = rng, room_m
        self.position = np.zeros(2)
        self.yaw = 0.0
        self._busy = [0.0, 0.0]  # time at which the last gesture of each hand (left, right) ends

    def arrive(self, position: tuple[float, float], yaw: float) -> None:
        self.position, self.yaw = np.array(position), yaw

    def chapter(self, seconds: float, kinds: tuple[str, ...] = ()) -> Chapter:
        """Return a chapter of about `seconds` with random activities: those in `kinds`, or all if `kinds` is empty."""
        self._chapter = Chapter((float(self.position[0]), float(self.position[1])), self.yaw)
        self._legs = self._chapter.legs
        self._time = 0.0
        self._busy = [0.0, 0.0]
        tags: list[tuple[str, int, int]] = []
        self._add(Leg(STILL_START_S))
        does: list[tuple[str, float, Callable[[], None]]] = [
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
        does = [row for row in does if not kinds or row[0] in kinds]
        weights = np.array([w for _, w, _ in does])
        last = -1
        while self._time < seconds - STILL_END_S:
            k = int(self.rng.choice(len(does), p=weights / weights.sum()))
            if k == last and does[k][0] != "walk":
                continue
            if does[k][0] in NEEDS_A_HAND and min(self._busy) > self._time:
                continue
            last = k
            start = self._time
            does[k][2]()
            tags.append((does[k][0], round(start * RATE), round(self._time * RATE)))
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
        side = RIGHT if self.rng.random() < 0.65 else LEFT
        return side if self._busy[side] <= self._time else LEFT + RIGHT - side

    def _gesture(
        self, side: int, rise: float, hold: float, fall: float, target: tuple[float, float, float], **more: Any
    ) -> None:
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
        way = self._goal(0.7, 2.4) - self.position
        distance = float(np.hypot(*way))
        angle = float(rot.wrap_angle(np.arctan2(way[1], way[0]) - self.yaw))
        speed = self._uniform(0.4, 0.95) * min(1.0, 0.5 + distance / 3)
        rate = self._uniform(1.3, 2.0)
        turn_s = max(0.25, abs(angle) / rate)
        # share of the angle to the goal that the user turns on the spot before the first step
        early = self._uniform(0.5, 0.95) if abs(angle) > 1.0 else 0.0
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
