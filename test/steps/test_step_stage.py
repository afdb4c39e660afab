"""The step stage finds the steps of users with known steps, at every rate and grip, and says when it does not know."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import LEFT_FOOT, RIGHT_FOOT
from mm_ros.body.types import HEAD_ROLE, LEFT_HAND_ROLE, LOST, RIGHT_HAND_ROLE, feet_from_flat
from mm_ros.evaluation.footfalls import SAME_EVENT_S, feet_of, pairs
from mm_ros.maths import rotations as rot
from mm_ros.motion.procedural.user import SyntheticUser
from mm_ros.steps import outputs as so
from mm_ros.steps.estimator import FOLLOW_HALFLIFE_S, StepSettings, StepStage, Touchdowns, settle
from mm_ros.steps.inputs import RATE, layout_hash
from mm_ros.steps.model_file import load_step_model
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.simulation import Simulation, TrackerTrack, simulate_clip


@cache
def clip():
    return SyntheticUser(41).clip(20.0)


@cache
def model():
    return load_step_model(StepSettings())


def stage() -> StepStage:
    return StepStage(StepSettings(), from_skeleton(clip().skeleton), model())


def track(rate: float = 90.0, without: tuple[int, ...] = (), grip: float = 0.0) -> TrackerTrack:
    out = simulate_clip(clip(), Simulation(rate=rate, grip_sd_rad=grip))
    state = out.state.copy()
    state[:, list(without)] = LOST
    return replace(out, state=state)


def ankles_error(given: TrackerTrack) -> float:
    """Median error [m] of the ankles."""
    positions, _ = clip().globals()
    own, errors = stage(), []
    for i in range(len(given)):
        found = own.step(given.frame(i))
        at = round((given.stamps_ns[i] - given.stamps_ns[0]) * 1e-9 * RATE)
        true = positions[min(at, len(positions) - 1), [LEFT_FOOT, RIGHT_FOOT]]
        errors.append(np.linalg.norm(found.feet.ankles - true, axis=1))
    return float(np.median(errors))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"rate": 15.0},
        {"rate": 120.0},
        {"without": (LEFT_HAND_ROLE,)},
        {"without": (LEFT_HAND_ROLE, RIGHT_HAND_ROLE)},
    ],
    ids=str,
)
def test_ankles_are_near_those_of_a_user_with_known_steps(given: dict) -> None:
    assert ankles_error(track(**given)) < 0.10


def test_the_grip_of_the_controllers_changes_nothing() -> None:
    straight, turned = (track(grip=g) for g in (0.0, 0.5))
    turned = replace(turned, positions=straight.positions, velocities=straight.velocities)
    a, b = stage(), stage()
    for i in range(200):
        assert np.array_equal(a.step(straight.frame(i)).feet.flat(), b.step(turned.frame(i)).feet.flat())


@pytest.mark.parametrize("rate", [15.0, 90.0])
def test_touchdowns_are_those_of_the_user(rate: float) -> None:
    given, own = track(rate), stage()
    landed = np.array([own.step(given.frame(i)).feet.touchdown for i in range(len(given))])
    times = (given.stamps_ns - given.stamps_ns[0]) * 1e-9
    positions, _ = clip().globals()
    true = feet_of(positions[:, [LEFT_FOOT, RIGHT_FOOT]], 1 / RATE).landings
    found = tuple(times[landed[:, foot]] for foot in range(2))
    matched = [b[j] - a[i] for a, b in zip(true, found, strict=True) for i, j in pairs(a, b, SAME_EVENT_S)]
    count = sum(map(len, true)) + sum(map(len, found))
    assert count > 20 and 2 * len(matched) / count > 0.85 and abs(np.median(matched)) < 0.06


class Script:
    """A network that says of the left foot: it moves for half a second, stands for half a second, and so on."""

    layout = layout_hash()

    def __init__(self) -> None:
        self.ticks = 0

    def nothing(self) -> None:
        return None

    def step(self, inputs: np.ndarray, remembered: None, tick: bool) -> tuple[np.ndarray, None]:
        out = np.zeros((1, so.OUTPUTS), np.float32)
        out[0, so.MOVES] = 3.0 if self.ticks % 60 < 30 else -3.0
        out[0, so.CONTACT], out[0, so.EVENT] = -out[0, so.MOVES], -9.0
        self.ticks += 1
        return out, None


def test_a_foot_touches_down_when_motion_and_contact_say_so() -> None:
    own, given = StepStage(StepSettings(), from_skeleton(clip().skeleton), Script()), track(60.0)
    landed = np.array([own.step(given.frame(i)).feet.touchdown for i in range(180)])
    assert np.flatnonzero(landed[:, 0]).tolist() == [30, 90, 150] and not landed[:, 1].any()


def test_a_foot_that_has_not_been_lifted_does_not_touch_down() -> None:
    events = Touchdowns(0.5)
    stands = [0.9, 0.4, 0.9, 0.2, 0.4, 0.6, 0.9, 0.2, 0.6, 0.2, 0.4, 0.6]
    said = [events.lands(0, p, k * 10**8) for k, p in enumerate(stands)]
    assert [k for k, lands in enumerate(said) if lands] == [5, 8, 11]
    assert not events.lands(0, 0.2, 1_200_000_000) and not events.lands(0, 0.9, 1_300_000_000)  # too soon


def smoothed(goals: np.ndarray, velocity: float, moves: float, dt: float) -> np.ndarray:
    """Positions (F,) of an ankle whose estimated positions are `goals` (F,), along one axis."""
    places, rates = np.full((2, 3), goals[0] - velocity * dt), np.zeros((2, 3))
    halflives, out = np.full(2, FOLLOW_HALFLIFE_S), []
    for goal in goals:
        feet = np.zeros((2, 10))
        feet[:, 2], feet[:, 3:6], feet[:, 6:9] = moves, goal, velocity
        settle(places, rates, halflives, feet, dt)
        out.append(feet[0, 3])
    return np.array(out)


@pytest.mark.parametrize("dt", [1 / 30, 1 / 90])
def test_a_moving_ankle_is_followed_without_lag(dt: float) -> None:
    path = 1.2 * np.arange(0, 0.5, dt)
    assert smoothed(path, 1.2, 1.0, dt) == pytest.approx(path, abs=1e-9)


def test_a_leap_of_the_estimate_becomes_a_soft_start() -> None:
    path = smoothed(np.repeat([0.0, 0.1], 30), 0.0, 1.0, 1 / 90)
    assert np.abs(np.diff(path, 2)).max() < 0.015  # 0.027 with a filter of first order
    assert path[-1] == pytest.approx(0.1, abs=1e-3)


def test_the_place_of_a_standing_foot_becomes_calm() -> None:
    noise = 0.02 * np.random.default_rng(3).normal(size=360)
    path = smoothed(noise, 0.0, 0.0, 1 / 90)
    assert path[180:].std() < 0.2 * noise.std()
    assert path[180:].std() < 0.4 * smoothed(noise, 0.0, 1.0, 1 / 90)[180:].std()


def test_a_room_that_turns_takes_the_feet_along() -> None:
    given = track()
    own, carried = stage(), stage()
    transform = np.array([1.0, -2.0, 0.0, *rot.from_yaw(np.array(0.7))])
    for i in range(300):
        before, frame = own.step(given.frame(i)), given.frame(i)
        if i >= 150:
            frame.positions = rot.rotate(transform[3:], frame.positions) + transform[:3]
            frame.rotations = rot.multiply(transform[3:], frame.rotations)
            frame.epoch = 1
            if i == 150:
                frame.new_from_old = transform
        after = carried.step(frame)
    expected = rot.rotate(transform[3:], before.feet.ankles) + transform[:3]
    assert after.feet.ankles == pytest.approx(expected, abs=2e-3)
    assert after.feet.contact == pytest.approx(before.feet.contact, abs=1e-2)


def test_without_a_head_or_after_a_late_frame_there_is_no_estimate() -> None:
    given, own = track(), stage()
    for i in range(20):
        own.step(given.frame(i))
    assert own.step(given.frame(15)) is None
    lost = given.frame(20)
    lost.state[HEAD_ROLE] = LOST
    assert own.step(lost) is None
    assert StepStage(StepSettings(steps=False), own.calibration, None).step(given.frame(0)) is None


def test_after_a_long_gap_the_estimate_starts_again() -> None:
    given, own, fresh = track(), stage(), stage()
    for i in range(100):
        own.step(given.frame(i))
    found = own.step(given.frame(160))
    assert np.array_equal(found.feet.flat(), fresh.step(given.frame(160)).feet.flat())


def test_a_number_that_is_not_finite_is_refused() -> None:
    frame = track().frame(0)
    frame.positions[HEAD_ROLE, 2] = np.nan
    with pytest.raises(MmRosError, match="not finite"):
        stage().step(frame)


def test_the_flat_form_of_an_estimate_keeps_all_its_numbers() -> None:
    feet = stage().step(track().frame(0)).feet
    feet.touchdown[1] = True
    back = feet_from_flat(feet.flat())
    for name, value in vars(feet).items():
        assert getattr(back, name) == pytest.approx(value, abs=1e-6), name
    assert feet_from_flat(np.zeros(0, np.float32)) is None
