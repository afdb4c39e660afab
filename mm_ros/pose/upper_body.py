"""Inverse kinematics of the upper body: put the head on the headset and the hands on the controllers.

The hips move to bring the head to its target, so that the torso keeps the lean of the played motion. If the hips would
move by more than 0.08 m, the torso leans for a part of the rest of the distance, up to `lean_limit`. Upper arm and
forearm form a triangle between shoulder and wrist. The direction of the elbow depends only on the pose of the hand, so
that the same pose of the hand always gives the same pose of the arm.
"""

from __future__ import annotations

import math
from typing import Any

from mm_ros.body.arm import elbow_direction, elbow_for_fingers
from mm_ros.body.kinematics import ARM_STRIDE, turn_joint, update_room
from mm_ros.body.skeleton import (
    CHEST,
    HEAD,
    HIPS,
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_SHOULDER,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    NECK,
    SPINE,
    UPPER_CHEST,
)
from mm_ros.maths import quat
from mm_ros.maths.ik import bend_limits, corner, soft_reach
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Quat, Row, Vec
from mm_ros.maths.springs import damping_share

TORSO_STOP = LEFT_SHOULDER  # The joints from the spine to the head have indices below `TORSO_STOP`.

NECK_SHARE = 0.4  # Share of the neck in the turn of the head relative to the played motion.
# The spine twists if the head turns by more than `COMFORTABLE_TURN` [rad] relative to the played motion.
COMFORTABLE_TURN = 0.9
# The spine takes `SPINE_TURN_SHARE` of the head's turn beyond `COMFORTABLE_TURN`, and turns by at most
# `SPINE_TURN_LIMIT` [rad].
SPINE_TURN_SHARE, SPINE_TURN_LIMIT = 0.7, 0.7
BACKWARD = 0.9  # The twist of the spine fades out when the turn of the head is within `BACKWARD` [rad] of 180°.
COMFORTABLE_SHIFT = 0.08  # People shift their hips by up to `COMFORTABLE_SHIFT` [m], and lean to reach farther.
LEAN_SHARE = 0.5  # Share of a distance beyond `COMFORTABLE_SHIFT` that the torso covers by leaning.

# The height of the hips changes by at most `HEIGHT_CORRECTION` [m] to compensate for the lean of the trunk.
HEIGHT_CORRECTION = 0.03
# Half-lives of the tremor filters on the horizontal position of the hips and on their height.
HIPS_HALFLIFE_S, HIPS_HEIGHT_HALFLIFE_S = 0.06, 0.025

STRAIGHT_LEG = 0.95  # Maximum distance from hip to ankle of a standing user, as a share of the leg's length.
UPRIGHT = 0.995  # The spine is straightened at most until the cosine of the torso's lean is `UPRIGHT`.
STRAIGHTENED = 0.6  # Maximum rotation by which the spine is straightened [rad].
REACH_ZONE = 0.008  # The arm stretches ever more slowly within `REACH_ZONE` [m] of its full length.
SHARPEST_ELBOW = 2.65  # Maximum bend of the elbow [rad].
ELBOW_ON_FLOOR = 0.05  # Minimum height of an elbow joint above the floor [m].
OUTWARD_SHARE = 0.3  # Outward push on an elbow near the floor; larger values move the elbow farther outward.
# The shoulder moves toward a hand that is farther away than `CLAVICLE_START` times the arm's length.
CLAVICLE_START = 0.9
CLAVICLE_LIMIT = 0.6  # Maximum rotation of the collar bone [rad].
TRUNK_START = 0.94  # The trunk moves toward a hand that is farther away than `TRUNK_START` times the arm's length.
# Maximum twist of the spine [rad] and maximum shift of the shoulders [m] toward a hand that the arm does not reach.
TRUNK_TWIST_LIMIT, TRUNK_SHIFT_LIMIT = 0.2, 0.05
# Half-lives of the trunk's motion toward a hand that the arm does not reach, and of the trunk's return.
TRUNK_HALFLIFE_S, TRUNK_RETURN_S = 0.06, 0.4
# Motion of the shoulder down toward a low hand, divided by its motion up toward a high hand.
CLAVICLE_DOWN = 0.55
FOREARM_TWIST_LIMIT = 1.5  # Maximum twist of the forearm in both directions [rad].
# Maximum angles of the wrist: `WRIST_BEND_LIMIT` toward the palm or the back of the hand, `WRIST_SIDE_LIMIT` toward the
# thumb or the little finger [rad].
WRIST_BEND_LIMIT, WRIST_SIDE_LIMIT = 1.4, 0.7

