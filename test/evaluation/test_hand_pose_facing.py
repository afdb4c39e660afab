"""The predicted facing hardly depends on the convention of the hand poses."""

import pytest

from mm_ros.evaluation.hand_pose_facing import facing_errors, pooled, table
from mm_ros.evaluation.run import truth_of
from mm_ros.facing.model_file import load_facing_model
from mm_ros.facing.orientation import OrientationSettings
from mm_ros.motion.procedural import make_clips
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.hand_poses import HAND_POSES
from mm_ros.tracking.simulation import Simulation, simulate_clip


def test_the_facing_is_measured_for_each_convention():
    clip = next(c for c in make_clips(3) if c.name.startswith("walk") and c.seconds > 2).cut(0, 60)
    settings = OrientationSettings()
    track = simulate_clip(clip, Simulation(grip_sd_rad=0.15))
    model = load_facing_model(settings)
    figures = pooled([facing_errors(track, truth_of(clip), from_skeleton(clip.skeleton), settings, model)])
    assert len(table(figures)) == 1 + len(HAND_POSES)
    for name in HAND_POSES:
        assert figures[name]["mean"] == pytest.approx(figures["wrist"]["mean"], abs=1.0)
