"""Compiled step of the pose stage (`postprocess.py`), which blends the pose and places head, feet and hands."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mm_ros.body.kinematics import LEG_STRIDE, update_limbs, update_room
from mm_ros.body.skeleton import HEAD, HIPS, LEFT_FOOT, LEFT_TOES, UPPER_CHEST
from mm_ros.body.types import (
    F64,
    HEAD_ROLE,
    LEFT_FOOT_ROLE,
    LEFT_HAND_ROLE,
    LEFT_KNEE_ROLE,
    LOST,
    U8,
    WAIST_ROLE,
    R,
)
from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Quat, Row, Vec
from mm_ros.maths.springs import damping_share
from mm_ros.pose.feet import LOCK_HEIGHT, SETTLED, heading_of, place_foot
from mm_ros.pose.fit import fit_trunk
from mm_ros.pose.inertialize import (
    Offsets,
    decay_offset,
    make_offsets,
    offset_between,
    start_offset,
    with_offset,
)
from mm_ros.pose.low import bend_trunk, low_foot, low_reach, own_lean
from mm_ros.pose.upper_body import follow_hands, place_hand, place_head, straighten, torso_axis
from mm_ros.tracking.mounting import SHIN_M

# Maximum angular velocity with which a joint goes on turning after a jump between clips [rad/s].
FASTEST_TORSO, FASTEST_LIMB = 8.0, 25.0
TREMBLE_HALFLIFE_S = 0.025  # Half-life of the tremor filter of body trackers (delay: 8 ms).
# If `SURE_STANCE` times the certainty that both feet of the user stand is at least 1, the spine straightens fully.
SURE_STANCE = 1.6
HEEL_UP = 0.06  # The avatar's heel rises if the user's ankle is more than `HEEL_UP` [m] above its rest height.
TOE_LIFT = 0.6  # Ratio of the toe's height to the ankle's height in the middle of a swing.
# Half-life of the smoothing of the user's share in the avatar's feet, which follows the certainty of the estimate.
SHARE_HALFLIFE_S = 0.1
RELEASED_CONTACT = 0.7  # A locked foot may be released if its probability of contact is below this value.
# A locked foot may be released if its probability of motion exceeds 0.5 for a certain estimate of the foot, or a limit
# that is higher by up to `CALM` for an uncertain estimate.
CALM = 0.4
# While no foot is locked, the foot with the larger probability of contact stands, if this probability exceeds
# `SUPPORTING_CONTACT`.
SUPPORTING_CONTACT = 0.1
RETURN_HALFLIFE_S = 0.06  # Half-life with which a limb returns to its tracker when the tracker is found again.


class Source(NamedTuple):
    """Last matched pose, and the decaying offsets that are added to this pose."""

    positions: F64  # (J, 3)
    rotations: F64  # (J, 4)
    velocities: F64  # (J, 3)
    angular_velocities: F64  # (J, 3)
    root: F64  # (2, 4) x, y, z and yaw of the root in the last step; rates of x, y, z and yaw in root axes
    offsets: Offsets  # (J + 1 rows) offsets of the rotation of each joint and, in the last row, of the hips' position


class Hold(NamedTuple):
    """Targets of the joints that follow the R trackers.

    While a tracker is lost, its target stays constant relative to the chest (hands) or to the root (other trackers).
    """

    weight: F64  # (R,) weight of each target, which grows linearly from 0 to 1 after its tracker is found
    positions: F64  # (R, 3)
    rotations: F64  # (R, 4)
    gap: Offsets  # (2 R rows) decaying offsets of the R positions and R rotations after a tracker is found again
    trunk: F64  # (2, 3) shift of the shoulders and twist of the spine toward hands that the arms do not reach
    calm: F64  # (R, 4, 3) filters of the body trackers: position, velocity, (1 if set, 0, 0), angular velocity
    calm_rotations: F64  # (R, 4)
    body_positions: F64  # (R, 3) joint positions in the room that the body trackers measure
    body_rotations: F64  # (R, 4)
    body_weights: F64  # (R,)
    head: F64  # (4,) target position of the head joint, and the weight of this target
    hips: F64  # (3, 3) rows: shift of the hips toward the head, rate of the shift, (1 if set, added lean [rad], 0)


class User(NamedTuple):
    """State of the pose stage for the user's estimated feet (left, right)."""

    ankles: F64  # (2, 3)
    moves: F64  # (2,) probability that each foot of the user moves
    share: F64  # (2, 2) smoothed share of each user's foot in the avatar's foot, and certainty that this foot stands
    stands: U8  # (2,)


