"""Lock feet on the floor: a toe in contact with the ground keeps its place until the played motion lifts the toe.

A lock keeps the position of the toe and the heading of the foot constant. The rest of the foot's rotation follows the
played motion, so that the foot rolls off. Position and velocity of a foot do not jump at a lock, a release or a
corrective step, because an offset bridges the difference and decays to zero.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.kinematics import LEG_STRIDE, turn_joint, update_room
from mm_ros.body.skeleton import LEFT_UPPER_LEG, Skeleton
from mm_ros.body.types import F64
from mm_ros.maths import quat
from mm_ros.maths.ik import bend_limits, bend_two, lifted_corner, soft_reach, swung_normal
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Quat, Row, Vec
from mm_ros.maths.springs import LN2, damping_share, decay, decay3

KNEE_AXIS = (0.0, 1.0, 0.0)  # The axis of the knee points to the left in the axes of thigh and shin.
# A bent leg that is longer than its full length minus `STRETCH_ZONE` [m] stretches ever more slowly.
STRETCH_ZONE = 0.06
SHORTEST_ZONE = 0.027  # Width [m] that replaces `STRETCH_ZONE` if the played motion stretches the leg.
SHARPEST_KNEE = 2.7  # Maximum bend of the knee [rad].
KNEE_HEIGHT = 0.07  # Minimum height of the knee joint above the floor, as a share of the leg's length.
# A tracked knee fully determines the plane of the leg if it is at least `BENT_KNEE` [m] from the hip-ankle line.
BENT_KNEE = 0.08
# A toe that is more than `LOCK_HEIGHT` [m] above its rest height is not locked, even if contact is reported.
# `LOCK_HEIGHT` also applies to a toe that hangs in the air because the leg is too short for the height of the hips.
LOCK_HEIGHT = 0.06
# A released foot is not locked again for the time `RELOCK_COOLDOWN_S`, because the new lock would be released at once.
RELOCK_COOLDOWN_S = 0.12
TOE_TIP = 0.07  # Distance from the toe joint to the tip of the toes [m].
HEEL_RAISE_LIMIT, STEEPEST_FOOT = 0.9, 1.1  # Maximum angles of the raised heel and of the foot's pitch [rad].
# The heel rises ever more slowly within `HEEL_RAISE_ZONE` [rad] of its limit, so that the ankle does not stop abruptly.
HEEL_RAISE_ZONE = 0.3
UNREACHABLE = 0.005  # A locked foot is released when its toe is more than `UNREACHABLE` [m] from the locked place.
# A foot that does not reach its locked place makes a corrective step only if its target is nearer to the hip than the
# locked place by more than `NEARER` [m].
NEARER = 0.01
# A locked foot without contact is released when its toe is higher than `LIFT_HEIGHT` [m], faster than `LIFT_SPEED`
# [m/s], or without contact for longer than `LONGEST_HOLD_S`.
LIFT_HEIGHT, LIFT_SPEED, LONGEST_HOLD_S = 0.025, 0.7, 0.04
# Factor on `LIFT_HEIGHT` and `LIFT_SPEED` while the other foot is in the air, because one foot must stand.
SINGLE_SUPPORT_RELEASE_FACTOR = 2.2
# Factor on the limits `release_distance` and `release_angle` while the other foot is in the air.
SINGLE_SUPPORT_REACH_FACTOR = 1.5
# A toe that is lower than `SUPPORT_HEIGHT` [m] and slower than `SUPPORT_SPEED` [m/s] may support the body even if the
# played motion reports no contact.
SUPPORT_HEIGHT, SUPPORT_SPEED = 0.02, 0.6
AT_REST = 0.12  # A locked foot counts as standing if its toe is slower than `AT_REST` [m/s].
LANDING_ZONE = 0.01  # A toe that is not locked sinks more slowly within `LANDING_ZONE` [m] of its rest height.
HEEL_ZONE = 0.015  # The ankle sinks more slowly within `HEEL_ZONE` [m] of its minimum height.
FASTEST_FREE = 6.0  # Maximum speed of a released foot relative to its target [m/s].
# A foot in a fast swing is lifted by `CLEARANCE` [m], because a blend of two clips may bring the foot too low.
CLEARANCE, CLEARANCE_HALFLIFE_S = 0.025, 0.04
# While no foot is locked, each foot is lifted by an additional `FLIGHT_CLEARANCE` [m]. The half-life
# `FLIGHT_HALFLIFE_S` prevents an abrupt start of the lift, which would look like a kick.
FLIGHT_CLEARANCE, FLIGHT_HALFLIFE_S = 0.01, 0.1
# The lift of a swinging foot grows from zero at the speed `SLOW_SWING` to its maximum at the speed `FAST_SWING` [m/s].
SLOW_SWING, FAST_SWING = 0.3, 1.2
CALM_STEP, CALM_TURN = 1.0, 3.0  # Maximum speed [m/s] and turn rate [rad/s] at the start of a corrective step.
# The limits `release_distance` and `release_angle` are multiplied by up to 1 + `STAYS_FARTHER` and 1 + `STAYS_TURNED`
# while the user's foot is estimated not to move, because an estimated position that jumps at that time is wrong.
STAYS_FARTHER, STAYS_TURNED = 3.0, 1.5
TELEPORT = 1.0  # A foot more than `TELEPORT` [m] from its target moves to the target without a corrective step.
SETTLED = 0.002  # A foot is reported as locked if it is less than `SETTLED` [m] from its locked place.


class Feet(NamedTuple):
    """State of both feet, the left foot in row 0 and the right foot in row 1.

    The positions in `Feet` are positions of the toe joints, in room axes.
    """

    locked: NDArray[np.int8]  # (2,)
    place: F64  # (2, 3) place in the room at which the toe of a locked foot is held
    yaw: F64  # (2,) yaw at which a locked foot is held
    offset: F64  # (2, 3) decaying offset of the toe from its target or from its locked place
    rate: F64  # (2, 3)
    turn: F64  # (2, 2) decaying offset of the foot's yaw from that of its target or lock, and its rate
    toe: F64  # (2, 3) position of the toe in the last published pose
    toe_rate: F64  # (2, 3)
    heading: F64  # (2, 2) yaw of the foot in the last published pose, and the rate of this yaw
    desired: F64  # (2, 3) target of the toe in the last step of the pose stage
    desired_yaw: F64  # (2,)
    over: F64  # (2,) time [s] for which the locked foot has had no contact
    stepping: F64  # (2,) remaining time [s] of a corrective step
    leaving: F64  # (2,) remaining time [s] of the blend after a release
    from_offset: F64  # (2, 3) value of `offset` at the start of the corrective step or of the blend after a release
    from_rate: F64  # (2, 3)
    from_turn: F64  # (2, 2)
    clear: F64  # (2, 2) additional height [m] of a swinging foot above the played motion, and its rate
    flight: F64  # (2,) smoothed value: 1 while the other foot is in the air, 0 while the other foot is locked
    rest: F64  # (2, 2) height of toe and ankle above the floor while the user stands
    ankle_to_toe: F64  # (2, 3) in foot axes
    high: F64  # (2,) height of the toe above its rest height in the last published pose
    knee: F64  # (2, 4) position of the tracked knee in the room, and the weight of this position
    ready: NDArray[np.int8]  # (1,) 1 after the first step of the pose stage, before that 0


def make_feet(skeleton: Skeleton) -> Feet:
    rest = skeleton.rest_positions().astype(np.float64)
    legs = [LEFT_UPPER_LEG, LEFT_UPPER_LEG + LEG_STRIDE]
    heights = np.array([[max(rest[leg + 3, 2], 0.0), rest[leg + 2, 2]] for leg in legs])
    toes = np.array([skeleton.offsets[leg + 3] for leg in legs], np.float64)
    return Feet(
        np.zeros(2, np.int8), np.zeros((2, 3)), np.zeros(2), np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 2)),
        np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 2)), np.zeros((2, 3)), np.zeros(2), np.zeros(2), np.zeros(2),
        np.zeros(2), np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2), heights, toes,
        np.zeros(2), np.zeros((2, 4)), np.zeros(1, np.int8),
    )  # fmt: skip


@njit
def place_foot(
    body: Any, feet: Any, lengths: Any, t: Any, side: int, toe_matched: Row, foot: Row, toes: Row,
    contact: bool, ground: float, guessed: float, stays: float, dt: float,
) -> None:  # fmt: skip
    """Pose one leg so that its foot is locked, or follows its target.

    `toe_matched` is the desired position of the toe joint, whose z is the height above the ground. `foot` and `toes`
    are the desired rotations of foot and toes. `guessed` is 1 without a tracker on this foot, and 0 when a tracker
    determines the foot's pose. `stays` is the probability that the user's foot does not move, or 0 without an
    estimate. If `stays` is 1, the foot is released only at 1 + `STAYS_FARTHER` times the usual distance or at
    1 + `STAYS_TURNED` times the usual turn.
    """
    rest_toe = feet.rest[side, 0]
    lift = toe_matched[2] - rest_toe
    if lift < LANDING_ZONE:
        lift = LANDING_ZONE * math.exp(lift / LANDING_ZONE - 1.0)
    target = (toe_matched[0], toe_matched[1], ground + rest_toe + lift)
    target_yaw = heading_of(foot, quat.get3(feet.ankle_to_toe, side))
    first = feet.ready[0] == 0
    pace, turn = (0.0, 0.0, 0.0), 0.0  # velocity of the toe's target and yaw rate of the foot's target
    if not first and dt > 0.0:
        pace = quat.scale(quat.sub(target, quat.get3(feet.desired, side)), 1.0 / dt)
        turn = quat.wrap(target_yaw - feet.desired_yaw[side]) / dt
    decide(feet, t, side, target, target_yaw, pace, turn, contact, ground, guessed, stays, dt)
    toe, yaw = _advance(feet, t, side, target, target_yaw, ground, guessed, dt)
    foot = quat.mul(quat.from_yaw(quat.wrap(yaw - target_yaw)), foot)
    toes = quat.mul(quat.from_yaw(quat.wrap(yaw - target_yaw)), toes)
    pose_leg(body, feet, lengths, side, toe, foot, toes, ground)
    reached = quat.get3(body.room_positions, LEFT_UPPER_LEG + side * LEG_STRIDE + 3)
    missed = quat.sub(reached, toe)
    _remember(feet, side, reached, yaw, target, target_yaw, dt, first)
    feet.high[side] = reached[2] - ground - rest_toe
    if feet.locked[side] and quat.norm(missed) > UNREACHABLE:
        # There is no corrective step while the leg cannot reach the floor, for example in a jump.
        hip = quat.get3(body.room_positions, LEFT_UPPER_LEG + side * LEG_STRIDE)
        farther = quat.norm(quat.sub(target, hip)) - quat.norm(quat.sub(quat.get3(feet.place, side), hip))
        release(feet, t, side, target, target_yaw, pace, turn, contact and farther < -NEARER, 0.0)


@njit
def heading_of(foot: Row, bone: Row) -> float:
    """Return the yaw of the line from ankle to toe. While the foot points steeply down, the yaw is computed from the
    left axis of the foot, because this axis remains horizontal."""
    d = quat.rotate(foot, bone)
    left = quat.rotate(foot, (0.0, 1.0, 0.0))
    ahead = quat.unit((left[1], -left[0], 0.0), (1.0, 0.0, 0.0))
    ahead = quat.rotate(quat.from_yaw(math.atan2(bone[1], bone[0])), ahead)
    flat = (ahead[0] * d[0] + ahead[1] * d[1]) / max(quat.norm(d), 1e-6)
    u = min(max((flat - 0.3) / 0.3, 0.0), 1.0)
    w = u * u * (3.0 - 2.0 * u)
    d = quat.unit((d[0], d[1], 0.0), ahead)
    d = quat.mix(ahead, d, w)
    return math.atan2(d[1], d[0])


@njit
def decide(
    feet: Any, t: Any, side: int, target: Row, target_yaw: float, pace: Row, turn: float, contact: bool, ground: float,
    guessed: float, stays: float, dt: float,
) -> None:  # fmt: skip
    """Decide whether a foot is locked, stays locked or is released. A foot with a tracker (`guessed` below 1) is never
    locked, because the tracker measures its position."""
    feet.stepping[side] = max(feet.stepping[side] - dt, 0.0)
    feet.leaving[side] = max(feet.leaving[side] - dt, 0.0)
    height = target[2] - ground - feet.rest[side, 0]
    may_hold = t.lock_on != 0 and guessed >= 1.0
    if feet.locked[side]:
        alone = not _stands(feet, 1 - side)
        # `gone` is the toe's height or speed divided by its limit; above 1, the foot counts as lifted off the floor.
        gone = max(height / LIFT_HEIGHT, math.hypot(pace[0], pace[1]) / LIFT_SPEED)
        feet.over[side] = 0.0 if contact or (alone and gone <= 1.0) else feet.over[side] + dt
        # A short loss of contact does not release the foot, because a foot that is released before its toe leaves the
        # ground would slide.
        left = not contact and (
            gone > (SINGLE_SUPPORT_RELEASE_FACTOR if alone else 1.0) or feet.over[side] > LONGEST_HOLD_S
        )
        farthest = SINGLE_SUPPORT_REACH_FACTOR if alone else 1.0
        if not may_hold or left or _too_far(feet, t, side, target, target_yaw, stays) > farthest:
            release(feet, t, side, target, target_yaw, pace, turn, contact, dt)
        return
    if not may_hold or feet.stepping[side] > 0.0 or feet.high[side] > LOCK_HEIGHT:
        return
    toe_rate = quat.get3(feet.toe_rate, side)
    speed = math.hypot(toe_rate[0], toe_rate[1])
    stands = contact and speed < t.lock_speed and height + feet.offset[side, 2] < LOCK_HEIGHT
    if stands or (_supports(feet, t, side, height, pace) and speed < t.lock_speed):
        lock(feet, t, side, target, target_yaw, ground)


@njit
def _stands(feet: Any, side: int) -> bool:
    return bool(feet.locked[side] != 0 and math.hypot(feet.toe_rate[side, 0], feet.toe_rate[side, 1]) < AT_REST)


@njit
def _supports(feet: Any, t: Any, side: int, height: float, pace: Row) -> bool:
    """Return whether the toe supports the body although the clip has no contact, as in the short stances of a run."""
    return (
        feet.locked[1 - side] == 0
        and feet.leaving[side] <= max(t.release_s - RELOCK_COOLDOWN_S, 0.0)
        and feet.ready[0] != 0
        and height < SUPPORT_HEIGHT
        and height + feet.offset[side, 2] < LIFT_HEIGHT
        and math.hypot(pace[0], pace[1]) < SUPPORT_SPEED
        and abs(pace[2]) < SUPPORT_SPEED
    )


@njit
def _too_far(feet: Any, t: Any, side: int, target: Row, target_yaw: float, stays: float) -> float:
    """Return the distance or turn from the lock to the target, divided by its limit for a release. The limit grows with
    the probability `stays` that the user's foot does not move, and is 1.5 times as large while the other foot makes a
    corrective step."""
    away = quat.sub(target, quat.get3(feet.place, side))
    distance = math.hypot(away[0], away[1]) / max(t.release_m * (1.0 + STAYS_FARTHER * stays), 1e-6)
    turned = abs(quat.wrap(target_yaw - feet.yaw[side])) / max(t.release_angle * (1.0 + STAYS_TURNED * stays), 1e-6)
    far = max(distance, turned)
    return float(far / 1.5 if feet.stepping[1 - side] > 0.0 else far)


@njit
def lock(feet: Any, t: Any, side: int, target: Row, target_yaw: float, ground: float) -> None:
    """Lock the foot. The locked place is ahead of the toe by the distance that the toe needs to stop, so that the toe
    does not overshoot."""
    rate, turn_rate = quat.get3(feet.toe_rate, side), feet.heading[side, 1]
    ahead = quat.shortened((rate[0], rate[1], 0.0), t.lock_speed)
    run_out = t.lock_halflife / (2.0 * LN2)
    now, yaw = target, target_yaw
    if feet.ready[0] != 0:
        now, yaw = quat.get3(feet.toe, side), feet.heading[side, 0]
    z = ground + feet.rest[side, 0]
    quat.put3(feet.place, side, (now[0] + run_out * ahead[0], now[1] + run_out * ahead[1], z))
    feet.yaw[side] = quat.wrap(yaw + run_out * turn_rate)
    quat.put3(feet.offset, side, quat.sub(now, quat.get3(feet.place, side)))
    quat.put3(feet.rate, side, rate)
    feet.turn[side, 0], feet.turn[side, 1] = -run_out * turn_rate, turn_rate
    feet.locked[side] = 1
    feet.leaving[side] = 0.0
    # The lift of a swinging foot is set to 0 at a lock, because the offset from the locked place already contains it.
    feet.clear[side, 0], feet.clear[side, 1] = 0.0, 0.0
    feet.flight[side] = 0.0


@njit
def release(
    feet: Any, t: Any, side: int, target: Row, target_yaw: float, pace: Row, turn: float, contact: bool, dt: float
) -> None:
    """Release the foot: start an offset from its target, which begins at the toe and yaw that were published `dt` ago.
    If `contact` is true, the foot moves to its target by a corrective step."""
    here, toe_rate = quat.get3(feet.toe, side), quat.get3(feet.toe_rate, side)
    rate = quat.shortened(quat.sub(toe_rate, pace), CALM_STEP if contact else FASTEST_FREE)
    turn_rate = feet.heading[side, 1] - turn
    if contact:
        turn_rate = min(max(turn_rate, -CALM_TURN), CALM_TURN)
    # The initial rate of the offset is chosen so that the foot keeps its velocity during `dt`.
    away = quat.sub(quat.add(here, quat.scale(toe_rate, dt)), target)
    turned = quat.wrap(feet.heading[side, 0] + feet.heading[side, 1] * dt - target_yaw) - turn_rate * dt
    offset = quat.sub(away, quat.scale(rate, dt))
    feet.locked[side] = 0
    feet.over[side] = 0.0
    if quat.norm(away) > TELEPORT:
        offset, rate = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    elif contact:
        feet.stepping[side] = max(t.step_s - dt, 0.0)
    feet.leaving[side] = 0.0 if feet.stepping[side] > 0.0 else max(t.release_s - dt, 0.0)
    quat.put3(feet.from_offset, side, offset)
    quat.put3(feet.from_rate, side, rate)
    feet.from_turn[side, 0], feet.from_turn[side, 1] = turned, turn_rate


@njit
def _advance(
    feet: Any, t: Any, side: int, target: Row, target_yaw: float, ground: float, guessed: float, dt: float
) -> tuple[Vec, float]:
    """Return toe position and yaw of the foot: those of the target or of the locked place, plus the decaying offset."""
    if not feet.locked[side]:
        arch = _on_the_way(feet, t, side)
        toe = quat.add(target, quat.get3(feet.offset, side))
        lowest = ground + feet.rest[side, 0]
        z = max(toe[2] + arch, lowest)
        if t.lock_on:
            z += guessed * _clear(feet, side, dt) * math.exp(-(z - lowest) / CLEARANCE)
        return (toe[0], toe[1], z), quat.wrap(target_yaw + feet.turn[side, 0])
    x, v = decay3(quat.get3(feet.offset, side), quat.get3(feet.rate, side), t.lock_halflife, dt)
    quat.put3(feet.offset, side, x)
    quat.put3(feet.rate, side, v)
    a, w = decay(feet.turn[side, 0], feet.turn[side, 1], t.lock_halflife, dt)
    feet.turn[side, 0], feet.turn[side, 1] = a, w
    toe = quat.add(quat.get3(feet.place, side), x)
    return (toe[0], toe[1], max(toe[2], ground + feet.rest[side, 0])), quat.wrap(feet.yaw[side] + a)


@njit
def _clear(feet: Any, side: int, dt: float) -> float:
    """Return by how much a foot that moves or turns fast is lifted [m]; the lift is larger while no foot is locked."""
    size = quat.norm(quat.get3(feet.ankle_to_toe, side))
    speed = math.hypot(feet.toe_rate[side, 0], feet.toe_rate[side, 1]) + size * abs(feet.heading[side, 1])
    u = min(max((speed - SLOW_SWING) / (FAST_SWING - SLOW_SWING), 0.0), 1.0)
    both = 0.0 if feet.locked[1 - side] else 1.0
    feet.flight[side] += (both - feet.flight[side]) * damping_share(FLIGHT_HALFLIFE_S, dt)
    goal = (CLEARANCE + FLIGHT_CLEARANCE * feet.flight[side]) * u * u * (3.0 - 2.0 * u)
    x, v = decay(feet.clear[side, 0] - goal, feet.clear[side, 1], CLEARANCE_HALFLIFE_S, dt)
    feet.clear[side, 0], feet.clear[side, 1] = goal + x, v
    return float(goal + x)


@njit
def _on_the_way(feet: Any, t: Any, side: int) -> float:
    """Reduce the offset of a foot that is not locked along a minimum-jerk curve. Return the height [m] by which a
    corrective step lifts the foot, or 0 without a corrective step."""
    whole, ahead = t.release_s, feet.leaving[side]
    if feet.stepping[side] > 0.0:
        whole, ahead = t.step_s, feet.stepping[side]
    if ahead <= 0.0:
        quat.put3(feet.offset, side, (0.0, 0.0, 0.0))
        feet.turn[side, 0] = 0.0
        return 0.0
    time = max(whole - ahead, 0.0)
    u = time / whole
    share = 1.0 - u * u * u * (10.0 + u * (6.0 * u - 15.0))
    x = quat.add(quat.get3(feet.from_offset, side), quat.scale(quat.get3(feet.from_rate, side), time))
    quat.put3(feet.offset, side, quat.scale(x, share))
    feet.turn[side, 0] = (feet.from_turn[side, 0] + feet.from_turn[side, 1] * time) * share
    return t.step_height * math.sin(math.pi * u) if feet.stepping[side] > 0.0 else 0.0


@njit
def _remember(
    feet: Any, side: int, toe: Row, yaw: float, target: Row, target_yaw: float, dt: float, first: bool
) -> None:
    if first or dt <= 0.0:
        quat.put3(feet.toe_rate, side, (0.0, 0.0, 0.0))
        feet.heading[side, 1] = 0.0
    else:
        quat.put3(feet.toe_rate, side, quat.scale(quat.sub(toe, quat.get3(feet.toe, side)), 1.0 / dt))
        feet.heading[side, 1] = quat.wrap(yaw - feet.heading[side, 0]) / dt
    quat.put3(feet.toe, side, toe)
    quat.put3(feet.desired, side, target)
    feet.heading[side, 0] = yaw
    feet.desired_yaw[side] = target_yaw


@njit
def pose_leg(body: Any, feet: Any, lengths: Any, side: int, toe: Row, foot: Row, toes: Row, ground: float) -> None:
    """Bend the leg so that the toe joint reaches the position `toe`, or comes as near to it as the leg allows."""
    leg = LEFT_UPPER_LEG + side * LEG_STRIDE
    bone = quat.get3(feet.ankle_to_toe, side)
    hip = quat.get3(body.room_positions, leg)
    longest = (lengths[side, 2] + lengths[side, 3]) * 0.9999
    # `own` is the distance between hip and ankle in the played motion.
    own = quat.norm(quat.sub(quat.get3(body.room_positions, leg + 2), hip))
    zone = max(min(longest - own, STRETCH_ZONE), SHORTEST_ZONE)
    foot = _heel_above_floor(foot, bone, toe, ground + 0.8 * feet.rest[side, 1])
    unraised = quat.norm(quat.sub(quat.sub(toe, quat.rotate(foot, bone)), hip))
    raised = _raise_heel(foot, bone, toe, hip, longest, zone)
    toes = quat.mul(quat.mul_inv(raised, foot), toes)
    foot = raised
    ankle = quat.sub(toe, quat.rotate(foot, bone))
    line = quat.sub(ankle, hip)
    d = quat.norm(line)
    reach = min(d, soft_reach(unraised, longest, zone))
    reach = max(reach, bend_limits(lengths[side, 2], lengths[side, 3], SHARPEST_KNEE))
    end = quat.add(hip, quat.scale(quat.unit(line, (0.0, 0.0, -1.0)), reach))
    hinge = quat.rotate(quat.get4(body.room_rotations, leg), KNEE_AXIS)
    normal = swung_normal(hip, quat.get3(body.room_positions, leg + 2), hinge, end)
    normal = _toward_knee(feet.knee[side], hip, end, normal)
    outward = quat.rotate(quat.get4(body.room_rotations, 0), (0.0, 1.0 - 2.0 * side, 0.0))
    lowest = ground + KNEE_HEIGHT * (lengths[side, 2] + lengths[side, 3])
    normal = lifted_corner(hip, end, normal, lengths[side, 2], lengths[side, 3], lowest, outward)
    thigh, shin, knee = bend_two(
        hip, end, normal, quat.get3(body.positions, leg + 1), quat.get3(body.positions, leg + 2), KNEE_AXIS
    )
    turn_joint(body, leg, thigh)
    quat.put3(body.room_positions, leg + 1, knee)
    turn_joint(body, leg + 1, shin)
    turn_joint(body, leg + 2, quat.normalize(foot))
    turn_joint(body, leg + 3, quat.normalize(_tip_above_floor(toes, toe, ground)))
    update_room(body, leg, leg + 4)


@njit
def _toward_knee(knee: Any, hip: Row, end: Row, normal: Row) -> Vec:
    """Turn the `normal` of the leg's plane so that the plane contains a tracked knee (x, y, z, weight); the plane of a
    leg that is almost straight turns less."""
    line = quat.unit(quat.sub(end, hip), (0.0, 0.0, -1.0))
    side = quat.across(quat.sub((knee[0], knee[1], knee[2]), hip), line)
    u = knee[3] * min(quat.norm(side) / BENT_KNEE, 1.0)
    if u <= 0.0:
        return (normal[0], normal[1], normal[2])
    tracked = quat.unit(quat.cross(side, line), normal)
    return quat.unit(quat.across(quat.mix(normal, tracked, u), line), normal)


@njit
def _pitch_axis(foot: Row, bone: Row) -> Vec:
    """Return the horizontal axis that points to the left of the foot, so that a positive rotation lowers the toe
    relative to the heel."""
    yaw = heading_of(foot, bone)
    return (-math.sin(yaw), math.cos(yaw), 0.0)


@njit
def _heel_above_floor(foot: Row, bone: Row, toe: Row, lowest: float) -> Quat:
    d = quat.rotate(foot, bone)
    above = toe[2] - d[2] - lowest
    if above >= HEEL_ZONE:
        return (foot[0], foot[1], foot[2], foot[3])
    above = HEEL_ZONE * math.exp(above / HEEL_ZONE - 1.0)
    size = quat.norm(d)
    want = max(min((toe[2] - lowest - above) / size, 1.0), -1.0)
    have = max(min(d[2] / size, 1.0), -1.0)
    return quat.mul(quat.about(_pitch_axis(foot, bone), math.asin(have) - math.asin(want)), foot)


@njit
def _raise_heel(foot: Row, bone: Row, toe: Row, hip: Row, longest: float, zone: float) -> Quat:
    """Raise the heel of a leg that is too short to reach from the hip to the ankle, within the limits of the foot's
    pitch. If the heel stayed down while the hip moves away from the ankle, the knee would straighten abruptly."""
    axis = _pitch_axis(foot, bone)
    far = quat.norm(quat.sub(quat.sub(toe, quat.rotate(foot, bone)), hip))
    wanted = soft_reach(far, longest, zone)
    down = quat.rotate(foot, bone)
    steep = math.asin(max(min(-down[2] / quat.norm(down), 1.0), -1.0))
    most = min(HEEL_RAISE_LIMIT, STEEPEST_FOOT - steep)
    if far - wanted < 1e-6 or most <= 0.0:
        return (foot[0], foot[1], foot[2], foot[3])
    angle = 0.0
    for _ in range(5):
        d = quat.rotate(quat.about(axis, angle), quat.rotate(foot, bone))
        line = quat.sub(quat.sub(toe, d), hip)
        far = quat.norm(line) - wanted
        if far <= 1e-5:
            break
        # `slope` is the decrease of the distance between ankle and hip per radian of foot pitch [m/rad].
        slope = -quat.dot(quat.cross(axis, quat.scale(d, -1.0)), quat.unit(line, axis))
        if slope < 0.02:
            break
        angle = min(angle + far / slope, most + 2.0 * HEEL_RAISE_ZONE)
    angle = soft_reach(angle, most, min(HEEL_RAISE_ZONE, most))
    return quat.normalize(quat.mul(quat.about(axis, angle), foot))


@njit
def _tip_above_floor(toes: Row, toe: Row, ground: float) -> Quat:
    tip = quat.rotate(toes, (TOE_TIP, 0.0, 0.0))
    low = ground - toe[2]
    if tip[2] >= low or tip[2] > 0.0:
        return (toes[0], toes[1], toes[2], toes[3])
    axis = _pitch_axis(toes, (1.0, 0.0, 0.0))
    have = max(min(tip[2] / TOE_TIP, 1.0), -1.0)
    want = max(min(low / TOE_TIP, 1.0), -1.0)
    return quat.mul(quat.about(axis, math.asin(have) - math.asin(want)), toes)
