"""Arms reach their targets, bend naturally, and never jump."""

from typing import Any

import numpy as np
import pytest

from mm_ros.body.arm import elbow_for_fingers
from mm_ros.body.kinematics import limb_lengths, make_body, update_room
from mm_ros.body.skeleton import (  # fmt: skip
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_UPPER_ARM,
    RIGHT_HAND,
    RIGHT_UPPER_ARM,
    J,
    default_skeleton,
)
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.pose.upper_body import elbow_direction, follow_calmly, place_hand, wrist_limited

SKELETON = default_skeleton()
LENGTHS = limb_lengths(SKELETON)
REACH = LENGTHS[0, :2].sum()
NO_GRIP = (0.0, 0.0, 0.0)


def arm(
    target: np.ndarray, q: Any = (1.0, 0.0, 0.0, 0.0), side: int = 0, weight: float = 1.0, grip: Any = NO_GRIP,
    ground: float = 0.0,
) -> Any:  # fmt: skip
    body = make_body()
    body.positions[:] = SKELETON.offsets
    update_room(body, 0, J)
    place_hand(body, LENGTHS, side, tuple(target), q, grip, weight, ground)
    return body


def shoulder(side: int = 0) -> np.ndarray:
    return SKELETON.rest_positions()[(LEFT_UPPER_ARM, RIGHT_UPPER_ARM)[side]].astype(np.float64)


RNG = np.random.default_rng(5)
WAYS = [w / np.linalg.norm(w) for w in RNG.normal(size=(60, 3))]


@pytest.mark.parametrize("side", [0, 1])
def test_hands_within_reach_are_reached(side: int) -> None:
    for way in WAYS:
        for share in (0.35, 0.6, 0.9, 0.98):
            target = shoulder(side) + way * REACH * share
            got = arm(target, side=side).room_positions[(LEFT_HAND, RIGHT_HAND)[side]]
            assert got == pytest.approx(target, abs=0.005)


def test_out_of_reach_the_arm_stretches_toward_the_target_without_popping() -> None:
    last, speeds = None, []
    for d in np.linspace(0.3, 1.2, 300):
        target = shoulder() + np.array([0.8, 0.6, 0.0]) * d
        body = arm(target)
        elbow, hand = body.room_positions[LEFT_LOWER_ARM].copy(), body.room_positions[LEFT_HAND].copy()
        if last is not None:
            speeds.append(np.linalg.norm(elbow - last) / 0.003)
        last = elbow
    assert max(speeds) < 8  # m of the elbow a metre of the hand
    way = hand - body.room_positions[LEFT_UPPER_ARM]
    to_target = target - body.room_positions[LEFT_UPPER_ARM]
    assert way @ to_target / np.linalg.norm(way) / np.linalg.norm(to_target) > 0.999


def test_the_shoulder_follows_a_far_hand() -> None:
    near, far = arm(shoulder() + np.array([0.3, 0.0, 0.0])), arm(shoulder() + np.array([0.62, 0.0, 0.0]))
    assert near.room_positions[LEFT_UPPER_ARM] == pytest.approx(shoulder(), abs=1e-6)
    assert far.room_positions[LEFT_UPPER_ARM, 0] > shoulder()[0] + 0.02


def test_arms_are_mirrored() -> None:
    for way in WAYS[:20]:
        target = way * 0.4 + shoulder()
        left, right = arm(target), arm(target * [1, -1, 1], side=1)
        assert right.room_positions[13] == pytest.approx(left.room_positions[LEFT_LOWER_ARM] * [1, -1, 1], abs=1e-9)


def test_elbows_hang() -> None:
    down_and_ahead = quat.unit((0.6, 0.0, -0.8), NO_GRIP)
    for way in ((0.0, 0.0, -1.0), (1.0, 0.0, 0.0), down_and_ahead):
        e = elbow_direction(way, 0)
        assert abs(quat.dot(e, way)) < 1e-9
        assert e[2] < 0.1 and e[0] < 0.3 and e[1] > 0  # not up, not forward, outward


def test_elbows_move_smoothly_with_the_hand() -> None:
    """Directions in front of and beside the body only: no field of directions is smooth on a whole sphere."""
    for elevation in np.radians([-80, -40, 0, 40]):
        last = None
        for azimuth in np.radians(np.arange(-60, 120, 2)):
            way = (np.cos(azimuth) * np.cos(elevation), np.sin(azimuth) * np.cos(elevation), np.sin(elevation))
            e = np.array(elbow_direction(way, 0))
            if last is not None:
                assert np.linalg.norm(e - last) < 0.12
            last = e


def test_the_elbow_turns_toward_a_straight_wrist() -> None:
    """The forearm points away from the elbow's side, so the elbow turns away from the fingers, without a leap."""
    for way in WAYS:
        elbow, last = elbow_direction(tuple(way), 0), None
        side = np.cross(way, elbow)
        for angle in np.radians(np.arange(0, 361, 3)):
            fingers = 0.6 * way + 0.8 * (np.cos(angle) * np.array(elbow) + np.sin(angle) * side)
            e = np.array(elbow_for_fingers(elbow, tuple(way), tuple(fingers)))
            assert abs(e @ way) < 1e-9 and np.linalg.norm(e) == pytest.approx(1.0)
            assert e @ fingers <= np.array(elbow) @ fingers + 1e-9
            assert last is None or np.linalg.norm(e - last) < 0.1
            last = e
        assert elbow_for_fingers(elbow, tuple(way), tuple(way)) == pytest.approx(elbow)


