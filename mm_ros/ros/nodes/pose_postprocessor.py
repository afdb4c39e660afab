"""Node `pose_postprocessor`: computes the final `pose` of the avatar and /tf from `matched_pose` and `trackers`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from std_msgs.msg import String

from mm_ros.base.settings import Settings, setting
from mm_ros.body.joining import Ring
from mm_ros.body.skeleton import Skeleton as CoreSkeleton
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.timeline import is_identity
from mm_ros.body.types import AvatarPose, Calibration, TrackerFrame, rest_pose
from mm_ros.msg import Skeleton
from mm_ros.pose.postprocess import PostSettings, PostStage
from mm_ros.robot.description import capsules_urdf
from mm_ros.ros.conversions import skeleton_from_ros
from mm_ros.ros.last_pose import LastPose, Reunion
from mm_ros.ros.node import AvatarNode
from mm_ros.ros.tf import PoseTf
from mm_ros.stages import fit_post

SKELETONS = 8


@dataclass(frozen=True)
class TfSettings(Settings):
    tf: str = setting(
        "joints",
        "Frames of the avatar on TF: all `joints`, only `root`, or `off` for programs that read `pose`. Fewer TF "
        "frames need less CPU time in pose_postprocessor and in each subscriber.",
        choices=("joints", "root", "off"),
    )
    tf_rate: float = setting(
        0.0, "Maximum rate of TF messages. If `tf_rate` is 0, each pose is published on TF.", "Hz", 0.0, 1000.0
    )


class PosePostprocessor(AvatarNode):
    NAME = "pose_postprocessor"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._pose = self.publisher("pose")
        self._tf = self.publisher("/tf")
        self._description = self.publisher("robot_description")
        self._root_tf = PoseTf(self.avatar, self.world_frame, joints=1)
        self._joints_tf = PoseTf(self.avatar, self.world_frame)
        self._tf_due_ns = 0
        self._trackers: Ring[TrackerFrame] = Ring()
        self._calibration = Calibration()
        self._stage: PostStage | None = None
        self._stage_skeleton = 0  # hash
        # Maps the hash of a skeleton, which each pose contains, to the skeleton, oldest first.
        self._skeletons: dict[int, CoreSkeleton] = {}
        self._last_pose = LastPose(self.avatar)
        self._former = self._last_pose.read()  # last pose of a killed process, from which this process continues
        self._reunion = Reunion(self._last_pose.listeners)
        warm_up(self.settings(PostSettings), default_skeleton())
        self._warm_joints = len(default_skeleton())
        self.await_calibration(self._calibrate)
        self.listen("skeleton", self._on_skeleton)
        self.listen("trackers", self._on_trackers)
        self.listen_calibrated("matched_pose", self._step)
        self.start()

    @classmethod
    def preload(cls) -> None:
        warm_up(PostSettings(), default_skeleton())

    def _on_trackers(self, frame: TrackerFrame) -> None:
        self._trackers.put(frame.stamp_ns, frame)

    def _step(self, matched: AvatarPose) -> None:
        if not self._use_skeleton(matched.skeleton):
            self.health.unpaired += 1
            self.health.passing["skeleton"] = f"poses refer to skeleton {matched.skeleton:x}, which was not received"
            return
        assert self._stage is not None
        trackers = self._trackers.get(matched.stamp_ns)
        if trackers is None and len(self._trackers) and not matched.stale:
            self.health.unpaired += 1
            return
        listeners = self._pose.get_subscription_count(), self._tf.get_subscription_count()
        pose = self._stage.step(matched, trackers, wait=self._waits(listeners))
        self.outputs.pose(pose, moved=trackers is not None and not is_identity(trackers.new_from_old))
        self._publish_tf(pose)  # TF is published before `pose`, because viewers draw when TF arrives
        self._pose.publish(pose)
        self._last_pose.write(pose, listeners if self._reunion.over else self._reunion.expected)
        self._former = pose
        self.health.step(pose.stamp_ns)

    def _waits(self, listeners: tuple[int, int]) -> bool:
        """Return whether to repeat the killed process's last pose, because its subscribers are not yet found again."""
        if self._reunion.over:
            return False
        waits = self._reunion.waits(listeners, time.monotonic_ns())
        if not waits and not self._reunion.complete:
            assert self._stage is not None
            self._stage.declare()  # Subscribers that were not found missed poses, and must not blend over the gap.
        return waits

    def _publish_tf(self, pose: AvatarPose) -> None:
        settings = self.settings(TfSettings)
        rate = settings.tf_rate
        if rate and 0 <= self._tf_due_ns - pose.stamp_ns < 1e9:
            return
        self._tf_due_ns = pose.stamp_ns + (int(1e9 / rate) if rate else 0)
        if settings.tf != "off":
            self._tf.publish((self._root_tf if settings.tf == "root" else self._joints_tf).serialized(pose))

    def _on_skeleton(self, msg: Skeleton) -> None:
        """Store a skeleton until a pose refers to it, so that skeletons to which no pose refers have no effect."""
        skeleton = skeleton_from_ros(msg)
        self._skeletons.pop(skeleton.hash, None)
        self._skeletons[skeleton.hash] = skeleton
        while len(self._skeletons) > SKELETONS:
            del self._skeletons[next(iter(self._skeletons))]
        if self._stage is None:
            self._use_skeleton(skeleton.hash)

    def _use_skeleton(self, skeleton_hash: int) -> bool:
        """Use the skeleton with the hash `skeleton_hash` from now on, or return False if it was not received."""
        if self._stage is not None and self._stage_skeleton == skeleton_hash:
            return True
        skeleton = self._skeletons.get(skeleton_hash)
        if skeleton is None:
            return False
        settings = self.settings(PostSettings)
        if len(skeleton) != self._warm_joints:  # numba compiles the code again for a new number of joints
            warm_up(settings, skeleton)
            self._warm_joints = len(skeleton)
        self._stage = fit_post(self._stage, settings, skeleton, self._calibration, self._former)
        self._stage_skeleton = skeleton_hash
        self._joints_tf = PoseTf(self.avatar, self.world_frame, skeleton=skeleton)
        self._description.publish(String(data=capsules_urdf(skeleton, self.avatar)))
        return True

    def _calibrate(self, calibration: Calibration) -> None:
        self._calibration = calibration
        if self._stage is not None:
            self._stage.set_calibration(calibration)

    def reset(self) -> None:
        if self._stage is not None:
            self._stage.reset()

    def close(self) -> None:
        self._last_pose.close()

    def apply_settings(self) -> None:
        if self._stage is not None:
            self._stage.settings = self.settings(PostSettings)


def warm_up(settings: PostSettings, skeleton: CoreSkeleton) -> None:
    fit_post(None, settings, skeleton, Calibration()).warm_up(rest_pose(skeleton))
