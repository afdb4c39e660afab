"""The leading-foot hint: in a layout, from landmarks, in the matcher."""

from dataclasses import replace

import numpy as np
import pytest

from mm_ros.avatar import Avatar, AvatarSettings
from mm_ros.base.errors import MmRosError
from mm_ros.body import skeleton as sk
from mm_ros.body.clip import Clip
from mm_ros.body.landmarks import LEFT_ANKLE, LEFT_HIP, LEFT_SHOULDER, Landmarks
from mm_ros.body.types import still_trajectory
from mm_ros.evaluation.replay_chain import run_chain
from mm_ros.facing.model_file import load_facing_model
from mm_ros.matching.leading_foot import LeadingFoot, left_foot_ahead
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.maths import rotations as rot
from mm_ros.motion.build import BuildOptions, build_database
from mm_ros.motion.feature_files import format_layout, read_layout
from mm_ros.motion.feature_values import feature_values
from mm_ros.motion.features import default_layout, with_leading_foot
from mm_ros.motion.metrics import facing_of_body
from mm_ros.motion.procedural import make_clips
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.landmark_simulation import COMMON, PERFECT, simulate_landmarks
from mm_ros.tracking.simulation import simulate_clip

HINTED = with_leading_foot(default_layout())
MS = 1_000_000


@pytest.fixture(scope="module")
def clips() -> list[Clip]:
    return make_clips(3)


@pytest.fixture(scope="module")
def database(clips):
    """A database without the clips that serve as users."""
    walks = [c for c in clips if c.name.startswith(("walk", "idle", "turn"))]
    return build_database(walks, HINTED, BuildOptions(mirror=True, plant_feet=False, stooped=0.0))


def ahead(positions, yaw):
    apart = positions[:, sk.LEFT_FOOT, :2] - positions[:, sk.RIGHT_FOOT, :2]
    return apart[:, 0] * np.cos(yaw) + apart[:, 1] * np.sin(yaw)


# ---- the layout


def test_the_group_is_off_by_default_and_another_layout_when_on(tmp_path):
    assert "leading_foot" not in default_layout().offsets
    assert (default_layout().size, HINTED.size) == (27, 29)
    assert HINTED.hash != default_layout().hash
    assert HINTED.trajectory_times == default_layout().trajectory_times
    assert HINTED.column_names[-2:] == ("leading_foot@-0.4s.x", "leading_foot@-0.2s.x")
    (tmp_path / "f.yaml").write_text(format_layout(HINTED))
    assert read_layout(tmp_path / "f.yaml").hash == HINTED.hash


def test_its_values_are_the_feet_a_while_ago(clips):
    clip = next(c for c in clips if c.name.startswith("walk"))
    positions, rotations = (x.astype(np.float64) for x in clip.globals())
    own = rot.rotate(rot.inverse(rotations[:, 0]), positions[:, sk.LEFT_FOOT] - positions[:, sk.RIGHT_FOOT])[:, 0]
    values = feature_values(clip, HINTED)[:, HINTED.offsets["leading_foot"]]
    at = np.arange(60, len(clip))
    np.testing.assert_allclose(values[at, 1], own[at - round(0.2 * clip.rate)], atol=1e-6)
    np.testing.assert_allclose(values[at, 0], own[at - round(0.4 * clip.rate)], atol=1e-6)
    assert own.max() > 0.15 and own.min() < -0.15


# ---- what a camera sees


def test_landmarks_give_the_left_foots_lead_for_any_camera_pose(clips):
    clip = next(c for c in clips if c.name == "wander 1").cut(0, 600)
    positions = clip.globals()[0].astype(np.float64)
    true = ahead(positions, facing_of_body(positions))
    for side in (0.0, 2.0):
        seen = simulate_landmarks(clip, replace(PERFECT, side=side))
        told = np.array([left_foot_ahead(s.landmarks.positions) for s in seen])
        frames = np.round([s.landmarks.stamp_ns * 1e-9 * clip.rate for s in seen]).astype(int)
        np.testing.assert_allclose(told, true[frames], atol=0.03)