def test_a_hand_that_points_down_raises_the_elbow() -> None:
    target, lifts = shoulder() + np.array([0.35, 0.1, -0.1]), []
    for pitch in (0.6, 0.0, -0.6):
        q = quat.mul(quat.about((0.0, 1.0, 0.0), pitch), quat.from_yaw(-np.pi / 2))  # the fingers point ahead
        lifts.append(arm(target, q).room_positions[LEFT_LOWER_ARM, 2])
    assert lifts[0] > lifts[1] + 0.01 > lifts[2] + 0.02


@pytest.mark.parametrize("side", [0, 1])
def test_elbows_stay_above_the_floor(side: int) -> None:
    """The floor comes up to the shoulder: the elbow is raised smoothly, and goes outward."""
    at, last = shoulder(side) + np.array([0.3, 0.0, 0.0]), None
    hand, lower = (LEFT_HAND, RIGHT_HAND)[side], (LEFT_LOWER_ARM, RIGHT_HAND - 1)[side]
    for ground in np.arange(at[2] - 0.5, at[2] - 0.055, 0.005):
        body = arm(at, side=side, ground=ground)
        elbow = body.room_positions[lower].copy()
        assert elbow[2] > ground + 0.045
        assert body.room_positions[hand] == pytest.approx(at, abs=1e-3)
        assert last is None or np.linalg.norm(elbow - last) < 0.05
        last = elbow
    assert (elbow - at)[1] * (1 - 2 * side) > 0.1


def held(v: np.ndarray) -> tuple[np.ndarray, float]:
    """Bend of the wrist and displacement of the controller, for a hand turned by v."""
    target, grip, q = shoulder() + np.array([0.35, 0.1, -0.1]), np.array([0.0, 0.08, 0.0]), rot.exp(v)
    body = arm(target, tuple(q), grip=tuple(grip))
    hand_q = body.room_rotations[LEFT_HAND]
    bend = quat.log(quat.inv_mul(tuple(body.room_rotations[LEFT_LOWER_ARM]), tuple(hand_q)))
    place = body.room_positions[LEFT_HAND] + rot.rotate(hand_q, grip)
    return np.array(bend), float(np.linalg.norm(place - target - rot.rotate(q, grip)))


def test_the_wrist_keeps_its_limits_however_the_controller_is_turned() -> None:
    for v in RNG.normal(size=(60, 3)) * 1.5:
        bend, _ = held(v)
        assert (bend[0] / 1.4) ** 2 + (bend[2] / 0.7) ** 2 < 1.001


def test_the_controller_stays_in_its_place_also_where_the_limits_turn_the_hand() -> None:
    for v in RNG.normal(size=(60, 3)) * 0.35:
        assert held(v)[1] < 0.005


def test_a_wrist_within_its_limits_is_left_alone() -> None:
    q = quat.exp((0.5, 0.1, 0.2))
    assert wrist_limited(q) == pytest.approx(q)


def test_weight_leads_from_the_matched_arm_to_the_target() -> None:
    target = shoulder() + np.array([0.3, 0.2, -0.2])
    rest = SKELETON.rest_positions()[LEFT_HAND]
    assert arm(target, weight=0.0).room_positions[LEFT_HAND] == pytest.approx(rest, abs=1e-6)
    half = arm(target, weight=0.5).room_positions[LEFT_HAND]
    assert 0.05 < np.linalg.norm(half - target) < np.linalg.norm(rest - target)


def test_following_calmly_has_no_lag_and_less_tremble() -> None:
    track = np.zeros((3, 3))
    out = [follow_calmly(track, (0.5 * i / 90, 0.001 * (-1) ** i, 0.0), 1 / 90) for i in range(200)]
    assert out[-1][0] == pytest.approx(0.5 * 199 / 90, abs=1e-6)
    assert np.abs(np.diff(np.array(out)[100:, 1])).max() < 0.001  # of 0.002


def test_following_starts_at_the_goal_and_holds_without_time() -> None:
    track = np.zeros((3, 3))
    assert follow_calmly(track, (1.0, 2.0, 3.0), 0.01) == (1.0, 2.0, 3.0)
    assert follow_calmly(track, (9.0, 9.0, 9.0), 0.0) == (1.0, 2.0, 3.0)


def test_a_hand_turned_far_beyond_the_wrist_still_holds_its_controller() -> None:
    rng, grip, missed = np.random.default_rng(1), np.array([0.0, 0.08, 0.0]), []
    for _ in range(300):
        way = np.array([0.6, 0.15, -0.5]) + 0.5 * rng.normal(size=3)
        target = shoulder() + way / np.linalg.norm(way) * REACH * rng.uniform(0.5, 0.9)
        forearm = arm(target).room_rotations[LEFT_LOWER_ARM]
        q = rot.multiply(forearm, rot.exp(np.radians(60) * rng.normal(size=3)))
        body = arm(target, tuple(q), grip=tuple(grip))
        held = body.room_positions[LEFT_HAND] + rot.rotate(body.room_rotations[LEFT_HAND], grip)
        missed.append(np.linalg.norm(held - target - rot.rotate(q, grip)))
    assert np.percentile(missed, 99) < 0.005 and max(missed) < 0.02


def test_a_shoulder_rises_with_a_raised_arm_and_hardly_sinks_with_a_hanging_one() -> None:
    raised, hanging = (
        arm(shoulder() + np.array([0.0, 0.05, up * REACH * 0.998])).room_positions[LEFT_UPPER_ARM] - shoulder()
        for up in (1.0, -1.0)
    )
    assert raised[2] > 0.01
    assert -0.6 * raised[2] < hanging[2] < 0.0