WRIST_SEARCH_STEPS = 24  # Maximum number of iterations to find the place of the wrist.


@njit
def place_head(
    body: Any, track: Any, trunk: Any, target: Row, rotation: Row, weight: float, lean_limit: float, hips_reach: float,
    leaning: float, dt: float,
) -> Vec:  # fmt: skip
    """Move hips, spine, neck and head so that the head reaches its target, and return the shift of the hips.

    The hips follow a filtered target, and the spine bends by about one degree to follow fast motion of the head.
    `track` is the state of the tremor filter of the hips (`follow_calmly`), and `trunk` is the motion of shoulders and
    spine toward hands out of reach (`follow_hands`). `leaning` is the applied share of the lean toward the headset.
    """
    matched_neck = quat.get4(body.room_rotations, NECK)
    matched_head = quat.get4(body.room_rotations, HEAD)
    goal = quat.slerp(matched_head, rotation, weight)
    target = quat.mix(quat.get3(body.room_positions, HEAD), target, weight)
    turn = quat.mul_inv(goal, matched_head)
    _twist_spine(body, turn)
    if trunk[1, 0] != 0.0:
        bend_spine(body, quat.about(torso_axis(body), trunk[1, 0]))
    neck = quat.normalize(quat.mul(quat.share(turn, NECK_SHARE), matched_neck))
    neck = quat.normalize(quat.mul(_neck_back(body, goal, quat.get3(trunk, 0)), neck))
    missing = _turn_head(body, neck, goal, target)
    asked = quat.sub(missing, _leaned(body, missing, leaning * lean_limit))
    flat = quat.shortened((asked[0], asked[1], 0.0), hips_reach)
    shift = follow_calmly(track, (flat[0], flat[1], asked[2]), dt)
    move_hips(body, quat.add(quat.get3(body.room_positions, HIPS), shift))
    upright = torso_axis(body)
    for _ in range(2):
        missing = _turn_head(body, neck, goal, target)
        _lean(body, missing, upright, lean_limit)
    _turn_head(body, neck, goal, target)
    if leaning < 1.0:  # The lean of the trunk has also changed the height of the head, which is corrected here.
        missing = _turn_head(body, neck, goal, target)
        hips = quat.get3(body.room_positions, HIPS)
        rise = min(max(missing[2], -HEIGHT_CORRECTION), HEIGHT_CORRECTION)
        move_hips(body, (hips[0], hips[1], hips[2] + rise))
        _turn_head(body, neck, goal, target)
    return shift


@njit
def _neck_back(body: Any, head: Row, shift: Row) -> Quat:
    """Return the rotation of the neck that moves the head by −`shift` relative to the shoulders."""
    bone = quat.sub(quat.get3(body.room_positions, HEAD), quat.get3(body.room_positions, NECK))
    length = max(quat.norm(bone), 1e-3)
    across = quat.across(quat.scale(shift, -1.0 / length), quat.scale(bone, 1.0 / length))
    turn = quat.cross(quat.scale(bone, 1.0 / length), across)
    return quat.exp(turn)


