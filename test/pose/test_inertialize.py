"""Offsets keep value and velocity continuous, also when a jump occurs during a blend."""

import itertools

import numpy as np
import pytest

from mm_ros.maths import quat
from mm_ros.pose import inertialize as ine

DT = 1e-3


@pytest.mark.parametrize("kind", [ine.SPRING, ine.QUINTIC])
def test_an_offset_starts_where_it_is_and_ends_at_zero(kind: int) -> None:
    o = ine.make_offsets(2)
    ine.start_offset(o, 1, (0.3, 0.0, 0.4), (-0.6, 0.0, -0.8), kind, 0.3)
    x, v = ine.decay_offset(o, 1, kind, 0.1, 0.0)
    assert x == pytest.approx((0.3, 0.0, 0.4)) and v == pytest.approx((-0.6, 0.0, -0.8))
    x, v = ine.decay_offset(o, 1, kind, 0.1, 3.0)
    assert np.allclose(x, 0, atol=1e-9) and np.allclose(v, 0, atol=1e-9)
    assert not o.offset[0].any()


@pytest.mark.parametrize("kind", [ine.SPRING, ine.QUINTIC])
def test_rate_is_the_derivative(kind: int) -> None:
    o = ine.make_offsets(1)
    ine.start_offset(o, 0, (0.2, 0.1, 0.0), (-0.2, -0.1, 0.0), kind, 0.3)
    x0, v0 = ine.decay_offset(o, 0, kind, 0.1, 0.07)
    x1, _ = ine.decay_offset(o, 0, kind, 0.1, 1e-6)
    assert (np.array(x1) - x0) / 1e-6 == pytest.approx(np.array(v0), abs=1e-4)


def test_quintic_obeys_its_rules() -> None:
    *curve, t = ine.quintic(0.1, 0.0, 0.3)
    assert t == 0.3
    assert np.polyval(curve, t) == pytest.approx(0, abs=1e-12)
    assert np.polyval(np.polyder(curve), t) == pytest.approx(0, abs=1e-9)
    assert np.polyval(np.polyder(curve, 2), t) == pytest.approx(0, abs=1e-9)
    assert ine.quintic(0.1, 1.0, 0.3)[4] == 0.0  # a growing offset starts at rest
    assert ine.quintic(0.1, -5.0, 0.3)[6] == pytest.approx(0.1)  # −5 x / v is sooner than the blend time
    for v0 in (0.0, -0.2, -5.0):
        *curve, t = ine.quintic(0.1, v0, 0.3)
        x = np.polyval(curve, np.linspace(0, t, 200))
        assert x.min() > -1e-9  # never beyond the goal
        assert x.max() < 0.1 + 1e-9


def test_quintic_of_nothing_is_nothing() -> None:
    o = ine.make_offsets(1)
    ine.start_offset(o, 0, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), ine.QUINTIC, 0.3)
    assert ine.decay_offset(o, 0, ine.QUINTIC, 0.1, 0.1) == ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))


@pytest.mark.parametrize("angle", [0.0, 1e-6, 0.5, 2.5])
def test_offset_between_undoes_with_offset(angle: float) -> None:
    q, w = quat.exp((0.3, -0.2, 0.9)), (0.5, 0.1, -0.3)
    x, v = quat.scale((0.6, 0.0, 0.8), angle), (0.2, -0.4, 0.1)
    out_q, out_w = ine.with_offset(q, w, x, v)
    back_x, back_v = ine.offset_between(out_q, out_w, tuple(-c for c in q), w)
    assert back_x == pytest.approx(x, abs=1e-9) and back_v == pytest.approx(v, abs=1e-6)


def test_a_jump_into_a_running_blend_is_continuous_in_value_and_velocity() -> None:
    """Three motions that turn at different speeds; jumps at 0.2 s and, during that blend, at 0.25 s."""
    starts = ((0.0, 0.0, 0.1), (1.0, 0.3, 0.0), (0.0, -0.8, 0.4))
    turns = ((0.0, 0.5, 1.0), (-1.0, 0.0, 0.2), (0.3, 0.9, 0.0))
    motions = list(zip(starts, turns, strict=True))
    o = ine.make_offsets(1)

    def source(k: int, t: float) -> tuple[quat.Quat, quat.Vec]:
        start, w = motions[k]
        return quat.mul(quat.exp(quat.scale(w, t)), quat.exp(start)), w

    k, out, speeds = 0, [], []
    for i in range(500):
        t = i * DT
        wanted = 0 if i < 200 else 1 if i < 250 else 2
        x, v = ine.decay_offset(o, 0, ine.SPRING, 0.1, DT)
        if wanted != k:
            q_now, w_now = ine.with_offset(*source(k, t), x, v)
            k = wanted
            x, v = ine.offset_between(q_now, w_now, *source(k, t))
            ine.start_offset(o, 0, x, v, ine.SPRING, 0.3)
        q, w = ine.with_offset(*source(k, t), x, v)
        out.append(q)
        speeds.append(w)
    steps = np.array([quat.log(quat.mul_inv(b, a)) for a, b in itertools.pairwise(out)]) / DT
    assert np.abs(np.diff(steps, axis=0)).max() < 0.5  # rad/s in 1 ms; the sources differ by more than 2
    assert np.abs(np.array(speeds)[:-1] - steps).max() < 0.3  # and the reported velocity is the actual one
