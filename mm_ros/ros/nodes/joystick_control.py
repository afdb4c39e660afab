"""Node `joystick_control`: computes `trajectory` from a gamepad, velocity commands or keys of the page, at 60 Hz."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from geometry_msgs.msg import Twist
from sensor_msgs.msg import Joy
from std_msgs.msg import Float64

from mm_ros.base.settings import Settings, setting
from mm_ros.body.types import Trajectory
from mm_ros.motion.features import default_layout
from mm_ros.ros.foreign import heading_from_ros, joy_from_ros, twist_from_ros
from mm_ros.ros.headset_page import serve_page
from mm_ros.ros.node import AvatarNode
from mm_ros.trajectory.joystick import JoystickSettings, JoystickStage
from mm_ros.web.headset.wire import Steering

PERIOD_S = 1 / 60
KEPT_STEPS = 64


@dataclass(frozen=True)
class InputSettings(Settings):
    timeout: float = setting(
        0.5,
        "If the newest input of `joy`, `cmd_vel` or the page is older than `timeout`, the stick counts as released. "
        "With a larger `timeout`, the avatar moves on during longer gaps between inputs.",
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
        # The user's newest input: source (topic or page), time, sequence number, and the function that processes it.
        self._input: tuple[str, int, int, Callable[[int], Trajectory | None]] | None = None
        self._camera = 0.0  # yaw of the camera in the world, to which the stick refers [rad]
        self._sequences: dict[int, int] = {}  # maps a trajectory's stamp to the number of the page's input
        self.listen("joy", self._on_joy)
        self.listen("cmd_vel", self._on_twist)
        self.listen("camera_heading", self._on_camera)
        self._page = serve_page(
            self, facts=lambda: {"control": "keyboard"}, sequence=lambda stamp_ns: self._sequences.get(stamp_ns, 0)
        )
        if self._page is not None:
            take = self.guarded("page", self._on_page)
            self._page.server.on_steering = lambda steering: self.loop.post(partial(take, steering))
        self.every(PERIOD_S, self._step)
        self.start()

    def _take(self, kind: str, step: Callable[[int], Trajectory | None], sequence: int = 0) -> None:
        self._input = kind, self.now_ns(), sequence, step

    def _on_joy(self, msg: Joy) -> None:
        self._take("joy", partial(self._by_stick, joy_from_ros(msg)))

    def _on_twist(self, msg: Twist) -> None:
        forward, left, turn = twist_from_ros(msg)
        self._take("cmd_vel", lambda now_ns: self._stage.step_twist(now_ns, (forward, left), turn))

    def _on_camera(self, msg: Float64) -> None:
        self._camera = heading_from_ros(msg)

    def _on_page(self, steering: Steering | None) -> None:
        if steering is not None and steering.active:
            gait = "sprint" if steering.sprint else "jog" if steering.jog else "walk"
            look = (1.0, 0.0) if steering.strafe else (0.0, 0.0)
            asked = {"move": (steering.forward, steering.left), "look": look, "gait": gait, "strafe": steering.strafe}
            step = partial(self._by_stick, asked, camera=steering.camera_yaw)
            self._take("page", step, steering.sequence)
        elif self._input and self._input[0] == "page":
            self._input = None

    def _by_stick(self, asked: dict[str, Any], now_ns: int, camera: float | None = None) -> Trajectory | None:
        yaw = self._camera if camera is None else camera
        return self._stage.step(now_ns, **{**asked, **{name: _turned(asked[name], yaw) for name in ("move", "look")}})

    def _step(self) -> None:
        now_ns = self.now_ns()
        silent_ns = self.settings(InputSettings).timeout * 1e9
        kind, sequence = "none", 0
        if self._input and now_ns - self._input[1] < silent_ns:
            kind, _, sequence, step = self._input
            desired = step(now_ns)
        else:
            desired = self._stage.step(now_ns, (0.0, 0.0))
        if desired is not None:
            self._sequences[desired.stamp_ns] = sequence
            while len(self._sequences) > KEPT_STEPS:
                del self._sequences[next(iter(self._sequences))]
            self._trajectory.publish(self.outputs.trajectory(desired))
            self.health.step(desired.stamp_ns)
            self.health.values["input"] = kind

    def close(self) -> None:
        if self._page is not None:
            self._page.close()

    def reset(self) -> None:
        self._stage.reset()

    def apply_settings(self) -> None:
        self._stage.settings = self.settings(JoystickSettings)


def _turned(stick: tuple[float, float], yaw: float) -> tuple[float, float]:
    """Return the deflection of a stick in world axes; a stick that is pushed up points in the direction `yaw`."""
    c, s = math.cos(yaw), math.sin(yaw)
    return c * stick[0] - s * stick[1], s * stick[0] + c * stick[1]
