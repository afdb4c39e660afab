"""The learned engine that comes with the package: noise, height bands, minutes of wandering."""

from __future__ import annotations

import numpy as np
import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import default_skeleton
from mm_ros.evaluation.endurance import endure, wandering
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.matching.model_file import DEFAULT_MODEL, LearnedModel
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.features import default_layout

SETTINGS = MatcherSettings(engine="learned")


@pytest.fixture(scope="module")
def model() -> LearnedModel:
    return LearnedModel()


def stage(model: LearnedModel) -> MatcherStage:
    return MatcherStage(SETTINGS, model.digest, learned=model)


def times(motion: MotionDatabase) -> tuple[float, ...]:
    return motion.layout.trajectory_times


def test_is_small_and_names_its_motion(model):
    assert DEFAULT_MODEL.stat().st_size < 5e6
    assert "procedural" in model.metadata["licence"]
    assert model.digest.layout.hash == default_layout().hash
    assert model.digest.skeleton.hash == default_skeleton().hash  # of the default database


def test_rebuilds_its_motion_as_closely_as_asked(model):
    rebuilt = model.figures()["rebuilt"]
    assert rebuilt["joints_cm_mean"] < 1.5
    assert rebuilt["joints_cm_p95"] < 4.0
    assert rebuilt["rotations_deg_mean"] < 4.0


def test_two_minutes_of_wandering_do_not_end_in_a_mean_pose(model):
    told = endure(stage(model), times(model.digest), 2.0)
    assert told["finite"]
    assert told["farthest_joint_m"] < 2.2
    assert told["spread_m"][1] > 0.6 * told["spread_m"][0]
    assert told["toe_speed_m_s"][1] > 0.6 * told["toe_speed_m_s"][0]


def test_noise_does_not_make_it_explode(model):
    told = endure(stage(model), times(model.digest), 0.25, seed=3, noise=1.0)
    assert told["finite"]
    assert told["farthest_joint_m"] < 2.2


def test_one_input_gives_one_output(model):
    hips = []
    for _ in range(2):
        s = stage(model)
        hips.append(np.array([s.step(w)[0].positions[1] for w in wandering(times(model.digest), 5.0, seed=1)]))
    np.testing.assert_array_equal(*hips)


def test_low_heads_crouch(model):
    s = stage(model)
    heights = {}
    for ratio in (1.0, 0.65):
        for w in wandering(times(model.digest), 3.0, seed=2):
            w.height_ratio = ratio
            w.stamp_ns += round((1 - ratio) * 1e12)  # the second part follows after a gap
            pose, match = s.step(w)
        heights[ratio] = pose.positions[1, 2]
        assert match.band == ("upright" if ratio == 1.0 else "crouch")
    assert heights[0.65] < 0.75 * heights[1.0]


def test_a_tag_that_is_not_there_is_refused(model):
    with pytest.raises(MmRosError, match="'moonwalk' is not in the database"):
        MatcherStage(SETTINGS.with_values(tags="moonwalk"), model.digest, learned=model)
