"""Fit pelvis and spine to headset and body trackers by weighted least squares.

Straps slip, skin moves, and the avatar's proportions differ from the user's, so no body tracker is assumed to be exact.
The fit starts from the pose that follows from the headset alone. The nine unknowns are the shift of the pelvis, the
rotation of the pelvis, and a bend that spine, chest and upper chest share. The Gauss–Newton method minimizes the sum of
the squared residuals, each divided by its variance. The residuals are the errors at headset, waist and chest tracker,
the distances by which the legs do not reach the tracked feet, the errors of the tracked knees, and the distance from
the initial pose. Finally the hips move by the remaining error of the head, so that the head is on the headset.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mm_ros.body.kinematics import LEG_STRIDE, turn_joint, update_limbs, update_room
from mm_ros.body.skeleton import (
    CHEST,
    HEAD,
    HIPS,
    LEFT_SHOULDER,
    LEFT_UPPER_LEG,
    NECK,
    SPINE,
    UPPER_CHEST,
)
from mm_ros.body.types import CHEST_ROLE, LEFT_FOOT_ROLE, LEFT_KNEE_ROLE, WAIST_ROLE
from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Row, Vec

ITERATIONS = 3
# The unknowns of the fit are the shift of the hips and the rotation vectors of hips and spine, in room axes.
UNKNOWNS = 9
HEAD_M = 0.002  # `HEAD_M` to `KNEE_M` are standard deviations [m or rad], estimated from the accuracy of each device.
WAIST_M, WAIST_RAD = 0.02, 0.08
CHEST_M, CHEST_RAD = 0.03, 0.12
# The hips move toward a tracked foot if the distance from hip to foot exceeds `LEG_SHARE` times the leg's length.
LEG_M, LEG_SHARE = 0.006, 0.985
KNEE_M = 0.03
SHIFT_M, TURN_RAD, BEND_RAD = 0.12, 0.35, 0.5  # Expected hip shift, hip turn and spine bend (standard deviations).


@njit
def fit_trunk(body: Any, lengths: Any, targets: Any, rotations: Any, weights: Any, head: Row) -> Vec:
    """Fit pelvis and spine to headset and trackers, and return the resulting shift of the hips.

    `targets`, `rotations` and `weights` have one row per role: position and rotation of the joint in the room that a
    tracker measures, and the weight of the tracker from 0 to 1. `head` is the target of the head joint (x, y, z) and
    its weight. The fit does not change the rotations of neck and head in the room.
    """
    before = quat.get3(body.room_positions, HIPS)
    a, b, x = np.zeros((UNKNOWNS, UNKNOWNS)), np.zeros(UNKNOWNS), np.zeros(UNKNOWNS)
    total = np.zeros(UNKNOWNS)
    for _ in range(ITERATIONS):
        _normal_equations(body, lengths, targets, rotations, weights, head, total, a, b)
        _solve(a, b, x)
        total += x
        _move(body, x)
    missing = quat.sub(head, quat.get3(body.room_positions, HEAD))
    _shift_hips(body, quat.scale(missing, head[3]))
    update_limbs(body)
    return quat.sub(quat.get3(body.room_positions, HIPS), before)


@njit
def _normal_equations(
    body: Any, lengths: Any, targets: Any, rotations: Any, weights: Any, head: Row, total: Any, a: Any, b: Any
) -> None:
    a[:] = 0.0
    b[:] = 0.0
    for k in range(UNKNOWNS):
        sd = SHIFT_M if k < 3 else (TURN_RAD if k < 6 else BEND_RAD)
        a[k, k] += 1.0 / (sd * sd)
        b[k] -= total[k] / (sd * sd)
    hips = quat.get3(body.room_positions, HIPS)
    neck = quat.get3(body.room_positions, NECK)
    none = (0.0, 0.0, 0.0)
    bend = _bend_arm(body, neck, UPPER_CHEST)
    missing = quat.sub(head, quat.get3(body.room_positions, HEAD))
    _add_point(a, b, missing, quat.sub(neck, hips), bend, head[3] / HEAD_M)
    w = weights[WAIST_ROLE]
    if w > 0.0:
        _add_point(a, b, quat.sub(quat.get3(targets, WAIST_ROLE), hips), none, none, w / WAIST_M)
        turn = quat.log(quat.mul_inv(quat.get4(rotations, WAIST_ROLE), quat.get4(body.room_rotations, HIPS)))
        _add_turn(a, b, turn, 0.0, w / WAIST_RAD)
    w = weights[CHEST_ROLE]
    if w > 0.0:
        p = quat.get3(body.room_positions, UPPER_CHEST)
        bend = _bend_arm(body, p, CHEST)
        _add_point(a, b, quat.sub(quat.get3(targets, CHEST_ROLE), p), quat.sub(p, hips), bend, w / CHEST_M)
        turn = quat.log(quat.mul_inv(quat.get4(rotations, CHEST_ROLE), quat.get4(body.room_rotations, UPPER_CHEST)))
        _add_turn(a, b, turn, 1.0, w / CHEST_RAD)
    for side in range(2):
        top = quat.get3(body.room_positions, LEFT_UPPER_LEG + side * LEG_STRIDE)
        thigh, leg = lengths[side, 2], lengths[side, 2] + lengths[side, 3]
        w = weights[LEFT_FOOT_ROLE + side]
        if w > 0.0:
            line = quat.sub(quat.get3(targets, LEFT_FOOT_ROLE + side), top)
            beyond = quat.norm(line) - LEG_SHARE * leg
            if beyond > 0.0:
                _add_along(a, b, quat.unit(line, (0.0, 0.0, -1.0)), beyond, quat.sub(top, hips), w / LEG_M)
        w = weights[LEFT_KNEE_ROLE + side]
        if w > 0.0:
            line = quat.sub(quat.get3(targets, LEFT_KNEE_ROLE + side), top)
            beyond = quat.norm(line) - thigh
            _add_along(a, b, quat.unit(line, (0.0, 0.0, -1.0)), beyond, quat.sub(top, hips), w / KNEE_M)


@njit
def _bend_arm(body: Any, point: Row, last: int) -> Vec:
    """Return the lever arm of the spine's bend for a `point` that is moved by the joints from the spine to `last`:
    a third of the sum of the vectors from the moving joints to the point."""
    out = (0.0, 0.0, 0.0)
    for j in range(SPINE, last + 1):
        out = quat.add(out, quat.scale(quat.sub(point, quat.get3(body.room_positions, j)), 1.0 / 3.0))
    return out


@njit
def _add_point(a: Any, b: Any, missing: Row, turn_arm: Row, bend_arm: Row, weight: float) -> None:
    """Add to the fit three equations for a point that moves with the hips and with the rotations of hips and spine."""
    row = np.zeros(UNKNOWNS)
    for k in range(3):
        row[:] = 0.0
        row[k] = 1.0
        i, j = (k + 1) % 3, (k + 2) % 3  # component k of ω × r is ω_i r_j − ω_j r_i
        row[3 + i], row[3 + j] = turn_arm[j], -turn_arm[i]
        row[6 + i], row[6 + j] = bend_arm[j], -bend_arm[i]
        _add_row(a, b, row, missing[k], weight)


@njit
def _add_turn(a: Any, b: Any, missing: Row, bends: float, weight: float) -> None:
    """Add to the fit three equations for a rotation that follows the hips and the share `bends` of the spine's bend."""
    row = np.zeros(UNKNOWNS)
    for k in range(3):
        row[:] = 0.0
        row[3 + k], row[6 + k] = 1.0, bends
        _add_row(a, b, row, missing[k], weight)


