"""Node `orientation_predictor`: trackers (and landmarks) → body_orientation."""

from __future__ import annotations

from typing import Any

from mm_ros.body.types import Calibration, TrackerFrame
from mm_ros.body.warm_up import sample_trackers
from mm_ros.facing.fusion import FusionSettings, FusionStage
from mm_ros.facing.model_file import load_facing_model
from mm_ros.facing.orientation import OrientationSettings, OrientationStage
from mm_ros.msg import Landmarks
from mm_ros.ros.conversions import landmarks_from_ros
from mm_ros.ros.node import AvatarNode


class OrientationPredictor(AvatarNode):
    NAME = "orientation_predictor"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._orientation = self.publisher("body_orientation")
        settings = self.settings(OrientationSettings)
        self._stage = OrientationStage(settings, Calibration(), load_facing_model(settings))
        self._fusion = FusionStage(self.settings(FusionSettings))
        self._fusion.warm_up()
        for frame in sample_trackers():
            self._fusion.step(frame, self._stage.step(frame))
        self.reset()
        self.health.watch = self._report
        self.await_calibration(self._calibrate)
        self.listen_calibrated("trackers", self._step)
        self.listen("landmarks", self._watch)
        self.start()

    def _step(self, trackers: TrackerFrame) -> None:
        orientation = self.outputs.orientation(self._fusion.step(trackers, self._stage.step(trackers)))
        self._orientation.publish(orientation)
        self.health.step(orientation.stamp_ns)

    def _calibrate(self, calibration: Calibration) -> None:
        self._stage.calibration = self._fusion.calibration = calibration

    def _watch(self, msg: Landmarks) -> None:
        self._fusion.watch(landmarks_from_ros(msg))

    def _report(self) -> None:
        self.health.values.update(self._fusion.told())

    def reset(self) -> None:
        self._stage.reset()
        self._fusion.reset()

    def apply_settings(self) -> None:
        self._stage.settings = self.settings(OrientationSettings)
        self._fusion.change(self.settings(FusionSettings))