@njit
def follow_hands(body: Any, lengths: Any, trunk: Any, wrists: Any, weights: Any, dt: float) -> None:
    """Compute how far the trunk follows hands that the arms do not reach.

    Row 0 of `trunk` is the shift of the shoulders relative to the head [m], and the first number of row 1 is the twist
    of the spine [rad]. The next step of the pose stage applies `trunk`, so that the present step need not be repeated.
    """
    axis = torso_axis(body)
    neck = quat.get3(body.room_positions, NECK)
    twist, square, lacks = 0.0, 1e-3, False
    shift = (0.0, 0.0, 0.0)
    for side in range(2):
        shoulder = quat.get3(body.room_positions, LEFT_UPPER_ARM + side * ARM_STRIDE)
        line = quat.sub(quat.get3(wrists, side), shoulder)
        lacking = (quat.norm(line) - TRUNK_START * (lengths[side, 0] + lengths[side, 1])) * weights[side]
        if lacking <= 0.0:
            continue
        lacks = True
        u = quat.unit(line, axis)
        # `lever` is the distance by which the shoulder comes nearer to the hand per radian of trunk twist [m/rad].
        lever = quat.dot(quat.cross(axis, quat.sub(shoulder, neck)), u)
        twist += lacking * lever
        square += lever * lever
        flat = quat.across(u, axis)
        shift = quat.add(shift, quat.scale(flat, 0.5 * lacking))
    share = damping_share(TRUNK_HALFLIFE_S if lacks else TRUNK_RETURN_S, dt)
    if lacks:
        goal = min(max(trunk[1, 0] + twist / square, -TRUNK_TWIST_LIMIT), TRUNK_TWIST_LIMIT)
        wanted = quat.shortened(quat.add(quat.get3(trunk, 0), shift), TRUNK_SHIFT_LIMIT)
    else:
        goal, wanted = 0.0, (0.0, 0.0, 0.0)
    trunk[1, 0] += share * (goal - trunk[1, 0])
    quat.put3(trunk, 0, quat.mix(quat.get3(trunk, 0), wanted, share))


@njit
def _turn_head(body: Any, neck: Row, head: Row, target: Row) -> Vec:
    """Set the rotations of neck and head, and return the vector from the head joint to its target position."""
    turn_joint(body, NECK, neck)
    turn_joint(body, HEAD, head)
    update_room(body, HEAD, TORSO_STOP)
    return quat.sub(target, quat.get3(body.room_positions, HEAD))


@njit
def follow_calmly(track: Any, goal: Row, dt: float) -> Vec:
    """Filter the target `goal` of the hips to damp tremor, without lag at constant velocity.

    `track` has the rows: filtered position, its rate, and (1 after the first call, 0, 0).
    """
    if track[2, 0] == 0.0 or dt <= 0.0:
        if track[2, 0] == 0.0:
            quat.put3(track, 0, goal)
            quat.put3(track, 1, (0.0, 0.0, 0.0))
            track[2, 0] = 1.0
        return quat.get3(track, 0)
    for k in range(3):
        # The height of the hips follows with a shorter half-life, because the spine cannot compensate for its error.
        memory = 0.5 ** (dt / (HIPS_HALFLIFE_S if k < 2 else HIPS_HEIGHT_HALFLIFE_S))
        x = track[0, k] + track[1, k] * dt
        lacking = goal[k] - x
        track[0, k] = x + (1.0 - memory * memory) * lacking
        track[1, k] += (1.0 - memory) ** 2 * lacking / dt
    return quat.get3(track, 0)


@njit
def move_hips(body: Any, position: Row) -> None:
    local = quat.unrotate(
        quat.get4(body.room_rotations, 0), quat.sub(position, quat.get3(body.room_positions, 0))
    )
    quat.put3(body.positions, HIPS, local)
    update_room(body, HIPS, TORSO_STOP)


@njit
def torso_axis(body: Any) -> Vec:
    line = quat.sub(quat.get3(body.room_positions, NECK), quat.get3(body.room_positions, HIPS))
    return quat.unit(line, (0.0, 0.0, 1.0))


@njit
def bend_spine(body: Any, whole: Row) -> None:
    """Rotate the upper chest by `whole`, a rotation in room axes that spine, chest and upper chest share equally.

    After `bend_spine`, the pose of the head must be set again.
    """
    third = quat.share(whole, 1.0 / 3.0)
    part = third
    for j in (SPINE, CHEST, UPPER_CHEST):
        old = quat.get4(body.room_rotations, j)
        turn_joint(body, j, quat.normalize(quat.mul(part, old)))
        part = quat.mul(third, part)
    update_room(body, SPINE, TORSO_STOP)


