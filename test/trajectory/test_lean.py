"""The distance of the hips behind the head: from the estimated bend, and learned from turns of a bent walker."""

import math

import numpy as np
import pytest

from mm_ros.trajectory.fitted import LARGEST_CHANGE, UPRIGHT
from mm_ros.trajectory.lean import Lean

STANDING, RATE = 1.6, 90
STOOPED = 0.184  # estimated bend: distance of the hips behind the head over the standing height


def slalom(behind: float, bend: float, seconds: float, course: float = 0.0, sway: float = 0.0) -> Lean:
    """A body that walks at 1 m/s, turning left and right, with the head `behind` metres in front of the hips.

    `course`: angle of the motion to the facing [rad]; `sway`: lateral motion of the head with each step [m].
    """
    lean, dt = Lean(STANDING), 1 / RATE
    lean.settle(bend)
    for i in range(round(seconds * RATE)):
        t = i * dt
        turn = 0.9 * math.sin(2 * math.pi * t / 8)
        swaying = sway * 2 * math.pi * math.cos(2 * math.pi * t)
        lean.step(dt, bend, math.cos(course), math.sin(course) + behind * turn + swaying, turn)
    return lean


def unlearned(bend: float) -> float:
    lean = Lean(STANDING)
    lean.settle(bend)
    return lean.now


def test_without_turns_the_estimated_bend_alone_counts():
    assert unlearned(0.0) == UPRIGHT * STANDING
    assert unlearned(0.19) == pytest.approx((UPRIGHT + 0.19) * STANDING)


@pytest.mark.parametrize("behind", [0.15, 0.3, 0.48])
def test_turns_of_a_bent_walker_give_the_distance_of_the_hips_behind_the_head(behind):
    learned = slalom(behind, STOOPED, 30, sway=0.02)
    assert learned.now == pytest.approx(behind, abs=0.04)
    assert abs(unlearned(STOOPED) - 0.48) > 0.15  # the estimated bend is far off


def test_an_upright_walker_is_not_learned():
    assert slalom(0.2, 0.0, 30).now == pytest.approx(unlearned(0.0), abs=1e-3)


def test_nothing_is_learned_of_a_body_that_goes_straight_or_sideways():
    lean = Lean(STANDING)
    lean.settle(STOOPED)
    for _ in range(20 * RATE):
        lean.step(1 / RATE, STOOPED, 1.0, 0.2, 0.05)
    assert lean.change == 0.0
    assert slalom(0.48, STOOPED, 30, course=math.radians(80)).change == 0.0


def test_what_is_learned_is_bounded_and_comes_slowly():
    before = [slalom(5.0, STOOPED, s).now for s in (0.5, 10)]
    assert before[1] <= (UPRIGHT + (1 + LARGEST_CHANGE) * STOOPED) * STANDING + 1e-9
    moves = np.diff([slalom(0.48, STOOPED, s).now for s in np.arange(1.0, 6.0, 0.25)])
    assert np.abs(moves).max() / 0.25 < 0.15  # m/s


def test_standing_upright_forgets_the_learned_bend():
    lean = slalom(0.48, STOOPED, 30)
    learned = lean.change
    for _ in range(60 * RATE):
        lean.step(1 / RATE, 0.0, 0.0, 0.0, 0.0)
    assert learned > 0.4 and abs(lean.change) < 0.5 * learned