def make_user() -> User:
    return User(np.zeros((2, 3)), np.zeros(2), np.zeros((2, 2)), np.ones(2, np.uint8))


def make_source(joints: int) -> Source:
    q = np.zeros((joints, 4))
    q[:, 0] = 1.0
    rows = (np.zeros((joints, 3)) for _ in range(3))
    return Source(next(rows), q, next(rows), next(rows), np.zeros((2, 4)), make_offsets(joints + 1))


def make_hold() -> Hold:
    q = np.zeros((R, 4))
    q[:, 0] = 1.0
    return Hold(
        np.zeros(R), np.zeros((R, 3)), q, make_offsets(2 * R), np.zeros((2, 3)), np.zeros((R, 4, 3)), q.copy(),
        np.zeros((R, 3)), q.copy(), np.zeros(R), np.zeros(4), np.zeros((3, 3)),
    )  # fmt: skip


@njit
def load(new: Any, root: Any, positions: Any, rotations: Any, velocities: Any, angular: Any) -> bool:
    """Copy a matched pose into the packed `Source` `new`, and return whether all its numbers are finite."""
    n, total = new[0], 0.0
    for j in range(len(positions)):
        for k in range(3):
            n.positions[j, k], n.velocities[j, k], n.angular_velocities[j, k] = (
                positions[j, k], velocities[j, k], angular[j, k]
            )  # fmt: skip
            total += n.positions[j, k] + n.velocities[j, k] + n.angular_velocities[j, k]
        for k in range(4):
            n.rotations[j, k] = rotations[j, k]
            total += n.rotations[j, k]
    n.root[0, 0], n.root[0, 1], n.root[0, 2] = root[0], root[1], root[2]
    n.root[0, 3] = quat.yaw_of((root[3], root[4], root[5], root[6]))
    return math.isfinite(total + n.root[0, 0] + n.root[0, 1] + n.root[0, 2] + n.root[0, 3])


@njit
def follow_user(
    user: Any, feet: Any, known: Any, contacts: Any, follow: float, certain_m: float, holds: bool, dt: float,
    estimated: Any, stands: Any,
) -> None:  # fmt: skip
    """Convert the user's feet to the argument `estimated` (2, 7) of `post_step`; write to `stands` which feet stand.

    `known` (2, 10) holds the numbers of a `FeetEstimate`, or no rows without an estimate. `follow` is the maximum share
    of the user's feet in the avatar's feet, and at an expected error of `certain_m` [m] this share is halved. If
    `holds` is true, the estimate decides which feet stand; otherwise `contacts` (of the played motion) decides.
    """
    user, feet, decides = user[0], feet[0], holds and len(known) > 0
    share = damping_share(SHARE_HALFLIFE_S, dt)
    certain = (0.0, 0.0)
    if len(known):
        certain = (1.0 / (1.0 + (known[0, 9] / certain_m) ** 2), 1.0 / (1.0 + (known[1, 9] / certain_m) ** 2))
    for i in range(2):
        stands[i] = contacts[i]
        if len(known):
            for k in range(3):
                user.ankles[i, k] = known[i, 3 + k]
            user.moves[i] = known[i, 2]
        if decides:
            # If the estimate of the foot is uncertain, the foot is released only if it moves with a high probability.
            leaves = known[i, 0] < RELEASED_CONTACT and known[i, 2] > 0.5 + CALM * (1.0 - certain[i])
            user.stands[i] = not leaves if user.stands[i] else known[i, 0] > 0.5
    if decides:
        _keep_support(user, feet, known)
    for i in range(2):
        held = 0.0
        if decides:
            stands[i] = user.stands[i]
            held = certain[i] * (1.0 - known[i, 2]) * user.stands[i]
        user.share[0, i] += (follow * certain[i] - user.share[0, i]) * share
        user.share[1, i] += (held - user.share[1, i]) * share
        for k in range(3):
            estimated[i, k] = user.ankles[i, k]
        estimated[i, 3], estimated[i, 4], estimated[i, 5] = user.moves[i], user.share[0, i], user.share[1, i]
        estimated[i, 6] = 1.0 - known[i, 2] if decides else 0.0


