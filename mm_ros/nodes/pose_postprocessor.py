"""matched_pose + trackers → pose, /tf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from std_msgs.msg import String

from mm_ros.core.joining import Ring
from mm_ros.core.postprocess import PostSettings, PostStage
from mm_ros.core.settings import Settings, setting
from mm_ros.core.skeleton import default_skeleton
from mm_ros.core.types import AvatarPose, Calibration, TrackerFrame, rest_pose
from mm_ros.msg import AvatarPose as AvatarPoseMsg
from mm_ros.msg import Skeleton, TrackerArray
from mm_ros.ros.conversions import (
    avatar_pose_from_ros,
    avatar_pose_to_ros,
    skeleton_from_ros,
    trackers_from_ros,
)
from mm_ros.ros.node import AvatarNode
from mm_ros.ros.robot_description import capsules_urdf
from mm_ros.ros.tf import PoseTf


@dataclass(frozen=True)
class TfSettings(Settings):
    world_frame: str = setting("map", "parent of <avatar>/root on TF", live=False)
    tf_rate: float = setting(0.0, "TF at most this often; 0 is every pose", "Hz", 0.0, 1000.0)


class PosePostprocessor(AvatarNode):
    NAME = "pose_postprocessor"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._pose = self.publisher("pose")
        self._tf = self.publisher("/tf")
        self._description = self.publisher("robot_description")
        self._frames = PoseTf(self.avatar, self.settings(TfSettings).world_frame)
        self._tf_due_ns = 0
        self._trackers: Ring[TrackerFrame] = Ring()
        self._calibration = Calibration()
        self._stage: PostStage | None = None
        self._skeleton_hash = 0
        warm_up(self.settings(PostSettings))
        self.await_calibration(self._calibrate)
        self.listen("skeleton", self._on_skeleton)
        self.listen("trackers", self._on_trackers)
        self.listen_calibrated("matched_pose", self._step)
        self.start()

    def _on_trackers(self, msg: TrackerArray) -> None:
        frame = trackers_from_ros(msg)
        self._trackers.put(frame.stamp_ns, frame)

    def _step(self, msg: AvatarPoseMsg) -> None:
        matched = avatar_pose_from_ros(msg)
        if self._stage is None or matched.skeleton != self._skeleton_hash:
            self.health.unpaired += 1
            return
        trackers = self._trackers.get(matched.stamp_ns)
        if trackers is None and len(self._trackers) and not matched.stale:
            self.health.unpaired += 1
            return
        pose = self._stage.step(matched, trackers)
        self._pose.publish(avatar_pose_to_ros(pose))
        self._publish_tf(pose)
        self.health.step(pose.stamp_ns)

    def _publish_tf(self, pose: AvatarPose) -> None:
        rate = self.settings(TfSettings).tf_rate
        if rate and 0 <= self._tf_due_ns - pose.stamp_ns < 1e9:
            return
        self._tf_due_ns = pose.stamp_ns + (int(1e9 / rate) if rate else 0)
        self._tf.publish(self._frames.message(pose))

    def _on_skeleton(self, msg: Skeleton) -> None:
        skeleton = skeleton_from_ros(msg)
        self._skeleton_hash = skeleton.hash
        self._stage = PostStage(self.settings(PostSettings), skeleton, self._calibration)
        self._description.publish(String(data=capsules_urdf(skeleton, self.avatar)))

    def _calibrate(self, calibration: Calibration) -> None:
        self._calibration = calibration
        if self._stage is not None:
            self._stage.set_calibration(calibration)

    def reset(self) -> None:
        if self._stage is not None:
            self._stage.reset()

    def apply_settings(self) -> None:
        if self._stage is not None:
            self._stage.settings = self.settings(PostSettings)


def warm_up(settings: PostSettings) -> None:
    skeleton = default_skeleton()
    PostStage(settings, skeleton, Calibration()).warm_up(rest_pose(skeleton))
