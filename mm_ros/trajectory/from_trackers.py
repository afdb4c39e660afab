"""Predict the desired trajectory from trackers: position of the hips, velocity, facing, and their future values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.timeline import CARRY, DROP, HOLD, RESET, Timeline
from mm_ros.body.types import (
    F64,
    HEAD_ROLE,
    LOST,
    ROLES,
    WAIST_ROLE,
    BodyOrientation,
    Calibration,
    TrackerFrame,
    Trajectory,
    identity_pose,
)
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import wrap
from mm_ros.maths.springs import damp, spring, spring_angle
from mm_ros.steps.estimator import StepEstimate
from mm_ros.steps.outputs import AHEAD_S
from mm_ros.tracking.bend import Bend
from mm_ros.tracking.calibration import head_joint_height
from mm_ros.tracking.check import check_trackers
from mm_ros.trajectory.lean import Lean

WAIST_HALFLIFE_S = 0.1
CERTAIN_M_PER_S, CERTAIN_RAD = 0.6, 0.5  # expected error of the network at which its share is half
LARGEST_TURN = 3.0  # rad/s; the prediction clamps faster turns


@dataclass(frozen=True)
class TrajectorySettings(Settings):
    velocity_halflife: float = setting(
        0.06, "Half-life of the velocity smoothing. Larger values are smoother and react later.", "s", 0.001, 2.0
    )
    facing_halflife: float = setting(
        0.05, "Half-life of the facing smoothing if the facing is certain. Larger values react later.", "s", 0.001, 2.0
    )
    facing_lead: float = setting(
        1.0, "Share of the facing_halflife delay that is compensated. Larger values overshoot more.", "", 0.0, 3.0
    )
    lead: float = setting(
        1.0, "Share of the velocity_halflife delay that is compensated. Larger values overshoot more.", "", 0.0, 3.0
    )
    trend: float = setting(
        0.8, "Share of the current velocity in the predicted one. Larger values react earlier.", "", 0.0, 2.0
    )
    trend_halflife: float = setting(
        0.2, "Half-life of the averaged part of the predicted velocity. Larger values are smoother.", "s", 0.01, 5.0
    )
    lateral: float = setting(
        0.9, "Share of the lateral average with lateral_halflife. Larger values predict less head sway.", "", 0.0, 1.0
    )
    lateral_halflife: float = setting(
        0.8, "Half-life of this share of the lateral average. Larger values predict sidesteps later.", "s", 0.01, 5.0
    )
    learned_ahead: float = setting(
        1.0, "Share of the step network in the predicted positions, where it is certain. 0: constant velocity.",
        "", 0.0, 1.0,
    )
    learned_turn: float = setting(
        0.0, "Share of the step network in the predicted directions, where it is certain. 0: constant turn rate.",
        "", 0.0, 1.0,
    )
    turn_persistence: float = setting(
        0.3, "Time constant with which a predicted turn decays. Larger values predict longer turns.", "s", 0.01, 100.0
    )
    turn_halflife: float = setting(
        0.15, "Half-life of the smoothed turn rate in the prediction. Larger values react later.", "s", 0.001, 2.0
    )
    still_speed: float = setting(
        0.15, "Below this speed a body at its standing place stands. Larger values ignore more sway.", "m/s", 0.0, 1.0
    )
    moving_speed: float = setting(
        0.4, "Above this speed the body moves. Larger values predict slow motion less.", "m/s", 0.01, 3.0
    )
    still_distance: float = setting(
        0.05, "A slow body this near its standing place sways. Larger values ignore more sway.", "m", 0.0, 1.0
    )
    moving_distance: float = setting(
        0.12, "A slow body this far from its standing place moves. Larger values react later.", "m", 0.01, 1.0
    )
    still_halflife: float = setting(
        1.0, "Half-life with which the standing place follows the body. Larger values react earlier.", "s", 0.01, 10.0
    )


class TrajectoryStage:
    """Predicts the desired trajectory. `times`: prediction times [s]; positions and velocities are in the room."""

    def __init__(self, settings: TrajectorySettings, calibration: Calibration, times: tuple[float, ...]):
        self.settings = settings
        self.set_times(times)
        self.timeline = Timeline()
        self.lean, self.bend = Lean(1.0), Bend()
        self.set_calibration(calibration)
        self.reset()

    def set_times(self, times: tuple[float, ...]) -> None:
        """Set the prediction times [s]: the `trajectory_times` of the feature layout."""
        self.times = np.array(times, np.float32)

    def set_calibration(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self.standing = head_joint_height(calibration)
        self.lean.standing = self.standing

    def reset(self) -> None:
        self.timeline.reset()
        self.epoch = 0
        self.head, self.stood = np.zeros(2), np.zeros(2)  # centre of the head; standing place of the hips
        self.velocity, self.acceleration = np.zeros(2), np.zeros(2)
        self.slow, self.across = np.zeros(2), 0.0  # averages: of the velocity; of its component to the left
        self.yaw, self.yaw_rate, self.turn, self.sigma = 0.0, 0.0, 0.0, 0.0
        self.height_ratio = 1.0
        self.lean.reset(1.0)
        self.bend.reset()
        self.worn = 0.0  # weight of the waist tracker, 0 … 1
        self.waist = np.zeros(2)

    def step(
        self, trackers: TrackerFrame, facing: BodyOrientation, estimate: StepEstimate | None = None
    ) -> Trajectory | None:
        """Return the desired trajectory, or None for a late or duplicate sample or one without a tracked head.

        `estimate`: the user's feet and way ahead, for this sample.
        """
        if trackers.state[HEAD_ROLE] == LOST:
            return None
        _check(trackers, facing)
        verdict, dt = self.timeline.judge(trackers.stamp_ns, trackers.epoch, trackers.new_from_old)
        if verdict == DROP:
            return None
        self.epoch, self.sigma = trackers.epoch, float(facing.sigma)
        if verdict == CARRY:
            self._carry(trackers.new_from_old)
        head, own = self._head_centre(trackers)
        velocity = own
        if verdict not in (CARRY, RESET, HOLD) and dt > 0:
            velocity = velocity + self._locomotion_velocity(trackers.new_from_old, dt)
        self.head, self.height_ratio = head[:2], float(head[2] / self.standing)
        self.bend.step(dt, trackers, float(head[2]), self.standing, facing.yaw)
        if verdict in (RESET, HOLD):
            self._start(velocity, facing.yaw)
        velocity = self._blend_waist(dt, trackers, velocity)
        self._update(dt, velocity, own, facing)
        return self._make_trajectory(trackers.stamp_ns, np.array(trackers.new_from_old, np.float64), False, estimate)

    def stale(self, stamp_ns: int) -> Trajectory:
        """A desired trajectory that stands at the last position, for use while no trackers are received."""
        self.velocity, self.acceleration = np.zeros(2), np.zeros(2)
        self.slow, self.across = np.zeros(2), 0.0
        self.yaw_rate = self.turn = 0.0
        self.stood, self.lean.rate = self._position(), 0.0
        return self._make_trajectory(stamp_ns, identity_pose(), True)

    def _head_centre(self, trackers: TrackerFrame) -> tuple[F64, F64]:
        """Position of the head joint (3,), which does not move when the head turns, and its velocity (x, y)."""
        q = quat.get4(trackers.rotations, HEAD_ROLE)
        arm = quat.rotate(q, quat.get3(self.calibration.headset_in_head.reshape(1, -1), 0))
        swing = quat.cross(quat.get3(trackers.angular_velocities, HEAD_ROLE), arm)
        velocity = trackers.velocities[HEAD_ROLE]
        return trackers.positions[HEAD_ROLE] - arm, np.array([velocity[0] - swing[0], velocity[1] - swing[1]])

    def _blend_waist(self, dt: float, trackers: TrackerFrame, velocity: F64) -> F64:
        """Blend to the waist tracker's velocity while it is tracked, and update its weight."""
        tracked = trackers.state[WAIST_ROLE] != LOST
        self.worn = damp(self.worn, float(tracked), WAIST_HALFLIFE_S, dt) if dt > 0 else float(tracked)
        if tracked:
            arm = self._waist_arm(trackers)
            swing = np.cross(trackers.angular_velocities[WAIST_ROLE], arm)
            self.waist = trackers.positions[WAIST_ROLE, :2] - arm[:2]
            return velocity + self.worn * (trackers.velocities[WAIST_ROLE, :2] - swing[:2] - velocity)
        return velocity

    def _waist_arm(self, trackers: TrackerFrame) -> F64:
        """Vector (3,) from the hips to the waist tracker in the room; zero while the mounting is not measured."""
        mounting = self.calibration.mountings.get(ROLES[WAIST_ROLE])
        if mounting is None:
            return np.zeros(3)
        hips = rot.multiply(trackers.rotations[WAIST_ROLE], rot.inverse(mounting[3:]))
        return np.asarray(rot.rotate(hips, mounting[:3]))

    def _locomotion_velocity(self, new_from_old: F64, dt: float) -> F64:
        """Velocity of stick locomotion, which moves the play space rather than the trackers in it."""
        c, s = _cos_sin_yaw(new_from_old)
        x, y = self.head
        return np.array([new_from_old[0] + c * x - s * y - x, new_from_old[1] + s * x + c * y - y]) / dt

    def _carry(self, new_from_old: F64) -> None:
        c, s = _cos_sin_yaw(new_from_old)
        turned = np.array([[c, -s], [s, c]])
        self.velocity, self.acceleration = turned @ self.velocity, turned @ self.acceleration
        self.slow = turned @ self.slow
        self.head, self.stood = turned @ self.head + new_from_old[:2], turned @ self.stood + new_from_old[:2]
        self.yaw = wrap(self.yaw + math.atan2(s, c))

    def _start(self, velocity: F64, yaw: float) -> None:
        self.velocity, self.acceleration = velocity.copy(), np.zeros(2)
        self.yaw, self.yaw_rate, self.turn = yaw, 0.0, 0.0
        self.slow, self.across = velocity.copy(), float(self._left() @ velocity)
        self.lean.settle(self.height_ratio, self.bend.behind)
        self.stood = self._position()

    def _update(self, dt: float, velocity: F64, own: F64, facing: BodyOrientation) -> None:
        """Update all smoothed values. `own`: velocity of the head joint without stick locomotion and waist tracker."""
        s = self.settings
        self.velocity, self.acceleration = spring(self.velocity, self.acceleration, velocity, s.velocity_halflife, dt)
        # An uncertainty of 0.5 rad doubles the half-life.
        halflife = s.facing_halflife * (1 + 2 * max(0.0, self.sigma))
        self.yaw, self.yaw_rate = spring_angle(self.yaw, self.yaw_rate, facing.yaw, halflife, dt)
        self.turn = damp(self.turn, max(-LARGEST_TURN, min(LARGEST_TURN, self.yaw_rate)), s.turn_halflife, dt)
        self.slow = damp(self.slow, velocity, s.trend_halflife, dt)
        self.across = damp(self.across, float(self._left() @ velocity), s.lateral_halflife, dt)
        ahead, left = float(self._forward() @ own), float(self._left() @ own)
        self.lean.step(dt, self.height_ratio, ahead, left, self.yaw_rate, self.bend.behind)
        self.stood = damp(self.stood, self._position(), s.still_halflife, dt)

    def _position(self) -> F64:
        """Position of the hips (x, y): behind the head, blended to the waist tracker by its weight."""
        estimate = self.head - self.lean.now * self._forward()
        return estimate + self.worn * (self.waist - estimate) if self.worn > 1e-3 else estimate

    def _velocity_now(self) -> F64:
        """The smoothed velocity with its delay compensated."""
        s = self.settings
        return np.asarray(self.velocity + s.lead * s.velocity_halflife / math.log(2) * self.acceleration)

    def _yaw_now(self) -> float:
        """The smoothed facing with the delay of a certain facing compensated. Compensation of the longer delay of an
        uncertain facing would amplify errors."""
        s = self.settings
        return self.yaw + s.facing_lead * s.facing_halflife / math.log(2) * self.yaw_rate

    def _moving_confidence(self, velocity: F64) -> float:
        """Confidence that the body moves: 0 while the head only sways or the body bends, 1 when the body walks."""
        s = self.settings
        speed = min(math.hypot(*velocity), math.hypot(*(velocity - self.lean.rate * self._forward())))
        away = math.hypot(*(self._position() - self.stood))
        left = _ramp(away, s.still_distance, s.moving_distance) * _ramp(speed, 0.0, s.still_speed)
        return max(_ramp(speed, s.still_speed, s.moving_speed), left)

    def _make_trajectory(
        self, stamp_ns: int, new_from_old: F64, stale: bool, estimate: StepEstimate | None = None
    ) -> Trajectory:
        position, velocity = self._position(), self._velocity_now()
        moving = self._moving_confidence(velocity)
        offsets = self.times.astype(np.float64)[:, None] * moving * self._predicted_velocity(velocity)
        yaw = self._yaw_now()
        turns = self._predicted_turns()
        if estimate is not None:
            offsets, turns = self._learned(estimate, offsets, turns, yaw, moving)
        yaws = yaw + turns
        return Trajectory(
            stamp_ns, self.epoch, "vr", position, moving * velocity, wrap(yaw), self.sigma,
            self.height_ratio, self.times.copy(), (position + offsets).astype(np.float32),
            np.stack([np.cos(yaws), np.sin(yaws)], -1).astype(np.float32), stale, new_from_old,
            None if estimate is None else estimate.feet,
        )  # fmt: skip

    def _learned(
        self, estimate: StepEstimate, offsets: F64, turns: F64, yaw: float, moving: float
    ) -> tuple[F64, F64]:
        """Blend the network's positions and turns at the prediction times into `offsets` (T, 2) and `turns` (T,)."""
        s, times = self.settings, self.times.astype(np.float64)
        known = np.concatenate([[0.0], AHEAD_S])

        def at(values: F64) -> F64:
            return np.asarray(np.interp(times, known, np.concatenate([[0.0], values])))

        share = s.learned_ahead / (1.0 + (estimate.shift_sigma / (CERTAIN_M_PER_S * np.array(AHEAD_S))) ** 2)
        own = moving * np.stack([at(estimate.shifts[:, 0]), at(estimate.shifts[:, 1])], axis=-1)
        offsets = offsets + at(share)[:, None] * (own - offsets)
        share = s.learned_turn / (1.0 + (estimate.yaw_sigma / CERTAIN_RAD) ** 2)
        later = np.array([math.remainder(y - yaw, 2 * math.pi) for y in estimate.yaws])
        return offsets, turns + at(share) * (at(later) - turns)

    def _predicted_velocity(self, velocity: F64) -> F64:
        """The velocity that the prediction assumes to last.

        It is a mix of the current velocity and its average. Across the facing, the head sways with each step and drifts
        in a turn, so most of the lateral average is replaced by a slower one (measurements: docs/matching.md).
        """
        s, left = self.settings, self._left()
        steady = s.trend * velocity + (1 - s.trend) * self.slow
        return np.asarray(steady + s.lateral * (self.across - float(left @ self.slow)) * left)

    def _forward(self) -> F64:
        return np.array([math.cos(self.yaw), math.sin(self.yaw)])

    def _left(self) -> F64:
        return np.array([-math.sin(self.yaw), math.cos(self.yaw)])

    def _predicted_turns(self) -> F64:
        """Predicted turns (T,) relative to the current yaw [rad]; the turn rate decays exponentially."""
        last = self.settings.turn_persistence
        return np.asarray(self.turn * last * -np.expm1(-self.times.astype(np.float64) / last))


def _check(trackers: TrackerFrame, facing: BodyOrientation) -> None:
    """Refuse values that are not finite: one NaN would stay in the springs."""
    check_trackers(trackers, (HEAD_ROLE, WAIST_ROLE))
    if not math.isfinite(facing.yaw + facing.sigma):
        raise MmRosError(f"facing from '{facing.source}' is not finite: {facing.yaw}, sigma {facing.sigma}")


def _cos_sin_yaw(pose: F64) -> tuple[float, float]:
    """Cosine and sine of a pose's yaw."""
    yaw = quat.yaw_of((pose[3], pose[4], pose[5], pose[6]))
    return math.cos(yaw), math.sin(yaw)


def _ramp(x: float, low: float, high: float) -> float:
    """0 below `low`, 1 above `high`, smooth between."""
    u = min(1.0, max(0.0, (x - low) / max(high - low, 1e-9)))
    return u * u * (3 - 2 * u)
