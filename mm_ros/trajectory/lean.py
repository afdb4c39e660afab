"""How far the hips are behind the centre of the head: from its height, and from how the body turns."""

from __future__ import annotations

import math

from mm_ros.maths.springs import damp

# Along the facing, as shares of the standing height of that centre; the head comes down when somebody bends, so its
# height tells (CMU; figures in docs/matching.md).
UPRIGHT = 0.011
BENT = 0.19  # more, fully bent
BENT_FROM, BENT_SCALE = 0.035, 0.06  # of the head's drop: where bending begins, and how soon it is full
HALFLIFE_S = 0.15  # a walking head bobs: that is no leaning

# Learning. Knees that bend bring the head down over the hips, a back that bends carries it ahead: the height cannot
# tell one from the other. But a body that walks turns about its hips, and who turns at rate w with the head d ahead
# of them moves it across the facing by w d.
LEARNING_HALFLIFE_S = 0.2  # of rate and velocities, twice: the sway of the steps is no turning
LEARNS_BENT = 0.05  # of the standing height that the hips are behind …
FORGETS_BENT = 0.03  # … below which one stands upright, and may bend otherwise next time
LEARNS_SPEED, LEARNS_TURN, LARGEST_TURN = 0.3, 0.3, 3.0  # m/s ahead, rad/s
DOUBT = 0.06  # m² rad²/s of turning that counts as much as the table above
EVIDENCE_HALFLIFE_S, UPRIGHT_HALFLIFE_S, FOLLOW_HALFLIFE_S = 60.0, 10.0, 1.0
LARGEST_CHANGE = 0.8  # share of the table's bent part


class Lean:
    """`now`: metres, smoothed; `rate`: its change."""

    def __init__(self, standing: float):
        self.standing = standing
        self.reset(1.0)

    def reset(self, height_ratio: float) -> None:
        self.change, self._asked, self._known = 0.0, 0.0, 0.0
        self.settle(height_ratio)

    def settle(self, height_ratio: float) -> None:
        """At once where this height has it; what was learned stays."""
        self.now, self.rate = self._of(self._bent(height_ratio)), 0.0
        self._once, self._twice = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)

    def step(self, dt: float, height_ratio: float, ahead: float, left: float, turn: float) -> None:
        """`ahead`, `left`: the head's velocity in the axes of the facing; `turn`: the facing's rate."""
        if dt <= 0:
            return
        bent = self._bent(height_ratio)
        self._learn(dt, bent, ahead, left, max(-LARGEST_TURN, min(LARGEST_TURN, turn)))
        before, self.now = self.now, damp(self.now, self._of(bent), HALFLIFE_S, dt)
        self.rate = (self.now - before) / dt

    def _bent(self, height_ratio: float) -> float:
        drop = max(0.0, 1.0 - height_ratio - BENT_FROM)
        return BENT * (1 - math.exp(-drop / BENT_SCALE)) * self.standing

    def _of(self, bent: float) -> float:
        return UPRIGHT * self.standing + (1 + self.change) * bent

    def _learn(self, dt: float, bent: float, *motion: float) -> None:
        """Least squares of velocity across the facing over turning, with the table as what is known before."""
        self._once = tuple(damp(a, b, LEARNING_HALFLIFE_S, dt) for a, b in zip(self._once, motion, strict=True))
        self._twice = tuple(damp(a, b, LEARNING_HALFLIFE_S, dt) for a, b in zip(self._twice, self._once, strict=True))
        ahead, left, turn = self._twice
        if bent < FORGETS_BENT * self.standing:
            self._fade(dt, UPRIGHT_HALFLIFE_S)
        lacking = left - turn * (UPRIGHT * self.standing + bent)
        walks = ahead > LEARNS_SPEED and abs(lacking) < ahead
        if walks and abs(turn) > LEARNS_TURN and bent > LEARNS_BENT * self.standing:
            self._fade(dt, EVIDENCE_HALFLIFE_S)
            self._asked += dt * turn * bent * lacking
            self._known += dt * (turn * bent) ** 2
        goal = max(-LARGEST_CHANGE, min(LARGEST_CHANGE, self._asked / (self._known + DOUBT)))
        self.change = damp(self.change, goal, FOLLOW_HALFLIFE_S, dt)

    def _fade(self, dt: float, halflife: float) -> None:
        share = 0.5 ** (dt / halflife)
        self._asked *= share
        self._known *= share