def standing(stamp_ns, visible=1.0):
    """A person who faces the camera, with the left foot 20 cm in front of the right one."""
    points = np.zeros((33, 3))
    points[[LEFT_HIP, LEFT_SHOULDER, LEFT_ANKLE], 1] = -0.2
    points[LEFT_ANKLE, 0] = -0.2
    return Landmarks(stamp_ns, points, np.full(33, visible, np.float32))


def test_old_missing_or_unclear_images_give_no_hint():
    feet = LeadingFoot()
    assert feet.at(0, (-0.4, -0.2)) is None
    for i in range(31):
        feet.watch(standing(i * 33 * MS))
    now = 1000 * MS
    np.testing.assert_allclose(feet.at(now, (-0.4, -0.2)), 0.2)
    assert feet.at(now + 400 * MS, (-0.4, -0.2)) is None
    hidden = LeadingFoot()
    for i in range(31):
        hidden.watch(standing(i * 33 * MS, visible=0.2))
    assert hidden.at(now, (-0.4, -0.2)) is None
    feet.watch(standing(0))  # time jumps back
    assert feet.at(now, (-0.4, -0.2)) is None


# ---- the matcher


def test_it_has_no_weight_without_a_recent_hint(database):
    stage = MatcherStage(MatcherSettings(), database)
    desired, query = still_trajectory(database.layout.trajectory_times), np.zeros(HINTED.size, np.float32)
    columns = HINTED.offsets["leading_foot"]
    assert not stage._weights_now(desired, query)[0][columns].any()
    for i in range(31):
        stage.watch(standing(i * 33 * MS))
    assert stage._weights_now(replace(desired, stamp_ns=1000 * MS), query)[0][columns].all()
    assert query[columns].any()
    assert not stage._weights_now(replace(desired, stamp_ns=3000 * MS), query)[0][columns].any()


def test_its_weight_is_live(database):
    stage = MatcherStage(MatcherSettings(weights="leading_foot=2.5"), database)
    assert (stage.weights[HINTED.offsets["leading_foot"]] == 2.5).all()
    stage.settings = MatcherSettings(weights="leading_foot=0")
    assert not stage.weights[HINTED.offsets["leading_foot"]].any()


def test_the_usual_layout_does_not_know_it():
    with pytest.raises(MmRosError, match="leading_foot"):
        MatcherStage._weights(type("D", (), {"layout": default_layout()}), MatcherSettings(weights="leading_foot=1"))


def test_the_hint_makes_the_right_foot_lead_more_often(clips, database):
    """With landmarks of common quality: noisy, late, sometimes with left and right exchanged."""
    same = {}
    clip = next(c for c in clips if c.name == "wander 1").cut(0, 25 * 60)
    track, positions = simulate_clip(clip), clip.globals()[0].astype(np.float64)
    own = np.arange(len(positions)) / clip.rate
    true = ahead(positions, facing_of_body(positions))
    for weight in (0, 4):
        settings = AvatarSettings(matcher=MatcherSettings(weights=f"leading_foot={weight}"))
        avatar = Avatar(database, from_skeleton(clip.skeleton), settings, load_facing_model(settings.orientation))
        result = run_chain(track, avatar, sightings=simulate_landmarks(clip, COMMON, 0, track))
        body, _ = rot.forward_kinematics(sk.PARENTS, *result.pose.local())
        wanted = np.interp((result.stamps_ns - track.stamps_ns[0]) * 1e-9, own, true)
        stepping = np.abs(wanted) > 0.1
        same[weight] = np.mean(np.sign(ahead(body, facing_of_body(body)))[stepping] == np.sign(wanted)[stepping])
    assert same[4] > same[0] + 0.08
    assert same[4] > 0.65
