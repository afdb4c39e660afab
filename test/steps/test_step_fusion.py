"""Camera landmarks and foot trackers correct the estimated feet, by their standard deviations."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from perfect_camera import PERFECT

from mm_ros.avatar import Avatar
from mm_ros.body.clip import Clip
from mm_ros.body.landmarks import LEFT_ANKLE, LEFT_HIP, LEFT_SHOULDER, SWAPPED, Landmarks
from mm_ros.body.skeleton import LEFT_FOOT, RIGHT_FOOT, default_skeleton
from mm_ros.body.types import (
    HEAD_ROLE,
    LEFT_FOOT_ROLE,
    LEFT_HAND_ROLE,
    LOST,
    RIGHT_HAND_ROLE,
    ROLES,
    TRACKED,
    TrackerFrame,
)
from mm_ros.evaluation.footfalls import feet_of, pairs
from mm_ros.maths import rotations as rot
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.files import read_database
from mm_ros.motion.metrics import facing_of_body
from mm_ros.motion.procedural.user import SyntheticUser
from mm_ros.steps.estimator import StepSettings, StepStage
from mm_ros.steps.fusion import CameraFeet, ankles_apart
from mm_ros.steps.model_file import load_step_model
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.landmark_simulation import simulate_landmarks
from mm_ros.tracking.simulation import Simulation, simulate_clip

MS = 1_000_000
FEET = [LEFT_FOOT, RIGHT_FOOT]


@cache
def clip() -> Clip:
    return SyntheticUser(41).clip(12.0)


def true_feet() -> np.ndarray:
    return clip().globals()[0][:, FEET].astype(np.float64)


def person(stamp_ns: int, left_ahead_m: float = 0.3, visible: float = 1.0) -> Landmarks:
    """A person who faces the camera, with the left foot ahead."""
    points = np.zeros((33, 3))
    points[[LEFT_HIP, LEFT_SHOULDER, LEFT_ANKLE], 1] = -0.2
    points[LEFT_ANKLE, 0] = -left_ahead_m
    return Landmarks(stamp_ns, points, np.full(33, visible, np.float32))


def standing(i: int) -> TrackerFrame:
    """Headset and controllers of a user who stands still and faces +x."""
    frame = TrackerFrame(i * 11 * MS)
    for role, place in ((HEAD_ROLE, (0, 0, 1.6)), (LEFT_HAND_ROLE, (0, 0.25, 0.8)), (RIGHT_HAND_ROLE, (0, -0.25, 0.8))):
        frame.positions[role], frame.state[role] = place, TRACKED
    return frame


# ---- the camera


def test_an_image_gives_the_ankles_for_any_place_of_the_camera_and_exchanged_sides() -> None:
    positions = clip().globals()[0].astype(np.float64)
    yaw = facing_of_body(positions)
    apart = rot.rotate(rot.from_yaw(-yaw), positions[:, LEFT_FOOT] - positions[:, RIGHT_FOOT])
    for side in (0.0, 2.0):
        for seen in simulate_landmarks(clip(), replace(PERFECT, side=side))[::5]:
            points, at = seen.landmarks.positions, round(seen.landmarks.stamp_ns * 1e-9 * clip().rate)
            assert ankles_apart(points) == pytest.approx(apart[at], abs=0.03)
            assert ankles_apart(points[SWAPPED])[:2] == pytest.approx(apart[at, :2], abs=0.03)


def feet_after(image, sigma: float, late_ms: int = 100, stop_ms: int = 10**6) -> np.ndarray:
    """Numbers (2, 10) of feet side by side after a second of images that arrive late; `image` makes one."""
    camera, yaw = CameraFeet(), 0.7
    for now in range(0, 1000, 10):
        if now % 30 == 0 and now >= late_ms and now < stop_ms:
            camera.watch(image((now - late_ms) * MS))
        feet = np.zeros((2, 10))
        feet[0, 3:5], feet[1, 3:5] = (-0.1 * np.sin(yaw), 0.1 * np.cos(yaw)), (0.1 * np.sin(yaw), -0.1 * np.cos(yaw))
        feet[:, 9] = sigma
        camera.correct(now * MS, feet, yaw)
    return feet


def lead(feet: np.ndarray, yaw: float = 0.7) -> float:
    apart = feet[0, 3:6] - feet[1, 3:6]
    return float(apart[0] * np.cos(yaw) + apart[1] * np.sin(yaw))


def test_a_camera_corrects_unsure_feet_and_leaves_sure_ones() -> None:
    unsure, sure = feet_after(person, 0.6), feet_after(person, 0.03)
    assert lead(unsure) == pytest.approx(0.3, abs=0.05)
    assert abs(lead(sure)) < 0.02
    assert (unsure[:, 9] < 0.55).all()


@pytest.mark.parametrize(
    ("image", "stop_ms"),
    [
        (lambda t: person(t, visible=0.2), 10**6),
        (lambda t: replace(person(t), confidence=0.1), 10**6),
        (person, 300),
        (lambda t: replace(person(t), positions=np.zeros((33, 3))), 10**6),
    ],
    ids=["hidden", "unsure", "old", "no front"],
)
def test_hidden_unsure_and_old_images_correct_nothing(image, stop_ms: int) -> None:
    assert lead(feet_after(image, 0.6, stop_ms=stop_ms)) == pytest.approx(0.0, abs=1e-9)


def test_the_camera_tells_the_search_which_foot_is_ahead_under_a_still_head() -> None:
    """Headset and controllers do not determine such a foot. Lead of the left foot: estimate, query."""

    def leads(left_ahead_m: float) -> tuple[float, float]:
        avatar, asked = Avatar.load(read_database(default_database_path())), 0.0
        layout = avatar.database.layout
        for i in range(200):
            if i % 3 == 0:
                avatar.watch(person(i * 11 * MS - 100 * MS, left_ahead_m))
            avatar.step(standing(i))
            last = avatar.last
            assert last is not None and last.feet is not None
            if last.match.searched:
                values = last.match.query * avatar.database.feature_std + avatar.database.feature_mean
                asked = float(values[layout.offsets["left_foot_position"]][0])
                asked -= float(values[layout.offsets["right_foot_position"]][0])
        return float(np.subtract(*last.feet.ankles)[0]), asked

    left, right = leads(0.35), leads(-0.35)
    assert left[0] > right[0] + 0.15
    assert left[1] > right[1] + 0.05


# ---- foot trackers

STRAP = np.array([0.09, 0.02, 0.05, *rot.exp(np.array([1.2, -0.4, 2.0]))])


def tracked_run(lost_from: int = 10**6) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ankles (F, 2, 3), touchdowns (F, 2), expected errors (F, 2) and frames of the clip, with straps on both feet."""
    track = simulate_clip(clip(), Simulation(feet=True))
    skeleton = clip().skeleton
    mountings = dict.fromkeys(ROLES[LEFT_FOOT_ROLE : LEFT_FOOT_ROLE + 2], STRAP)
    own = StepStage(
        StepSettings(), replace(from_skeleton(skeleton), mountings=mountings), load_step_model(StepSettings())
    )
    p, q = (x.astype(np.float64) for x in clip().globals())
    ankles, landed, sigma, frames = [], [], [], []
    for i in range(len(track)):
        frame = track.frame(i)
        at = min(round((track.stamps_ns[i] - track.stamps_ns[0]) * 1e-9 * clip().rate), len(p) - 1)
        for side, joint in enumerate(FEET):
            role = LEFT_FOOT_ROLE + side
            frame.positions[role] = p[at, joint] + rot.rotate(q[at, joint], STRAP[:3])
            frame.rotations[role] = rot.multiply(q[at, joint], STRAP[3:])
            frame.state[role] = LOST if i >= lost_from else TRACKED
        feet = own.step(frame).feet
        ankles.append(feet.ankles.copy())
        landed.append(feet.touchdown.copy())
        sigma.append(feet.sigma.copy())
        frames.append(at)
    return np.array(ankles), np.array(landed), np.array(sigma), np.array(frames)


