"""How good is it: metrics over motion at one rate (60 Hz unless `dt` says otherwise).

Arrays are stacked over F frames: joint positions (F, J, 3) and rotations (F, J, 4) in the room, contacts (F, 2).
Functions ending in a unit give one number a frame, a stance or an event; `summarise` makes {mean, median, p95, p99}
of them. The numbers about single feet and about whole-body roughness are in motion/metrics_feet.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.skeleton import (
    HIPS,
    LEFT_HAND,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    NECK,
    RIGHT_HAND,
    RIGHT_UPPER_ARM,
    RIGHT_UPPER_LEG,
    Skeleton,
)
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.motion.metrics_feet import (
    acceleration_limit,
    floor_penetration_m,
    jitter,
    jumps_per_s,
    knee_beyond_straight_deg,
    locked_motion_m,
    pops_per_min,
    skate_ratio,
    stance_drift_m,
    stance_twist_deg,
    stances,
    toe_speeds,
)

__all__ = [
    "acceleration_limit", "angle_error_deg", "facing_of_body", "facing_of_pelvis", "floor_penetration_m",
    "hands_in_reach", "jitter", "jumps_per_s", "knee_beyond_straight_deg", "lean_deg", "locked_motion_m",
    "pops_per_min", "position_error_m", "root_position", "rotation_error_deg", "skate_ratio", "stance_drift_m",
    "stance_twist_deg", "stances", "start_lag_s", "stop_lag_s", "summarise", "toe_speeds",
]  # fmt: skip

Array = Any

STANDING_SPEED = 0.1  # m/s: slower is standing
MOVING_SPEED = 0.4  # m/s: a start reaches, and a stop comes from, at least this
STANDS_FOR_S = 0.3
EVENT_S = 1.5  # a start or stop is over by then


def summarise(values: Array) -> dict[str, float]:
    """NaN frames (nothing to measure) do not count; nothing at all gives NaN."""
    v = np.asarray(values, np.float64).ravel()
    v = v[np.isfinite(v)]
    if len(v) == 0:
        return dict.fromkeys(("mean", "median", "p95", "p99"), float("nan"))
    return {
        "mean": float(v.mean()),
        "median": float(np.median(v)),
        "p95": float(np.percentile(v, 95)),
        "p99": float(np.percentile(v, 99)),
    }


def facing_of_pelvis(positions: Array) -> F64:
    """Yaw (F,) from the line of the hip joints."""
    return _facing(positions[:, LEFT_UPPER_LEG] - positions[:, RIGHT_UPPER_LEG])


def facing_of_body(positions: Array) -> F64:
    """Yaw (F,) from the lines of hips and shoulders together, unsmoothed: the truth that the bounds use."""
    hips = positions[:, LEFT_UPPER_LEG] - positions[:, RIGHT_UPPER_LEG]
    shoulders = positions[:, LEFT_UPPER_ARM] - positions[:, RIGHT_UPPER_ARM]
    return _facing(_unit(hips) + _unit(shoulders))


def _facing(left: Array) -> F64:
    return np.asarray(np.arctan2(-left[..., 0], left[..., 1]), np.float64)


def _unit(v: Array) -> Array:
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-9)


def angle_error_deg(a: Array, b: Array) -> F64:
    """Between yaws (rad): facing_error_deg, predicted_facing_error_deg."""
    return np.asarray(np.abs(np.rad2deg(rot.wrap_angle(np.asarray(a, np.float64) - np.asarray(b, np.float64)))))


def position_error_m(a: Array, b: Array) -> F64:
    """Distance in as many axes as come: target_error_m (x y), head_error_m, hand_error_m."""
    return np.asarray(np.linalg.norm(np.asarray(a, np.float64) - np.asarray(b, np.float64), axis=-1))


def rotation_error_deg(a: Array, b: Array) -> F64:
    """Angle between rotations, of either cover: head_error_deg."""
    d = rot.multiply(np.asarray(a, np.float64), rot.inverse(np.asarray(b, np.float64)))
    return np.asarray(np.rad2deg(2 * np.arctan2(np.linalg.norm(d[..., 1:], axis=-1), np.abs(d[..., 0]))))


def root_position(positions: Array) -> F64:
    """Hips on the floor (F, 2), for root_error_m."""
    return np.asarray(positions[:, HIPS, :2], np.float64)


def hands_in_reach(positions: Array, wrists_wanted: Array, skeleton: Skeleton) -> NDArray[np.bool_]:
    """(F, 2): where the wanted wrist (F, 2, 3) is no farther from the published shoulder than the arm is long."""
    o = skeleton.offsets.astype(np.float64)
    out = np.zeros((len(positions), 2), np.bool_)
    for side, (shoulder, hand) in enumerate(((LEFT_UPPER_ARM, LEFT_HAND), (RIGHT_UPPER_ARM, RIGHT_HAND))):
        length = np.linalg.norm(o[hand]) + np.linalg.norm(o[hand - 1])
        out[:, side] = position_error_m(positions[:, shoulder], wrists_wanted[:, side]) <= length
    return out


def lean_deg(matched: Array, published: Array) -> F64:
    """Angle between the torsos (hips to neck) of the matched and the published pose."""
    a = _unit(np.asarray(matched, np.float64)[:, NECK] - matched[:, HIPS])
    b = _unit(np.asarray(published, np.float64)[:, NECK] - published[:, HIPS])
    return np.asarray(np.rad2deg(np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), (a * b).sum(-1))))


def start_lag_s(user: Array, root: Array, dt: float = 1 / 60) -> F64:
    """For each start of the user (positions (F, 2)): how much later the root has half the speed reached."""
    return _lags(user, root, dt, 1)


def stop_lag_s(user: Array, root: Array, dt: float = 1 / 60) -> F64:
    """For each stop of the user: how much later the root is down to half the speed that the user had."""
    return _lags(user, root, dt, -1)


def _lags(user: Array, root: Array, dt: float, way: int) -> F64:
    """A stop is a start with time running backwards; its lag then has the other sign."""
    u, r = (_speed(np.asarray(p, np.float64)[::way], dt) for p in (user, root))
    window, quiet = round(EVENT_S / dt), round(STANDS_FOR_S / dt)
    out, i = [], quiet
    while i < len(u) - 1:
        stood = u[i - quiet : i].max() < STANDING_SPEED
        reached = u[i : i + window].max()
        if not (stood and u[i] >= STANDING_SPEED and reached >= MOVING_SPEED):
            i += 1
            continue
        at = i + int(np.argmax(u[i : i + window] >= reached / 2))
        out.append(_nearest_crossing(r, reached / 2, at, window) * dt * way)
        i = at + quiet
    return np.array(out)


def _nearest_crossing(speed: F64, level: float, at: int, window: int) -> float:
    """Frames from `at` to where speed comes up through `level`; NaN when it never does within the window.

    Looked for within one window either way; running the other way, the crossing is the same one from behind.
    """
    first = max(at - window, 1)
    stretch = speed[first - 1 : at + window]
    ups = np.flatnonzero((stretch[:-1] < level) & (stretch[1:] >= level)) + first
    if len(ups) == 0:
        return float("nan")
    return float(ups[np.argmin(np.abs(ups - at))] - at)


def _speed(positions: F64, dt: float) -> F64:
    """Smoothed over 0.2 s, so that a sway or a step is not a start."""
    n = max(round(0.2 / dt), 1)
    if len(positions) < 2:
        return np.zeros(len(positions))
    kernel = np.hanning(n + 2)[1:-1]
    v: Any = np.gradient(positions, dt, axis=0)
    pad = np.pad(v, ((n, n), (0, 0)), mode="edge")
    smooth = np.stack([np.convolve(pad[:, k], kernel / kernel.sum(), "same") for k in range(2)], -1)
    return np.asarray(np.linalg.norm(smooth[n:-n], axis=-1))
