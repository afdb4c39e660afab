"""Metrics of the quality of motion, for frames at a constant interval `dt` (1/60 s by default).

The arguments are joint positions (F, J, 3) and rotations (F, J, 4) of F frames in the room, and foot contacts (F, 2).
Most functions whose name ends in a unit return one number per frame, per stance or per event. The function `summarise`
returns the mean, the median and percentiles of the values of a metric. Metrics of the feet and of sudden movements are
in the file motion/metrics_feet.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.body.skeleton import (
    HIPS,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    RIGHT_UPPER_ARM,
    RIGHT_UPPER_LEG,
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
    pop_frames,
    pops_per_min,
    skate_ratio,
    stance_drift_m,
    stance_twist_deg,
    stances,
    toe_speeds,
)

__all__ = [
    "acceleration_limit", "angle_error_deg", "facing_of_body", "facing_of_pelvis", "floor_penetration_m",
    "jitter", "jumps_per_s", "knee_beyond_straight_deg", "locked_motion_m",
    "pop_frames", "pops_per_min", "position_error_m", "root_position", "rotation_error_deg", "skate_ratio",
    "stance_drift_m",
    "stance_twist_deg", "stances", "start_lag_s", "stop_lag_s", "summarise", "toe_speeds",
]  # fmt: skip

Array = Any

STANDING_SPEED = 0.1  # speed [m/s] below which a user stands
MOVING_SPEED = 0.4  # minimum speed [m/s] of the user after a start or before a stop
MIN_STAND_S = 0.3  # minimum time [s] for which the user stands before a start or after a stop
EVENT_S = 1.5  # maximum duration [s] of a start or stop


def summarise(values: Array) -> dict[str, float]:
    """Return the mean, median, 95th and 99th percentiles of the finite values; they are NaN if no value is finite."""
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
    """Return the facing of the pelvis as yaw (F,), which is perpendicular to the line through the hip joints."""
    return _facing(positions[:, LEFT_UPPER_LEG] - positions[:, RIGHT_UPPER_LEG])


def facing_of_body(positions: Array) -> F64:
    """Return the facing of the body as yaw (F,): the mean of the facings of hips and shoulders, without smoothing."""
    hips = positions[:, LEFT_UPPER_LEG] - positions[:, RIGHT_UPPER_LEG]
    shoulders = positions[:, LEFT_UPPER_ARM] - positions[:, RIGHT_UPPER_ARM]
    return _facing(rot.unit(hips) + rot.unit(shoulders))


def _facing(left: Array) -> F64:
    return np.asarray(np.arctan2(-left[..., 0], left[..., 1]), np.float64)


def angle_error_deg(a: Array, b: Array) -> F64:
    """Return the absolute difference [°] between two yaw angles given in radians."""
    return np.asarray(np.abs(np.rad2deg(rot.wrap_angle(np.asarray(a, np.float64) - np.asarray(b, np.float64)))))


def position_error_m(a: Array, b: Array) -> F64:
    """Return the distance between positions `a` and `b`, whose coordinates are along the last axis."""
    return np.asarray(np.linalg.norm(np.asarray(a, np.float64) - np.asarray(b, np.float64), axis=-1))


def rotation_error_deg(a: Array, b: Array) -> F64:
    """Return the angle in degrees between two rotations, given as quaternions of either sign."""
    d = rot.multiply(np.asarray(a, np.float64), rot.inverse(np.asarray(b, np.float64)))
    return np.asarray(np.rad2deg(2 * np.arctan2(np.linalg.norm(d[..., 1:], axis=-1), np.abs(d[..., 0]))))


def root_position(positions: Array) -> F64:
    """Return the horizontal position of the hips (F, 2)."""
    return np.asarray(positions[:, HIPS, :2], np.float64)


def start_lag_s(user: Array, root: Array, dt: float = 1 / 60) -> F64:
    """Return the delay [s] of the avatar's root at each start of the user, from horizontal positions (F, 2).

    The delay is the time from the moment at which the user reaches half of the peak speed to the moment at which the
    root reaches the same speed.
    """
    return _lags(user, root, dt, 1)


def stop_lag_s(user: Array, root: Array, dt: float = 1 / 60) -> F64:
    """Return the delay [s] of the avatar's root at each stop of the user; see `start_lag_s`."""
    return _lags(user, root, dt, -1)


def _lags(user: Array, root: Array, dt: float, way: int) -> F64:
    """Return the root's delays at starts of the user if `way` is 1, and at stops (starts in reversed time) if −1."""
    u, r = (_speed(np.asarray(p, np.float64)[::way], dt) for p in (user, root))
    window, quiet = round(EVENT_S / dt), round(MIN_STAND_S / dt)
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
    """Return the number of frames from `at` to the nearest frame in which `speed` rises above `level` (NaN if none)."""
    first = max(at - window, 1)
    stretch = speed[first - 1 : at + window]
    ups = np.flatnonzero((stretch[:-1] < level) & (stretch[1:] >= level)) + first
    if len(ups) == 0:
        return float("nan")
    return float(ups[np.argmin(np.abs(ups - at))] - at)


def _speed(positions: F64, dt: float) -> F64:
    n = max(round(0.2 / dt), 1)
    if len(positions) < 2:
        return np.zeros(len(positions))
    kernel = np.hanning(n + 2)[1:-1]
    v: Any = np.gradient(positions, dt, axis=0)
    pad = np.pad(v, ((n, n), (0, 0)), mode="edge")
    smooth = np.stack([np.convolve(pad[:, k], kernel / kernel.sum(), "same") for k in range(2)], -1)
    return np.asarray(np.linalg.norm(smooth[n:-n], axis=-1))
