"""Least-squares fit of pelvis and spine: a known pose comes back, and the solver agrees with numpy's."""

import numpy as np

from mm_ros.body.kinematics import limb_lengths, make_body, update_room
from mm_ros.body.skeleton import HEAD, HIPS, UPPER_CHEST, J, default_skeleton
from mm_ros.body.types import CHEST_ROLE, JOINT_OF_ROLE, WAIST_ROLE, R
from mm_ros.maths import rotations as rot
from mm_ros.pose.fit import UNKNOWNS, _move, _solve, fit_trunk

SKELETON = default_skeleton()
LENGTHS = limb_lengths(SKELETON)


def body_at_rest():
    body = make_body()
    body.positions[:] = SKELETON.offsets
    update_room(body, 0, J)
    return body


def test_the_solver_agrees_with_numpy():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(UNKNOWNS, UNKNOWNS))
    a, b, x = root @ root.T + np.eye(UNKNOWNS), rng.normal(size=UNKNOWNS), np.zeros(UNKNOWNS)
    expected = np.linalg.solve(a, b)
    _solve(a.copy(), b.copy(), x)
    np.testing.assert_allclose(x, expected, rtol=1e-9)


def fitted(change, roles):
    """Fit the body at rest to trackers on the body moved by `change`; both bodies and the shift."""
    true, body = body_at_rest(), body_at_rest()
    _move(true, np.array(change, np.float64))
    joints = list(JOINT_OF_ROLE)
    weights = np.zeros(R)
    weights[list(roles)] = 1.0
    head = np.append(true.room_positions[HEAD], 1.0)
    shift = fit_trunk(body, LENGTHS, true.room_positions[joints], true.room_rotations[joints], weights, head)
    return true, body, shift


def test_a_bent_and_turned_body_comes_back():
    change = (0.1, -0.05, -0.2, 0.1, 0.3, 0.4, 0.0, 0.6, 0.2)
    true, body, shift = fitted(change, range(WAIST_ROLE, R))
    np.testing.assert_allclose(body.room_positions[HEAD], true.room_positions[HEAD], atol=1e-9)
    np.testing.assert_allclose(body.room_positions[HIPS], true.room_positions[HIPS], atol=0.015)
    np.testing.assert_allclose(shift, change[:3], atol=0.015)
    for joint in (HIPS, UPPER_CHEST):
        d = rot.multiply(body.room_rotations[joint], rot.inverse(true.room_rotations[joint]))
        assert 2 * np.linalg.norm(d[1:]) < 0.1


def test_the_head_alone_moves_the_whole_body_little():
    """Without body trackers the function is not called; a weight near zero gives nearly the initial pose."""
    body = body_at_rest()
    before = body.room_positions.copy()
    weights = np.full(R, 1e-6)
    targets = np.zeros((R, 3))
    fit_trunk(body, LENGTHS, targets, np.tile([1.0, 0, 0, 0], (R, 1)), weights, np.append(before[HEAD], 1.0))
    np.testing.assert_allclose(body.room_positions, before, atol=1e-6)


def test_one_tracker_is_enough():
    true, body, _ = fitted((0.0, 0.0, -0.1, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0), [CHEST_ROLE])
    np.testing.assert_allclose(body.room_positions[HEAD], true.room_positions[HEAD], atol=1e-9)
    assert np.linalg.norm(body.room_positions[UPPER_CHEST] - true.room_positions[UPPER_CHEST]) < 0.02
