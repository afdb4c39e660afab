"""Locked feet stand still, are released without a jump, and stay above the floor."""

import math

import numpy as np
import pytest

from mm_ros.body.kinematics import limb_lengths, make_body, update_room
from mm_ros.body.skeleton import (
    HIPS,
    LEFT_FOOT,
    LEFT_LOWER_LEG,
    LEFT_TOES,
    LEFT_UPPER_LEG,
    J,
    default_skeleton,
)
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.motion.metrics import knee_beyond_straight_deg
from mm_ros.pose.feet import heading_of, make_feet, place_foot
from mm_ros.pose.settings import PostSettings, Tuning, tuning

SKELETON = default_skeleton()
REST = SKELETON.rest_positions().astype(np.float64)
LENGTHS = limb_lengths(SKELETON)
DT = 1 / 90


class Leg:
    """The left leg of a body with its hips at `hips`, which follows a toe."""

    def __init__(self, settings: PostSettings | None = None) -> None:
        self.body, self.feet = make_body(), make_feet(SKELETON)
        self.body.positions[:] = SKELETON.offsets
        self.tuning: Tuning = tuning(settings or PostSettings())
        self.hips = (0.0, 0.0, 0.92)

    def step(
        self, toe: np.ndarray, contact: bool, yaw: float = 0.0, pitch: float = 0.0, ground: float = 0.0,
        guessed: float = 1.0, stays: float = 0.0,
    ) -> np.ndarray:  # fmt: skip
        self.body.positions[HIPS] = self.hips
        self.body.rotations[1:] = (1.0, 0.0, 0.0, 0.0)
        self.body.rotations[LEFT_LOWER_LEG] = rot.exp(np.array([0.0, 0.2, 0.0]))
        update_room(self.body, 0, J)
        q = rot.multiply(rot.from_yaw(yaw), rot.exp(np.array([0.0, pitch, 0.0])))
        place_foot(
            self.body, self.feet, LENGTHS, self.tuning, 0, tuple(toe), tuple(q), tuple(rot.from_yaw(yaw)), contact,
            ground, guessed, stays, DT,
        )  # fmt: skip
        self.feet.ready[0] = 1
        return self.body.room_positions[LEFT_TOES].copy()

    @property
    def yaw(self) -> float:
        return heading_of(tuple(self.body.room_rotations[LEFT_FOOT]), tuple(self.feet.ankle_to_toe[0]))


def toe_at(x: float = 0.13, y: float = 0.09, z: float = 0.015) -> np.ndarray:
    return np.array([x, y, z])


def test_a_free_foot_is_where_the_motion_has_it() -> None:
    leg = Leg()
    wanted = toe_at(0.2, 0.12, 0.15)
    assert leg.step(wanted, False, yaw=0.3) == pytest.approx(wanted, abs=1e-6)
    assert leg.yaw == pytest.approx(0.3)


def test_a_standing_foot_stays_while_the_motion_slides() -> None:
    leg = Leg()
    path = [leg.step(toe_at(0.13 + 0.001 * i), True, yaw=0.002 * i) for i in range(90)]
    assert np.ptp(np.array(path)[:, :2], axis=0).max() < 0.005
    assert leg.feet.locked[0] == 1 and abs(leg.yaw) < 0.02


def test_the_motion_lets_go_and_the_way_back_is_smooth() -> None:
    leg = Leg()
    path, contact = [], True
    for i in range(155):
        contact = i < 90
        lift = max(0.0, 0.1 * math.sin((i - 90) * DT * 4)) if i >= 90 else 0.0
        path.append(leg.step(toe_at(0.13 + 0.001 * i, z=0.015 + lift), contact))
    velocity = np.diff(path, axis=0) / DT
    assert leg.feet.locked[0] == 0
    assert np.linalg.norm(np.diff(velocity, axis=0), axis=1).max() / DT < 60  # m/s²
    assert path[-1][:2] == pytest.approx(toe_at(0.13 + 0.154)[:2], abs=0.01)


