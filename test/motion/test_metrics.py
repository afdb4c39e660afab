"""Each metric on motion with a known result."""

import numpy as np
import pytest

from mm_ros.body.skeleton import (  # fmt: skip
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_TOES,
    RIGHT_LOWER_LEG,
    RIGHT_TOES,
    J,
    default_skeleton,
)
from mm_ros.maths import rotations as rot
from mm_ros.motion import metrics as m

DT = 1 / 60


def standing(frames: int) -> np.ndarray:
    return np.repeat(default_skeleton().rest_positions()[None].astype(np.float64), frames, 0)


def turned(positions: np.ndarray, yaw: float) -> np.ndarray:
    return rot.rotate(rot.from_yaw(yaw), positions)


def test_summary_of_nothing_is_nan_and_nan_frames_do_not_count() -> None:
    assert np.isnan(m.summarise([])["mean"])
    assert m.summarise([1.0, np.nan, 3.0])["mean"] == 2.0
    assert m.summarise(np.arange(101))["p95"] == 95.0


@pytest.mark.parametrize("yaw", [0.0, 1.0, -3.0])
def test_facing_is_measured_from_geometry(yaw: float) -> None:
    p = turned(standing(2), yaw)
    assert m.facing_of_pelvis(p) == pytest.approx(yaw)
    assert m.facing_of_body(p) == pytest.approx(yaw)


def test_angles_wrap() -> None:
    assert m.angle_error_deg([np.deg2rad(179)], [np.deg2rad(-179)]) == pytest.approx(2.0)


def test_rotation_error_ignores_the_cover() -> None:
    q = rot.exp(np.array([[0.0, 0.0, 0.3]]))
    assert m.rotation_error_deg(q, -q) == pytest.approx(0.0, abs=1e-6)
    assert m.rotation_error_deg(q, rot.exp(np.zeros((1, 3)))) == pytest.approx(np.rad2deg(0.3))


def test_stances_last_long_enough() -> None:
    contact = np.zeros(60, bool)
    contact[5:13] = True  # 0.13 s
    contact[20:29] = True  # 0.15 s
    contact[50:] = True
    assert m.stances(contact, DT).tolist() == [[20, 29], [50, 60]]


def test_drift_is_the_farthest_move_in_a_stance() -> None:
    p, contacts = standing(40), np.zeros((40, 2), bool)
    contacts[5:35, 0] = True
    p[20, LEFT_TOES, 0] += 0.03
    p[21:, LEFT_TOES, 1] += 0.01
    p[36:, LEFT_TOES, 0] += 5.0
    assert m.stance_drift_m(p, contacts, DT) == pytest.approx([0.03])


def test_twist_is_the_turn_of_the_foot() -> None:
    p, contacts = standing(40), np.ones((40, 2), bool)
    bone = p[0, LEFT_TOES] - p[0, LEFT_FOOT]
    for i in range(40):
        p[i, LEFT_TOES] = p[i, LEFT_FOOT] + rot.rotate(rot.from_yaw(np.deg2rad(i / 4)), bone)
    assert m.stance_twist_deg(p, contacts, DT) == pytest.approx([39 / 4, 0.0])


def test_locked_motion() -> None:
    p, locked = standing(10), np.zeros((10, 2), bool)
    locked[2:8, 1] = True
    p[4, RIGHT_TOES, 0] += 0.004
    assert m.locked_motion_m(p, locked) == pytest.approx([0.004])


def test_skating_is_when_the_slower_toe_slides_low() -> None:
    p = standing(61)
    p[:, [LEFT_TOES, RIGHT_TOES], 0] += np.arange(61)[:, None] * DT * 0.2
    assert m.skate_ratio(p, DT) == 1.0
    p[:, RIGHT_TOES] = p[0, RIGHT_TOES]
    assert m.skate_ratio(p, DT) == 0.0
    p = standing(61)
    p[:, :, 0] += np.arange(61)[:, None] * DT * 3
    p[:, :, 2] += 0.1
    assert m.skate_ratio(p, DT) == 0.0


def test_penetration() -> None:
    p = standing(2)
    p[1, LEFT_TOES, 2] = -0.02
    assert m.floor_penetration_m(p) == pytest.approx([0.0, 0.02])


@pytest.mark.parametrize(("bend", "beyond"), [(30.0, 0.0), (0.0, 0.0), (-8.0, 8.0)])
def test_knee(bend: float, beyond: float) -> None:
    s = default_skeleton()
    q = np.tile(np.array([1.0, 0, 0, 0]), (1, J, 1))
    q[0, RIGHT_LOWER_LEG] = rot.exp(np.array([0.0, np.deg2rad(bend), 0.0]))
    p, q = rot.forward_kinematics(s.parents, s.offsets[None].astype(np.float64), q)
    assert m.knee_beyond_straight_deg(p, q) == pytest.approx([beyond], abs=1e-6)


def test_jitter_of_a_cubic_is_its_jerk() -> None:
    t = np.arange(30) * DT
    p = standing(30)
    p[:, :, 0] += (2.0 / 6 * t**3)[:, None]
    assert m.jitter(p, DT) == pytest.approx(2.0, rel=1e-6)
    assert m.jitter(standing(30), DT) == pytest.approx(0.0, abs=1e-6)


def test_pops_within_a_fifth_of_a_second_are_one() -> None:
    p = standing(600)
    for at in (100, 104, 300):
        p[at, LEFT_FOOT, 0] += 0.1
    p[500, LEFT_HAND, 0] += 1.0  # hands are on the trackers
    limit = 0.05 / DT**2
    assert m.pops_per_min(p, limit, DT) == pytest.approx(2 / (600 * DT / 60))
    assert m.pops_per_min(standing(600), limit, DT) == 0.0


def test_acceleration_limit_is_over_all_clips() -> None:
    t = np.arange(50) * DT
    p = standing(50)
    p[:, :, 0] += (0.5 * 3.0 * t**2)[:, None]
    assert m.acceleration_limit([p, p[:2]], DT) == pytest.approx(3.0, rel=1e-6)


def test_jumps() -> None:
    assert m.jumps_per_s(np.repeat(np.arange(5), 15)[:61], DT) == pytest.approx(4.0)


def walk(start: float, stop: float, seconds: float = 8.0, speed: float = 1.2) -> np.ndarray:
    t = np.arange(round(seconds / DT)) * DT
    v = np.clip((t - start) / 0.4, 0, 1) * np.clip((stop - t) / 0.4, 0, 1) * speed
    return np.stack([np.cumsum(v) * DT, np.zeros_like(t)], -1)


@pytest.mark.parametrize("late", [0.0, 0.2, -0.1])
def test_lags_of_a_start_and_a_stop(late: float) -> None:
    user, root = walk(2.0, 6.0), walk(2.0 + late, 6.0 + late)
    assert m.start_lag_s(user, root, DT) == pytest.approx([late], abs=DT)
    assert m.stop_lag_s(user, root, DT) == pytest.approx([late], abs=DT)


def test_a_root_that_never_moves_has_no_lag() -> None:
    user = walk(2.0, 6.0)
    assert np.isnan(m.start_lag_s(user, np.zeros_like(user), DT)).all()
    assert len(m.start_lag_s(np.zeros_like(user), user, DT)) == 0


def test_a_sway_is_no_start() -> None:
    t = np.arange(600) * DT
    sway = np.stack([0.03 * np.sin(t * 3), np.zeros_like(t)], -1)
    assert len(m.start_lag_s(sway, sway, DT)) == 0
