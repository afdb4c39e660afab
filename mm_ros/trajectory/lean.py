"""Estimate how far the hips are behind the centre of the head, from the head height and from turns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mm_ros.maths.jit import njit
from mm_ros.maths.springs import damp

# Constants of the prior: distances along the facing, as shares of the standing height of the head centre. Bending
# lowers the head, so the head height predicts the distance. Fitted to CMU motion (docs/matching.md).
UPRIGHT = 0.011
BENT = 0.19  # distance that is added when the user is fully bent
BENT_FROM, BENT_SCALE = 0.035, 0.06  # drop of the head at which bending begins; scale on which it saturates
HALFLIFE_S = 0.15  # half-life that removes the bobbing of a walking head, which is not leaning

# Constants of the learning. The head height alone cannot distinguish bent knees (head above the hips) from a bent back
# (head in front of the hips). But a walking body turns about its hips: at turn rate w, a head at distance d in front of
# the hips has the lateral velocity w d. Half-life of the averages of turn rate and velocities; the average is applied
# twice, to remove the sway of the steps
LEARNING_HALFLIFE_S = 0.2
# The estimate is updated while the part of the prior that bending causes, as a share of the standing height, is above
# this
LEARNS_BENT = 0.05
# The estimate is forgotten while the same part of the prior is below this, because the user may bend differently next
# time
UPRIGHT_AGAIN_BELOW = 0.03
LEARNS_SPEED, LEARNS_TURN, LARGEST_TURN = 0.3, 0.3, 3.0  # m/s forward, rad/s, rad/s
DOUBT = 0.06  # m² rad²/s; an estimate with this amount of data has the same weight as the prior
EVIDENCE_HALFLIFE_S, UPRIGHT_HALFLIFE_S, FOLLOW_HALFLIFE_S = 60.0, 10.0, 1.0
LARGEST_CHANGE = 0.8  # maximum correction, as a share of the bent part of the prior


# Places in the memory of Lean; ONCE and TWICE are the averages of the velocities ahead and left and of the turn rate.
NOW, RATE, CHANGE, NUMERATOR, DENOMINATOR, ONCE, TWICE, MEMORY = 0, 1, 2, 3, 4, 5, 8, 11
UNKNOWN = math.nan


class Lean:
    """`now`: smoothed distance of the hips behind the head centre [m]; `rate`: its derivative [m/s]."""

    def __init__(self, standing: float):
        self.standing = standing
        self.memory = np.zeros(MEMORY)
        self.reset(1.0)

    @property
    def now(self) -> float:
        return float(self.memory[NOW])

    @property
    def change(self) -> float:
        return float(self.memory[CHANGE])

    def reset(self, height_ratio: float) -> None:
        self.memory[:] = 0.0
        self.settle(height_ratio)

    def settle(self, height_ratio: float, behind: float = UNKNOWN) -> None:
        """Set the distance for this head height without smoothing. Learned values are kept. `behind`: see `step`."""
        lean_settle(self.memory, self.standing, height_ratio, behind)

    def step(
        self, dt: float, height_ratio: float, ahead: float, left: float, turn: float, behind: float = UNKNOWN
    ) -> None:
        """`ahead`, `left`: velocity of the head in the axes of the facing [m/s]; `turn`: rate of the facing [rad/s].

        `behind`: part of the distance that bending causes, as a share of the standing height; if it is UNKNOWN, it
        follows from the head height.
        """
        lean_step(self.memory, self.standing, dt, height_ratio, ahead, left, turn, behind)


@njit
def lean_settle(m: Any, standing: float, height_ratio: float, behind: float) -> None:
    m[NOW], m[RATE] = _of(m, standing, _bent(standing, height_ratio, behind)), 0.0
    m[ONCE : ONCE + 6] = 0.0


@njit
def lean_step(
    m: Any, standing: float, dt: float, height_ratio: float, ahead: float, left: float, turn: float, behind: float
) -> None:
    if dt <= 0:
        return
    bent = _bent(standing, height_ratio, behind)
    _learn(m, standing, dt, bent, (ahead, left, max(-LARGEST_TURN, min(LARGEST_TURN, turn))))
    before = m[NOW]
    m[NOW] = damp(before, _of(m, standing, bent), HALFLIFE_S, dt)
    m[RATE] = (m[NOW] - before) / dt


@njit
def _bent(standing: float, height_ratio: float, behind: float) -> float:
    if not math.isnan(behind):
        return behind * standing
    drop = max(0.0, 1.0 - height_ratio - BENT_FROM)
    return BENT * (1.0 - math.exp(-drop / BENT_SCALE)) * standing


@njit
def _of(m: Any, standing: float, bent: float) -> float:
    return float(UPRIGHT * standing + (1.0 + m[CHANGE]) * bent)


@njit
def _learn(m: Any, standing: float, dt: float, bent: float, motion: tuple[float, float, float]) -> None:
    """Recursive least squares of the lateral velocity over the turn rate, regularized by the prior."""
    for k in range(3):
        m[ONCE + k] = damp(m[ONCE + k], motion[k], LEARNING_HALFLIFE_S, dt)
        m[TWICE + k] = damp(m[TWICE + k], m[ONCE + k], LEARNING_HALFLIFE_S, dt)
    ahead, left, turn = m[TWICE], m[TWICE + 1], m[TWICE + 2]
    if bent < UPRIGHT_AGAIN_BELOW * standing:
        _fade(m, dt, UPRIGHT_HALFLIFE_S)
    residual = left - turn * (UPRIGHT * standing + bent)
    walks = ahead > LEARNS_SPEED and abs(residual) < ahead
    if walks and abs(turn) > LEARNS_TURN and bent > LEARNS_BENT * standing:
        _fade(m, dt, EVIDENCE_HALFLIFE_S)
        m[NUMERATOR] += dt * turn * bent * residual
        m[DENOMINATOR] += dt * (turn * bent) ** 2
    goal = max(-LARGEST_CHANGE, min(LARGEST_CHANGE, m[NUMERATOR] / (m[DENOMINATOR] + DOUBT)))
    m[CHANGE] = damp(m[CHANGE], goal, FOLLOW_HALFLIFE_S, dt)


@njit
def _fade(m: Any, dt: float, halflife: float) -> None:
    share = 0.5 ** (dt / halflife)
    m[NUMERATOR] *= share
    m[DENOMINATOR] *= share
