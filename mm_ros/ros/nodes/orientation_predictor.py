"""Node `orientation_predictor`: computes `body_orientation` from `trackers` and, if a camera is used, `landmarks`."""

from __future__ import annotations

from typing import Any

from mm_ros.body.types import TrackerFrame
from mm_ros.facing.fusion import FusionSettings
from mm_ros.facing.orientation import OrientationSettings
from mm_ros.msg import Landmarks
from mm_ros.ros.conversions import landmarks_from_ros
from mm_ros.ros.node import AvatarNode
from mm_ros.stages import FacingStages


class OrientationPredictor(AvatarNode):
    NAME = "orientation_predictor"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._orientation = self.publisher("body_orientation")
        self._stages = FacingStages.load(self.settings(OrientationSettings), self.settings(FusionSettings))
        self._stages.warm_up()
        self.health.watch = self._report
        self.await_calibration(self._stages.set_calibration)
        self.listen_calibrated("trackers", self._step)
        self.listen("landmarks", self._watch)
        self.start()

    @classmethod
    def preload(cls) -> None:
        FacingStages.load(OrientationSettings(), FusionSettings()).warm_up()

    def _step(self, trackers: TrackerFrame) -> None:
        orientation = self.outputs.orientation(self._stages.step(trackers))
        self._orientation.publish(orientation)
        self.health.step(orientation.stamp_ns)

    def _watch(self, msg: Landmarks) -> None:
        self._stages.fusion.watch(landmarks_from_ros(msg))

    def _report(self) -> None:
        self.health.values.update(self._stages.fusion.diagnostics())

    def reset(self) -> None:
        self._stages.reset()

    def apply_settings(self) -> None:
        self._stages.orientation.settings = self.settings(OrientationSettings)
        self._stages.fusion.change(self.settings(FusionSettings))
