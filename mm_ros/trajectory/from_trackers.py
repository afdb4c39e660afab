"""Predict the desired trajectory from trackers: the user's position, velocity and facing, now and in the future."""

from __future__ import annotations

import math
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

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
from mm_ros.maths.jit import njit
from mm_ros.maths.packed import packed
from mm_ros.maths.springs import damp, spring, spring_angle
from mm_ros.steps.estimator import StepEstimate
from mm_ros.steps.outputs import AHEAD_S
from mm_ros.tracking.bend import Bend, behind_of, bend_step
from mm_ros.tracking.calibration import head_joint_height
from mm_ros.tracking.check import check_trackers
from mm_ros.trajectory import fitted
from mm_ros.trajectory.lean import NOW as LEAN_NOW
from mm_ros.trajectory.lean import RATE as LEAN_RATE
from mm_ros.trajectory.lean import Lean, lean_settle, lean_step


@dataclass(frozen=True)
class TrajectorySettings(Settings):
    velocity_halflife: float = setting(
        0.06, "Half-life of the velocity smoothing; a larger half-life makes the velocity smoother, but delays it.",
        "s", 0.001, 2.0,
    )
    facing_halflife: float = setting(
        0.05, "Half-life of the facing smoothing while the facing is certain; a larger half-life delays the facing.",
        "s", 0.001, 2.0,
    )
    facing_lead: float = setting(
        1.0, "Share of the delay by `facing_halflife` that is compensated; with a larger share the facing overshoots "
             "more.", "", 0.0, 3.0
    )
    lead: float = setting(
        1.0, "Share of the delay by `velocity_halflife` that is compensated; with a larger share the velocity "
             "overshoots more.", "", 0.0, 3.0
    )
    trend: float = setting(
        0.8, "Share of the current velocity in the predicted velocity; with a larger share the prediction follows a "
             "change of speed earlier.", "", 0.0, 2.0
    )
    trend_halflife: float = setting(
        0.2, "Half-life of the averaged part of the predicted velocity; a larger half-life makes the prediction "
             "smoother.", "s", 0.01, 5.0
    )
    lateral: float = setting(
        0.9, "Share of the slow average (`lateral_halflife`) in the predicted lateral velocity; with a larger share "
             "less sway of the head is predicted.", "", 0.0, 1.0
    )
    lateral_halflife: float = setting(
        0.8, "Half-life of the average lateral velocity, which has the share `lateral` in the predicted lateral "
             "velocity; with a larger half-life sidesteps are predicted later.", "s", 0.01, 5.0
    )
    learned_ahead: float = setting(
        1.0, "Maximum share of the step network in the predicted positions; the share is smaller where the network is "
             "uncertain. If `learned_ahead` is 0, the step network has no effect on the predicted positions.",
        "", 0.0, 1.0,
    )
    learned_turn: float = setting(
        0.0, "Maximum share of the step network in the predicted directions; the share is smaller where the network "
             "is uncertain. If `learned_turn` is 0, the step network has no effect on the predicted directions.",
        "", 0.0, 1.0,
    )
    turn_persistence: float = setting(
        0.3, "Time constant with which the turn rate decays in the prediction; a larger time constant predicts longer "
             "turns.", "s", 0.01, 100.0
    )
    turn_halflife: float = setting(
        0.15, "Half-life of the smoothed turn rate in the prediction; with a larger half-life turns are predicted "
              "later.", "s", 0.001, 2.0
    )
    still_speed: float = setting(
        0.15,
        "Maximum speed at which a body at its standing place counts as standing; with a larger `still_speed` more sway "
        "is ignored.",
        "m/s", 0.0, 1.0,
    )
    moving_speed: float = setting(
        0.4, "Speed above which the body certainly walks; with a larger `moving_speed` slow walks are predicted less.",
        "m/s", 0.01, 3.0,
    )
    still_distance: float = setting(
        0.05, "Maximum distance from the standing place at which a slow body counts as swaying, not as walking; with a "
              "larger `still_distance` more sway is ignored.", "m", 0.0, 1.0
    )
    moving_distance: float = setting(
        0.12,
        "Distance from the standing place above which a slow body certainly walks; with a larger "
        "`moving_distance` slow steps are predicted later.",
        "m", 0.01, 1.0,
    )
    still_halflife: float = setting(
        1.0, "Half-life with which the standing place follows the body; with a larger half-life slow steps are "
             "predicted earlier.", "s", 0.01, 10.0
    )