def test_far_from_the_motion_it_lets_go_and_steps() -> None:
    leg = Leg()
    leg.step(toe_at(), True)
    leg.feet.locked[1] = 1
    heights = [leg.step(toe_at(0.13 + 0.25), True)[2] for _ in range(60)]
    assert max(heights) > 0.04  # lifted instead of dragged
    assert leg.feet.locked[0] == 1  # locked again
    assert leg.feet.place[0, 0] == pytest.approx(0.38, abs=0.02)


@pytest.mark.parametrize(("other_stands", "held"), [(True, False), (False, True)])
def test_a_foot_that_carries_alone_stays_farther_from_the_motion(other_stands: bool, held: bool) -> None:
    """At 1.25 times the release distance a foot steps while the other stands; in single support it waits."""
    leg = Leg()
    leg.step(toe_at(), True)
    leg.feet.locked[1] = other_stands
    leg.step(toe_at(0.13 + 0.25), True)
    assert bool(leg.feet.locked[0]) == held
    leg.step(toe_at(0.13 + 0.35), True)
    assert leg.feet.locked[0] == 0


@pytest.mark.parametrize(("stays", "farthest", "widest"), [(0.0, 0.2, 40.0), (0.5, 0.5, 70.0), (1.0, 0.8, 100.0)])
def test_a_foot_that_the_user_does_not_move_stays_farther_from_the_motion(
    stays: float, farthest: float, widest: float
) -> None:
    """Release distance and angle grow to 4 and 2.5 times their settings with the probability that the foot is still."""
    for share, held in ((0.95, True), (1.05, False)):
        for toe, yaw in ((toe_at(0.13 + share * farthest), 0.0), (toe_at(), math.radians(share * widest))):
            leg = Leg()
            leg.step(toe_at(), True)
            leg.feet.locked[1] = 1
            leg.step(toe, True, yaw=yaw, stays=stays)
            assert bool(leg.feet.locked[0]) == held


def test_a_foot_hangs_without_corrective_steps_while_the_leg_is_too_short() -> None:
    """In a jump the hips rise above the reach of the legs, even if contact is reported all the time."""
    leg = Leg()
    leg.hips = (0.1, 0.0, 0.92)
    for _ in range(30):
        leg.step(toe_at(), True)
    assert leg.feet.locked[0] == 1
    heights = []
    for i in range(60):
        leg.hips = (0.1, 0.0, 0.92 + 0.4 * math.sin(math.pi * i / 60))
        heights.append(leg.step(toe_at(), True)[2])
        assert leg.feet.stepping[0] == 0.0
    assert max(heights) > 0.15
    rises = np.diff(heights) > 1e-4
    assert np.count_nonzero(np.diff(rises.astype(int)) == 1) <= 1  # one rise instead of a step in the air
    for _ in range(20):
        leg.step(toe_at(), True)
    assert leg.feet.locked[0] == 1


def test_a_corrective_step_is_up_before_it_moves_along_the_floor() -> None:
    leg = Leg()
    for _ in range(30):
        leg.step(toe_at(), True)
    path = np.array([leg.step(toe_at(0.13 + 0.35), True) for _ in range(40)])
    moved = path[:, 0] - path[0, 0] > 0.02
    assert path[moved.argmax(), 2] > 0.0595
    assert np.abs(np.diff(path[:, 2])).max() / DT < 0.9  # no kick


def test_turned_away_from_the_motion_it_lets_go() -> None:
    leg = Leg()
    leg.step(toe_at(), True)
    leg.feet.locked[1] = 1
    for _ in range(60):
        leg.step(toe_at(), True, yaw=math.radians(50))
    assert leg.yaw == pytest.approx(math.radians(50), abs=0.05)


def test_a_free_foot_that_goes_or_turns_fast_over_the_floor_is_lifted() -> None:
    def highest(speed: float, turn: float, guessed: float = 1.0, lock: bool = True, flight: bool = False) -> float:
        leg = Leg(PostSettings(foot_lock=lock))
        leg.feet.locked[1] = not flight
        places = [(toe_at(0.1 + speed * i * DT, z=0.012), turn * i * DT) for i in range(18)]
        steps = [leg.step(toe, False, yaw, guessed=guessed) for toe, yaw in places]
        assert np.abs(np.diff([s[2] for s in steps])).max() < 0.005
        return max(s[2] for s in steps) - steps[0][2]

    assert highest(1.5, 0.0) > 0.015 and highest(0.7, 6.0) > highest(0.7, 0.0) + 0.004
    assert highest(0.2, 0.5) < 0.001 and highest(0.2, 0.5, flight=True) < 0.001
    assert highest(1.5, 0.0, flight=True) > highest(1.5, 0.0) + 0.002
    assert highest(1.5, 0.0, guessed=0.0) < 0.001 and highest(1.5, 0.0, lock=False) < 0.001