@njit
def _keep_support(user: Any, feet: Any, known: Any) -> None:
    """If no foot supports the body, let the foot with the larger probability of contact stand, because both
    probabilities are low for a moment between two steps."""
    if (user.stands[0] and feet.locked[0]) or (user.stands[1] and feet.locked[1]):
        return
    left = 0.0 if feet.stepping[0] > 0.0 else known[0, 0]
    right = 0.0 if feet.stepping[1] > 0.0 else known[1, 0]
    if max(left, right) > SUPPORTING_CONTACT:
        user.stands[0 if left >= right else 1] = 1


@njit
def read_out(
    body: Any, feet: Any, stands: Any, last: Any, dt: float, positions: Any, rotations: Any, velocities: Any,
    angular: Any, flags: Any,
) -> None:  # fmt: skip
    """Copy the pose of `body` to the float32 arrays of the published pose.

    Row 0 of `flags` (2, 2) states which feet touch the floor, row 1 which feet have reached their locked place. `last`
    contains the positions and rotations of the previous pose. If `dt` is 0, the velocities are not changed.
    """
    body, feet = body[0], feet[0]
    for j in range(len(positions)):
        for k in range(3):
            positions[j, k] = np.float32(body.positions[j, k] if j else 0.0)
        for k in range(4):
            rotations[j, k] = np.float32(body.rotations[j, k]) if j else np.float32(k == 0)
    if dt > 0.0:
        joint_rates(positions, rotations, last[0], last[1], dt, velocities, angular)
    for i in range(2):
        flags[0, i] = stands[i] != 0 and feet.stepping[i] <= 0.0 and feet.high[i] < LOCK_HEIGHT
        away = max(abs(feet.offset[i, 0]), abs(feet.offset[i, 1]), abs(feet.offset[i, 2]))
        flags[1, i] = feet.locked[i] != 0 and away < SETTLED


@njit
def choose_targets(
    positions: Any, rotations: Any, state: Any, wanted: Any, p: Any, q: Any, good: Any
) -> None:
    """Copy the poses of those `wanted` trackers that are not lost and have finite numbers and a valid rotation."""
    for r in range(len(state)):
        x, turn = quat.get3(positions, r), quat.get4(rotations, r)
        norm = math.sqrt(turn[0] ** 2 + turn[1] ** 2 + turn[2] ** 2 + turn[3] ** 2)
        q[r, 0] = 1.0
        if wanted[r] and state[r] != LOST and abs(norm - 1.0) < 0.1 and math.isfinite(x[0] + x[1] + x[2]):
            good[r] = 1
            quat.put3(p, r, x)
            quat.put4(q, r, turn)


@njit
def blend(body: Any, s: Any, t: Any, new: Any, jumped: bool, dt: float) -> None:
    """Set the local pose of `body` to the matched pose `new` (a `Source`) plus the offsets from earlier jumps."""
    lost, lost_turn = (0.0, 0.0, 0.0), 0.0  # change of the root's velocity and turn rate at a jump
    if dt > 0.0:
        rate, turn = _root_rate(s, new.root, dt)
        if jumped:
            lost, lost_turn = quat.sub(quat.get3(s.root, 1), rate), s.root[1, 3] - turn
        quat.put3(s.root, 1, rate)
        s.root[1, 3] = turn
    s.root[0] = new.root[0]
    last = len(new.rotations)  # The last row of `s.offsets` holds the offset of the hips' position.
    for j in range(HIPS, last):
        if jumped:
            _restart(s, t, new, j, lost, lost_turn, dt)
        q, w = quat.get4(new.rotations, j), quat.get3(new.angular_velocities, j)
        x, v = decay_offset(s.offsets, j, t.kind, t.halflife, 0.0 if jumped else dt)
        out, _ = with_offset(q, w, x, v)
        quat.put4(body.rotations, j, out)
        quat.put3(body.positions, j, quat.get3(new.positions, j))
    x, _ = decay_offset(s.offsets, last, t.kind, t.halflife, 0.0 if jumped else dt)
    quat.put3(body.positions, HIPS, quat.add(quat.get3(new.positions, HIPS), x))
    s.positions[:] = new.positions
    s.rotations[:] = new.rotations
    s.velocities[:] = new.velocities
    s.angular_velocities[:] = new.angular_velocities


