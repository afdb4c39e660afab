"""Build the stages of the avatar from their settings, for the class `Avatar`, the nodes and the evaluation.

The stages that precede the prediction of the facing are built by `TrackerStages` in `tracking/live.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import AvatarPose, BodyOrientation, Calibration, TrackerFrame, Trajectory
from mm_ros.body.warm_up import sample_trackers
from mm_ros.facing.fusion import FusionSettings, FusionStage
from mm_ros.facing.orientation import FacingModel, OrientationSettings, OrientationStage
from mm_ros.matching.engines.learned import LearnedNetworks
from mm_ros.matching.engines.state_machine import StateMachineStage, matcher_stage
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.motion.database import MotionDatabase
from mm_ros.pose.postprocess import PostSettings, PostStage
from mm_ros.steps.estimator import StepModel, StepSettings, StepStage
from mm_ros.tracking.calibration import avatar_scale, avatar_segments
from mm_ros.tracking.mounting import MountingSettings
from mm_ros.trajectory.from_trackers import TrajectorySettings, TrajectoryStage


@dataclass(frozen=True)
class AvatarSettings:
    orientation: OrientationSettings = field(default_factory=OrientationSettings)
    fusion: FusionSettings = field(default_factory=FusionSettings)
    steps: StepSettings = field(default_factory=StepSettings)
    trajectory: TrajectorySettings = field(default_factory=TrajectorySettings)
    matcher: MatcherSettings = field(default_factory=MatcherSettings)
    post: PostSettings = field(default_factory=PostSettings)
    mounting: MountingSettings = field(default_factory=MountingSettings)


class FacingStages:
    """Stages that estimate the facing of the pelvis: a predictor, then the fusion with landmarks and body trackers."""

    def __init__(
        self, orientation: OrientationSettings, fusion: FusionSettings, calibration: Calibration,
        model: FacingModel | None,
    ) -> None:  # fmt: skip
        self.orientation = OrientationStage(orientation, calibration, model)
        self.fusion = FusionStage(fusion, calibration)

    @classmethod
    def load(cls, orientation: OrientationSettings, fusion: FusionSettings) -> FacingStages:
        """Build the stages with the facing network that the settings select."""
        # `facing.model_file` is imported here, because it imports onnxruntime, which the stages themselves do not need.
        from mm_ros.facing.model_file import load_facing_model

        return cls(orientation, fusion, Calibration(), load_facing_model(orientation))

    def step(self, trackers: TrackerFrame) -> BodyOrientation:
        return self.fusion.step(trackers, self.orientation.step(trackers))

    def set_calibration(self, calibration: Calibration) -> None:
        self.orientation.calibration = self.fusion.calibration = calibration

    def reset(self) -> None:
        self.orientation.reset()
        self.fusion.reset()

    def warm_up(self) -> None:
        self.fusion.warm_up()
        for frame in sample_trackers():
            self.step(frame)
        self.reset()


class TrajectoryStages:
    """Stages that compute the desired trajectory of a user with trackers: the step estimator, then the trajectory
    stage."""

    def __init__(
        self, steps: StepSettings, trajectory: TrajectorySettings, calibration: Calibration, times: Any,
        model: StepModel | None,
    ) -> None:  # fmt: skip
        self.steps = StepStage(steps, calibration, model)
        self.trajectory = TrajectoryStage(trajectory, calibration, times)

    @classmethod
    def load(cls, steps: StepSettings, trajectory: TrajectorySettings, times: Any) -> TrajectoryStages:
        """Build the stages with the step network that the settings select."""
        from mm_ros.steps.model_file import load_step_model

        return cls(steps, trajectory, Calibration(), times, load_step_model(steps))

    def step(self, trackers: TrackerFrame, facing: BodyOrientation) -> Trajectory | None:
        return self.trajectory.step(trackers, facing, self.steps.step(trackers, facing))

    def set_calibration(self, calibration: Calibration) -> None:
        self.steps.calibration = calibration
        self.trajectory.set_calibration(calibration)

    def reset(self) -> None:
        self.steps.reset()
        self.trajectory.reset()


def headset_facing() -> OrientationStage:
    """Build the stage that uses the forward direction of the headset as the facing, without a network."""
    return OrientationStage(OrientationSettings(predictor="hmd_forward"), Calibration(), None)


def build_matcher(
    settings: MatcherSettings, database: MotionDatabase, calibration: Calibration,
    learned: LearnedNetworks | None = None, run: int = 0,
) -> MatcherStage | StateMachineStage:  # fmt: skip
    """Build the matcher stage of a user; the number `run` must differ after each restart of the matcher."""
    stage = matcher_stage(settings, database, avatar_scale(calibration, database.skeleton), run, learned)
    fit_matcher(stage, database.skeleton, calibration)
    return stage


def fit_matcher(stage: MatcherStage | StateMachineStage, skeleton: Skeleton, calibration: Calibration) -> Skeleton:
    """Scale the poses of the matcher to the size of the user, and return the skeleton of the avatar in this size."""
    scale, segments = avatar_scale(calibration, skeleton), avatar_segments(calibration, skeleton)
    stage.set_scale(scale, segments)
    return skeleton.scaled(scale, segments)


def fit_post(
    stage: PostStage | None, settings: PostSettings, skeleton: Skeleton, calibration: Calibration,
    former: AvatarPose | None = None,
) -> PostStage:  # fmt: skip
    """Return a pose stage for `skeleton`: the given `stage` if it can use this skeleton, or else a new stage, whose
    first pose fades in from the pose `former`."""
    if stage is None or not stage.use_skeleton(skeleton):
        return PostStage(settings, skeleton, calibration, former=former)
    stage.set_calibration(calibration)
    return stage