def test_one_foot_waits_until_the_other_has_stepped() -> None:
    leg = Leg()
    leg.step(toe_at(), True)
    leg.feet.stepping[1] = 0.2
    leg.step(toe_at(0.13 + 0.25), True)
    assert leg.feet.locked[0] == 1
    leg.step(toe_at(0.13 + 0.5), True)
    assert leg.feet.locked[0] == 0  # too far to wait for the other foot


def test_without_the_lock_it_slides() -> None:
    leg = Leg(PostSettings(foot_lock=False))
    for i in range(30):
        toe = leg.step(toe_at(0.13 + 0.001 * i), True)
    assert toe[0] == pytest.approx(0.159, abs=1e-6)


@pytest.mark.parametrize("ground", [0.0, 0.1, -0.2])
def test_nothing_of_the_foot_goes_through_the_floor(ground: float) -> None:
    leg = Leg()
    leg.hips = (0.0, 0.0, 0.85 + ground)
    for z in np.linspace(0.1, -0.1, 40):
        for pitch in (-0.6, 0.0, 0.8):
            leg.step(toe_at(z=z), False, pitch=pitch, ground=ground)
            toe, ankle = leg.body.room_positions[LEFT_TOES], leg.body.room_positions[LEFT_FOOT]
            tip = toe + rot.rotate(leg.body.room_rotations[LEFT_TOES], np.array([0.07, 0.0, 0.0]))
            assert toe[2] >= ground + 0.015 - 1e-4
            assert ankle[2] > ground + 0.05
            assert tip[2] > ground - 1e-6


def test_a_high_hip_lifts_the_heel_and_never_straightens_the_knee_beyond() -> None:
    leg = Leg()
    leg.step(toe_at(), True)
    slack = []
    for z in np.linspace(0.90, 1.0, 60):
        leg.hips = (0.0, 0.0, z)
        toe = leg.step(toe_at(), True)
        p, q = leg.body.room_positions[None], leg.body.room_rotations[None]
        assert knee_beyond_straight_deg(p, q)[0] < 1e-3
        slack.append(LENGTHS[0, 2:].sum() - np.linalg.norm(p[0, LEFT_FOOT] - p[0, LEFT_UPPER_LEG]))
        if leg.feet.locked[0]:
            assert toe == pytest.approx(toe_at(), abs=0.006)
    assert leg.body.room_positions[LEFT_FOOT, 2] > REST[LEFT_FOOT, 2] + 0.02
    assert np.abs(np.diff(slack, n=2)).max() < 2e-3  # the knee does not jump


def test_a_teleport_takes_the_foot_along() -> None:
    leg = Leg()
    leg.step(toe_at(), True)
    leg.hips = (5.0, 0.0, 0.92)
    assert leg.step(toe_at(5.13), True) == pytest.approx(toe_at(5.13), abs=0.01)


@pytest.mark.parametrize("yaw", [-3.0, 0.0, 1.0])
def test_heading_survives_a_foot_that_points_straight_down_and_back(yaw: float) -> None:
    bone = tuple(SKELETON.offsets[LEFT_TOES].astype(float))
    for pitch in np.linspace(-1.0, 2.4, 60):
        q = rot.multiply(rot.from_yaw(yaw), rot.exp(np.array([0.0, pitch, 0.0])))
        assert abs(quat.wrap(heading_of(tuple(q), bone) - yaw)) < 1e-6


def test_letting_go_is_no_kick() -> None:
    """The toe rests in its lock while the motion already moves: the acceleration stays that of a swing."""
    path, held = swung(other_locked=True)
    assert 60 < held < 85
    assert accelerations(path[:85]).max() < 25.0  # the swing itself has 8