@njit
def straighten(body: Any, feet: Any, lengths: Any, head: float, standing: float) -> None:
    """Straighten the spine so that the head of a standing user reaches the height `head` without stretched legs.

    While a user stands up, the trunk of the played motion is still bent. If only the hips were lifted until the head
    reaches the headset, the heels would rise. `standing` is the certainty that both of the user's feet stand.
    """
    legs = lengths[0, 2] + lengths[0, 3]
    highest = feet.rest[0, 1] + STRAIGHT_LEG * legs - body.positions[LEFT_UPPER_LEG, 2]
    rise = head - body.room_positions[HEAD, 2]
    lacking = standing * (body.room_positions[HIPS, 2] + rise - highest)
    line = torso_axis(body)
    if lacking <= 0.0 or line[2] > UPRIGHT:
        return
    size = quat.norm(quat.sub(quat.get3(body.room_positions, NECK), quat.get3(body.room_positions, HIPS)))
    wanted = min(line[2] + lacking / size, UPRIGHT)
    # Spine, chest and upper chest share the rotation, so the line from hips to neck turns by only two thirds of it.
    angle = 1.5 * (math.acos(max(line[2], -1.0)) - math.acos(wanted))
    axis = quat.unit(quat.cross(line, (0.0, 0.0, 1.0)), (0.0, -1.0, 0.0))
    bend_spine(body, quat.about(axis, min(angle, STRAIGHTENED)))


@njit
def _twist_spine(body: Any, turn: Row) -> None:
    axis = torso_axis(body)
    asked = quat.twist(turn, axis)
    # A turn of the head by 180° may be to the left or to the right, so the twist of the spine fades out toward 180°.
    known = min((math.pi - abs(asked)) / BACKWARD, 1.0)
    beyond = SPINE_TURN_SHARE * max(abs(asked) - COMFORTABLE_TURN, 0.0) * known
    if beyond > 0.0:
        bend_spine(body, quat.about(axis, math.copysign(min(beyond, SPINE_TURN_LIMIT), asked)))


@njit
def _height(body: Any) -> float:
    """Return by how much the head moves per radian of spine bend [m/rad]: the mean distance of the head from the three
    joints that bend."""
    head, out = quat.get3(body.room_positions, HEAD), 0.0
    for j in (SPINE, CHEST, UPPER_CHEST):
        out += quat.norm(quat.sub(head, quat.get3(body.room_positions, j))) / 3.0
    return max(out, 1e-3)


@njit
def _leaned(body: Any, missing: Row, limit: float) -> Vec:
    """Return the part of the horizontal distance `missing` that the torso covers by leaning instead of moving the hips.
    """
    flat = (missing[0], missing[1], 0.0)
    beyond = LEAN_SHARE * max(quat.norm(flat) - COMFORTABLE_SHIFT, 0.0)
    if beyond <= 0.0 or limit <= 0.0:
        return (0.0, 0.0, 0.0)
    most = _height(body) * limit
    return quat.scale(quat.unit(flat, (1.0, 0.0, 0.0)), most * (1.0 - math.exp(-beyond / most)))


@njit
def _lean(body: Any, missing: Row, upright: Row, limit: float) -> None:
    """Bend the spine toward the target of the head. The torso turns by at most `limit` away from the direction
    `upright`, which the torso has in the played motion."""
    flat = (missing[0], missing[1], 0.0)
    distance = quat.norm(flat)
    if distance < 1e-6 or limit <= 0.0:
        return
    axis = quat.unit(quat.cross((0.0, 0.0, 1.0), flat), (0.0, 1.0, 0.0))
    bend_spine(body, quat.about(axis, min(distance / _height(body), limit)))
    line = torso_axis(body)
    away = quat.between(upright, line)
    beyond = quat.angle_of(away) - limit
    if beyond > 0.0:
        bend_spine(body, quat.share(away, -beyond / quat.angle_of(away)))


