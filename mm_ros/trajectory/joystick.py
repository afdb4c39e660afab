"""Compute the desired trajectory from a gamepad or a Twist instead of trackers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.timeline import CARRY, DROP, HOLD, RESET, Timeline
from mm_ros.body.types import F64, Trajectory, identity_pose
from mm_ros.maths.springs import spring_angle, spring_velocity

GAITS = ("walk", "jog", "sprint")


@dataclass(frozen=True)
class JoystickSettings(Settings):
    walk_speed: float = setting(1.3, "Speed of the avatar while the stick is fully deflected.", "m/s", 0.1, 10.0)
    jog_speed: float = setting(
        2.5, "Speed of the avatar at full stick deflection while the jog button is held.", "m/s", 0.1, 10.0
    )
    sprint_speed: float = setting(
        4.0, "Speed of the avatar at full stick deflection while the sprint button is held.", "m/s", 0.1, 12.0
    )
    dead_zone: float = setting(
        0.15, "Share of the full stick deflection that has no effect; with a larger `dead_zone` more small "
              "deflections are ignored.", "", 0.0, 0.9
    )
    velocity_halflife: float = setting(
        0.15, "Half-life with which the velocity follows the stick; with a larger half-life the avatar reacts later.",
        "s", 0.01, 2.0,
    )
    facing_halflife: float = setting(
        0.12, "Half-life with which the facing follows the stick; with a larger half-life the avatar turns later.",
        "s", 0.01, 2.0,
    )


class JoystickStage:
    """Compute the desired trajectory of the avatar from the sticks of a gamepad.

    A spring smooths the avatar's velocity. The avatar faces in its direction of motion, except while it strafes.
    """

    def __init__(self, settings: JoystickSettings, times: tuple[float, ...]):
        self.settings = settings
        self.set_times(times)
        self.timeline = Timeline()
        self.reset()

    def set_times(self, times: tuple[float, ...]) -> None:
        """Set the times from now [s] for which the trajectory is predicted."""
        self.times = np.array(times, np.float32)

    def reset(self, position: tuple[float, float] = (0.0, 0.0), yaw: float = 0.0) -> None:
        self.timeline.reset()
        self.position = np.array(position, np.float64)
        self.velocity, self.acceleration = np.zeros(2), np.zeros(2)
        self.yaw, self.yaw_rate, self.goal_yaw = yaw, 0.0, yaw

    def step(
        self, stamp_ns: int, move: Any, gait: str = "walk", strafe: bool = False, look: Any = (0.0, 0.0)
    ) -> Trajectory | None:
        """Return the avatar's desired trajectory for one sample of the sticks, or None for a late or duplicate sample.

        `move` and `look` are the deflections (x, y) of two sticks in room axes, from −1 to 1. If `strafe` is true, only
        the stick `look` changes the avatar's facing.
        """
        if gait not in GAITS:
            raise MmRosError(f"gait '{gait}' is not among {', '.join(GAITS)}")
        speed = getattr(self.settings, f"{gait}_speed")
        stick, look = self._stick("move", move), self._stick("look", look)
        if look.any():
            self.goal_yaw = math.atan2(look[1], look[0])
        elif stick.any() and not strafe:
            self.goal_yaw = math.atan2(stick[1], stick[0])
        return self._advance(stamp_ns, stick * speed, 0.0)

    def step_twist(self, stamp_ns: int, velocity: Any, turn_rate: float) -> Trajectory | None:
        """Return the desired trajectory for a Twist: `velocity` (2,) in body axes [m/s] and `turn_rate` [rad/s]."""
        v = np.array(velocity, np.float64)
        if v.shape != (2,) or not np.isfinite(v).all() or not math.isfinite(turn_rate):
            raise MmRosError(f"twist: expected two finite numbers and a turn rate, came {velocity}, {turn_rate}")
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return self._advance(stamp_ns, np.array([c * v[0] - s * v[1], s * v[0] + c * v[1]]), float(turn_rate))

    def _stick(self, name: str, value: Any) -> F64:
        stick = np.array(value, np.float64)
        if stick.shape != (2,) or not np.isfinite(stick).all():
            raise MmRosError(f"stick {name}: expected two finite numbers, came {value}")
        size = math.hypot(stick[0], stick[1])
        if size <= self.settings.dead_zone:
            return np.zeros(2)
        rest = self.settings.dead_zone
        return np.asarray(stick / size * min(1.0, (size - rest) / (1 - rest)))

    def _advance(self, stamp_ns: int, goal_velocity: F64, turn_rate: float) -> Trajectory | None:
        verdict, dt = self.timeline.judge(stamp_ns)
        if verdict == DROP:
            return None
        if verdict in (RESET, HOLD, CARRY):
            dt = 0.0
        if turn_rate:
            self.goal_yaw += turn_rate * dt
        self.position, self.velocity, self.acceleration = self._moved(dt, goal_velocity)
        self.yaw, self.yaw_rate = spring_angle(
            self.yaw, self.yaw_rate, self.goal_yaw, self.settings.facing_halflife, dt
        )
        positions = np.stack([self._moved(float(t), goal_velocity)[0] for t in self.times])
        yaws = [
            spring_angle(
                self.yaw, self.yaw_rate, self.goal_yaw + turn_rate * float(t), self.settings.facing_halflife, float(t)
            )[0]
            for t in self.times
        ]
        return Trajectory(
            stamp_ns, 0, "joystick", self.position.copy(), self.velocity.copy(), self.yaw, 0.0, 1.0,
            self.times.copy(), positions.astype(np.float32),
            np.stack([np.cos(yaws), np.sin(yaws)], -1).astype(np.float32), False, identity_pose(),
        )  # fmt: skip

    def _moved(self, dt: float, goal_velocity: F64) -> tuple[F64, F64, F64]:
        x, v, a = spring_velocity(
            self.position, self.velocity, self.acceleration, goal_velocity, self.settings.velocity_halflife, dt
        )
        return x, v, a
