"""Estimate how the user bends: the angle of the line from hips to head, from head height, head pitch and hands.

The height of the head alone does not distinguish bent knees from a bent back. A share of its drop is due to the back:
L (1 − cos lean), with the length L from hips to head; the rest is due to the knees. A person who looks down and whose
hands are low bends the back; one who looks ahead bends the knees. The share is a logistic function, fitted to CMU
motion (docs/pose.md).
"""

from __future__ import annotations

import math

from mm_ros.body.types import HEAD_ROLE, LEFT_HAND_ROLE, LOST, RIGHT_HAND_ROLE, TrackerFrame
from mm_ros.maths import quat
from mm_ros.maths.springs import damp

HIPS_TO_HEAD = 0.40  # length from hips to head joint as a share of the head joint's standing height
BENT_FROM = 0.035  # drop of the head, as a share of the standing height, at which bending begins: walking bobs
SOFT = 0.04  # drop over which bending sets in
LARGEST_DROP = 0.9
# CMU's skeletons have short trunks and long legs (0.30 and 0.70 of the height): in people, the same posture lowers the
# head more by the back and less by the knees, so the odds of the share are 1.55 times as large (logarithm 0.44).
# Weights of: 1, pitch down [rad], drop, pitch × drop, hands forward, hands above the head, both × drop
WEIGHTS = (0.67 + 0.44, 0.87, -0.83, -0.15, -0.76, 1.67, 0.01, 1.25)
PITCH, FORWARD, ABOVE, DROP = (-1.0, 1.3), (-0.3, 0.6), (-0.7, 0.3), (0.0, 0.6)  # ranges of the fitted motion
NEUTRAL = (0.0, -0.32)  # hands forward and above the head of a bent person, as shares of the standing height
PITCH_HALFLIFE_S, HANDS_HALFLIFE_S, UNSEEN_HALFLIFE_S = 0.12, 0.2, 1.0
ON_THE_BACK_PITCH, ON_THE_BACK_RATIO = -0.35, 0.55  # a low head that looks up is that of a person on the back
ON_THE_BACK_HALFLIFE_S = 0.1

# Sitting: a head at the height of a chair, behind the place where it was last upright, which stays there. The head of
# a person who squats stays above the feet. Ratios are of the head's height.
LOWEST_SEAT, HIGHEST_SEAT, STOOD_UP = 0.55, 0.78, 0.86
UPRIGHT, SEAT_BEHIND_M = 0.93, 0.08
CALM_SPEED, CALM_S, SPEED_HALFLIFE_S, SEATED_HALFLIFE_S = 0.2, 1.5, 0.15, 0.2  # m/s, s
SEATED_PITCH = 0.7  # rad; a person who looks farther down bends over something
LEFT_SEAT_M = 0.45  # from the place where the user sat down
SEATED_COSINE = 0.985  # of the lean of a seated person


def bent_share(pitch: float, drop: float, forward: float, above: float) -> float:
    """Share of the head's drop that the back causes (0 … 1)."""
    p, d = _within(pitch, PITCH), _within(drop, DROP)
    f, a = _within(forward, FORWARD), _within(above, ABOVE)
    values = (1.0, p, d, p * d, f, a, f * d, a * d)
    u = sum(w * x for w, x in zip(WEIGHTS, values, strict=True))
    return 1.0 / (1.0 + math.exp(-_within(u, (-6.0, 6.0))))


def _within(x: float, limits: tuple[float, float]) -> float:
    return max(limits[0], min(limits[1], x))


