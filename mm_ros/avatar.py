"""The whole avatar pipeline: trackers → orientation → fusion → trajectory → matcher → post-processing."""

from __future__ import annotations

from dataclasses import dataclass, field

from mm_ros.body import plausible, rounding
from mm_ros.body.landmarks import Landmarks
from mm_ros.body.rounding import handed_trackers, rounded_orientation, rounded_pose, rounded_trajectory
from mm_ros.body.types import (
    AvatarPose,
    BodyOrientation,
    Calibration,
    FeetEstimate,
    Match,
    TrackerFrame,
    Trajectory,
)
from mm_ros.body.warm_up import sample_trackers
from mm_ros.facing.fusion import FusionSettings, FusionStage
from mm_ros.facing.orientation import FacingModel, OrientationSettings, OrientationStage
from mm_ros.matching.engines.learned import LearnedNetworks
from mm_ros.matching.engines.state_machine import matcher_stage
from mm_ros.matching.matcher import MatcherSettings
from mm_ros.motion.database import MotionDatabase
from mm_ros.pose.postprocess import PostSettings, PostStage
from mm_ros.steps.estimator import StepModel, StepSettings, StepStage
from mm_ros.tracking.calibration import avatar_scale, avatar_segments
from mm_ros.tracking.mounting import MountingSettings, MountingStage
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


@dataclass
class Steps:
    """The output of each stage in the last step."""

    facing: BodyOrientation
    desired: Trajectory
    matched: AvatarPose
    match: Match
    pose: AvatarPose
    feet: FeetEstimate | None = None  # the user's feet as the step estimator estimates them


class Avatar:
    """The avatar of one user. Values between stages are rounded as ROS messages round them, so that results equal
    those of the ROS nodes."""

    def __init__(
        self,
        database: MotionDatabase,
        calibration: Calibration | None = None,
        settings: AvatarSettings | None = None,
        model: FacingModel | None = None,
        learned: LearnedNetworks | None = None,
        step_model: StepModel | None = None,
    ):
        calibration, settings = calibration or Calibration(), settings or AvatarSettings()
        self.calibration, self.database = calibration, database
        self.scale = avatar_scale(calibration, database.skeleton)
        segments = avatar_segments(calibration, database.skeleton)
        self.skeleton = database.skeleton.scaled(self.scale, segments)
        self.orientation = OrientationStage(settings.orientation, calibration, model)
        self.fusion = FusionStage(settings.fusion, calibration)
        self.steps = StepStage(settings.steps, calibration, step_model)
        self.trajectory = TrajectoryStage(settings.trajectory, calibration, database.layout.trajectory_times)
        self.matcher = matcher_stage(settings.matcher, database, self.scale, learned=learned)
        self.matcher.set_scale(self.scale, segments)
        self.post = PostStage(settings.post, self.skeleton, calibration)
        self.mounting = MountingStage(settings.mounting, calibration)
        self.last: Steps | None = None

    @classmethod
    def load(
        cls, database: MotionDatabase, calibration: Calibration | None = None, settings: AvatarSettings | None = None
    ) -> Avatar:
        """Build an avatar with the networks that the settings name. The learned engine brings its own database."""
        settings = settings or AvatarSettings()
        # Imported here: these modules import onnxruntime, which `Avatar` itself does not need.
        from mm_ros.facing.model_file import load_facing_model
        from mm_ros.matching.model_file import load_learned
        from mm_ros.steps.model_file import load_step_model

        learned = load_learned(settings.matcher)
        facing, steps = load_facing_model(settings.orientation), load_step_model(settings.steps)
        return cls(learned.digest if learned else database, calibration, settings, facing, learned, steps)

    def reset(self) -> None:
        for stage in (self.orientation, self.fusion, self.steps, self.trajectory, self.matcher, self.post):
            stage.reset()

    def set_calibration(self, calibration: Calibration) -> None:
        """Use other measures of the user from the next step on, as the nodes do when the calibration changes.

        Mountings that the avatar has measured itself are kept.
        """
        calibration = self.mounting.set_calibration(calibration)
        self.calibration = self.orientation.calibration = self.fusion.calibration = calibration
        self.steps.calibration = calibration
        self.trajectory.set_calibration(calibration)
        self.scale = avatar_scale(calibration, self.database.skeleton)
        segments = avatar_segments(calibration, self.database.skeleton)
        self.matcher.set_scale(self.scale, segments)
        self.skeleton = self.database.skeleton.scaled(self.scale, segments)
        if self.post.use_skeleton(self.skeleton):
            self.post.set_calibration(calibration)
        else:
            former = self.post.published
            self.post = PostStage(self.post.settings, self.skeleton, calibration, former=former)

    def watch(self, landmarks: Landmarks) -> None:
        """Add the landmarks of one camera image. The landmarks take effect from the next step on."""
        self.fusion.watch(landmarks)
        self.steps.watch(landmarks)

    def step(self, trackers: TrackerFrame, facing: BodyOrientation | None = None) -> AvatarPose | None:
        """Return the pose, or None for a late or duplicate sample or one without a head. `facing` replaces the
        predicted facing."""
        trackers, calibration = self.mounting.step(trackers)
        if calibration is not None:
            self.set_calibration(calibration)
        trackers = handed_trackers(trackers)
        if facing is None:
            facing = self.fusion.step(trackers, self.orientation.step(trackers))
        rounded = facing and rounded_orientation(facing)
        estimate = self.steps.step(trackers, rounded)
        desired = rounded and self.trajectory.step(trackers, rounded, estimate)
        result = desired and self.matcher.step(rounded_trajectory(desired))
        if not (facing and desired and result):
            return None
        matched = rounded_pose(result[0])
        pose = self.post.step(matched, trackers)
        self.last = Steps(facing, desired, matched, result[1], pose, desired.feet)
        return pose

    def warm_up(self) -> None:
        """Compile, or load from the cache, all functions that a step needs; then reset all stages."""
        for trackers in sample_trackers():
            self.step(trackers)
        if self.last is not None:
            plausible.warm_up(self.last.desired, self.last.pose)
            rounding.warm_up()
        self.reset()
        self.matcher.segment = 0
