"""The prediction of the trajectory in readable Python, with which tests compare trajectory/from_trackers.py."""

from __future__ import annotations

import math

import numpy as np

from mm_ros.body.timeline import CARRY, DROP, HOLD, RESET, Timeline
from mm_ros.body.types import (
    F64,
    HEAD_ROLE,
    LEFT_HAND_ROLE,
    LOST,
    RIGHT_HAND_ROLE,
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
from mm_ros.tracking import bend as bending
from mm_ros.tracking.calibration import head_joint_height
from mm_ros.trajectory import fitted
from mm_ros.trajectory.from_trackers import (
    TrajectorySettings,
    _check,
)


def bent_share(pitch: float, drop: float, forward: float, above: float) -> float:
    """Return the share (0 to 1) of the head's drop that a bent back causes."""
    p, d = _within(pitch, bending.PITCH), _within(drop, bending.DROP)
    f, a = _within(forward, bending.FORWARD), _within(above, bending.ABOVE)
    values = (1.0, p, d, p * d, f, a, f * d, a * d)
    u = sum(w * x for w, x in zip(bending.WEIGHTS, values, strict=True))
    return 1.0 / (1.0 + math.exp(-_within(u, (-6.0, 6.0))))


def _within(x: float, limits: tuple[float, float]) -> float:
    return max(limits[0], min(limits[1], x))


class Bend:
    """Estimated bend of the user: `drop` of the head joint below its height in walking (share of the standing height),
    `share` of the drop that the back causes, and `on_back` (−1 if the user lies on the back, otherwise 1)."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.drop, self.share, self.on_back, self.ratio = 0.0, 0.5, 1.0, 1.0
        self._pitch = 0.0
        self._hands = bending.NEUTRAL
        self._ready = False
        self.seated, self.sits, self.calm_s = 0.0, False, 0.0
        self._last, self._speed, self._seat = (0.0, 0.0, 0.0), 0.0, (0.0, 0.0)
        self.forget_place()

    def forget_place(self) -> None:
        self._upright: tuple[float, float] | None = None  # last position of the head at standing height

    def step(self, dt: float, frame: TrackerFrame, head_height: float, standing: float, yaw: float) -> None:
        """Update the bend from the present and the `standing` height of the head joint [m] and the body's `yaw`."""
        ahead = quat.rotate(quat.get4(frame.rotations, HEAD_ROLE), (1.0, 0.0, 0.0))
        pitch = -math.asin(_within(float(ahead[2]), (-1.0, 1.0)))
        fresh, self._ready = not self._ready, True
        self._pitch = pitch if fresh else damp(self._pitch, pitch, bending.PITCH_HALFLIFE_S, dt)
        self.ratio = head_height / standing
        self.drop = _within(1.0 - self.ratio - bending.BENT_FROM, (0.0, bending.LARGEST_DROP))
        hands, halflife = self._hands_of(frame, standing, yaw)
        old = hands if fresh else self._hands
        self._hands = (damp(old[0], hands[0], halflife, dt), damp(old[1], hands[1], halflife, dt))
        self.share = bent_share(self._pitch, self.drop, *self._hands)
        supine = self._pitch < bending.ON_THE_BACK_PITCH and self.ratio < bending.ON_THE_BACK_RATIO
        goal = -1.0 if supine else 1.0
        self.on_back = goal if fresh else damp(self.on_back, goal, bending.ON_THE_BACK_HALFLIFE_S, dt)
        self._sit(dt, frame, fresh, yaw)

    def _sit(self, dt: float, frame: TrackerFrame, fresh: bool, yaw: float) -> None:
        x, y, z = (float(v) for v in frame.positions[HEAD_ROLE])
        if not fresh and dt > 0.0:
            self._speed = damp(
                self._speed, min(math.dist((x, y, z), self._last) / dt, 5.0), bending.SPEED_HALFLIFE_S, dt
            )
            self.calm_s = self.calm_s + dt if self._speed < bending.CALM_SPEED else 0.0
        self._last = (x, y, z)
        if self.ratio > bending.UPRIGHT:
            self._upright = (x, y)
        behind = bending.SEAT_BEHIND_M  # used until the user has been upright once
        if self._upright is not None:
            behind = (self._upright[0] - x) * math.cos(yaw) + (self._upright[1] - y) * math.sin(yaw)
        if self.sits:
            self.sits = (
                self.ratio < bending.STOOD_UP
                and math.dist((x, y), self._seat) < bending.LEFT_SEAT_M
                and self.on_back > 0.0
            )
        elif (
            self.calm_s > bending.CALM_S
            and bending.LOWEST_SEAT < self.ratio < bending.HIGHEST_SEAT
            and self._pitch < bending.SEATED_PITCH
        ):
            self.sits, self._seat = behind >= bending.SEAT_BEHIND_M, (x, y)
        self.seated = damp(self.seated, float(self.sits), bending.SEATED_HALFLIFE_S, dt)

    def _hands_of(self, frame: TrackerFrame, standing: float, yaw: float) -> tuple[tuple[float, float], float]:
        """Return the tracked hands' mean (forward, up from the head; in standing heights) and its half-life."""
        seen = [r for r in (LEFT_HAND_ROLE, RIGHT_HAND_ROLE) if frame.state[r] != LOST]
        if not seen:
            return bending.NEUTRAL, bending.UNSEEN_HALFLIFE_S
        x, y, z = (float(v) for v in (frame.positions[seen] - frame.positions[HEAD_ROLE]).mean(0) / standing)
        forward = x * math.cos(yaw) + y * math.sin(yaw)
        laid_down = math.hypot(x, y) > 0.6 or z < -0.9  # both controllers seem to lie on a table or on the floor
        return (bending.NEUTRAL, bending.UNSEEN_HALFLIFE_S) if laid_down else ((forward, z), bending.HANDS_HALFLIFE_S)

    def cosine(self) -> float:
        """Return the cosine of the angle between the vertical and the line from hips to head."""
        bent = max(1.0 - self.share * self.drop * self.drop / (self.drop + bending.SOFT) / bending.HIPS_TO_HEAD, -0.2)
        upright = bending.SEATED_COSINE - 0.5 * max(self._pitch - 0.2, 0.0) ** 2
        return bent + self.seated * (max(upright, bent) - bent)

    @property
    def behind(self) -> float:
        """Distance of the hips behind the head due to a bend, over the standing height; negative on the user's back."""
        return self.on_back * bending.HIPS_TO_HEAD * math.sqrt(max(1.0 - self.cosine() ** 2, 0.0))


class Lean:
    """Smoothed distance `now` of the hips behind the centre of the head [m], and its derivative `rate` [m/s]."""

    def __init__(self, standing: float):
        self.standing = standing
        self.reset()

    def reset(self) -> None:
        self.change, self._numerator, self._denominator = 0.0, 0.0, 0.0
        self.settle(0.0)

    def settle(self, behind: float) -> None:
        """Set the distance for the bend `behind` without smoothing, and keep the learned correction of the bend."""
        self.now, self.rate = self._of(behind * self.standing), 0.0
        self._once, self._twice = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)

    def step(self, dt: float, behind: float, ahead: float, left: float, turn: float) -> None:
        """Update `now`; `behind` is the part of the distance that a bend causes, over the standing height.

        `ahead` and `left` are the velocity of the head in facing axes [m/s], `turn` is the rate of the facing [rad/s].
        """
        if dt <= 0:
            return
        bent = behind * self.standing
        self._learn(dt, bent, ahead, left, max(-fitted.LEARNS_TURN_AT_MOST, min(fitted.LEARNS_TURN_AT_MOST, turn)))
        before, self.now = self.now, damp(self.now, self._of(bent), fitted.LEAN_HALFLIFE_S, dt)
        self.rate = (self.now - before) / dt

    def _of(self, bent: float) -> float:
        return fitted.UPRIGHT * self.standing + (1 + self.change) * bent

    def _learn(self, dt: float, bent: float, *motion: float) -> None:
        """Learn the correction by recursive least squares of the head's lateral velocity over the turn rate."""
        self._once = tuple(damp(a, b, fitted.LEARNING_HALFLIFE_S, dt) for a, b in zip(self._once, motion, strict=True))
        self._twice = tuple(
            damp(a, b, fitted.LEARNING_HALFLIFE_S, dt) for a, b in zip(self._twice, self._once, strict=True)
        )
        ahead, left, turn = self._twice
        if bent < fitted.UPRIGHT_AGAIN_BELOW * self.standing:
            self._fade(dt, fitted.UPRIGHT_HALFLIFE_S)
        residual = left - turn * (fitted.UPRIGHT * self.standing + bent)
        walks = ahead > fitted.LEARNS_SPEED and abs(residual) < ahead
        if walks and abs(turn) > fitted.LEARNS_TURN and bent > fitted.LEARNS_BENT * self.standing:
            self._fade(dt, fitted.EVIDENCE_HALFLIFE_S)
            self._numerator += dt * turn * bent * residual
            self._denominator += dt * (turn * bent) ** 2
        goal = max(
            -fitted.LARGEST_CHANGE, min(fitted.LARGEST_CHANGE, self._numerator / (self._denominator + fitted.DOUBT))
        )
        self.change = damp(self.change, goal, fitted.FOLLOW_HALFLIFE_S, dt)

    def _fade(self, dt: float, halflife: float) -> None:
        share = 0.5 ** (dt / halflife)
        self._numerator *= share
        self._denominator *= share


