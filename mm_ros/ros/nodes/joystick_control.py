"""Node `joystick_control`: joy or cmd_vel → trajectory, at 60 Hz."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from geometry_msgs.msg import Twist
from sensor_msgs.msg import Joy
from std_msgs.msg import Float64

from mm_ros.base.settings import Settings, setting
from mm_ros.motion.features import default_layout
from mm_ros.ros.foreign import heading_from_ros, joy_from_ros, twist_from_ros
from mm_ros.ros.node import AvatarNode
from mm_ros.trajectory.joystick import JoystickSettings, JoystickStage

PERIOD_S = 1 / 60


@dataclass(frozen=True)
class InputSettings(Settings):
    timeout: float = setting(
        0.5,
        "A `joy` or `cmd_vel` message that is older counts as a released stick. Larger values bridge longer gaps.",
        "s",
        0.05,
        10.0,
    )


class JoystickControl(AvatarNode):
    NAME = "joystick_control"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._trajectory = self.publisher("trajectory")
        self._stage = JoystickStage(self.settings(JoystickSettings), default_layout().trajectory_times)
        self.follow_layout(self._stage.set_times)
        self._joy: tuple[int, dict[str, Any]] | None = None
        self._twist: tuple[int, tuple[float, float, float]] | None = None
        self._camera = 0.0  # direction of the camera in the world [rad]
        self.listen("joy", self._on_joy)
        self.listen("cmd_vel", self._on_twist)
        self.listen("camera_heading", self._on_camera)
        self.every(PERIOD_S, self._step)
        self.start()

    def _on_joy(self, msg: Joy) -> None:
        self._joy, self._twist = (self.now_ns(), joy_from_ros(msg)), None

    def _on_twist(self, msg: Twist) -> None:
        self._twist, self._joy = (self.now_ns(), twist_from_ros(msg)), None

    def _on_camera(self, msg: Float64) -> None:
        self._camera = heading_from_ros(msg)

    def _step(self) -> None:
        now_ns = self.now_ns()
        silent_ns = self.settings(InputSettings).timeout * 1e9
        if self._joy and now_ns - self._joy[0] < silent_ns:
            asked = self._joy[1]
            turned = {name: _turned(asked[name], self._camera) for name in ("move", "look")}
            desired = self._stage.step(now_ns, **{**asked, **turned})
        elif self._twist and now_ns - self._twist[0] < silent_ns:
            forward, left, turn = self._twist[1]
            desired = self._stage.step_twist(now_ns, (forward, left), turn)
        else:
            desired = self._stage.step(now_ns, (0.0, 0.0))
        if desired is not None:
            self._trajectory.publish(self.outputs.trajectory(desired))
            self.health.step(desired.stamp_ns)

    def reset(self) -> None:
        self._stage.reset()

    def apply_settings(self) -> None:
        self._stage.settings = self.settings(JoystickSettings)


def _turned(stick: tuple[float, float], yaw: float) -> tuple[float, float]:
    """The deflection of a stick in the world, when its up is the direction `yaw`."""
    c, s = math.cos(yaw), math.sin(yaw)
    return c * stick[0] - s * stick[1], s * stick[0] + c * stick[1]
