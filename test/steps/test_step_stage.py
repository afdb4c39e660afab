"""The step stage finds the steps of users with known steps, at every rate and grip, and says when it does not know."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import LEFT_FOOT, RIGHT_FOOT
from mm_ros.body.types import HEAD_ROLE, LEFT_HAND_ROLE, LOST, RIGHT_HAND_ROLE, feet_from_flat
from mm_ros.maths import rotations as rot
from mm_ros.motion.procedural.user import SyntheticUser
from mm_ros.steps.estimator import StepSettings, StepStage
from mm_ros.steps.inputs import RATE
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


def test_steps_are_found_where_the_user_steps() -> None:
    given, own = track(), stage()
    landed = np.array([own.step(given.frame(i)).feet.touchdown for i in range(len(given))])
    positions, _ = clip().globals()
    moved = np.linalg.norm(np.diff(positions[:, LEFT_FOOT], axis=0), axis=1).sum()
    assert moved > 3 and 3 <= landed[:, 0].sum() <= 60 and 3 <= landed[:, 1].sum() <= 60


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