@njit
def _add_along(a: Any, b: Any, way: Row, missing: float, turn_arm: Row, weight: float) -> None:
    """Add one equation to the fit: a point at `turn_arm` from the hips must move by `missing` along the vector `way`.
    """
    row = np.zeros(UNKNOWNS)
    turned = quat.cross(turn_arm, way)
    for k in range(3):
        row[k], row[3 + k] = way[k], turned[k]
    _add_row(a, b, row, missing, weight)


@njit
def _add_row(a: Any, b: Any, row: Any, missing: float, weight: float) -> None:
    w = weight * weight
    for i in range(UNKNOWNS):
        if row[i] != 0.0:
            b[i] += w * row[i] * missing
            for j in range(UNKNOWNS):
                a[i, j] += w * row[i] * row[j]


@njit
def _solve(a: Any, b: Any, x: Any) -> None:
    n = UNKNOWNS
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= a[i, k] * a[j, k]
            a[i, j] = math.sqrt(max(s, 1e-12)) if i == j else s / a[j, j]
    for i in range(n):
        s = b[i]
        for k in range(i):
            s -= a[i, k] * x[k]
        x[i] = s / a[i, i]
    for i in range(n - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, n):
            s -= a[k, i] * x[k]
        x[i] = s / a[i, i]


@njit
def _move(body: Any, x: Any) -> None:
    """Move hips and spine by the nine unknowns `x` of the fit, without a change of the rotations of neck and head."""
    neck, head = quat.get4(body.room_rotations, NECK), quat.get4(body.room_rotations, HEAD)
    turn = quat.exp((x[3], x[4], x[5]))
    _shift_hips(body, (x[0], x[1], x[2]))
    turn_joint(body, HIPS, quat.normalize(quat.mul(turn, quat.get4(body.room_rotations, HIPS))))
    part = turn
    third = quat.exp((x[6] / 3.0, x[7] / 3.0, x[8] / 3.0))
    for j in (SPINE, CHEST, UPPER_CHEST):
        part = quat.mul(third, part)
        turn_joint(body, j, quat.normalize(quat.mul(part, quat.get4(body.room_rotations, j))))
    turn_joint(body, NECK, neck)
    turn_joint(body, HEAD, head)
    update_room(body, SPINE, LEFT_SHOULDER)
    update_limbs(body)


@njit
def _shift_hips(body: Any, shift: Row) -> None:
    moved = quat.add(quat.get3(body.room_positions, HIPS), shift)
    local = quat.unrotate(quat.get4(body.room_rotations, 0), quat.sub(moved, quat.get3(body.room_positions, 0)))
    quat.put3(body.positions, HIPS, local)
    update_room(body, HIPS, LEFT_SHOULDER)
