"""The compiled functions against their numpy counterparts, and edge cases of quaternions."""

import itertools
import math

import numpy as np
import pytest

from mm_ros.body.skeleton import PARENTS, J, default_skeleton
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot

RNG = np.random.default_rng(3)
QS = [tuple(q / np.linalg.norm(q)) for q in RNG.normal(size=(50, 4))]
VS = [tuple(v) for v in RNG.normal(size=(50, 3))]


def same(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return quat.angle_of(quat.mul_inv(a, b)) < 1e-7


def test_twins_agree() -> None:
    for q, p, v in zip(QS, QS[1:], VS, strict=False):
        a, b, u = np.array(q), np.array(p), np.array(v)
        assert quat.mul(q, p) == pytest.approx(rot.multiply(a, b))
        assert quat.rotate(q, v) == pytest.approx(rot.rotate(a, u))
        assert quat.exp(v) == pytest.approx(rot.exp(u))
        assert quat.log(q) == pytest.approx(rot.log(a))
        assert quat.yaw_of(q) == pytest.approx(float(rot.yaw_of(a)))


@pytest.mark.parametrize("angle", [0.0, 1e-300, 1e-12, 1e-8, 1e-4, 0.9e-4, 1.1e-4, 1.0, math.pi - 1e-9])
def test_log_undoes_exp(angle: float) -> None:
    v = quat.scale(quat.unit((1.0, 2.0, -2.0), (1.0, 0.0, 0.0)), angle)
    assert quat.log(quat.exp(v)) == pytest.approx(v, rel=1e-9, abs=1e-300)


def test_either_cover_has_the_same_logarithm() -> None:
    for q in QS:
        assert quat.log(tuple(-x for x in q)) == pytest.approx(quat.log(q))


def test_a_quaternion_of_zero_length_becomes_the_identity() -> None:
    assert quat.normalize((0.0, 0.0, 0.0, 0.0)) == (1.0, 0.0, 0.0, 0.0)


def test_between_takes_one_to_the_other_also_when_opposite() -> None:
    for a, b in itertools.pairwise([quat.unit(v, v) for v in VS]):
        assert quat.rotate(quat.between(a, b), a) == pytest.approx(b)
    for axis in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, -1.0)):
        back = quat.scale(axis, -1.0)
        assert quat.rotate(quat.between(axis, back), axis) == pytest.approx(back)
        assert same(quat.between(axis, axis), quat.IDENTITY)


def test_slerp_ends() -> None:
    a, b = QS[0], QS[1]
    assert same(quat.slerp(a, b, 0.0), a) and same(quat.slerp(a, b, 1.0), b)
    half = quat.slerp(a, b, 0.5)
    assert quat.angle_of(quat.mul_inv(half, a)) == pytest.approx(quat.angle_of(quat.mul_inv(b, a)) / 2)


def test_aligning_meets_both_directions_when_they_fit() -> None:
    for q, v in zip(QS, VS, strict=True):
        bone = quat.unit(v, v)
        side = quat.unit(quat.cross(bone, (0.3, 0.5, -0.8)), v)
        got = quat.aligning(bone, side, quat.rotate(q, bone), quat.rotate(q, side))
        assert same(got, q)


def test_twist_about_an_axis() -> None:
    axis = (0.0, 0.0, 1.0)
    swing = quat.exp((0.4, -0.2, 0.0))
    assert quat.twist(quat.mul(swing, quat.about(axis, 0.7)), axis) == pytest.approx(0.7)
    assert quat.twist(quat.about((1.0, 0.0, 0.0), math.pi), axis) == 0.0
    negative = tuple(-x for x in quat.about(axis, 0.7))
    assert quat.twist(negative, axis) == pytest.approx(0.7)


@pytest.mark.parametrize("size", [0.0, 1e-6, 1e-2, 1.5, 3.0])
def test_rate_of_log_undoes_velocity_of_exp(size: float) -> None:
    x = quat.scale(quat.unit((1.0, -1.0, 0.5), (1.0, 0.0, 0.0)), size)
    rate = (0.3, 0.8, -0.5)
    assert quat.rate_of_log(x, quat.velocity_of_exp(x, rate)) == pytest.approx(rate, abs=1e-7)


def test_velocity_of_exp_is_the_derivative() -> None:
    x, rate, h = (0.5, -0.9, 0.3), (0.3, 0.8, -0.5), 1e-6
    d = quat.mul_inv(quat.exp(quat.add(x, quat.scale(rate, h))), quat.exp(x))
    assert quat.scale(quat.log(d), 1 / h) == pytest.approx(quat.velocity_of_exp(x, rate), abs=1e-5)


def test_forward_kinematics_agrees() -> None:
    q = rot.normalize(RNG.normal(size=(J, 4)))
    p = default_skeleton().offsets.astype(np.float64)
    out_p, out_q = np.zeros((J, 3)), np.zeros((J, 4))
    out_p[0], out_q[0] = p[0], q[0]
    quat.forward_kinematics(PARENTS, p, q, out_p, out_q)
    want_p, want_q = rot.forward_kinematics(PARENTS, p, q)
    assert np.allclose(out_p, want_p) and np.allclose(out_q, want_q)
