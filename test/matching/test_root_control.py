import math

import numpy as np
import pytest

from mm_ros.matching.fitted import RETURN_S, RETURN_SPEEDS
from mm_ros.matching.root_control import RootControl, RootControlSettings

STILL = (0.0, 0.0, 0.0)


def control(root=(0.0, 0.0, 0.0), **settings) -> RootControl:
    c = RootControl(RootControlSettings(**settings))
    c.reset(np.array(root))
    return c


def test_root_motion_is_played_unchanged_when_it_agrees_with_the_trajectory():
    c = control((1.0, 2.0, math.pi / 2))
    c.step(0.01, (0.02, 0.0, 0.0), np.array([1.0, 2.02]), math.pi / 2)
    assert c.root == pytest.approx([1.0, 2.02, math.pi / 2])
    assert c.velocity == pytest.approx([2.0, 0.0, 0.0])


@pytest.mark.parametrize("accuracy", [0.1, 0.3])
def test_never_farther_than_the_accuracy_even_when_the_trajectory_jumps(accuracy):
    rng = np.random.default_rng(1)
    c = control(position_accuracy=accuracy)
    for _ in range(300):
        goal = rng.normal(size=2) * 3
        c.step(1 / 90, tuple(rng.normal(size=3) * 0.05), goal, 0.0)
        assert np.linalg.norm(c.root[:2] - goal) <= accuracy + 1e-9


def test_after_a_gap_the_root_appears_at_a_user_who_is_far_away():
    c = control()
    c.found(np.array([4.0, 0.0]), 2.0)
    assert c.root == pytest.approx([4.0, 0.0, 2.0])


@pytest.mark.parametrize("away", [0.3, 1.0, 2.9])
def test_after_a_gap_the_root_catches_up_without_a_jump(away):
    c, goal = control(), np.array([away, 0.0])
    c.found(goal, 2.0)
    steps = []
    for _ in range(60):
        before = c.root.copy()
        c.step(1 / 90, STILL, goal, 2.0)
        steps.append(np.abs(c.root - before))
    fastest = np.max(steps, axis=0) * 90
    assert fastest[0] <= max(RETURN_SPEEDS[0], (away - 0.1) / RETURN_S) + 1.3  # plus the pull near the limit
    assert fastest[2] <= 6.0 + 4.0
    assert np.linalg.norm(c.root[:2] - goal) <= 0.1 and 2.0 - c.root[2] <= 0.3
    c.step(1 / 90, STILL, goal + 5.0, 2.0)
    assert np.linalg.norm(c.root[:2] - goal - 5.0) <= 0.1 + 1e-9  # the limit applies again


def test_slow_feet_are_not_dragged():
    c = control(position_accuracy=0.3)
    for _ in range(90):
        c.step(1 / 90, STILL, np.array([0.12, 0.0]), 0.1)
    assert c.root == pytest.approx([0, 0, 0])


def test_the_pull_is_a_share_of_the_own_speed():
    c = control(position_accuracy=1.0, pull_share=0.2, position_halflife=0.01)
    c.step(0.1, (0.1, 0.0, 0.0), np.array([0.1, 0.4]), 0.0)
    assert c.root[:2] == pytest.approx([0.1, 0.02])


def test_the_pull_does_not_depend_on_the_step():
    one, two = control(position_accuracy=1.0, pull_share=9), control(position_accuracy=1.0, pull_share=9)
    goal = np.array([0.2, 0.0])
    one.step(0.02, (0.0, 1e-3, 0.0), goal, 0.0)
    for _ in range(2):
        two.step(0.01, (0.0, 5e-4, 0.0), goal, 0.0)
    assert two.root == pytest.approx(one.root, abs=2e-4)


def test_the_wall_is_soft():
    """A user who starts to walk accelerates the root without a jolt."""
    c, speeds = control(position_accuracy=0.1), []
    for i in range(180):
        c.step(1 / 90, STILL, np.array([1.4 * i / 90, 0.0]), 0.0)
        speeds.append(c.velocity[0])
    assert max(speeds) < 1.5
    assert np.abs(np.diff(speeds)).max() < 0.5
    assert speeds[-1] == pytest.approx(1.4, abs=0.01)


def test_velocity_is_continuous_over_a_jump_and_then_the_clips_own():
    c = control(position_accuracy=10.0, pull_share=0.0, jump_halflife=0.1)
    c.step(0.01, (0.02, 0.0, 0.0), np.zeros(2), 0.0)
    c.jumped(np.array([2.0, 0.0, 0.0]), np.array([0.5, 0.0, 0.0]))
    speeds = []
    for _ in range(100):
        c.step(0.01, (0.005, 0.0, 0.0), np.zeros(2), 0.0)
        speeds.append(c.velocity[0])
    assert speeds[0] == pytest.approx(2.0, abs=0.06)
    assert speeds[-1] == pytest.approx(0.5, abs=0.01)


def test_facing_goes_the_short_way_round():
    c = control((0, 0, 3.1), facing_accuracy=0.01)
    c.step(0.01, STILL, np.zeros(2), -3.1)
    assert abs(math.remainder(c.root[2] + 3.1, 2 * math.pi)) <= 0.01 + 1e-9


@pytest.mark.parametrize(("factor", "expected"), [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)])
def test_synchronization_mixes_motion_and_trajectory_every_sixtieth(factor, expected):
    c = control(root_mode="synchronization", synchronization=factor)
    c.step(1 / 60, STILL, np.array([1.0, 0.0]), 1.0)
    assert c.root == pytest.approx([expected, 0, expected])


def test_carry_moves_along_rigidly():
    c = control((1.0, 0.0, 0.0))
    h = math.pi / 4
    c.carry(np.array([5.0, 0, 0, math.cos(h), 0, 0, math.sin(h)]))
    assert c.root == pytest.approx([5.0, 1.0, math.pi / 2])


def test_no_time_no_motion():
    c = control()
    c.step(0.0, (1.0, 1.0, 1.0), np.array([9.0, 9.0]), 1.0)
    assert c.root == pytest.approx([0, 0, 0])
