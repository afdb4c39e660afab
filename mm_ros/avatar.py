"""Run all stages of an avatar: facing, fusion, steps, desired trajectory, motion matching and post-processing."""

from __future__ import annotations

from dataclasses import dataclass

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
from mm_ros.facing.orientation import FacingModel
from mm_ros.matching.engines.learned import LearnedNetworks
from mm_ros.motion.database import MotionDatabase
from mm_ros.stages import AvatarSettings, FacingStages, TrajectoryStages, build_matcher, fit_matcher, fit_post
from mm_ros.steps.estimator import StepModel
from mm_ros.tracking.mounting import MountingStage


@dataclass
class Steps:
    """Outputs of facing, steps, desired trajectory, matching and pose stage in the last step of an `Avatar`."""

    facing: BodyOrientation
    desired: Trajectory
    matched: AvatarPose
    match: Match
    pose: AvatarPose
    feet: FeetEstimate | None = None  # estimated contacts and positions of the user's feet


class Avatar:
    """Avatar of one user, whose stages exchange values rounded as in ROS messages, so that the results are equal to
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
        self.facing = FacingStages(settings.orientation, settings.fusion, calibration, model)
        times = database.layout.trajectory_times
        self.trajectory = TrajectoryStages(settings.steps, settings.trajectory, calibration, times, step_model)
        self.matcher = build_matcher(settings.matcher, database, calibration, learned)
        self.skeleton = fit_matcher(self.matcher, database.skeleton, calibration)
        self.post = fit_post(None, settings.post, self.skeleton, calibration)
        self.mounting = MountingStage(settings.mounting, calibration)
        self.last: Steps | None = None

    @classmethod
    def load(
        cls, database: MotionDatabase, calibration: Calibration | None = None, settings: AvatarSettings | None = None
    ) -> Avatar:
        """Build an avatar with the networks that the settings select. If the settings select the learned engine, the
        avatar uses the skeleton and feature layout in its model file instead of `database`."""
        settings = settings or AvatarSettings()
        # The loaders are imported here, because they import onnxruntime, which `Avatar` itself does not need.
        from mm_ros.facing.model_file import load_facing_model
        from mm_ros.matching.model_file import load_learned
        from mm_ros.steps.model_file import load_step_model

        learned = load_learned(settings.matcher)
        facing, steps = load_facing_model(settings.orientation), load_step_model(settings.steps)
        return cls(learned.digest if learned else database, calibration, settings, facing, learned, steps)

    @property
    def scale(self) -> float:
        """Return the length of the user's legs divided by the length of the legs in the database."""
        return self.matcher.scale

    def reset(self) -> None:
        for stage in (self.facing, self.trajectory, self.matcher, self.post):
            stage.reset()

    def set_calibration(self, calibration: Calibration) -> None:
        """Use another calibration of the user from the next step on, but keep the measured poses of the body trackers
        on the body."""
        self.calibration = calibration = self.mounting.set_calibration(calibration)
        self.facing.set_calibration(calibration)
        self.trajectory.set_calibration(calibration)
        self.skeleton = fit_matcher(self.matcher, self.database.skeleton, calibration)
        self.post = fit_post(self.post, self.post.settings, self.skeleton, calibration, self.post.published)

    def watch(self, landmarks: Landmarks) -> None:
        """Add the body landmarks of one camera image, by which the next call of `step` corrects facing and feet."""
        self.facing.fusion.watch(landmarks)
        self.trajectory.steps.watch(landmarks)

    def step(self, trackers: TrackerFrame, facing: BodyOrientation | None = None) -> AvatarPose | None:
        """Return the pose of the avatar for one sample of the trackers. The avatar uses `facing`, or, if `facing` is
        None, predicts the user's facing from the trackers.

        For a late or duplicate sample, and for a sample without a head, `step` returns None.
        """
        trackers, calibration = self.mounting.step(trackers)
        if calibration is not None:
            self.set_calibration(calibration)
        trackers = handed_trackers(trackers)
        if facing is None:
            facing = self.facing.step(trackers)
        desired = self.trajectory.step(trackers, rounded_orientation(facing))
        result = desired and self.matcher.step(rounded_trajectory(desired))
        if not (desired and result):
            return None
        matched = rounded_pose(result[0])
        pose = self.post.step(matched, trackers)
        self.last = Steps(facing, desired, matched, result[1], pose, desired.feet)
        return pose

    def warm_up(self) -> None:
        """Load all compiled functions by running some steps with simulated trackers, and reset all stages."""
        for trackers in sample_trackers():
            self.step(trackers)
        if self.last is not None:
            plausible.warm_up(self.last.desired, self.last.pose)
            rounding.warm_up()
        self.reset()
        self.matcher.segment = 0


__all__ = ["Avatar", "AvatarSettings", "Steps"]