class TrajectoryStage:
    """Predicts the desired trajectory at `times` [s] after each sample; positions and velocities are in the room."""

    def __init__(self, settings: TrajectorySettings, calibration: Calibration, times: tuple[float, ...]):
        self.settings = settings
        self.set_times(times)
        self.timeline = Timeline()
        self.lean, self.bend = Lean(1.0), Bend()
        self.set_calibration(calibration)
        self.reset()

    def set_times(self, times: tuple[float, ...]) -> None:
        """Set the prediction times [s] to the `trajectory_times` of a feature layout."""
        self.times = np.array(times, np.float32)

    def set_calibration(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self.standing = head_joint_height(calibration)
        self.lean.standing = self.standing

    def reset(self) -> None:
        self.timeline.reset()
        self.epoch = 0
        self.head, self.stood = np.zeros(2), np.zeros(2)  # head centre; slowly smoothed hip position
        self.velocity, self.acceleration = np.zeros(2), np.zeros(2)
        self.slow, self.across = np.zeros(2), 0.0  # averages of the velocity and of its part to the left
        self.yaw, self.yaw_rate, self.turn, self.sigma = 0.0, 0.0, 0.0, 0.0
        self.height_ratio = 1.0
        self.lean.reset()
        self.bend.reset()
        self.worn = 0.0  # weight of the waist tracker, from 0 to 1
        self.waist = np.zeros(2)

    def step(
        self, trackers: TrackerFrame, facing: BodyOrientation, estimate: StepEstimate | None = None
    ) -> Trajectory | None:
        """Return the desired trajectory, or None for a late or duplicate sample or one without a tracked head.

        The `estimate` for the sample contains the user's feet and the predicted path of the hips.
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
        """Return a desired trajectory that stands at the last position, for the time in which no trackers arrive."""
        self.velocity, self.acceleration = np.zeros(2), np.zeros(2)
        self.slow, self.across = np.zeros(2), 0.0
        self.yaw_rate = self.turn = 0.0
        self.stood, self.lean.rate = self._position(), 0.0
        return self._make_trajectory(stamp_ns, identity_pose(), True)

    def _head_centre(self, trackers: TrackerFrame) -> tuple[F64, F64]:
        """Return position (3,) and velocity (x, y) of the head joint, which does not move when the head turns."""
        q = quat.get4(trackers.rotations, HEAD_ROLE)
        arm = quat.rotate(q, quat.get3(self.calibration.headset_in_head.reshape(1, -1), 0))
        swing = quat.cross(quat.get3(trackers.angular_velocities, HEAD_ROLE), arm)
        velocity = trackers.velocities[HEAD_ROLE]
        return trackers.positions[HEAD_ROLE] - arm, np.array([velocity[0] - swing[0], velocity[1] - swing[1]])

    def _blend_waist(self, dt: float, trackers: TrackerFrame, velocity: F64) -> F64:
        """Blend `velocity` with that of a tracked waist tracker, and update the weight of the waist tracker."""
        tracked = trackers.state[WAIST_ROLE] != LOST
        self.worn = damp(self.worn, float(tracked), fitted.WAIST_HALFLIFE_S, dt) if dt > 0 else float(tracked)
        if tracked:
            arm = self._waist_arm(trackers)
            swing = np.cross(trackers.angular_velocities[WAIST_ROLE], arm)
            self.waist = trackers.positions[WAIST_ROLE, :2] - arm[:2]
            return velocity + self.worn * (trackers.velocities[WAIST_ROLE, :2] - swing[:2] - velocity)
        return velocity

    def _waist_arm(self, trackers: TrackerFrame) -> F64:
        """Return the vector (3,) from the hips to the waist tracker in the room; 0 without a measured mounting."""
        mounting = self.calibration.mountings.get(ROLES[WAIST_ROLE])
        if mounting is None:
            return np.zeros(3)
        hips = rot.multiply(trackers.rotations[WAIST_ROLE], rot.inverse(mounting[3:]))
        return np.asarray(rot.rotate(hips, mounting[:3]))

    def _locomotion_velocity(self, new_from_old: F64, dt: float) -> F64:
        """Return the velocity of stick locomotion, which moves the play space and not the trackers inside it."""
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
        self.lean.settle(self.bend.behind)
        self.stood = self._position()

    def _update(self, dt: float, velocity: F64, own: F64, facing: BodyOrientation) -> None:
        """Update all smoothed values; `own` is the head joint's velocity without stick motion and waist tracker."""
        s = self.settings
        self.velocity, self.acceleration = spring(self.velocity, self.acceleration, velocity, s.velocity_halflife, dt)
        # An uncertainty of 0.5 rad doubles the half-life of the facing.
        halflife = s.facing_halflife * (1 + 2 * max(0.0, self.sigma))
        self.yaw, self.yaw_rate = spring_angle(self.yaw, self.yaw_rate, facing.yaw, halflife, dt)
        turn = max(-fitted.LARGEST_TURN, min(fitted.LARGEST_TURN, self.yaw_rate))
        self.turn = damp(self.turn, turn, s.turn_halflife, dt)
        self.slow = damp(self.slow, velocity, s.trend_halflife, dt)
        self.across = damp(self.across, float(self._left() @ velocity), s.lateral_halflife, dt)
        ahead, left = float(self._forward() @ own), float(self._left() @ own)
        self.lean.step(dt, self.bend.behind, ahead, left, self.yaw_rate)
        self.stood = damp(self.stood, self._position(), s.still_halflife, dt)

    def _position(self) -> F64:
        """Return the hips' position (x, y) behind the head, blended with the waist tracker's by its weight."""
        estimate = self.head - self.lean.now * self._forward()
        return estimate + self.worn * (self.waist - estimate) if self.worn > 1e-3 else estimate

    def _velocity_now(self) -> F64:
        """Return the smoothed velocity, extrapolated by the delay of the smoothing."""
        s = self.settings
        return np.asarray(self.velocity + s.lead * s.velocity_halflife / math.log(2) * self.acceleration)

    def _yaw_now(self) -> float:
        """Return the smoothed facing, extrapolated by the delay for a certain facing; for the longer delay of an
        uncertain facing, the extrapolation would amplify errors."""
        s = self.settings
        return self.yaw + s.facing_lead * s.facing_halflife / math.log(2) * self.yaw_rate

    def _moving_confidence(self, velocity: F64) -> float:
        """Return the confidence that the body moves: 0 if the head only sways or the body bends, 1 in a walk."""
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

    def _learned(self, estimate: StepEstimate, offsets: F64, turns: F64, yaw: float, moving: float) -> tuple[F64, F64]:
        """Blend the network's positions and turns at the prediction times into `offsets` (T, 2) and `turns` (T,)."""
        s, times = self.settings, self.times.astype(np.float64)
        known = np.concatenate([[0.0], AHEAD_S])

        def at(values: F64) -> F64:
            return np.asarray(np.interp(times, known, np.concatenate([[0.0], values])))

        unsteady = fitted.STEADY_M_PER_S + math.hypot(*(self._velocity_now() - self.slow))
        share = s.learned_ahead / (1.0 + (estimate.shift_sigma / (unsteady * np.array(AHEAD_S))) ** 2)
        own = moving * np.stack([at(estimate.shifts[:, 0]), at(estimate.shifts[:, 1])], axis=-1)
        offsets = offsets + at(share)[:, None] * (own - offsets)
        share = s.learned_turn / (1.0 + (estimate.yaw_sigma / fitted.CERTAIN_RAD) ** 2)
        later = np.array([math.remainder(y - yaw, 2 * math.pi) for y in estimate.yaws])
        return offsets, turns + at(share) * (at(later) - turns)

    def _predicted_velocity(self, velocity: F64) -> F64:
        """Return the constant velocity of the prediction: a mix of the current velocity and its average.

        The head sways with each step and drifts in a turn, so most of the average's lateral part is replaced by a
        slower average (measurements: docs/matching.md).
        """
        s, left = self.settings, self._left()
        steady = s.trend * velocity + (1 - s.trend) * self.slow
        return np.asarray(steady + s.lateral * (self.across - float(left @ self.slow)) * left)

    def _forward(self) -> F64:
        return np.array([math.cos(self.yaw), math.sin(self.yaw)])

    def _left(self) -> F64:
        return np.array([-math.sin(self.yaw), math.cos(self.yaw)])

    def _predicted_turns(self) -> F64:
        """Return the predicted turns (T,) from the current yaw [rad] for a turn rate that decays exponentially."""
        last = self.settings.turn_persistence
        return np.asarray(self.turn * last * -np.expm1(-self.times.astype(np.float64) / last))


def _cos_sin_yaw(pose: F64) -> tuple[float, float]:
    """Return the cosine and the sine of the yaw of a pose."""
    yaw = quat.yaw_of((pose[3], pose[4], pose[5], pose[6]))
    return math.cos(yaw), math.sin(yaw)


def _ramp(x: float, low: float, high: float) -> float:
    """Return 0 for `x` below `low`, 1 above `high`, and a smooth transition between these limits."""
    u = min(1.0, max(0.0, (x - low) / max(high - low, 1e-9)))
    return u * u * (3 - 2 * u)