class Bend:
    """`drop`: of the head joint beyond that of walking, as a share of the standing height. `share`: what the back
    causes of it. `on_back`: −1 on the back … 1 otherwise."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.drop, self.share, self.on_back, self.ratio = 0.0, 0.5, 1.0, 1.0
        self._pitch = 0.0
        self._hands = NEUTRAL
        self._ready = False
        self.seated, self.sits, self.calm_s = 0.0, False, 0.0
        self._last, self._speed, self._seat = (0.0, 0.0, 0.0), 0.0, (0.0, 0.0)
        self.forget_place()

    def forget_place(self) -> None:
        self._upright: tuple[float, float] | None = None  # where the head was last upright

    def step(self, dt: float, frame: TrackerFrame, head_height: float, standing: float, yaw: float) -> None:
        """`head_height`, `standing`: height of the head joint now and when standing [m]; `yaw`: of the body."""
        ahead = quat.rotate(quat.get4(frame.rotations, HEAD_ROLE), (1.0, 0.0, 0.0))
        pitch = -math.asin(_within(float(ahead[2]), (-1.0, 1.0)))
        fresh, self._ready = not self._ready, True
        self._pitch = pitch if fresh else damp(self._pitch, pitch, PITCH_HALFLIFE_S, dt)
        self.ratio = head_height / standing
        self.drop = _within(1.0 - self.ratio - BENT_FROM, (0.0, LARGEST_DROP))
        hands, halflife = self._hands_of(frame, standing, yaw)
        old = hands if fresh else self._hands
        self._hands = (damp(old[0], hands[0], halflife, dt), damp(old[1], hands[1], halflife, dt))
        self.share = bent_share(self._pitch, self.drop, *self._hands)
        supine = self._pitch < ON_THE_BACK_PITCH and self.ratio < ON_THE_BACK_RATIO
        goal = -1.0 if supine else 1.0
        self.on_back = goal if fresh else damp(self.on_back, goal, ON_THE_BACK_HALFLIFE_S, dt)
        self._sit(dt, frame, fresh, yaw)

    def _sit(self, dt: float, frame: TrackerFrame, fresh: bool, yaw: float) -> None:
        x, y, z = (float(v) for v in frame.positions[HEAD_ROLE])
        if not fresh and dt > 0.0:
            self._speed = damp(self._speed, min(math.dist((x, y, z), self._last) / dt, 5.0), SPEED_HALFLIFE_S, dt)
            self.calm_s = self.calm_s + dt if self._speed < CALM_SPEED else 0.0
        self._last = (x, y, z)
        if self.ratio > UPRIGHT:
            self._upright = (x, y)
        behind = SEAT_BEHIND_M  # of a user who was never upright
        if self._upright is not None:
            behind = (self._upright[0] - x) * math.cos(yaw) + (self._upright[1] - y) * math.sin(yaw)
        if self.sits:
            self.sits = self.ratio < STOOD_UP and math.dist((x, y), self._seat) < LEFT_SEAT_M and self.on_back > 0.0
        elif self.calm_s > CALM_S and LOWEST_SEAT < self.ratio < HIGHEST_SEAT and self._pitch < SEATED_PITCH:
            self.sits, self._seat = behind >= SEAT_BEHIND_M, (x, y)
        self.seated = damp(self.seated, float(self.sits), SEATED_HALFLIFE_S, dt)

    def _hands_of(self, frame: TrackerFrame, standing: float, yaw: float) -> tuple[tuple[float, float], float]:
        """Mean of the tracked hands relative to the head: forward and up, over the standing height; and a half-life."""
        seen = [r for r in (LEFT_HAND_ROLE, RIGHT_HAND_ROLE) if frame.state[r] != LOST]
        if not seen:
            return NEUTRAL, UNSEEN_HALFLIFE_S
        x, y, z = (float(v) for v in (frame.positions[seen] - frame.positions[HEAD_ROLE]).mean(0) / standing)
        forward = x * math.cos(yaw) + y * math.sin(yaw)
        laid_down = math.hypot(x, y) > 0.6 or z < -0.9  # controllers that were laid down
        return (NEUTRAL, UNSEEN_HALFLIFE_S) if laid_down else ((forward, z), HANDS_HALFLIFE_S)

    def cosine(self) -> float:
        """Cosine of the lean of the line from hips to head."""
        bent = max(1.0 - self.share * self.drop * self.drop / (self.drop + SOFT) / HIPS_TO_HEAD, -0.2)
        upright = SEATED_COSINE - 0.5 * max(self._pitch - 0.2, 0.0) ** 2
        return bent + self.seated * (max(upright, bent) - bent)

    @property
    def behind(self) -> float:
        """Distance of the hips behind the head that bending causes, over the standing height; negative on the back."""
        return self.on_back * HIPS_TO_HEAD * math.sqrt(max(1.0 - self.cosine() ** 2, 0.0))
