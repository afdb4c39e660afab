"""Two bones reach the target, bend the right way, and never jump."""

import numpy as np
import pytest

from mm_ros.maths import ik, quat

A, B = (0.0, 0.0, -0.45), (0.02, 0.0, -0.40)  # thigh and shin in their own axes
KNEE = (0.0, 1.0, 0.0)


def solve(target: tuple[float, float, float], hinge: tuple[float, float, float] = KNEE) -> np.ndarray:
    n = ik.swung_normal((0.0, 0.0, 0.0), (0.0, 0.0, -0.8), hinge, target)
    a, b, middle = ik.bend_two((0.0, 0.0, 0.0), target, n, A, B, KNEE)
    assert quat.rotate(a, A) == pytest.approx(middle, abs=1e-9)
    end = quat.add(middle, quat.rotate(b, B))
    return np.array([middle, end, quat.rotate(a, KNEE), n])


@pytest.mark.parametrize("target", [(0.1, 0.05, -0.7), (-0.2, 0.1, -0.5), (0.0, 0.0, -0.84), (0.3, -0.3, 0.3)])
def test_the_end_comes_to_the_target_and_the_knee_points_ahead(target: tuple[float, float, float]) -> None:
    middle, end, hinge, n = solve(target)
    assert end == pytest.approx(np.array(target), abs=1e-9)
    assert hinge == pytest.approx(n, abs=1e-6)
    line = np.array(target) / np.linalg.norm(target)
    bend = np.dot(np.cross(middle, np.array(target) - middle), n)
    assert bend >= 0
    assert np.linalg.norm(middle - line * (middle @ line)) == pytest.approx(np.linalg.norm(np.cross(middle, line)))


def test_a_turned_hinge_turns_the_knee() -> None:
    outward = (-np.sin(0.5), np.cos(0.5), 0.0)
    middle = solve((0.0, 0.0, -0.7), outward)[0]
    assert np.arctan2(middle[1], middle[0]) == pytest.approx(0.5)


def test_soft_reach_is_the_distance_until_near_the_end_and_never_beyond() -> None:
    d = np.linspace(0, 2, 4001)
    r = np.array([ik.soft_reach(x, 1.0, 0.05) for x in d])
    assert np.array_equal(r[d <= 0.95], d[d <= 0.95])
    assert r.max() < 1.0 + 1e-12
    slope = np.diff(r) / np.diff(d)
    assert (slope >= 0).all() and np.abs(np.diff(slope)).max() < 0.02  # no kink


def test_bend_limits() -> None:
    assert ik.bend_limits(0.4, 0.3, 0.0) == pytest.approx(0.7)
    assert ik.bend_limits(0.4, 0.3, np.pi / 2) == pytest.approx(0.5)
    assert ik.bend_limits(0.4, 0.3, np.pi) == pytest.approx(0.1)


STRAIGHT = ((0.0, 0.0, -0.45), (0.0, 0.0, -0.40))
THIGHS = [
    quat.mul(quat.from_yaw(yaw), quat.mul(quat.about((0.0, 1.0, 0.0), pitch), quat.about((1.0, 0.0, 0.0), roll)))
    for yaw in (0.0, 1.0, 3.0, -2.0)
    for pitch in (-1.2, 0.0, 0.4)
    for roll in (-0.4, 0.0, 0.3)
]


@pytest.mark.parametrize("thigh", THIGHS)
@pytest.mark.parametrize("lateral", [0.0, 0.02, -0.02])
def test_a_straight_leg_bends_about_its_hinge_and_its_plane_never_flips(thigh: quat.Quat, lateral: float) -> None:
    """The leg of the pose is straight to the last digit, so the triangle has no plane; the target comes nearer from
    the leg's whole length on, also a little to either side of the line."""
    root, hinge = (0.0, 0.0, 0.0), quat.rotate(thigh, KNEE)
    end = quat.rotate(thigh, (0.0, 0.0, -0.85))
    normals, bends = [], []
    for length in np.concatenate([[0.85], np.geomspace(0.8499999, 0.5, 60)]):
        line = quat.unit(quat.rotate(thigh, (0.3 * lateral, lateral, -0.85)), root)
        target = quat.scale(line, float(length))
        n = ik.swung_normal(root, end, hinge, target)
        a, b, middle = ik.bend_two(root, target, n, *STRAIGHT, KNEE)
        assert np.isfinite([*a, *b, *middle]).all()
        assert quat.add(middle, quat.rotate(b, STRAIGHT[1])) == pytest.approx(np.array(target), abs=1e-6)
        ahead = quat.rotate(thigh, (1.0, 0.0, 0.0))
        bends.append(quat.dot(quat.sub(middle, quat.scale(line, quat.dot(middle, line))), ahead))
        normals.append(n)
    assert np.dot(normals, hinge).min() > np.cos(0.1)  # the knee points where the thigh does
    assert np.abs(np.diff(normals, axis=0)).max() < 1e-6
    assert min(bends) > -1e-9 and bends[-1] > 0.2


@pytest.mark.parametrize("hinge", [(0.0, 1.0, 0.0), (0.3, 0.9, 0.2), (0.1, -1.0, 0.0)])
def test_a_knee_is_lifted_to_the_floor_only_when_it_is_below(hinge: tuple[float, float, float]) -> None:
    root, end, outward = (0.0, 0.0, 0.25), (-0.3, 0.0, 0.1), (0.0, 1.0, 0.0)
    line = quat.unit(quat.sub(end, root), (0.0, 0.0, 1.0))
    normal = quat.unit(quat.across(hinge, line), (0.0, 1.0, 0.0))
    before = ik.corner(root, end, quat.cross(line, normal), 0.4, 0.4)
    lifted = ik.lifted_corner(root, end, normal, 0.4, 0.4, 0.06, outward)
    after = ik.corner(root, end, quat.cross(line, lifted), 0.4, 0.4)
    assert quat.norm(lifted) == pytest.approx(1.0) and quat.dot(lifted, line) == pytest.approx(0.0, abs=1e-9)
    if before[2] >= 0.06:
        assert lifted == pytest.approx(normal)
    else:
        assert before[2] < -0.05 and after[2] == pytest.approx(0.06, abs=1e-9)
    low = [ik.lifted_corner(root, end, normal, 0.4, 0.4, before[2] + d, outward) for d in (-1e-6, 1e-6)]
    assert quat.norm(quat.sub(*low)) < 1e-2  # no jump when the limit begins to act
