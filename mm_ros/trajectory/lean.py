"""Estimate how far the hips are behind the centre of the head, from the head height and from turns."""

from __future__ import annotations

import math

from mm_ros.maths.springs import damp

# The prior: distance along the facing, as shares of the standing height of the head centre. Bending lowers the head,
# so the head height predicts the distance. Fitted to CMU motion (docs/matching.md).
UPRIGHT = 0.011
BENT = 0.19  # added when fully bent
BENT_FROM, BENT_SCALE = 0.035, 0.06  # drop of the head at which bending begins; scale on which it saturates
HALFLIFE_S = 0.15  # a walking head bobs, which is not leaning

# Learning. The head height alone cannot distinguish bent knees (head above the hips) from a bent back (head in front of
# the hips). But a walking body turns about its hips: at turn rate w, a head at distance d in front of the hips has the
# lateral velocity w d.
LEARNING_HALFLIFE_S = 0.2  # of turn rate and velocities, applied twice, to remove the sway of the steps
LEARNS_BENT = 0.05  # shares of the standing height: the estimate is updated above this prior bend
UPRIGHT_AGAIN_BELOW = 0.03  # and is forgotten below this one, because the user may bend differently next time
LEARNS_SPEED, LEARNS_TURN, LARGEST_TURN = 0.3, 0.3, 3.0  # m/s forward, rad/s, rad/s
DOUBT = 0.06  # m² rad²/s: evidence that weighs as much as the prior
EVIDENCE_HALFLIFE_S, UPRIGHT_HALFLIFE_S, FOLLOW_HALFLIFE_S = 60.0, 10.0, 1.0
LARGEST_CHANGE = 0.8  # of the bent part of the prior, relative


class Lean:
    """`now`: smoothed distance of the hips behind the head centre [m]; `rate`: its derivative [m/s]."""

    def __init__(self, standing: float):
        self.standing = standing
        self.reset(1.0)

    def reset(self, height_ratio: float) -> None:
        self.change, self._numerator, self._denominator = 0.0, 0.0, 0.0
        self.settle(height_ratio)

    def settle(self, height_ratio: float, behind: float | None = None) -> None:
        """Set the distance for this head height without smoothing. Learned values are kept. `behind`: see `step`."""
        self.now, self.rate = self._of(self._bent(height_ratio, behind)), 0.0
        self._once, self._twice = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)

    def step(
        self, dt: float, height_ratio: float, ahead: float, left: float, turn: float, behind: float | None = None
    ) -> None:
        """`ahead`, `left`: velocity of the head in the axes of the facing [m/s]; `turn`: rate of the facing [rad/s].

        `behind`: part of the distance that bending causes, over the standing height; None: from the head height alone.
        """
        if dt <= 0:
            return
        bent = self._bent(height_ratio, behind)
        self._learn(dt, bent, ahead, left, max(-LARGEST_TURN, min(LARGEST_TURN, turn)))
        before, self.now = self.now, damp(self.now, self._of(bent), HALFLIFE_S, dt)
        self.rate = (self.now - before) / dt

    def _bent(self, height_ratio: float, behind: float | None) -> float:
        if behind is not None:
            return behind * self.standing
        drop = max(0.0, 1.0 - height_ratio - BENT_FROM)
        return BENT * (1 - math.exp(-drop / BENT_SCALE)) * self.standing

    def _of(self, bent: float) -> float:
        return UPRIGHT * self.standing + (1 + self.change) * bent

    def _learn(self, dt: float, bent: float, *motion: float) -> None:
        """Recursive least squares of the lateral velocity over the turn rate, regularized by the prior."""
        self._once = tuple(damp(a, b, LEARNING_HALFLIFE_S, dt) for a, b in zip(self._once, motion, strict=True))
        self._twice = tuple(damp(a, b, LEARNING_HALFLIFE_S, dt) for a, b in zip(self._twice, self._once, strict=True))
        ahead, left, turn = self._twice
        if bent < UPRIGHT_AGAIN_BELOW * self.standing:
            self._fade(dt, UPRIGHT_HALFLIFE_S)
        residual = left - turn * (UPRIGHT * self.standing + bent)
        walks = ahead > LEARNS_SPEED and abs(residual) < ahead
        if walks and abs(turn) > LEARNS_TURN and bent > LEARNS_BENT * self.standing:
            self._fade(dt, EVIDENCE_HALFLIFE_S)
            self._numerator += dt * turn * bent * residual
            self._denominator += dt * (turn * bent) ** 2
        goal = max(-LARGEST_CHANGE, min(LARGEST_CHANGE, self._numerator / (self._denominator + DOUBT)))
        self.change = damp(self.change, goal, FOLLOW_HALFLIFE_S, dt)

    def _fade(self, dt: float, halflife: float) -> None:
        share = 0.5 ** (dt / halflife)
        self._numerator *= share
        self._denominator *= share