@njit
def _root_rate(s: Any, root: Any, dt: float) -> tuple[Vec, float]:
    d = quat.scale(quat.sub(quat.get3(root, 0), quat.get3(s.root, 0)), 1.0 / dt)
    return quat.unrotate(quat.from_yaw(root[0, 3]), d), quat.wrap(root[0, 3] - s.root[0, 3]) / dt


@njit
def _restart(s: Any, t: Any, new: Any, j: int, lost: Row, lost_turn: float, dt: float) -> None:
    """After a jump, start the offset of joint `j` from the new clip to the old clip, which is extrapolated by `dt`."""
    # The old motion's angular velocity is limited, because a glitch in the motion data would make the offset grow.
    w_old = quat.shortened(quat.get3(s.angular_velocities, j), FASTEST_TORSO if j <= HEAD else FASTEST_LIMB)
    q_old = quat.mul(quat.exp(quat.scale(w_old, dt)), quat.get4(s.rotations, j))
    x, v = decay_offset(s.offsets, j, t.kind, t.halflife, dt)
    q, w = with_offset(q_old, w_old, x, v)
    if j == HIPS:
        w = quat.add(w, (0.0, 0.0, lost_turn))
        q = quat.mul(quat.from_yaw(lost_turn * dt), q)
    x, v = offset_between(q, w, quat.get4(new.rotations, j), quat.get3(new.angular_velocities, j))
    start_offset(s.offsets, j, x, v, t.kind, t.blend_time)
    if j == HIPS:
        v_old = quat.get3(s.velocities, HIPS)
        x, v = decay_offset(s.offsets, len(new.rotations), t.kind, t.halflife, dt)
        p = quat.add(quat.add(quat.get3(s.positions, HIPS), quat.scale(v_old, dt)), x)
        p = quat.rotate(quat.from_yaw(lost_turn * dt), quat.add(p, quat.scale(lost, dt)))
        x = quat.sub(p, quat.get3(new.positions, HIPS))
        v = quat.add(quat.sub(quat.add(v_old, v), quat.get3(new.velocities, HIPS)), lost)
        v = quat.add(v, quat.cross((0.0, 0.0, lost_turn), p))
        start_offset(s.offsets, len(new.rotations), x, v, t.kind, t.blend_time)


@njit
def follow_target(
    hold: Any, t: Any, role: int, seen: bool, p: Row, q: Row, base_p: Row, base_q: Row, dt: float
) -> tuple[Vec, Quat, float]:
    """Return the room position and rotation that a tracker gives to a joint, and the smoothed weight of the tracker.

    While the tracker is lost, position and rotation move with another joint, whose pose is `base_p`, `base_q`.
    """
    w = hold.weight[role]
    if seen:
        if 0.0 < w < 1.0 and hold.gap.elapsed[role] > 0.0:
            held_p = quat.add(base_p, quat.rotate(base_q, quat.get3(hold.positions, role)))
            held_q = quat.mul(base_q, quat.get4(hold.rotations, role))
            start_offset(hold.gap, role, quat.sub(held_p, p), (0.0, 0.0, 0.0), 0, 0.0)
            start_offset(hold.gap, R + role, quat.log(quat.mul_inv(held_q, q)), (0.0, 0.0, 0.0), 0, 0.0)
        hold.gap.elapsed[role] = 0.0
        w = min(w + dt / t.fade_s, 1.0)
        x, _ = decay_offset(hold.gap, role, 0, RETURN_HALFLIFE_S, dt)
        turn, _ = decay_offset(hold.gap, R + role, 0, RETURN_HALFLIFE_S, dt)
        p = quat.add(p, x)
        q = quat.mul(quat.exp(turn), q)
        quat.put3(hold.positions, role, quat.unrotate(base_q, quat.sub(p, base_p)))
        quat.put4(hold.rotations, role, quat.normalize(quat.inv_mul(base_q, q)))
    else:
        hold.gap.elapsed[role] += dt
        w = max(w - dt / t.fade_s, 0.0)
        p = quat.add(base_p, quat.rotate(base_q, quat.get3(hold.positions, role)))
        q = quat.mul(base_q, quat.get4(hold.rotations, role))
    hold.weight[role] = w
    return quat.add(p, (0.0, 0.0, 0.0)), quat.normalize(q), w * w * (3.0 - 2.0 * w)


