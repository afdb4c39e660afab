"""The guard between follower and robot limits the commands: it starts with a ramp, needs a pressed deadman switch, and
stops smoothly.

The guard is a state machine over time, without ROS: off → ramp → live → stopping → held. After a stop, the user must
release and press the deadman switch again, and a new start ramp begins at the robot's measured state, or at the last
command if the robot does not report its state. The guard is not a certified safety function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mm_ros.base.settings import Settings, setting
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot

OFF, WAITING, RAMP, LIVE, STOPPING, HELD = "off", "waiting", "ramp", "live", "stopping", "held"
DISABLED, RELEASED = "not enabled", "the deadman was released"
PRESS_AGAIN = "release the deadman, and then press it"
NO_DEADMAN = f"no state of the deadman is received; {PRESS_AGAIN}"
# A release counts after this time [s], because a driver that starts may first report that no button is pressed.
SURELY_RELEASED_S = 0.2
HOLD_S = 1.0  # After a stop of the robot, the guard repeats the last command for this time [s].
LATE_TICKS = 10.0  # The robot stops if a command is this many periods late, because the process has then stalled.
STILL = 1e-6  # A robot joint that is slower than this [rad/s] counts as stopped.
# Maximum speed, maximum acceleration and settling time of the robot's base: first x y z, then the rotation.
BASE_SPEED, BASE_ACCELERATION = np.repeat([3.0, 6.0], 3), np.repeat([15.0, 60.0], 3)  # m/s rad/s, m/s² rad/s²
BASE_SETTLE_S = np.repeat([0.1, 0.06], 3)
# If the robot's desired base moves or turns by more than this between two commands, the user was re-centred.
BASE_JUMP_M, BASE_JUMP_RAD = 0.3, 0.5


@dataclass(frozen=True)
class GuardSettings(Settings):
    rate: float = setting(
        50.0, "Rate of robot commands. The controllers SONIC and TWIST2 need 50 Hz.", "Hz", 10.0, 500.0, live=False
    )
    ramp: float = setting(
        2.0, "Duration of the ramp from the robot's measured state to the avatar's pose. With a longer ramp, the robot "
             "starts more gently.", "s", 0.5, 60.0
    )
    command_speed: float = setting(
        6.0,
        "Maximum speed of the robot's joints in commands. A lower speed is safer, but lets the robot lag behind.",
        "rad/s", 0.01, 50.0,
    )
    command_acceleration: float = setting(
        60.0, "Maximum acceleration of the robot's joints in commands. With a lower acceleration, motion is smoother, "
              "but the robot lags behind fast motion.", "rad/s²", 0.1, 5000.0
    )
    stale_after: float = setting(
        0.25, "The robot stops when the newest pose of the avatar or the newest state of the robot is older than "
              "`stale_after`. A larger value tolerates longer gaps between messages.", "s", 0.02, 5.0
    )
    largest_jump: float = setting(
        0.3, "The robot stops when a measured joint angle changes by more than this threshold between two messages. A "
             "larger threshold tolerates more noise of the measured joint angles.", "rad", 0.01, 6.3
    )
    largest_error: float = setting(
        0.8, "The robot stops when a measured joint angle differs from the commanded angle by more than this "
             "threshold. A larger threshold tolerates larger tracking errors of the robot.", "rad", 0.05, 6.3
    )


@dataclass(frozen=True)
class Command:
    """Command for the joints of a robot. During the start ramp, which moves the robot to the
    avatar's pose, `share` grows from 0 to 1. `runs` is false while the robot brakes and afterwards stands still."""

    positions: F64  # rad
    velocities: F64  # rad/s
    share: float = 1.0
    runs: bool = True


class Limiter:
    """Moves joints from angles `x` with speeds `v` to target angles within limits of position, speed and
    acceleration."""

    def __init__(self, x: F64, lower: F64, upper: F64) -> None:
        self.x, self.v, self.lower, self.upper = np.array(x, np.float64), np.zeros(len(x)), lower, upper

    def track(self, wanted: F64, rates: F64, speed: float, a: float, dt: float) -> None:
        """Move the joints toward the target as fast as the limits of speed and acceleration allow, without overshoot.
        """
        error = np.clip(wanted, self.lower, self.upper) - self.x
        closing = np.minimum(np.abs(error) / dt, _brakes(np.abs(error), a, dt))
        self._move(np.clip(rates + np.sign(error) * closing, -speed, speed), a, dt)

    def brake(self, a: float, dt: float) -> None:
        self._move(np.zeros_like(self.v), a, dt)

    def _move(self, velocity: F64, a: float, dt: float) -> None:
        v = np.clip(velocity, self.v - a * dt, self.v + a * dt)
        # The speed of each joint is limited so that the joint can stop before its position limits. A joint whose
        # measured position is beyond a limit may only move back.
        v = np.minimum(v, _brakes(self.upper - self.x, a, dt))
        v = np.maximum(v, -_brakes(self.x - self.lower, a, dt))
        self.x, self.v = self.x + v * dt, v