Numbers = namedtuple("Numbers", tuple(TrajectorySettings.specs()))  # type: ignore[misc]  # the settings for the kernels

# Indices of the values in the array `m`, the memory of `TrajectoryStage`; a pair (x, y) has the index of its x. `HEAD`
# is the centre of the head, and `BLENDED` the waist tracker's weight (0 to 1). `STOOD` is the smoothed position of the
# hips (half-life `still_halflife`), `SLOW` the smoothed velocity (`trend_halflife`), and `ACROSS` the smoothed lateral
# velocity (`lateral_halflife`).
HEAD, STOOD, VELOCITY, ACCELERATION, SLOW, WAIST = range(0, 12, 2)
ACROSS, YAW, YAW_RATE, TURN, HEIGHT_RATIO, BLENDED, MEMORY = range(12, 19)


class TrajectoryStage:
    """Predict the desired trajectory in room axes from trackers, at the times `times` [s] after the present."""

    def __init__(self, settings: TrajectorySettings, calibration: Calibration, times: tuple[float, ...]):
        self.settings = settings
        self.set_times(times)
        self.timeline = Timeline()
        self.lean, self.bend = Lean(1.0), Bend()
        self.set_calibration(calibration)
        self.reset()

    @property
    def settings(self) -> TrajectorySettings:
        return self._settings

    @settings.setter
    def settings(self, settings: TrajectorySettings) -> None:
        self._settings = settings
        self._numbers, _ = packed(Numbers(*settings.numbers()))

    def set_times(self, times: tuple[float, ...]) -> None:
        """Set the times from now [s] for which the trajectory is predicted."""
        self.times = np.array(times, np.float32)

    def set_calibration(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self.standing = self.lean.standing = head_joint_height(calibration)
        self.bend.unsure = calibration.head_height_sigma / self.standing
        waist = calibration.mountings.get(ROLES[WAIST_ROLE])
        none = np.zeros(7)  # until its mounting is measured, the waist tracker is assumed to be at the hips
        self._devices = np.array([calibration.headset_in_head, none if waist is None else waist], np.float64)

    def reset(self) -> None:
        self.timeline.reset()
        self.epoch, self.sigma = 0, 0.0
        self._memory = np.zeros(MEMORY)
        self._memory[HEIGHT_RATIO] = 1.0
        self.lean.reset()
        self.bend.reset()

    def step(
        self, trackers: TrackerFrame, facing: BodyOrientation, estimate: StepEstimate | None = None
    ) -> Trajectory | None:
        """Return the desired trajectory, or None for a late or duplicate sample or without a tracked head.

        `estimate` contains the user's feet and the path of the hips that the step network predicted for this sample.
        """
        if trackers.state[HEAD_ROLE] == LOST:
            return None
        _check(trackers, facing)
        verdict, dt = self.timeline.judge(trackers.stamp_ns, trackers.epoch, trackers.new_from_old)
        if verdict == DROP:
            return None
        self.epoch, self.sigma = trackers.epoch, float(facing.sigma)
        t, moved = trackers, np.array(trackers.new_from_old, np.float64)
        _follow(
            self._memory, self.lean.memory, self.bend.memory, self._numbers, self.standing, self._devices,
            np.array(t.positions), np.array(t.rotations), np.array(t.velocities), np.array(t.angular_velocities),
            np.array(t.state), moved, verdict == CARRY, verdict in (RESET, HOLD), dt, float(facing.yaw), self.sigma,
        )  # fmt: skip
        return self._make_trajectory(trackers.stamp_ns, moved, False, estimate)

    def stale(self, stamp_ns: int) -> Trajectory:
        """Return a desired trajectory that stays at the last position, for use without tracker samples."""
        m = self._memory
        m[VELOCITY : WAIST] = m[ACROSS] = m[YAW_RATE] = m[TURN] = 0.0
        m[STOOD], m[STOOD + 1] = _position(m, self.lean.memory)
        self.lean.memory[LEAN_RATE] = 0.0
        return self._make_trajectory(stamp_ns, identity_pose(), True)

    def _make_trajectory(
        self, stamp_ns: int, new_from_old: F64, stale: bool, estimate: StepEstimate | None = None
    ) -> Trajectory:
        e, n = estimate, len(self.times)
        ahead = _NOTHING if e is None else (e.shifts, e.shift_sigma, e.yaws, e.yaw_sigma)
        now, positions, directions = np.empty(4), np.empty((n, 2), np.float32), np.empty((n, 2), np.float32)
        yaw = _predict(
            self._memory, self.lean.memory, self._numbers, self.times, *ahead, e is not None, now, positions, directions
        )
        return Trajectory(
            stamp_ns, self.epoch, "vr", now[:2], now[2:], yaw, self.sigma, float(self._memory[HEIGHT_RATIO]),
            self.times.copy(), positions, directions, stale, new_from_old, None if e is None else e.feet,
        )  # fmt: skip


_NOTHING = (np.zeros((3, 2)), np.zeros(3), np.zeros(3), np.zeros(3))


@njit
def _follow(
    m: Any, lean: Any, bend: Any, s: Any, standing: float, devices: Any, positions: Any, rotations: Any,
    velocities: Any, angular: Any, state: Any, moved: Any, carry: bool, start: bool, dt: float, facing: float,
    sigma: float,
) -> None:  # fmt: skip
    """Update the array `m`, the memory of `TrajectoryStage`, by one sample of the trackers.

    The pose `moved` transforms from old to new axes of a moved play space. `start` is true for the first sample after a
    gap in tracking. `sigma` is the standard deviation of the argument `facing` [rad].
    """
    s = s[0]
    if carry:
        _carry(m, moved)
    # The centre of the head is used instead of the headset, because the centre does not move when the head turns.
    q = quat.get4(rotations, HEAD_ROLE)
    arm = quat.rotate(q, (devices[0, 0], devices[0, 1], devices[0, 2]))
    swing = quat.cross(quat.get3(angular, HEAD_ROLE), arm)
    head = quat.sub(quat.get3(positions, HEAD_ROLE), arm)
    own_x, own_y = velocities[HEAD_ROLE, 0] - swing[0], velocities[HEAD_ROLE, 1] - swing[1]
    x, y = own_x, own_y
    if not carry and not start and dt > 0.0:
        # When the user moves by the stick, the play space moves in the room, but the trackers stay in the play space.
        hx, hy = _moved(moved, m[HEAD], m[HEAD + 1])
        x, y = x + (hx - m[HEAD]) / dt, y + (hy - m[HEAD + 1]) / dt
    m[HEAD], m[HEAD + 1], m[HEIGHT_RATIO] = head[0], head[1], head[2] / standing
    bend_step(bend, dt, positions, rotations, state, head[2], standing, facing)
    behind = behind_of(bend)
    if start:
        m[VELOCITY], m[VELOCITY + 1], m[ACCELERATION], m[ACCELERATION + 1] = x, y, 0.0, 0.0
        m[YAW], m[YAW_RATE], m[TURN] = facing, 0.0, 0.0
        m[SLOW], m[SLOW + 1], m[ACROSS] = x, y, _left(m, x, y)
        lean_settle(lean, standing, behind)
        m[STOOD], m[STOOD + 1] = _position(m, lean)
    tracked = state[WAIST_ROLE] != LOST
    goal = 1.0 if tracked else 0.0
    m[BLENDED] = damp(m[BLENDED], goal, fitted.WAIST_HALFLIFE_S, dt) if dt > 0.0 else goal
    if tracked:
        mounting = (devices[1, 3], devices[1, 4], devices[1, 5], devices[1, 6])
        hips = quat.mul_inv(quat.get4(rotations, WAIST_ROLE), mounting)
        arm = quat.rotate(hips, (devices[1, 0], devices[1, 1], devices[1, 2]))
        swing = quat.cross(quat.get3(angular, WAIST_ROLE), arm)
        m[WAIST], m[WAIST + 1] = positions[WAIST_ROLE, 0] - arm[0], positions[WAIST_ROLE, 1] - arm[1]
        x += m[BLENDED] * (velocities[WAIST_ROLE, 0] - swing[0] - x)
        y += m[BLENDED] * (velocities[WAIST_ROLE, 1] - swing[1] - y)
    m[VELOCITY], m[ACCELERATION] = spring(m[VELOCITY], m[ACCELERATION], x, s.velocity_halflife, dt)
    m[VELOCITY + 1], m[ACCELERATION + 1] = spring(m[VELOCITY + 1], m[ACCELERATION + 1], y, s.velocity_halflife, dt)
    # A standard deviation of the facing of 0.5 rad doubles the half-life of the facing smoothing.
    halflife = s.facing_halflife * (1.0 + 2.0 * max(0.0, sigma))
    m[YAW], m[YAW_RATE] = spring_angle(m[YAW], m[YAW_RATE], facing, halflife, dt)
    m[TURN] = damp(m[TURN], max(-fitted.LARGEST_TURN, min(fitted.LARGEST_TURN, m[YAW_RATE])), s.turn_halflife, dt)
    m[SLOW], m[SLOW + 1] = damp(m[SLOW], x, s.trend_halflife, dt), damp(m[SLOW + 1], y, s.trend_halflife, dt)
    m[ACROSS] = damp(m[ACROSS], _left(m, x, y), s.lateral_halflife, dt)
    ahead = math.cos(m[YAW]) * own_x + math.sin(m[YAW]) * own_y
    lean_step(lean, standing, dt, behind, ahead, _left(m, own_x, own_y), m[YAW_RATE])
    px, py = _position(m, lean)
    m[STOOD], m[STOOD + 1] = damp(m[STOOD], px, s.still_halflife, dt), damp(m[STOOD + 1], py, s.still_halflife, dt)


@njit
def _moved(moved: Any, x: float, y: float) -> tuple[float, float]:
    yaw = quat.yaw_of((moved[3], moved[4], moved[5], moved[6]))
    c, s = math.cos(yaw), math.sin(yaw)
    return moved[0] + c * x - s * y, moved[1] + s * x + c * y


@njit
def _carry(m: Any, moved: Any) -> None:
    for at in (VELOCITY, ACCELERATION, SLOW):
        x, y = _moved(moved, m[at], m[at + 1])
        m[at], m[at + 1] = x - moved[0], y - moved[1]
    for at in (HEAD, STOOD):
        m[at], m[at + 1] = _moved(moved, m[at], m[at + 1])
    m[YAW] = quat.wrap(m[YAW] + quat.yaw_of((moved[3], moved[4], moved[5], moved[6])))


@njit
def _left(m: Any, x: float, y: float) -> float:
    return float(math.cos(m[YAW]) * y - math.sin(m[YAW]) * x)


@njit
def _position(m: Any, lean: Any) -> tuple[float, float]:
    """Return the position of the hips: the estimate from the head, blended with the position by the waist tracker."""
    x, y = m[HEAD] - lean[LEAN_NOW] * math.cos(m[YAW]), m[HEAD + 1] - lean[LEAN_NOW] * math.sin(m[YAW])
    if m[BLENDED] > 1e-3:
        return x + m[BLENDED] * (m[WAIST] - x), y + m[BLENDED] * (m[WAIST + 1] - y)
    return x, y


@njit
def _moving(m: Any, lean: Any, s: Any, x: float, y: float, vx: float, vy: float) -> float:
    """Return the confidence that the body walks: 0 while it only sways or bends, 1 while it certainly walks."""
    rate = lean[LEAN_RATE]
    speed = min(math.hypot(vx, vy), math.hypot(vx - rate * math.cos(m[YAW]), vy - rate * math.sin(m[YAW])))
    away = math.hypot(x - m[STOOD], y - m[STOOD + 1])
    left = _ramp(away, s.still_distance, s.moving_distance) * _ramp(speed, 0.0, s.still_speed)
    return max(_ramp(speed, s.still_speed, s.moving_speed), left)


@njit
def _predict(
    m: Any, lean: Any, s: Any, times: Any, shifts: Any, shift_sigma: Any, yaws: Any, yaw_sigma: Any, known: bool,
    now: Any, positions: Any, directions: Any,
) -> float:  # fmt: skip
    """Return the facing [rad], and fill `now` (4,) with the position and velocity of the hips.

    The predicted positions and directions at `times` are written to `positions` and `directions`. If `known` is true,
    `shifts` (3, 2) and `yaws` (3,) are the predictions of the step network at the times `AHEAD_S`.
    """
    s = s[0]
    x, y = _position(m, lean)
    # The smoothing delays the velocity, and the estimated acceleration is used to compensate for this delay.
    lead = s.lead * s.velocity_halflife / math.log(2.0)
    vx, vy = m[VELOCITY] + lead * m[ACCELERATION], m[VELOCITY + 1] + lead * m[ACCELERATION + 1]
    # An uncertain facing is smoothed with a longer delay, but only the delay of a certain facing is compensated,
    # because compensation of the whole delay would amplify the errors of the facing.
    yaw = m[YAW] + s.facing_lead * s.facing_halflife / math.log(2.0) * m[YAW_RATE]
    moving = _moving(m, lean, s, x, y, vx, vy)
    # The predicted velocity is a mix of the current velocity and of its average. The head sways to the side with each
    # step and drifts in a turn, so a slower average replaces most of the lateral average (docs/matching.md).
    across = s.lateral * (m[ACROSS] - _left(m, m[SLOW], m[SLOW + 1]))
    lasting_x = s.trend * vx + (1.0 - s.trend) * m[SLOW] - across * math.sin(m[YAW])
    lasting_y = s.trend * vy + (1.0 - s.trend) * m[SLOW + 1] + across * math.cos(m[YAW])
    unsteady = fitted.STEADY_M_PER_S + math.hypot(vx - m[SLOW], vy - m[SLOW + 1])
    for i in range(len(times)):
        t = np.float64(times[i])
        dx, dy = t * moving * lasting_x, t * moving * lasting_y
        turn = m[TURN] * s.turn_persistence * -math.expm1(-t / s.turn_persistence)
        if known:
            k, part = _between(t)
            dx, dy, turn = _learned(
                s, k, part, moving, unsteady, yaw, shifts, shift_sigma, yaws, yaw_sigma, dx, dy, turn
            )
        positions[i, 0], positions[i, 1] = x + dx, y + dy
        directions[i, 0], directions[i, 1] = math.cos(yaw + turn), math.sin(yaw + turn)
    now[0], now[1], now[2], now[3] = x, y, moving * vx, moving * vy
    return float(quat.wrap(yaw))


@njit
def _between(t: float) -> tuple[int, float]:
    begin = 0.0
    for k in range(len(AHEAD_S)):
        if t < AHEAD_S[k]:
            return k, (t - begin) / (AHEAD_S[k] - begin)
        begin = AHEAD_S[k]
    return len(AHEAD_S) - 1, 1.0


@njit
def _learned(
    s: Any, k: int, part: float, moving: float, unsteady: float, yaw: float, shifts: Any, shift_sigma: Any, yaws: Any,
    yaw_sigma: Any, dx: float, dy: float, turn: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Return displacement and turn predicted from velocities, blended with those that the step network predicts.

    The network's share in the displacement follows from the squares of the expected errors of both predictions.
    `unsteady` is the expected error of a prediction at constant velocity, per second of prediction [m/s].
    """
    share = turn_share = own_x = own_y = own_turn = 0.0
    for i, weight in ((k - 1, 1.0 - part), (k, part)):
        if i >= 0:  # the displacement and the turn that the step network predicts are 0 at the present time
            share += weight * s.learned_ahead / (1.0 + (shift_sigma[i] / (unsteady * AHEAD_S[i])) ** 2)
            turn_share += weight * s.learned_turn / (1.0 + (yaw_sigma[i] / fitted.CERTAIN_RAD) ** 2)
            own_x += weight * moving * shifts[i, 0]
            own_y += weight * moving * shifts[i, 1]
            own_turn += weight * quat.wrap(yaws[i] - yaw)
    return dx + share * (own_x - dx), dy + share * (own_y - dy), turn + turn_share * (own_turn - turn)


@njit
def _ramp(x: float, low: float, high: float) -> float:
    """Return a smooth step function of `x`, which is 0 below `low` and 1 above `high`."""
    u = min(1.0, max(0.0, (x - low) / max(high - low, 1e-9)))
    return u * u * (3.0 - 2.0 * u)


def _check(trackers: TrackerFrame, facing: BodyOrientation) -> None:
    """Raise an error if a tracker or the facing is not finite, because a NaN would stay in the smoothed values."""
    check_trackers(trackers, (HEAD_ROLE, WAIST_ROLE))
    if not math.isfinite(facing.yaw + facing.sigma):
        raise MmRosError(f"facing from '{facing.source}' is not finite: {facing.yaw}, sigma {facing.sigma}")
