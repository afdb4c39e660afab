"""trackers → body_orientation."""

from __future__ import annotations

from typing import Any

from mm_ros.core.orientation import OrientationSettings, OrientationStage
from mm_ros.core.types import Calibration
from mm_ros.core.warm_up import sample_trackers
from mm_ros.io.onnx_model import load_facing_model
from mm_ros.msg import TrackerArray
from mm_ros.ros.conversions import orientation_to_ros, trackers_from_ros
from mm_ros.ros.node import AvatarNode


class OrientationPredictor(AvatarNode):
    NAME = "orientation_predictor"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._orientation = self.publisher("body_orientation")
        settings = self.settings(OrientationSettings)
        self._stage = OrientationStage(settings, Calibration(), load_facing_model(settings))
        for frame in sample_trackers():
            self._stage.step(frame)
        self._stage.reset()
        self.await_calibration(self._calibrate)
        self.listen_calibrated("trackers", self._step)
        self.start()

    def _step(self, msg: TrackerArray) -> None:
        orientation = self._stage.step(trackers_from_ros(msg))
        if orientation is None:
            self.health.dropped += 1
            return
        self._orientation.publish(orientation_to_ros(orientation))
        self.health.step(orientation.stamp_ns)

    def _calibrate(self, calibration: Calibration) -> None:
        self._stage.calibration = calibration

    def reset(self) -> None:
        self._stage.reset()

    def apply_settings(self) -> None:
        self._stage.settings = self.settings(OrientationSettings)