class CommandGuard:
    """Guard that converts target angles to commands for the joints in `names`, within the limits of these joints. All
    times that are given to the methods of the guard are in seconds of one clock."""

    def __init__(
        self, names: Sequence[str], lower: F64, upper: F64, settings: GuardSettings, start: F64 | None = None,
        obeys: bool = True,
    ) -> None:  # fmt: skip
        """`start` is the assumed start pose of a robot that does not report its state, and None for other robots.
        `obeys` states whether the robot receives the commands, so that its measured state must follow them."""
        self.names, self.lower, self.upper, self.settings = tuple(names), lower, upper, settings
        self.start, self._obeys = start, obeys
        self.state, self.reason = OFF, DISABLED
        self._armed = False  # true if the user has released the deadman switch since the last stop of the robot
        self._released_at: float | None = None  # time since when the deadman switch has been released without a pause
        self._moved = Limiter(np.zeros(len(self.names)), lower, upper)
        self._from = self._moved.x
        self._since = self._held_at = 0.0
        self._last: float | None = None
        self._measured: F64 | None = None
        self._measured_at = -np.inf
        self._jumped = ""

    def measure(self, now: float, angles: F64) -> None:
        """Store the measured angles of the robot's joints `names`, received at the time `now` [s]."""
        if not np.isfinite(angles).all():
            self._jumped = "the robot state is not finite"
            return
        if self._measured is not None and now - self._measured_at < 1.0:
            step = np.abs(angles - self._measured)
            if step.max(initial=0.0) > self.settings.largest_jump:
                name = self.names[int(step.argmax())]
                self._jumped = f"the robot state of '{name}' jumped by {step.max():.2f} rad"
        self._measured, self._measured_at = angles, now

    def stop(self, reason: str) -> None:
        """Begin a smooth stop, which lasts until the user releases and presses the deadman switch again."""
        if self.state in (RAMP, LIVE):
            self.state, self.reason, self._armed = STOPPING, reason, False

    def step(
        self, now: float, enabled: bool | None, target: F64 | None, rates: F64 | None, target_at: float
    ) -> Command | None:
        """Return the command to send to the robot now, or None if no command is sent. The desired angles `target`
        arrived at the time `target_at`. `enabled` states whether the deadman switch is pressed; None means that this is
        unknown, which stops the robot but does not count as a release."""
        dt = 1 / self.settings.rate
        gap = 0.0 if self._last is None else now - self._last
        self._last = now
        self._arm(now, enabled)
        if self.state in (RAMP, LIVE):
            fault = self._fault(now, enabled, target, target_at, gap, dt)
            if fault:
                self.stop(fault)
        elif self.state != STOPPING and enabled and self._armed:
            self._begin(now, target, target_at)
        self._jumped = ""
        if self.state in (RAMP, LIVE):
            assert target is not None
            return self._follow(now, target, np.zeros_like(target) if rates is None else rates, dt)
        if self.state == STOPPING:
            self._moved.brake(self.settings.command_acceleration, dt)
            if np.abs(self._moved.v).max(initial=0.0) < STILL:
                self.state, self._held_at = HELD, now
                if self.start is not None:  # A robot without feedback is assumed to be where it was commanded to be.
                    self.start = self._moved.x
            return Command(self._moved.x, self._moved.v, runs=False)
        if self.state == HELD and now - self._held_at < HOLD_S:
            return Command(self._moved.x, np.zeros_like(self._moved.x), runs=False)
        return None

    @property
    def accepts_a_press(self) -> bool:
        """Whether the robot moves, or will move when the deadman switch is pressed."""
        return self._armed or self.state in (RAMP, LIVE)

    def release(self) -> None:
        """Stop the robot, and accept the next press of the deadman switch."""
        self.stop(RELEASED)
        self._armed = True

    def _arm(self, now: float, enabled: bool | None) -> None:
        """Decide whether the next press of the deadman switch starts the robot, and state this in `reason`."""
        if enabled is not False:
            self._released_at = None
        elif self._released_at is None:
            self._released_at = now
        if self.state in (RAMP, LIVE):
            return
        if enabled is None:
            self._armed = False
        elif self._released_at is not None and now - self._released_at >= SURELY_RELEASED_S:
            self._armed = True
        if self.state in (OFF, WAITING) and not self._armed:
            self.state, self.reason = OFF, NO_DEADMAN if enabled is None else PRESS_AGAIN
        elif self.state == OFF:
            self.reason = DISABLED
        elif not self._armed and enabled is not False and PRESS_AGAIN not in self.reason:
            self.reason += f"; {PRESS_AGAIN}"

    def _fault(
        self, now: float, enabled: bool | None, target: F64 | None, target_at: float, gap: float, dt: float
    ) -> str:
        s = self.settings
        if not enabled:
            return NO_DEADMAN if enabled is None else RELEASED
        if target is None or now - target_at > s.stale_after:
            return "no new pose of the avatar"
        if not np.isfinite(target).all():
            return "the target is not finite"
        if gap > max(LATE_TICKS * dt, s.stale_after):
            return f"this process stalled for {gap:.2f} s"
        if self.start is not None:
            return ""
        if self._jumped:
            return self._jumped
        if self._measured is None or now - self._measured_at > s.stale_after:
            return "no new state of the robot"
        error = np.abs(self._measured - self._moved.x)
        if self._obeys and error.max(initial=0.0) > s.largest_error:
            return f"'{self.names[int(error.argmax())]}' is {error.max():.2f} rad from its command"
        return ""

    def _begin(self, now: float, target: F64 | None, target_at: float) -> None:
        measured = self.start if self.start is not None else self._measured
        fresh = self.start is not None or now - self._measured_at <= self.settings.stale_after
        if measured is None or not fresh:
            self.state, self.reason = WAITING, "no state of the robot is received"
        elif target is None or now - target_at > self.settings.stale_after:
            self.state, self.reason = WAITING, "no pose of the avatar is received"
        elif self._jumped:
            self.state, self.reason = WAITING, self._jumped
        else:
            self.state, self.reason = RAMP, ""
            self._moved = Limiter(measured, self.lower, self.upper)
            self._from, self._since = self._moved.x, now

    def _follow(self, now: float, target: F64, rates: F64, dt: float) -> Command:
        t = min(max((now - self._since) / self.settings.ramp, 0.0), 1.0)
        if t >= 1.0:
            self.state = LIVE
        share = t * t * (3.0 - 2.0 * t)
        s, wanted = self.settings, self._from + share * (target - self._from)
        self._moved.track(wanted, share * rates, s.command_speed, s.command_acceleration, dt)
        return Command(self._moved.x, self._moved.v, share)