@njit
def wear(tracker_p: Row, tracker_q: Row, device: Any) -> tuple[Vec, Quat]:
    """Return the pose of the joint on which a tracked device is mounted. `device` is the pose of the device in joint
    axes (x, y, z, qw, qx, qy, qz)."""
    q = quat.normalize(quat.mul_inv(tracker_q, (device[3], device[4], device[5], device[6])))
    return quat.sub(tracker_p, quat.rotate(q, (device[0], device[1], device[2]))), q


@njit
def joint_rates(
    positions: Any, rotations: Any, last_positions: Any, last_rotations: Any, dt: float, velocities: Any, angular: Any
) -> None:
    """Compute velocities and angular velocities of all joints except the root from two successive poses (float32)."""
    seconds, two = np.float32(dt), np.float32(2.0)
    for j in range(1, len(positions)):
        for k in range(3):
            velocities[j, k] = (positions[j, k] - last_positions[j, k]) / seconds
        q = quat.mul_inv(quat.get4(rotations, j), quat.get4(last_rotations, j))
        if q[0] < 0:
            q = (-q[0], -q[1], -q[2], -q[3])
        n = np.sqrt(q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
        factor = two if n < 1e-9 else two * np.arctan2(n, q[0]) / n
        for k in range(3):
            angular[j, k] = factor * q[k + 1] / seconds


@njit
def post_step(
    body: Any, source: Any, new: Any, hold: Any, feet: Any, lengths: Any, t: Any, trackers: Any,
    tracker_rotations: Any, seen: Any, devices: Any, contacts: Any, estimated: Any, grounds: Any, low: Any,
    jumped: bool, dt: float,
) -> None:  # fmt: skip
    """Run one step of the pose stage. The arguments with state or settings are packed (`maths/packed.py`).

    `new.root[0]` is x, y, z and yaw of the root. `grounds` (3,) is the height of the floor under root, left toe and
    right toe [m]. `estimated` (2, 7) has a row for each foot of the user: ankle x, y, z [m], probability that the foot
    moves, share in the avatar's foot, certainty that the foot stands, and probability that the foot does not move, or 0
    if the estimate does not decide which feet stand.
    """
    body, source, new, hold, feet, t = body[0], source[0], new[0], hold[0], feet[0], t[0]
    blend(body, source, t, new, jumped, dt)
    quat.put3(body.positions, 0, (new.root[0, 0], new.root[0, 1], new.root[0, 2]))
    quat.put4(body.rotations, 0, quat.from_yaw(new.root[0, 3]))
    update_room(body, 0, len(body.parents))
    toes = (quat.get3(body.room_positions, LEFT_TOES), quat.get3(body.room_positions, LEFT_TOES + LEG_STRIDE))
    feet_q = (quat.get4(body.room_rotations, LEFT_FOOT), quat.get4(body.room_rotations, LEFT_FOOT + LEG_STRIDE))
    toes_q = (quat.get4(body.room_rotations, LEFT_TOES), quat.get4(body.room_rotations, LEFT_TOES + LEG_STRIDE))

    bent = quat.get3(body.room_positions, HEAD)
    if low.lean[1] > 0.0:
        bend_trunk(body, low)
    bent = quat.sub(quat.get3(body.room_positions, HEAD), bent)
    upright = torso_axis(body)
    calm(hold, trackers, tracker_rotations, seen, dt)
    head_z = wear(quat.get3(trackers, HEAD_ROLE), quat.get4(tracker_rotations, HEAD_ROLE), devices[HEAD_ROLE])[0][2]
    standing = min(SURE_STANCE * min(estimated[0, 5], estimated[1, 5]), 1.0)
    standing *= max(1.0 - low.legs[0] - low.legs[1] - low.legs[2], 0.0)
    straighten(body, feet, lengths, head_z, standing * hold.weight[HEAD_ROLE] * seen[HEAD_ROLE])
    shift = _head(body, hold, t, trackers, tracker_rotations, seen, devices, low, dt)
    on_feet = max(low.lean[2], 0.0) * max(1.0 - low.legs[0] - low.legs[1] - low.legs[2], 0.0)
    still = (_least(shift[0], shift[0] + bent[0]), _least(shift[1], shift[1] + bent[1]), shift[2])
    feet_shift = quat.mix(shift, still, on_feet)
    hold.hips[2, 1] = quat.angle_of(quat.between(upright, torso_axis(body)))
    update_limbs(body)
    shift = quat.add(feet_shift, _trunk(body, hold, lengths, t, trackers, tracker_rotations, seen, devices, dt))
    for side in range(2):
        toe = quat.add(toes[side], (shift[0], shift[1], -new.root[0, 2]))
        foot, stands = feet_q[side], contacts[side] != 0
        toe = toward_estimate(feet, side, toe, foot, estimated[side])
        foot, toes_now = levelled(feet, side, foot, toes_q[side], estimated[side])
        role = LEFT_FOOT_ROLE + side
        w = hold.body_weights[role]
        ankle, low_q, lw = low_foot(body, feet, lengths, low, side, grounds[1 + side], dt)
        if lw > 0.0:
            foot = quat.slerp(foot, low_q, lw)
            low_toe = quat.add(ankle, quat.rotate(foot, quat.get3(body.positions, LEFT_TOES + side * LEG_STRIDE)))
            toe = quat.mix(toe, (low_toe[0], low_toe[1], low_toe[2] - grounds[1 + side]), lw)
            stands = False
        if w > 0.0:  # A foot with a tracker follows the tracker instead of a lock.
            p, q = quat.get3(hold.body_positions, role), quat.get4(hold.body_rotations, role)
            # A tracker on the shin measures the position of the ankle, but not the rotation of the foot.
            foot = quat.slerp(foot, q, w) if devices[role, 2] < SHIN_M else foot
            tracked_toe = quat.add(p, quat.rotate(foot, quat.get3(body.positions, LEFT_TOES + side * LEG_STRIDE)))
            toe = quat.mix(toe, (tracked_toe[0], tracked_toe[1], tracked_toe[2] - grounds[1 + side]), w)
            stands = False
        quat.put3(feet.knee, side, quat.get3(hold.body_positions, LEFT_KNEE_ROLE + side))
        feet.knee[side, 3] = hold.body_weights[LEFT_KNEE_ROLE + side]
        guessed = 1.0 - max(w, lw)
        place_foot(body, feet, lengths, t, side, toe, foot, toes_now, stands, grounds[1 + side], guessed,
                   estimated[side, 6], dt)  # fmt: skip
    feet.ready[0] = 1
    wrists, weights = np.zeros((2, 3)), np.zeros(2)
    for side in range(2):
        role = LEFT_HAND_ROLE + side
        p, q, w = _target(body, hold, t, role, UPPER_CHEST, trackers, tracker_rotations, seen, devices, dt)
        quat.put3(wrists, side, p)
        # The trunk does not follow the hands while a waist tracker measures the trunk.
        weights[side] = w * (1.0 - hold.body_weights[WAIST_ROLE])
        if w > 0.0:
            grip = (devices[role, 0], devices[role, 1], devices[role, 2])
            place_hand(body, lengths, side, p, q, grip, w, grounds[0])
    follow_hands(body, lengths, hold.trunk, wrists, weights, dt)


@njit
def _least(a: float, b: float) -> float:
    """Return the value between `a` and `b` that is nearest to 0. If `a` and `b` are the shifts of the hips with and
    without the bend of the trunk, the feet move by this value: bending moves the hips backward, but not the feet."""
    return 0.0 if a * b <= 0.0 else (a if abs(a) < abs(b) else b)


@njit
def toward_estimate(feet: Any, side: int, toe: Row, foot: Row, estimated: Any) -> Vec:
    """Move the toe position `toe`, whose z is the height above the floor, toward the user's estimated foot."""
    share = estimated[4]
    if share <= 0.0:
        return (toe[0], toe[1], toe[2])
    bone = quat.rotate(foot, quat.get3(feet.ankle_to_toe, side))
    # The avatar's toe rises by less than the user's ankle, because the heel rises first in a step.
    lift = TOE_LIFT * estimated[3] * max(estimated[2] - feet.rest[side, 1], 0.0)
    there = (estimated[0] + bone[0], estimated[1] + bone[1], feet.rest[side, 0] + lift)
    return quat.mix(toe, there, share)


@njit
def levelled(feet: Any, side: int, foot: Row, toes: Row, estimated: Any) -> tuple[Quat, Quat]:
    """Turn foot and toes flat on the floor while the user's foot stands and its ankle is low, so that the heel does not
    rise with the played motion."""
    raised = max(estimated[2] - feet.rest[side, 1], 0.0) / HEEL_UP
    share = estimated[5] * max(1.0 - raised, 0.0)
    own, of_toes = (foot[0], foot[1], foot[2], foot[3]), (toes[0], toes[1], toes[2], toes[3])
    if share <= 0.0:
        return own, of_toes
    bone = quat.get3(feet.ankle_to_toe, side)
    flat = quat.from_yaw(heading_of(foot, bone) - math.atan2(bone[1], bone[0]))
    return quat.slerp(own, flat, share), quat.slerp(of_toes, flat, share)


@njit
def _target(
    body: Any, hold: Any, t: Any, role: int, base: int, trackers: Any, rotations: Any, seen: Any, devices: Any,
    dt: float,
) -> tuple[Vec, Quat, float]:  # fmt: skip
    """Return target position, target rotation and weight of the joint on which a device is mounted. While the device is
    lost, the target moves with the joint `base`."""
    p, q = wear(quat.get3(trackers, role), quat.get4(rotations, role), devices[role])
    base_p, base_q = quat.get3(body.room_positions, base), quat.get4(body.room_rotations, base)
    return follow_target(hold, t, role, seen[role] != 0, p, q, base_p, base_q, dt)


@njit
def calm(hold: Any, trackers: Any, rotations: Any, seen: Any, dt: float) -> None:
    """Filter the tremor of body trackers in place, without lag at constant velocity (docs/body-trackers.md).

    Positions and rotations pass the same fading-memory filter as in the function `follow_calmly`.
    """
    memory = 0.5 ** (dt / TREMBLE_HALFLIFE_S) if dt > 0.0 else 1.0
    gain, rate_gain = 1.0 - memory * memory, (1.0 - memory) ** 2
    for role in range(WAIST_ROLE, R):
        state = hold.calm[role]
        if seen[role] == 0:
            state[2, 0] = 0.0
            continue
        p, q = quat.get3(trackers, role), quat.get4(rotations, role)
        if state[2, 0] == 0.0 or dt <= 0.0:
            if state[2, 0] == 0.0:
                state[:] = 0.0
                state[2, 0] = 1.0
                quat.put3(state, 0, p)
                quat.put4(hold.calm_rotations, role, q)
        else:
            x = quat.add(quat.get3(state, 0), quat.scale(quat.get3(state, 1), dt))
            lacking = quat.sub(p, x)
            quat.put3(state, 0, quat.add(x, quat.scale(lacking, gain)))
            quat.put3(state, 1, quat.add(quat.get3(state, 1), quat.scale(lacking, rate_gain / dt)))
            turned = quat.exp(quat.scale(quat.get3(state, 3), dt))
            turned = quat.mul(turned, quat.get4(hold.calm_rotations, role))
            lacking = quat.log(quat.mul_inv(q, turned))
            turned = quat.mul(quat.exp(quat.scale(lacking, gain)), turned)
            quat.put4(hold.calm_rotations, role, quat.normalize(turned))
            quat.put3(state, 3, quat.add(quat.get3(state, 3), quat.scale(lacking, rate_gain / dt)))
        quat.put3(trackers, role, quat.get3(state, 0))
        quat.put4(rotations, role, quat.get4(hold.calm_rotations, role))


@njit
def _trunk(
    body: Any, hold: Any, lengths: Any, t: Any, trackers: Any, rotations: Any, seen: Any, devices: Any, dt: float
) -> Vec:
    most = 0.0
    for role in range(WAIST_ROLE, R):
        p, q, w = _target(body, hold, t, role, 0, trackers, rotations, seen, devices, dt)
        quat.put3(hold.body_positions, role, p)
        quat.put4(hold.body_rotations, role, q)
        hold.body_weights[role] = w
        most = max(most, w)
    if most <= 0.0:
        return (0.0, 0.0, 0.0)
    return fit_trunk(body, lengths, hold.body_positions, hold.body_rotations, hold.body_weights, hold.head)


@njit
def _head(
    body: Any, hold: Any, t: Any, trackers: Any, rotations: Any, seen: Any, devices: Any, low: Any, dt: float
) -> Vec:
    p, q, w = _target(body, hold, t, HEAD_ROLE, 0, trackers, rotations, seen, devices, dt)
    hold.head[3] = w
    if w <= 0.0:
        hold.hips[:] = 0.0
        hold.trunk[:] = 0.0
        return (0.0, 0.0, 0.0)
    hold.head[0], hold.head[1], hold.head[2] = p
    reach = t.hips_reach + low_reach(low)
    return place_head(body, hold.hips, hold.trunk, p, q, w, t.lean_limit, reach, own_lean(low), dt)
