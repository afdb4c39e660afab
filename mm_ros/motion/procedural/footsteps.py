"""Plan the footsteps for a desired motion: at which time each foot lifts, and where and at which time it lands."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mm_ros.body.types import F64
from mm_ros.maths.rotations import wrap_angle
from mm_ros.motion.procedural.desired_motion import DesiredMotion

LEFT, RIGHT = 0, 1
WALK_RATIO = 0.375  # ratio of step length to cadence (steps per second) in a forward walk [m/Hz]
ANKLE_BEHIND = 0.03  # distance [m] of the ankles behind the centre of the body in standing
TOE_OUT = 0.10  # outward angle of each foot [rad]
MOST_TOE_IN = 0.45  # maximum angle [rad] between both feet if their toes point inward


@dataclass(frozen=True)
class Step:
    foot: int
    lift: float  # s
    contact: float  # s
    position: F64  # (2,) horizontal position of the ankle while the foot is flat on the floor
    yaw: float
    forward: float  # mean velocity [m/s] in the direction of the foot, which determines how the foot lands
    pace: float  # time [s] from the landing of one foot to the landing of the other foot
    run: float
    # Maximum lateral displacement [m] of the foot in the air, to avoid the foot on the floor
    detour: F64 = field(default_factory=lambda: np.zeros(2))


@dataclass(frozen=True)
class Gait:
    pace: float  # s per step
    duty: float  # share of the time for which each foot is on the floor
    half_width: float  # lateral distance [m] of each foot from the middle of the body


def gait_at(desired: DesiredMotion, first: float, last: float) -> Gait:
    """Return the gait (duration and width of steps) for the desired motion from `first` to `last` seconds."""
    window = slice(desired.frame(first), desired.frame(last) + 1)
    # Speeds are means of the absolute velocity, because the mean velocity would be 0 in a reversal of direction.
    sign = 1.0 if desired.velocity[window, 0].mean() >= 0 else -1.0
    forward, left = np.abs(desired.velocity[window]).mean(axis=0) * (sign, 1.0)
    turn = float(np.abs(desired.turn[window]).mean())
    run = float(desired.posture["run"][window].mean())
    sink = float(desired.posture["sink"][window].mean())
    speed = float(np.hypot(forward, left))
    fastest = float(np.hypot(*desired.velocity[window].T).max())
    if run > 0.5:
        # The step duration of a runner hardly depends on the speed: about 160 steps per minute.
        return Gait(1 / (2.42 + 0.13 * speed), 0.445 - 0.035 * (speed - 1.8), 0.035)
    # Sideways steps are short, because the feet would cross otherwise. Backward steps are shorter than forward steps.
    along = WALK_RATIO if forward >= 0 else 0.30
    share = (left / speed) ** 2 if speed > 1e-6 else 0.0
    ratio = 1 / ((1 - share) / along + share / 0.11) * (1 - min(0.35, 0.8 * sink))
    cadence = float(np.clip(np.sqrt(max(speed, 0.9 * fastest) / ratio + (turn / 0.85) ** 2), 1.05, 2.5))
    pace = 1 / cadence
    narrow = min(1.0, abs(forward) / 0.8)
    width = 0.092 - 0.046 * narrow + 0.06 * min(1.0, sink / 0.3)
    return Gait(pace, 0.662 - 0.050 * speed, max(width, abs(left) * pace / 2 + 0.07))


def home(desired: DesiredMotion, foot: int, t: float, half_width: float) -> tuple[F64, float]:
    """Return the position and yaw of a foot that is on the floor below the body at time `t`."""
    i = desired.frame(t)
    c, s = np.cos(desired.yaw[i]), np.sin(desired.yaw[i])
    sign = 1.0 if foot == LEFT else -1.0
    # In a walk, the ankle is farther behind the body, because the body passes over the ball of the foot.
    forward = float(np.clip(desired.velocity[i, 0], 0.0, 1.5)) * (1 - desired.posture["run"][i])
    offset = np.array([-ANKLE_BEHIND - 0.05 * forward, sign * half_width])
    position = desired.position[i] + np.array([c * offset[0] - s * offset[1], s * offset[0] + c * offset[1]])
    return position, float(desired.yaw[i] + sign * TOE_OUT)


def plan_footsteps(
    desired: DesiredMotion,
    rng: np.random.Generator | None = None,
    scatter_m: float = 0.008,
    feet: tuple[Step, Step] | None = None,
) -> list[Step]:
    """Plan the steps of both feet; a foot steps only while the body moves away from its feet."""
    steps = [_stand(desired, foot, feet[foot] if feet else None) for foot in (LEFT, RIGHT)]
    planner = _Planner(desired, rng, scatter_m, steps)
    end = (len(desired) - 1) / desired.rate
    t = 0.0
    walking = False
    while t < end:
        step = planner.next(t, walking)
        if step is None:
            t += 1 / desired.rate
            walking = False
        else:
            steps.append(step)
            t = step.contact
            walking = True
    return steps


def _stand(desired: DesiredMotion, foot: int, like: Step | None) -> Step:
    if like is not None:
        position, yaw = like.position, like.yaw
    else:
        position, yaw = _home_at_rest(desired, foot)
    return Step(foot, -1.5 + 0.1 * foot, -1.0 + 0.1 * foot, position, yaw, 0.0, 0.5, 0.0)


def _home_at_rest(desired: DesiredMotion, foot: int) -> tuple[F64, float]:
    return home(desired, foot, 0.0, 0.092 + 0.06 * min(1.0, desired.posture["sink"][0] / 0.3))


def _beside(position: F64, yaw: float, foot: int, other: Step, least: float) -> tuple[F64, float]:
    """Correct the position and yaw of a footstep, so that the feet do not cross and do not point inward too much."""
    sign = 1.0 if foot == LEFT else -1.0
    turned_in = sign * wrap_angle(yaw - other.yaw)
    if turned_in < -MOST_TOE_IN:
        yaw += sign * (-MOST_TOE_IN - turned_in)
    middle = other.yaw + wrap_angle(yaw - other.yaw) / 2
    outward = sign * np.array([-np.sin(middle), np.cos(middle)])
    gap = float((position - other.position) @ outward)
    # Feet need more lateral distance if they point to different directions.
    least += 0.08 * abs(float(np.sin(wrap_angle(yaw - other.yaw))))
    return position + max(0.0, least - gap) * outward, yaw


class _Planner:
    def __init__(
        self, desired: DesiredMotion, rng: np.random.Generator | None, scatter_m: float, steps: list[Step]
    ) -> None:
        self.desired, self.rng, self.scatter_m, self.steps = desired, rng, scatter_m, steps

    def next(self, t: float, walking: bool) -> Step | None:
        """Return the step that begins at time `t`, or None if no foot needs to step."""
        other = LEFT + RIGHT - self.steps[-1].foot
        if walking:
            order = (other,) if self._moving(t) else (other, self.steps[-1].foot)
            near = 0.03
        else:
            if not self._leaving(t):
                return None
            order = self._first_feet(t, other)
            near = 0.04
        for foot in order:
            step = self._step(foot, t, walking)
            if self._differs(step, near):
                return step
        return None

    def _moving(self, t: float) -> bool:
        i, j = self.desired.frame(t), self.desired.frame(t + 0.6)
        return bool(np.hypot(*self.desired.velocity[i : j + 1].mean(axis=0)) > 0.12)

    def _leaving(self, t: float) -> bool:
        i = self.desired.frame(t + 0.35)
        feet = [self._last(foot) for foot in (LEFT, RIGHT)]
        middle = (feet[0].position + feet[1].position) / 2
        c, s = np.cos(self.desired.yaw[i]), np.sin(self.desired.yaw[i])
        centre = self.desired.position[i] - ANKLE_BEHIND * np.array([c, s])
        yaw = feet[0].yaw + wrap_angle(feet[1].yaw - feet[0].yaw) / 2
        return bool(np.hypot(*(centre - middle)) > 0.03 or abs(wrap_angle(self.desired.yaw[i] - yaw)) > 0.12)

    def _last(self, foot: int) -> Step:
        return next(step for step in reversed(self.steps) if step.foot == foot)

    def _first_feet(self, t: float, other: int) -> tuple[int, int]:
        """Return both feet in the order in which they step: first the foot on the side of the motion or turn."""
        i = self.desired.frame(t + 0.5)
        lateral = self.desired.velocity[i, 1] + 0.25 * self.desired.turn[i]
        if abs(lateral) > 0.15:
            first = LEFT if lateral > 0 else RIGHT
        else:
            goals = [home(self.desired, foot, t + 0.6, 0.09)[0] for foot in (LEFT, RIGHT)]
            far = [np.hypot(*(goal - self._last(foot).position)) for foot, goal in enumerate(goals)]
            first = other if abs(far[0] - far[1]) < 0.02 else int(far[1] > far[0])
        return first, LEFT + RIGHT - first

    def _differs(self, step: Step, metres: float) -> bool:
        last = self._last(step.foot)
        far = np.hypot(*(step.position - last.position)) > metres
        return bool(far or abs(wrap_angle(step.yaw - last.yaw)) > 0.1)

    def _step(self, foot: int, t: float, walking: bool) -> Step:
        desired = self.desired
        gait = gait_at(desired, t + 0.05, t + 0.75)
        pace = gait.pace if walking and self._moving(t) else float(np.clip(gait.pace, 0.48, 0.62))
        ahead = gait_at(desired, t + pace, t + 2 * pace)
        contact = t + pace
        swing = min(2 * (1 - gait.duty) * pace, 1.6 * pace if gait.duty < 0.5 else 0.92 * pace)
        lift = max(contact - swing, self._last(foot).contact + 0.12)
        position, yaw = home(desired, foot, contact + ahead.duty * ahead.pace, max(gait.half_width, ahead.half_width))
        if self.rng is not None:
            position = position + self.scatter_m * self.rng.standard_normal(2).clip(-2, 2)
            yaw += 0.02 * float(self.rng.standard_normal())
        run = float(desired.posture["run"][desired.frame(contact)])
        position, yaw = _beside(position, yaw, foot, self._last(LEFT + RIGHT - foot), 0.088 - 0.04 * run)
        travel = (position - self._last(foot).position) / (2 * pace)
        forward = float(np.cos(yaw) * travel[0] + np.sin(yaw) * travel[1])
        return Step(
            foot, lift, contact, position, yaw, forward, pace, float(desired.posture["run"][desired.frame(contact)])
        )