@njit
def place_hand(
    body: Any, lengths: Any, side: int, target: Row, rotation: Row, grip: Row, weight: float, ground: float
) -> None:
    """Move one arm (`side` 0 left, 1 right) so that its wrist gets a given pose in the room.

    `grip` is the controller's position in hand axes. If the limits of the wrist turn the hand away from `rotation`, the
    wrist moves so that the controller stays in the hand. Elbows stay above the floor, whose height is `ground` [m].
    """
    shift = side * ARM_STRIDE
    clavicle, upper, lower, hand = (
        LEFT_SHOULDER + shift, LEFT_UPPER_ARM + shift, LEFT_LOWER_ARM + shift, LEFT_HAND + shift,
    )  # fmt: skip
    old_clavicle, old_upper = quat.get4(body.rotations, clavicle), quat.get4(body.rotations, upper)
    old_lower, old_hand = quat.get4(body.rotations, lower), quat.get4(body.rotations, hand)
    held = quat.add(target, quat.rotate(rotation, grip))
    wrist = target
    asked = quat.normalize(rotation)
    for step in range(WRIST_SEARCH_STEPS):
        quat.put4(body.rotations, clavicle, old_clavicle)
        update_room(body, clavicle, hand + 1)
        _reach_with_shoulder(body, clavicle, upper, wrist, lengths[side, 0] + lengths[side, 1])
        got = _solve_arm(body, lengths[side, 0], lengths[side, 1], side, wrist, asked, ground)
        wrist_again = quat.sub(held, quat.rotate(got, grip))
        if quat.norm(quat.sub(wrist_again, wrist)) < 5e-4:
            break
        if step % 8 == 7:  # From here on, the iterations ask for the rotation that the wrist allows.
            asked = got
        wrist = quat.mix(wrist, wrist_again, 0.6)  # With full steps, the wrist would oscillate at its limits.
    if weight < 1.0:
        quat.put4(body.rotations, clavicle, quat.slerp(old_clavicle, quat.get4(body.rotations, clavicle), weight))
        quat.put4(body.rotations, upper, quat.slerp(old_upper, quat.get4(body.rotations, upper), weight))
        quat.put4(body.rotations, lower, quat.slerp(old_lower, quat.get4(body.rotations, lower), weight))
        quat.put4(body.rotations, hand, quat.slerp(old_hand, quat.get4(body.rotations, hand), weight))
        update_room(body, clavicle, hand + 1)


@njit
def _reach_with_shoulder(body: Any, clavicle: int, upper: int, wrist: Row, length: float) -> None:
    """Turn the collar bone toward a hand that is nearly out of the arm's reach."""
    shoulder = quat.get3(body.room_positions, upper)
    line = quat.sub(wrist, shoulder)
    lacking = quat.norm(line) - CLAVICLE_START * length
    if lacking <= 0.0:
        return
    bone = quat.sub(shoulder, quat.get3(body.room_positions, clavicle))
    size = max(quat.norm(bone), 1e-3)
    along = quat.scale(bone, 1.0 / size)
    pull = quat.across(quat.unit(line, along), along)
    up = quat.rotate(quat.get4(body.room_rotations, UPPER_CHEST), (0.0, 0.0, 1.0))
    pull = quat.add(pull, quat.scale(up, (1.0 - CLAVICLE_DOWN) * max(-quat.dot(pull, up), 0.0)))
    angle = CLAVICLE_LIMIT * (1.0 - math.exp(-lacking / (size * CLAVICLE_LIMIT))) * quat.norm(pull)
    axis = quat.unit(quat.cross(along, pull), (0.0, 0.0, 1.0))
    turn_joint(
        body, clavicle, quat.normalize(quat.mul(quat.about(axis, angle), quat.get4(body.room_rotations, clavicle)))
    )
    update_room(body, upper, upper + 3)


