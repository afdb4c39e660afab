"""Node `path_control`: path → trajectory, at 60 Hz."""

from __future__ import annotations

from typing import Any

from nav_msgs.msg import Path

from mm_ros.motion.features import default_layout
from mm_ros.ros.foreign import path_from_ros
from mm_ros.ros.node import AvatarNode
from mm_ros.trajectory.path import PathSettings, PathStage

PERIOD_S = 1 / 60


class PathControl(AvatarNode):
    NAME = "path_control"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._trajectory = self.publisher("trajectory")
        self._stage = PathStage(self.settings(PathSettings), default_layout().trajectory_times)
        self.follow_layout(self._stage.set_times)
        self.listen("path", self._on_path)
        self.every(PERIOD_S, self._step)
        self.start()

    def _on_path(self, msg: Path) -> None:
        self._stage.set_path(path_from_ros(msg, self.world_frame))

    def _step(self) -> None:
        desired = self._stage.step(self.now_ns())
        if desired is not None:
            self._trajectory.publish(self.outputs.trajectory(desired))
            self.health.step(desired.stamp_ns)

    def reset(self) -> None:
        self._stage.reset()

    def apply_settings(self) -> None:
        self._stage.settings = self.settings(PathSettings)
