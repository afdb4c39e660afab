"""Computation of the motion of both feet, and of the point that supports the weight, from planned footsteps.

A foot on the floor rotates about its heel while the toes are up, and about its ball while the heel is up, so that its
contact point never slides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.body.types import F64
from mm_ros.motion.procedural.footsteps import LEFT, RIGHT, Step
from mm_ros.motion.procedural.smooth import minimum_jerk, quintic, ramp

Array = Any
# Points of a foot that is flat on the floor: distance ahead of the ankle [m] and height above the floor [m]
ANKLE = np.array([0.0, 0.07])
BALL = np.array([0.13, 0.015])
HEEL = np.array([-0.055, 0.0])
TIP = np.array([0.20, 0.015])
CLEARANCE_M = 0.015  # minimum height of the sole above the floor in the middle of a swing (foot in the air)
# Acceleration of the foot at the start of a swing, and deceleration at the end, in swing lengths per swing duration²
THROW, BRAKE = 2.5, 5.0
MIDDLE = 0.055  # horizontal distance [m] from the ankle to the middle of the sole


@dataclass
class FootMotion:
    ankle: F64  # (F, 3) room
    yaw: F64  # (F,)
    pitch: F64  # (F,) pitch of the foot, positive if the heel is up
    toe_pitch: F64  # (F,) pitch of the toes relative to the foot
    planted: Any  # (F,) bool


@dataclass
class Ground:
    """The motion of both feet, and the distribution of the body's weight between them."""

    feet: tuple[FootMotion, FootMotion]
    support: F64  # (F, 2) room
    load_left: F64  # (F,) 0 … 1
    phase: F64  # (F,) number of steps so far; an integer in the middle of each support by one foot
    standing: F64  # (F,) 1 while the person stands on both feet without stepping, else 0


def turned(r: Array, pitch: Array) -> Array:
    """Rotate a vector `r` (forward, up) by the angles `pitch` (…), which are positive if the heel is up."""
    c, s = np.cos(pitch), np.sin(pitch)
    return np.stack([c * r[0] + s * r[1], -s * r[0] + c * r[1]], -1)


def ankle_of(pitch: Array) -> Array:
    """Return the position (forward, up) of the ankle, relative to a flat foot, for a foot on the floor with a pitch."""
    pitch = np.asarray(pitch, float)
    up = BALL + turned(ANKLE - BALL, pitch)
    down = HEEL + turned(ANKLE - HEEL, pitch)
    return np.where((pitch >= 0)[..., None], up, down)


def _ankle_motion(pitch: float, rate: float) -> tuple[Array, Array, Array]:
    pivot = BALL if pitch >= 0 else HEEL
    r = turned(ANKLE - pivot, np.asarray(pitch))
    return pivot + r, rate * np.array([r[1], -r[0]]), -(rate**2) * r


@dataclass(frozen=True)
class _Roll:
    """Pitch of a foot and its time derivative when the foot lands and lifts, and durations of landing and lifting."""

    land: float
    land_rate: float
    lift: float
    lift_rate: float
    settle_s: float
    rise_s: float


def _roll(landing: Step, leaving: Step | None, tiptoe: float, crouch: float) -> _Roll:
    v = landing.forward
    upright = 1 - 0.5 * min(1.0, crouch / 0.3)
    land = -0.36 * ramp(v, 0.05, 1.5) ** 0.7 * upright if v > 0 else 0.30 * ramp(-v, 0.05, 1.0)
    land *= 1 - 0.75 * landing.run
    if tiptoe > 0.1:
        land = 0.12 * ramp(abs(v), 0.05, 1.0)
    stance = (leaving.lift - landing.contact) if leaving else 1.0
    settle = min(0.30 * stance, 0.14 if landing.run < 0.5 else 0.08)
    w = leaving.forward if leaving else 0.0
    run = leaving.run if leaving else 0.0
    lift = 0.14 + 0.88 * ramp(w, 0.0, 1.35) * upright + 0.05 * run if w > -0.1 else 0.02
    if w < -0.1:
        lift = -0.16 * ramp(-w, 0.1, 0.9) if tiptoe < 0.1 else 0.05
    lift *= 1 - 0.55 * min(1.0, tiptoe / 0.5)
    rise = min(0.50 * stance, 0.40)
    return _Roll(land, -0.5 * land / settle, lift, 1.6 * lift / rise, settle, rise)


def _stance_pitch(t: Array, roll: _Roll, contact: float, lift: float) -> Array:
    settle = np.clip((t - contact) / roll.settle_s, 0, 1)
    rise = np.clip((t - (lift - roll.rise_s)) / roll.rise_s, 0, 1)
    zero = (0.0, 0.0, 0.0)
    down = quintic(settle, roll.settle_s, (roll.land, roll.land_rate, 0.0), zero)
    return np.where(settle < 1, down, 0.0) + quintic(rise, roll.rise_s, zero, (roll.lift, roll.lift_rate, 0.0))