@pytest.mark.parametrize(("other_locked", "other_speed"), [(False, 0.0), (True, 0.5)])
def test_a_foot_that_carries_alone_lets_go_later(other_locked: bool, other_speed: float) -> None:
    """One foot must stand: otherwise both would slide until the other foot is locked and at rest."""
    _, held = swung(other_locked=True)
    path, alone = swung(other_locked, other_speed)
    assert held + 4 <= alone < 85
    assert np.linalg.norm(path[alone - 1] - path[60]) < 0.01
    assert accelerations(path[:85]).max() < 50.0


@pytest.mark.parametrize("lift", [0.0, 0.04])
def test_who_carries_alone_holds_a_foot_that_is_down_but_none_that_hovers(lift: float) -> None:
    """The motion reports no contact, and the other foot never comes to rest."""
    leg = Leg()
    for _ in range(30):
        leg.step(toe_at(), True)
    held = []
    for _ in range(60):
        leg.step(toe_at(z=0.015 + lift), False)
        held.append(bool(leg.feet.locked[0]))
    assert all(held) if lift == 0.0 else held.count(True) * DT == pytest.approx(0.04, abs=0.03)


@pytest.mark.parametrize("without", ["lock", "guess"])
def test_a_foot_lets_go_when_the_lock_is_switched_off_or_a_tracker_is_put_on(without: str) -> None:
    leg = Leg()
    for _ in range(30):
        leg.step(toe_at(), True)
    assert leg.feet.locked[0] == 1
    if without == "lock":
        leg.tuning = tuning(PostSettings(foot_lock=False))
    for _ in range(40):
        toe = leg.step(toe_at(0.18), True, guessed=0.0 if without == "guess" else 1.0)
    assert leg.feet.locked[0] == 0 and toe[:2] == pytest.approx(toe_at(0.18)[:2], abs=2e-3)


def swung(other_locked: bool, other_speed: float = 0.0) -> tuple[np.ndarray, int]:
    """A locked toe whose motion swings at frame 60: its path, and the frame of its release."""
    leg, path, held = Leg(), [], 0
    leg.feet.locked[1], leg.feet.toe_rate[1, 0] = other_locked, other_speed
    for i in range(120):
        swing = max(i - 60, 0) * DT
        motion = toe_at(0.13 + 4.0 * swing * swing, z=0.015 + 0.3 * swing) if swing < 0.3 else toe_at(0.49, z=0.105)
        path.append(leg.step(motion, i < 60))
        held = i + 1 if leg.feet.locked[0] else held
    return np.array(path), held


def accelerations(path: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(np.diff(path, n=2, axis=0), axis=1) / DT**2)


def test_a_heel_that_has_risen_as_far_as_it_can_is_not_stopped_at_once() -> None:
    """The hips move away from a locked toe: the ankle rises and slows down before the release."""
    leg, path = Leg(), []
    for i in range(200):
        leg.hips = (0.9 * max(i - 60, 0) * DT, 0.0, 0.9)
        leg.step(toe_at(), True)
        if not leg.feet.locked[0]:
            break
        path.append(leg.body.room_positions[LEFT_FOOT].copy())
    assert len(path) > 80 and path[-1][2] > path[60][2] + 0.06
    assert accelerations(np.array(path)).max() < 5.0  # an abrupt stop gives 13


def test_the_lock_takes_a_foot_over_without_a_jump() -> None:
    leg = Leg()
    path = [leg.step(toe_at(0.13 + 0.01 * i), i > 20) for i in range(40)]  # 0.9 m/s
    step = np.diff(np.array(path)[:, 0])
    assert leg.feet.locked[0] == 1
    assert np.abs(np.diff(step)).max() / DT**2 < 60.0 and step.min() > -1e-4


@pytest.mark.parametrize("release_time", [0.05, 0.25])
def test_a_slow_low_foot_supports_whatever_the_data_says_and_the_way_back(release_time: float) -> None:
    """No contact in the data while the other foot is up, also with a short release time."""
    leg = Leg(PostSettings(release_time=release_time))
    for _ in range(5):
        leg.step(toe_at(), False)
    assert leg.feet.locked[0] == 1