@njit
def _solve_arm(
    body: Any, first: float, second: float, side: int, wrist: Row, rotation: Row, ground: float
) -> Quat:
    """Pose upper arm, forearm and hand, and return the rotation of the hand in the room, limited by the wrist."""
    upper = LEFT_UPPER_ARM + side * ARM_STRIDE
    lower, hand = upper + 1, upper + 2
    chest = quat.get4(body.room_rotations, UPPER_CHEST)
    shoulder = quat.get3(body.room_positions, upper)
    line = quat.sub(wrist, shoulder)
    d = quat.norm(line)
    u = quat.unit(line, quat.rotate(chest, (0.0, 1.0 - 2.0 * side, 0.0)))
    d = soft_reach(d, (first + second) * 0.9999, REACH_ZONE)
    d = max(d, bend_limits(first, second, SHARPEST_ELBOW))
    end = quat.add(shoulder, quat.scale(u, d))
    out = quat.rotate(chest, elbow_direction(quat.unrotate(chest, u), side))
    out = elbow_for_fingers(out, u, quat.rotate(rotation, (0.0, 1.0 - 2.0 * side, 0.0)))
    elbow = corner(shoulder, end, out, first, second)
    if elbow[2] < ground + ELBOW_ON_FLOOR:
        outward = quat.rotate(chest, (0.0, 1.0 - 2.0 * side, 0.0))
        out = _raised(out, u, outward, (ground + ELBOW_ON_FLOOR - elbow[2]) / quat.dot(quat.sub(elbow, shoulder), out))
        elbow = corner(shoulder, end, out, first, second)
    normal = quat.cross(out, u)
    hinge = (0.0, 0.0, 2.0 * side - 1.0)  # rotation axis of the elbow in the rest pose
    a, b = quat.get3(body.positions, lower), quat.get3(body.positions, hand)
    rest_a, rest_b = quat.unit(a, (0.0, 1.0, 0.0)), quat.unit(b, (0.0, 1.0, 0.0))
    turn_joint(body, upper, quat.aligning(rest_a, hinge, quat.unit(quat.sub(elbow, shoulder), u), normal))
    forearm = quat.aligning(rest_b, hinge, quat.unit(quat.sub(end, elbow), u), normal)
    # The forearm twists with the palm, because a wrist bends but hardly twists.
    turned = quat.inv_mul(forearm, rotation)
    twist = min(max(quat.twist(turned, rest_b), -FOREARM_TWIST_LIMIT), FOREARM_TWIST_LIMIT)
    forearm = quat.normalize(quat.mul(forearm, quat.about(rest_b, twist)))
    quat.put3(body.room_positions, lower, elbow)
    turn_joint(body, lower, forearm)
    quat.put3(body.room_positions, hand, end)
    limited = quat.mul(forearm, wrist_limited(quat.inv_mul(forearm, rotation)))
    turn_joint(body, hand, quat.normalize(limited))
    return limited


@njit
def _raised(out: Row, u: Row, outward: Row, rise: float) -> Vec:
    """Turn the unit vector `out` about the perpendicular unit vector `u`, so that the z of `out` grows by `rise` or to
    its maximum. An elbow that is straight below the arm turns outward."""
    up = quat.across((0.0, 0.0, 1.0), u)
    highest = quat.norm(up)
    if highest < 1e-3:
        return (out[0], out[1], out[2])
    up = quat.scale(up, 1.0 / highest)
    level = quat.cross(u, up)
    beside = quat.dot(out, level) + OUTWARD_SHARE * quat.dot(outward, level)
    share = min(max((out[2] + rise) / highest, -1.0), 1.0)
    return quat.add(quat.scale(up, share), quat.scale(level, math.copysign(math.sqrt(1.0 - share * share), beside)))


@njit
def wrist_limited(local: Row) -> Quat:
    """Limit the rotation of the hand relative to the forearm to an ellipse of bend (x) and sideways bend (z)."""
    v = quat.log(local)
    twist = min(max(v[1], -0.5), 0.5)
    r = math.sqrt((v[0] / WRIST_BEND_LIMIT) ** 2 + (v[2] / WRIST_SIDE_LIMIT) ** 2)
    k = 1.0 / r if r > 1.0 else 1.0
    return quat.exp((v[0] * k, twist, v[2] * k))
