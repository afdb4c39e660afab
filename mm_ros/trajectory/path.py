"""Desired trajectory along a smooth path of key points, with a speed at each point and a stop at the end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.timeline import DROP, RESET, Timeline
from mm_ros.body.types import F64, Trajectory, identity_pose
from mm_ros.maths.signals import wrap

SPACING_M = 0.005  # between the points at which the path is tabulated


@dataclass(frozen=True)
class PathSettings(Settings):
    speed: float = setting(1.2, "Speed along the path, because nav_msgs/Path carries no speeds.", "m/s", 0.05, 8.0)
    acceleration: float = setting(
        1.5, "Maximum acceleration along the path. Larger values start and stop faster.", "m/s²", 0.1, 20.0
    )
    cornering: float = setting(
        2.0, "Maximum acceleration across the path. Larger values allow faster bends.", "m/s²", 0.1, 20.0
    )


class PathStage:
    """Follows a path once, from the first step after `set_path`, then stands at its end."""

    def __init__(self, settings: PathSettings, times: tuple[float, ...]):
        self.settings = settings
        self.set_times(times)
        self.timeline = Timeline()
        self.start_ns: int | None = None
        self.set_path([(0.0, 0.0)])

    def set_times(self, times: tuple[float, ...]) -> None:
        """Set the prediction times [s]: the `trajectory_times` of the feature layout."""
        self.times = np.array(times, np.float32)

    def reset(self) -> None:
        """Return to the first point of the path."""
        self.timeline.reset()
        self.start_ns = None

    def set_path(self, points: Any, speeds: Any = None, yaws: Any = None) -> None:
        """Set the key points and return to the first one.

        `points` (N, 2) [m]; `speeds` (N,) [m/s], default `settings.speed`; `yaws` (N,) [rad], default along the path.
        """
        keys = _key_points(points)
        speeds = np.full(len(keys), self.settings.speed) if speeds is None else np.asarray(speeds, np.float64)
        if speeds.shape != (len(keys),) or not np.isfinite(speeds).all() or (speeds < 0).any():
            raise MmRosError(f"path: expected {len(keys)} speeds of 0 or more, came {speeds}")
        if (speeds[:-1] <= 0).any() and len(keys) > 1:
            speeds = np.maximum(speeds, 0.1)  # at speed 0 within the path the motion would never continue
        self.points, place = smooth_line(keys)
        self.along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(self.points, axis=0), axis=1))])
        speed = _allowed_speed(
            self.points, self.along, np.interp(place, np.arange(len(keys)), speeds),
            self.settings.acceleration, self.settings.cornering,
        )  # fmt: skip
        middle = np.maximum((speed[1:] + speed[:-1]) / 2, 1e-3)
        self.when = np.concatenate([[0.0], np.cumsum(np.diff(self.along) / middle)])
        self.facing = self._facing(place, keys, yaws)
        self.reset()

    def _facing(self, place: F64, keys: F64, yaws: Any) -> F64:
        if yaws is not None:
            given = np.unwrap(np.asarray(yaws, np.float64))
            if given.shape != (len(keys),) or not np.isfinite(given).all():
                raise MmRosError(f"path: expected {len(keys)} finite yaws, came {yaws}")
            return np.interp(place, np.arange(len(keys)), given)
        if len(self.points) < 2:
            return np.zeros(1)
        way = np.gradient(self.points, axis=0)
        return np.unwrap(np.arctan2(way[:, 1], way[:, 0]))

    @property
    def seconds(self) -> float:
        return float(self.when[-1])

    def step(self, stamp_ns: int) -> Trajectory | None:
        verdict, _ = self.timeline.judge(stamp_ns)
        if verdict == DROP:
            return None
        if self.start_ns is None or verdict == RESET:
            self.start_ns = stamp_ns
        t = (stamp_ns - self.start_ns) * 1e-9
        position, velocity, yaw = self.at(t)
        ahead = [self.at(t + float(s)) for s in self.times]
        yaws = np.array([a[2] for a in ahead])
        return Trajectory(
            stamp_ns, 0, "path", position, velocity, wrap(yaw), 0.0, 1.0,
            self.times.copy(), np.stack([a[0] for a in ahead]).astype(np.float32),
            np.stack([np.cos(yaws), np.sin(yaws)], -1).astype(np.float32), False, identity_pose(),
        )  # fmt: skip

    def at(self, t: float) -> tuple[F64, F64, float]:
        """Position [m], velocity [m/s] and facing [rad] at t seconds after the start."""
        h = 0.01
        here, later = self._place(t), self._place(t + h)
        return here, (later - here) / h, float(np.interp(t, self.when, self.facing))

    def _place(self, t: float) -> F64:
        return np.array([np.interp(t, self.when, self.points[:, k]) for k in range(2)])


def _key_points(points: Any) -> F64:
    keys = np.asarray(points, np.float64)
    if keys.ndim != 2 or keys.shape[1] != 2 or not len(keys) or not np.isfinite(keys).all():
        raise MmRosError(f"path: expected at least one finite point (x, y), came shape {keys.shape}")
    return keys


def smooth_line(keys: F64) -> tuple[F64, F64]:
    """Points along a centripetal Catmull-Rom curve through the key points, and the fractional key index of each."""
    if len(keys) < 2:
        return keys.copy(), np.zeros(len(keys))
    before, after = 2 * keys[0] - keys[1], 2 * keys[-1] - keys[-2]
    p = np.concatenate([before[None], keys, after[None]])
    points, place = [keys[:1]], [np.zeros(1)]
    for i in range(len(keys) - 1):
        n = max(2, math.ceil(float(np.linalg.norm(keys[i + 1] - keys[i])) / SPACING_M))
        u = np.arange(1, n + 1) / n
        points.append(_centripetal(p[i : i + 4], u))
        place.append(i + u)
    return np.concatenate(points), np.concatenate(place)


def _centripetal(p: F64, u: F64) -> F64:
    """Catmull-Rom segment from p[1] (u = 0) to p[2] (u = 1) by the Barry-Goldman pyramid."""
    knots = np.concatenate([[0.0], np.cumsum(np.sqrt(np.maximum(np.linalg.norm(np.diff(p, axis=0), axis=1), 1e-6)))])
    t = knots[1] + u * (knots[2] - knots[1])

    def mix(a: F64, b: F64, i: int, j: int) -> F64:
        w = ((t - knots[i]) / (knots[j] - knots[i]))[:, None]
        return np.asarray((1 - w) * a + w * b)

    a = [mix(p[i], p[i + 1], i, i + 1) for i in range(3)]
    b = [mix(a[i], a[i + 1], i, i + 2) for i in range(2)]
    return mix(b[0], b[1], 1, 2)


def _allowed_speed(points: F64, along: F64, desired: F64, acceleration: float, cornering: float) -> F64:
    """The desired speed, limited in bends and by the acceleration from and to a stop at both ends."""
    speed = desired.copy()
    if len(points) > 2:
        way = np.gradient(points, axis=0)
        yaw = np.unwrap(np.arctan2(way[:, 1], way[:, 0]))
        bend = np.abs(np.gradient(yaw) / np.maximum(np.gradient(along), 1e-9))
        speed = np.minimum(speed, np.sqrt(cornering / np.maximum(bend, 1e-9)))
    speed[0] = speed[-1] = 0.0
    gap = np.diff(along)
    for i in range(1, len(speed)):
        speed[i] = min(speed[i], math.sqrt(speed[i - 1] ** 2 + 2 * acceleration * gap[i - 1]))
    for i in range(len(speed) - 2, -1, -1):
        speed[i] = min(speed[i], math.sqrt(speed[i + 1] ** 2 + 2 * acceleration * gap[i]))
    return speed