def _room(step_xy: Array, yaw: Array, forward: Array, up: Array) -> Array:
    return np.stack([step_xy[..., 0] + np.cos(yaw) * forward, step_xy[..., 1] + np.sin(yaw) * forward, up], -1)


def foot_motion(times: Array, steps: list[Step], tiptoe: Array, sink: Array) -> FootMotion:
    """Return the motion of one foot at `times` from its steps, the first of which must be before `times[0]`."""
    n = len(times)
    out = FootMotion(np.zeros((n, 3)), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, bool))
    rolls = []
    for k, step in enumerate(steps):
        leaving = steps[k + 1] if k + 1 < len(steps) else None
        i = min(np.searchsorted(times, step.contact), n - 1)
        rolls.append(_roll(step, leaving, float(tiptoe[i]), float(sink[i])))
    for k, (step, roll) in enumerate(zip(steps, rolls, strict=True)):
        leaving = steps[k + 1] if k + 1 < len(steps) else None
        lift = leaving.lift if leaving else np.inf
        at = slice(*np.searchsorted(times, [step.contact, lift]))
        pitch = _stance_pitch(times[at], roll, step.contact, lift) + tiptoe[at]
        ankle = ankle_of(pitch)
        out.ankle[at] = _room(step.position, np.full(len(pitch), step.yaw), ankle[:, 0], ankle[:, 1])
        out.yaw[at], out.pitch[at], out.planted[at] = step.yaw, pitch, True
        out.toe_pitch[at] = -np.maximum(pitch, 0.0)
        if leaving is not None:
            _swing(out, times, step, leaving, roll, rolls[k + 1], tiptoe)
    return out


def _swing(
    out: FootMotion, times: Array, step: Step, leaving: Step, roll: _Roll, landing: _Roll, tiptoe: Array
) -> None:
    at = slice(*np.searchsorted(times, [leaving.lift, leaving.contact]))
    if at.start >= at.stop:
        return
    duration = leaving.contact - leaving.lift
    s = (times[at] - leaving.lift) / duration
    base = tiptoe[at]
    pitch = quintic(s, duration, (roll.lift, roll.lift_rate, 0.0), (landing.land, landing.land_rate, 0.0)) + base
    # The toes rise early in the swing, because they would touch the floor otherwise.
    pitch -= (0.62 * max(roll.lift - 0.1, 0.0) + 0.5 * base) * _bump(s)
    turn = leaving.yaw - step.yaw
    turn -= 2 * np.pi * np.round(turn / (2 * np.pi))
    ends = []
    for xy, yaw, angle, rate in (
        (step.position, step.yaw, roll.lift + base[0], roll.lift_rate),
        (leaving.position, leaving.yaw, landing.land + base[-1], landing.land_rate),
    ):
        p, v, a = _ankle_motion(angle, rate)
        ends.append(
            (
                _room(xy, np.asarray(yaw), p[0], p[1]),
                _room(np.zeros(2), yaw, v[0], v[1]),
                _room(np.zeros(2), yaw, a[0], a[1]),
            )
        )
    # The foot starts and lands with a horizontal acceleration, because a slow start or end would look hesitant.
    along = (ends[1][0] - ends[0][0]) / duration**2 * np.array([1.0, 1.0, 0.0])
    throw = THROW * float(ramp(roll.lift + base[0], 0.15, 0.6))
    brake = BRAKE * (1 + 0.5 * leaving.run) * float(ramp(-landing.land, 0.0, 0.2) if leaving.run < 0.5 else 1.0)
    ends = [(p, v, a + k * along) for (p, v, a), k in zip(ends, (throw, -brake), strict=True)]
    ankle = quintic(s[:, None], duration, ends[0], ends[1])
    ankle[:, :2] += 64 * (s**3 * (1 - s) ** 3)[:, None] * leaving.detour
    # At the end of a swing, flat feet and the feet of runners move down, so that they do not scrape the floor.
    length = float(np.hypot(*(leaving.position - step.position)))
    flat = min(0.10 * length, 0.04) * (1 - float(ramp(-landing.land, 0.0, 0.2)))
    ankle[:, 2] += (0.07 * leaving.run + flat * (1 - leaving.run)) * _bump(1 - s)
    ankle[:, 2] += _lift_needed(s, ankle[:, 2], pitch, leaving) * _bump(s)
    out.ankle[at] = ankle
    out.yaw[at] = step.yaw + turn * minimum_jerk(s)
    out.pitch[at] = pitch
    fade = 1 - minimum_jerk(s / 0.4) + minimum_jerk((s - 0.6) / 0.4)
    out.toe_pitch[at] = -np.maximum(pitch, 0.0) * fade