def test_trackers_with_a_measured_mounting_place_the_ankles_and_time_the_touchdowns() -> None:
    ankles, landed, sigma, frames = tracked_run()
    errors = np.linalg.norm(ankles - true_feet()[frames], axis=-1)
    assert np.median(errors) < 0.015 and np.percentile(errors, 95) < 0.03
    assert np.median(sigma) < 0.03
    true = feet_of(true_feet(), 1 / clip().rate).landings
    assert true is not None
    for side in range(2):
        found = frames[landed[:, side]] / clip().rate
        assert len(pairs(true[side], found, 0.15)) >= 0.9 * len(true[side]) >= 3


def test_a_lost_tracker_is_blended_out_without_a_jump() -> None:
    ankles, _, sigma, _ = tracked_run(lost_from=500)
    kept, *_ = tracked_run()
    moved = np.linalg.norm(np.diff(ankles, axis=0), axis=-1)
    usual = np.linalg.norm(np.diff(kept, axis=0), axis=-1).max()
    assert moved[495:520].max() < usual + 0.02
    assert sigma[560:].mean() > 2 * sigma[:500].mean()


def test_a_tracker_without_a_measured_mounting_moves_the_ankle_little() -> None:
    own = StepStage(StepSettings(), from_skeleton(default_skeleton()), load_step_model(StepSettings()))
    plain = StepStage(StepSettings(), from_skeleton(default_skeleton()), load_step_model(StepSettings()))
    for i in range(60):
        frame = standing(i)
        frame.positions[LEFT_FOOT_ROLE], frame.state[LEFT_FOOT_ROLE] = (0.0, 0.1, 0.5), TRACKED
        with_tracker, without = own.step(frame).feet, plain.step(standing(i)).feet
    assert abs(with_tracker.ankles[0, 2] - without.ankles[0, 2]) < 0.15
    assert with_tracker.sigma[0] < without.sigma[0] and with_tracker.sigma[1] == without.sigma[1]
