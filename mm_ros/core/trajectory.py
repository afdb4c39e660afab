"""From trackers to the wish: where the body is under the head, how it moves, where it will be."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mm_ros.core import rotations as rot
from mm_ros.core.calibration import head_joint_height
from mm_ros.core.settings import Settings, setting
from mm_ros.core.springs import spring, spring_angle
from mm_ros.core.timeline import CARRY, DROP, HOLD, RESET, Timeline
from mm_ros.core.types import (
    F32,
    F64,
    HEAD_ROLE,
    LOST,
    BodyOrientation,
    Calibration,
    TrackerFrame,
    Trajectory,
)

# Hips behind the centre of the head along the facing, m, of a person of 1.60 m head joint height (CMU, docs/matching.md).
LEAN_UPRIGHT = 0.06
LEAN_PER_DROP = 0.25  # m a metre that the head is below its standing height


@dataclass(frozen=True)
class TrajectorySettings(Settings):
    velocity_halflife: float = setting(0.1, "half-life of the smoothed velocity", "s", 0.001, 2.0)
    facing_halflife: float = setting(
        0.05, "half-life of the smoothed facing, when the facing is certain", "s", 0.001, 2.0
    )
    lead: float = setting(
        1.0, "share of the smoothing's delay that the look-ahead makes up for", "", 0.0, 1.5
    )
    still_speed: float = setting(0.1, "below this speed the body counts as standing", "m/s", 0.0, 1.0)
    moving_speed: float = setting(0.3, "from this speed on the body counts as moving", "m/s", 0.01, 3.0)


def delay(halflife: float) -> float:
    """How far the spring lags behind a goal that moves steadily, s."""
    return halflife / math.log(2)


class TrajectoryStage:
    def __init__(self, settings: TrajectorySettings, calibration: Calibration, times: tuple[float, ...]):
        self.settings, self.times = settings, np.array(times, np.float32)
        self.timeline = Timeline()
        self.set_calibration(calibration)
        self.reset()

    def set_calibration(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self.standing = head_joint_height(calibration)

    def reset(self) -> None:
        self.timeline.reset()
        self.position, self.velocity, self.acceleration = np.zeros(2), np.zeros(2), np.zeros(2)
        self.yaw, self.yaw_rate, self.height_ratio, self.sigma = 0.0, 0.0, 1.0, 0.0
        self.epoch = 0

    def step(self, trackers: TrackerFrame, facing: BodyOrientation) -> Trajectory | None:
        """None for a sample that comes late or twice, or that has no head."""
        if trackers.state[HEAD_ROLE] == LOST:
            return None
        verdict, dt = self.timeline.judge(trackers.stamp_ns, trackers.epoch, trackers.new_from_old)
        if verdict == DROP:
            return None
        self.epoch = trackers.epoch
        head, head_velocity = self._head_centre(trackers)
        self.height_ratio = float(head[2] / self.standing)
        if verdict == CARRY:
            self._carry(trackers.new_from_old)
        if verdict in (RESET, HOLD):
            self.velocity, self.acceleration = head_velocity[:2].astype(np.float64), np.zeros(2)
            self.yaw, self.yaw_rate = facing.yaw, 0.0
        self._follow_facing(dt, facing)
        self.velocity, self.acceleration = spring(
            self.velocity, self.acceleration, head_velocity[:2], self.settings.velocity_halflife, dt
        )
        self.position = head[:2] - self._lean() * np.array([math.cos(self.yaw), math.sin(self.yaw)])
        return self._wish(trackers.stamp_ns, trackers.new_from_old, False)

    def stale(self, stamp_ns: int) -> Trajectory:
        """No trackers: stand where the body was last seen."""
        self.velocity[:] = self.acceleration[:] = self.yaw_rate = 0.0
        return self._wish(stamp_ns, np.array([0.0, 0, 0, 1, 0, 0, 0]), True)

    def _head_centre(self, trackers: TrackerFrame) -> tuple[F64, F64]:
        """The head joint, which stays still when the head turns, and its velocity."""
        q, w = trackers.rotations[HEAD_ROLE], trackers.angular_velocities[HEAD_ROLE]
        arm = rot.rotate(q, np.asarray(self.calibration.headset_in_head[:3]))
        return trackers.positions[HEAD_ROLE] - arm, trackers.velocities[HEAD_ROLE] - np.cross(w, arm)

    def _lean(self) -> float:
        drop = max(0.0, 1.0 - self.height_ratio) * self.standing
        return LEAN_UPRIGHT * self.standing / 1.6 + LEAN_PER_DROP * drop

    def _follow_facing(self, dt: float, facing: BodyOrientation) -> None:
        self.sigma = facing.sigma
        halflife = self.settings.facing_halflife * (1 + max(0.0, facing.sigma))
        self.yaw, self.yaw_rate = spring_angle(self.yaw, self.yaw_rate, facing.yaw, halflife, dt)

    def _carry(self, new_from_old: F64) -> None:
        turn = 2 * math.atan2(new_from_old[6], new_from_old[3])
        c, s = math.cos(turn), math.sin(turn)
        turned = np.array([[c, -s], [s, c]])
        self.velocity, self.acceleration = turned @ self.velocity, turned @ self.acceleration
        self.yaw = math.remainder(self.yaw + turn, 2 * math.pi)

    def _steady_velocity(self) -> F64:
        """The smoothed velocity with its delay made up for; nothing while the body stands."""
        s = self.settings
        v = self.velocity + s.lead * delay(s.velocity_halflife) * self.acceleration
        speed = math.hypot(v[0], v[1])
        u = min(1.0, max(0.0, (speed - s.still_speed) / (s.moving_speed - s.still_speed)))
        return np.asarray(v * (u * u * (3 - 2 * u)))

    def _wish(self, stamp_ns: int, new_from_old: F64, stale: bool) -> Trajectory:
        v = self._steady_velocity()
        yaw = math.remainder(self.yaw, 2 * math.pi)
        positions: F32 = (self.position + self.times[:, None] * v).astype(np.float32)
        directions = np.tile(np.array([math.cos(yaw), math.sin(yaw)], np.float32), (len(self.times), 1))
        return Trajectory(
            stamp_ns, self.epoch, "vr", self.position.copy(), v, yaw, self.sigma, self.height_ratio,
            self.times.copy(), positions, directions, stale, np.array(new_from_old, np.float64),
        )  # fmt: skip