def _bump(s: Array) -> Array:
    """Return a curve over s (0 to 1) with a maximum of 1 at 3/8, whose first two derivatives are 0 at both ends."""
    return s**3 * (1 - s) ** 5 / ((3 / 8) ** 3 * (5 / 8) ** 5)


def _lift_needed(s: Array, ankle_z: Array, pitch: Array, step: Step) -> float:
    """Return how high the foot must be lifted in a swing to keep its sole above the floor and to look natural."""
    speed = abs(step.forward)
    least = 0.006 + 0.004 * min(speed, 1.5) + 0.05 * step.run * min(speed, 4.0)
    inside = (s > 0.22) & (s < 0.62)  # the part of the swing in which the foot is well above the floor
    if not inside.any():
        return least
    lowest = np.min([ankle_z + turned(p - ANKLE, pitch)[:, 1] for p in (BALL, HEEL, TIP)], axis=0)
    need = (CLEARANCE_M - lowest[inside]) / _bump(s)[inside]
    return float(max(least, need.max()))


def ground(times: Array, steps: list[Step], tiptoe: Array, sink: Array) -> Ground:
    of = [[s for s in steps if s.foot == foot] for foot in (LEFT, RIGHT)]
    feet = (foot_motion(times, of[LEFT], tiptoe, sink), foot_motion(times, of[RIGHT], tiptoe, sink))
    starts, stops, points, sides = _supports(steps, float(times[-1]), tiptoe, times)
    knots = np.stack([starts, stops], 1).ravel()
    support = np.stack([_eased(times, knots, points[:, :, i].ravel()) for i in range(2)], 1)
    load = _eased(times, knots, np.repeat(sides, 2))
    middle = (starts + stops) / 2
    stepping = [(s.contact - s.pace, s.contact + s.pace) for s in steps]
    standing = np.ones(len(times))
    for a, b in stepping:
        standing[slice(*np.searchsorted(times, [a, b]))] = 0.0
    kept = np.concatenate([[True], np.diff(middle) > 1e-3])
    phase = np.interp(times, middle[kept], np.arange(len(middle))[kept])
    return Ground(feet, support, load, phase, standing)


def _eased(times: Array, knots: Array, values: Array) -> Array:
    i = np.clip(np.searchsorted(knots, times, side="right") - 1, 0, len(knots) - 2)
    s = (times - knots[i]) / np.maximum(knots[i + 1] - knots[i], 1e-6)
    return values[i] + (values[i + 1] - values[i]) * ramp(s, 0.0, 1.0)


def _supports(steps: list[Step], end: float, tiptoe: Array, times: Array) -> tuple[Array, Array, Array, Array]:
    """Return the times and points at which one foot or both feet carry the weight, and the share of the left foot."""
    rows: list[tuple[float, float, Array, Array, float]] = []
    rest_s = 0.45

    def centre(step: Step) -> tuple[Array, Array, float]:
        on_toes = min(1.0, tiptoe[min(np.searchsorted(times, max(step.contact, 0.0)), len(times) - 1)] / 0.3)
        direction = np.array([np.cos(step.yaw), np.sin(step.yaw)])
        return step.position + (MIDDLE + 0.075 * on_toes) * direction, direction, 1 - on_toes

    latest = {LEFT: steps[0], RIGHT: steps[1]}
    for k, step in enumerate(steps[1:], 1):
        latest[step.foot] = step
        following = steps[k + 1] if k + 1 < len(steps) else None
        start = max(step.contact, following.lift) if following else np.inf
        if start - step.contact > 2.5 * rest_s:
            middle = (centre(latest[LEFT])[0] + centre(latest[RIGHT])[0]) / 2
            last = start - rest_s if following else end + 10.0
            rows.append((max(step.contact + rest_s, -0.5), last, middle, middle, 0.5))
        if following is not None:
            on = latest[LEFT + RIGHT - following.foot]
            again = next((s.lift for s in steps[k + 2 :] if s.foot == on.foot), np.inf)
            point, direction, flat = centre(on)
            roll = np.clip(following.forward / 1.4, -1, 1) * flat
            ends = point - 0.01 * roll * direction, point + 0.085 * roll * direction
            rows.append((start, min(again, following.contact), *ends, float(on.foot == LEFT)))
    starts = np.maximum.accumulate([r[0] for r in rows])
    stops = np.maximum([r[1] for r in rows], starts + 1e-3)
    points = np.array([[r[2], r[3]] for r in rows])
    return starts, stops, points, np.array([r[4] for r in rows])
