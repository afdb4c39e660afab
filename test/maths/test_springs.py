"""Springs are exact in dt."""


import numpy as np
import pytest

from mm_ros.maths import springs as s


def test_two_half_steps_equal_one() -> None:
    one = s.spring(1.0, -3.0, 2.0, 0.1, 0.2)
    two = s.spring(*s.spring(1.0, -3.0, 2.0, 0.1, 0.1), 2.0, 0.1, 0.1)
    assert two == pytest.approx(one, rel=1e-12)


def test_vectors_are_numbers_side_by_side() -> None:
    x, v = s.spring(np.array([1.0, 0.0]), np.array([0.0, 2.0]), np.array([0.0, 1.0]), 0.2, 0.05)
    for k, (a, b, g) in enumerate(((1.0, 0.0, 0.0), (0.0, 2.0, 1.0))):
        assert (x[k], v[k]) == pytest.approx(s.spring(a, b, g, 0.2, 0.05))


@pytest.mark.parametrize("dt", [0.0, -1.0])
def test_no_time_no_change(dt: float) -> None:
    assert s.spring(1.0, 2.0, 0.0, 0.1, dt) == pytest.approx((1.0, 2.0))
    assert s.damp(1.0, 0.0, 0.1, dt) == 1.0
    x, v, a = s.spring_velocity(1.0, 2.0, 3.0, 0.0, 0.1, dt)
    assert (x, v, a) == pytest.approx((1.0, 2.0, 3.0))


@pytest.mark.parametrize("dt", [1e3, 1e9])
def test_very_long_steps_rest_at_the_goal(dt: float) -> None:
    assert s.spring(1e3, -1e3, 2.0, 0.1, dt) == pytest.approx((2.0, 0.0), abs=1e-12)


def test_half_life_zero_is_at_once_and_finite() -> None:
    assert s.spring(1.0, 5.0, 2.0, 0.0, 0.01) == pytest.approx((2.0, 0.0), abs=1e-9)
    assert s.damp(1.0, 2.0, 0.0, 0.01) == pytest.approx(2.0)


def test_a_damper_is_half_way_after_a_half_life() -> None:
    assert s.damp(0.0, 1.0, 0.3, 0.3) == pytest.approx(0.5)
    assert s.damping_share(0.3, 0.6) == pytest.approx(0.75)


def test_velocity_is_the_derivative() -> None:
    x0, v0 = s.spring(1.0, -3.0, 2.0, 0.1, 0.05)
    x1, _ = s.spring(1.0, -3.0, 2.0, 0.1, 0.05 + 1e-6)
    assert (x1 - x0) / 1e-6 == pytest.approx(v0, rel=1e-4)


def test_velocity_spring_integrates_exactly() -> None:
    one = s.spring_velocity(0.0, 1.0, 0.0, 3.0, 0.2, 0.3)
    steps = (0.0, 1.0, 0.0)
    for _ in range(30):
        steps = s.spring_velocity(*steps, 3.0, 0.2, 0.01)
    assert steps == pytest.approx(one, rel=1e-10)


def test_angles_go_the_short_way() -> None:
    a, v = s.spring_angle(3.0, 0.0, -3.0, 0.1, 0.02)
    assert a > 3.0 or a < -3.0
    assert v > 0
