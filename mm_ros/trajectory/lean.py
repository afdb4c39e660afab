"""Estimate how far the hips are behind the centre of the head, from the user's bend and from turns.

The bend of the user is estimated in tracking/bend.py, but may be wrong, because the head height
alone does not distinguish bent knees from a bent back. A walking body turns about its hips, so a head that is the
distance d in front of the hips has the lateral velocity w·d at the turn rate w. The class `Lean` learns a correction of
the bend from the lateral velocity of the head.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.maths.jit import njit
from mm_ros.maths.springs import damp
from mm_ros.trajectory import fitted

# Indices of values in the array `Lean.memory`. The three values from index `ONCE` are averages of forward velocity,
# lateral velocity and turn rate of the head; the three from index `TWICE` are averages of these averages.
NOW, RATE, CHANGE, NUMERATOR, DENOMINATOR, ONCE, TWICE, MEMORY = 0, 1, 2, 3, 4, 5, 8, 11


class Lean:
    """Estimate the smoothed horizontal distance `now` [m] of the hips behind the centre of the head.

    The argument `standing` is the height of the head of the user when standing [m].
    """

    def __init__(self, standing: float):
        self.standing = standing
        self.memory = np.zeros(MEMORY)
        self.reset()

    @property
    def now(self) -> float:
        return float(self.memory[NOW])

    @property
    def change(self) -> float:
        return float(self.memory[CHANGE])

    def reset(self) -> None:
        self.memory[:] = 0.0
        self.settle(0.0)

    def settle(self, behind: float) -> None:
        """Set the distance `now` of the hips behind the head at once, without smoothing; `step` describes `behind`.
        Unlike `reset`, `settle` keeps the learned correction of the bend."""
        lean_settle(self.memory, self.standing, behind)

    def step(self, dt: float, behind: float, ahead: float, left: float, turn: float) -> None:
        """Update the distance `now` of the hips behind the head by one sample of the head, `dt` seconds later.

        `behind` is the distance of the hips behind the head that the bend causes, as a share of the standing head
        height. `ahead` and `left` are the forward and the lateral velocity of the head [m/s], and `turn` is the turn
        rate of the facing [rad/s].
        """
        lean_step(self.memory, self.standing, dt, behind, ahead, left, turn)


@njit
def lean_settle(m: Any, standing: float, behind: float) -> None:
    m[NOW], m[RATE] = _of(m, standing, behind * standing), 0.0
    m[ONCE : ONCE + 6] = 0.0


@njit
def lean_step(m: Any, standing: float, dt: float, behind: float, ahead: float, left: float, turn: float) -> None:
    if dt <= 0:
        return
    bent, limit = behind * standing, fitted.LEARNS_TURN_AT_MOST
    _learn(m, standing, dt, bent, (ahead, left, max(-limit, min(limit, turn))))
    before = m[NOW]
    m[NOW] = damp(before, _of(m, standing, bent), fitted.LEAN_HALFLIFE_S, dt)
    m[RATE] = (m[NOW] - before) / dt


@njit
def _of(m: Any, standing: float, bent: float) -> float:
    return float(fitted.UPRIGHT * standing + (1.0 + m[CHANGE]) * bent)


@njit
def _learn(m: Any, standing: float, dt: float, bent: float, motion: tuple[float, float, float]) -> None:
    """Fit a correction of the bend to lateral velocity and turn rate by recursive, regularized least squares."""
    for k in range(3):
        m[ONCE + k] = damp(m[ONCE + k], motion[k], fitted.LEARNING_HALFLIFE_S, dt)
        m[TWICE + k] = damp(m[TWICE + k], m[ONCE + k], fitted.LEARNING_HALFLIFE_S, dt)
    ahead, left, turn = m[TWICE], m[TWICE + 1], m[TWICE + 2]
    if bent < fitted.UPRIGHT_AGAIN_BELOW * standing:
        _fade(m, dt, fitted.UPRIGHT_HALFLIFE_S)
    residual = left - turn * (fitted.UPRIGHT * standing + bent)
    walks = ahead > fitted.LEARNS_SPEED and abs(residual) < ahead
    if walks and abs(turn) > fitted.LEARNS_TURN and bent > fitted.LEARNS_BENT * standing:
        _fade(m, dt, fitted.EVIDENCE_HALFLIFE_S)
        m[NUMERATOR] += dt * turn * bent * residual
        m[DENOMINATOR] += dt * (turn * bent) ** 2
    goal = max(-fitted.LARGEST_CHANGE, min(fitted.LARGEST_CHANGE, m[NUMERATOR] / (m[DENOMINATOR] + fitted.DOUBT)))
    m[CHANGE] = damp(m[CHANGE], goal, fitted.FOLLOW_HALFLIFE_S, dt)


@njit
def _fade(m: Any, dt: float, halflife: float) -> None:
    share = 0.5 ** (dt / halflife)
    m[NUMERATOR] *= share
    m[DENOMINATOR] *= share