class BaseGuard:
    """Guard of the commanded pose of the robot's base. This pose does not jump, and it is constant after a stop. Robot
    controllers use the heading, height and velocity of the base, but not its absolute position. The commanded pose
    therefore stays the same when commands start or when the user is re-centred, and the guard instead changes the
    transform from the room to the frame of the commands."""

    def __init__(self, rate: float) -> None:
        self._dt = 1 / rate
        self.pose: F64 | None = None  # commanded pose of the robot's base: x y z qw qx qy qz
        self._v = np.zeros(6)  # commanded linear and angular velocity of the robot's base, in world axes
        self._before: F64 | None = None
        self._turn, self._move = 0.0, np.zeros(2)  # transform (yaw, x y) from the room to the frame of the commands

    def step(self, base: F64, runs: bool) -> F64:
        """Return the pose to command for the robot's base to follow `base`, or to stop if `runs` is false."""
        if self.pose is None:
            self.pose = np.array(base, np.float64)
        wanted, a = np.zeros(6), BASE_ACCELERATION * self._dt
        if runs:
            if self._before is None or self._jumped(base, self._before):
                self._turn = float(rot.yaw_of(self.pose[3:]) - rot.yaw_of(base[3:]))
                self._move = self.pose[:2] - rot.rotate(rot.from_yaw(self._turn), base[:3])[:2]
            turn = rot.from_yaw(self._turn)
            place, rotation = rot.rotate(turn, base[:3]), rot.multiply(turn, base[3:])
            place[:2] += self._move
            error = np.concatenate([place - self.pose[:3], rot.log(rot.multiply(rotation, rot.inverse(self.pose[3:])))])
            wanted = np.clip(error / BASE_SETTLE_S, -BASE_SPEED, BASE_SPEED)
        self._before = np.array(base) if runs else None
        self._v = np.clip(wanted, self._v - a, self._v + a)
        turned = rot.multiply(rot.exp(self._v[3:] * self._dt), self.pose[3:])
        self.pose = np.concatenate([self.pose[:3] + self._v[:3] * self._dt, rot.normalize(turned)])
        return self.pose

    def _jumped(self, base: F64, before: F64) -> bool:
        turned = rot.wrap_angle(float(rot.yaw_of(base[3:]) - rot.yaw_of(before[3:])))
        return bool(np.linalg.norm(base[:2] - before[:2]) > BASE_JUMP_M or abs(turned) > BASE_JUMP_RAD)


def _brakes(distance: F64, a: float, dt: float) -> F64:
    """Return the highest speed from which a joint can stop within `distance`, if its speed changes once per step dt."""
    half = a * dt / 2
    # A joint that brakes with the deceleration a from the speed v needs the distance v² / 2a + v · dt / 2, and up to a
    # · dt² / 8 more, because v changes in steps of a · dt.
    room = np.clip(distance - a * dt * dt / 8, 0.0, 1e6)
    return np.asarray(np.minimum(np.sqrt(half * half + 2 * a * room) - half, np.maximum(distance, 0.0) / dt))
