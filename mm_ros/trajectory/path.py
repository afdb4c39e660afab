"""Compute the desired trajectory along a smooth path through key points, each with its own speed and pause."""

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

SPACING_M = 0.005  # distance between two neighbouring points in the table of a path [m]
JOINS_M = 0.1  # a character that is farther than this from the start of a path first walks to the start [m]
MOST_KEYS = 20_000
LONGEST_M = 5000.0  # maximum length of a path [m], so that its table does not need too much memory


@dataclass(frozen=True)
class PathSettings(Settings):
    speed: float = setting(
        1.2, "Speed along the path at the key points for which `speeds` has no entry.", "m/s", 0.05, 8.0
    )
    acceleration: float = setting(
        1.5, "Maximum acceleration along the path; with a larger acceleration the character starts and stops faster.",
        "m/s²", 0.1, 20.0,
    )
    cornering: float = setting(
        2.0, "Maximum acceleration across the path; with a larger acceleration the character walks faster in bends.",
        "m/s²", 0.1, 20.0,
    )
    speeds: tuple[float, ...] = setting(
        (0.0,),
        "Speed at each key point [m/s]; the speed changes evenly between key points. The parameter `speed` replaces an "
        "entry of `speeds` that is 0 or missing.",
    )
    pauses: tuple[float, ...] = setting(
        (0.0,), "Time for which the character stands at each key point [s]. The character does not stop where "
                "the entry of `pauses` is 0 or missing."
    )
    headings: bool = setting(
        False, "If true, the character faces in the directions of the path's poses; if false, it faces along the path."
    )
    loop: bool = setting(False, "If true, the character walks from the last key point to the first, without end.")


@dataclass(frozen=True)
class Timetable:
    """Table of the character's positions and facings on a path, by time.

    The character is at `points` (N, 2) [m] with the unwrapped `facing` [rad] at the times `when` [s], and reaches the
    key points `keys` (K, 2) at the times `keys_when` [s].
    """

    when: F64
    points: F64
    facing: F64
    keys: F64
    keys_when: F64

    @property
    def seconds(self) -> float:
        return float(self.when[-1])

    def place(self, t: float) -> F64:
        return np.array([np.interp(t, self.when, self.points[:, k]) for k in range(2)])


class PathStage:
    """Compute the desired trajectory of a character that walks along a path.

    The walk begins at the first call of `step` after `set_path`. At the end of the path, the character stands or begins
    the path again as a loop. If the character is already walking, a new path begins at its position and speed, and the
    character walks to the first key point.
    """

    def __init__(self, settings: PathSettings, times: tuple[float, ...]):
        self.settings = settings
        self.set_times(times)
        self.timeline = Timeline()
        self.start_ns: int | None = None
        self._now = 0.0
        self.set_path([(0.0, 0.0)])

    def set_times(self, times: tuple[float, ...]) -> None:
        """Set the times from now [s] for which the trajectory is predicted."""
        self.times = np.array(times, np.float32)

    def reset(self) -> None:
        """Move the character to the first point of the path."""
        self.timeline.reset()
        self.start_ns = None

    def set_path(self, points: Any, speeds: Any = None, yaws: Any = None, pauses: Any = None) -> None:
        """Let the character walk along a new path through the key points `points` (N, 2) [m].

        `speeds` (N,) [m/s] and `pauses` (N,) [s] are by default the `speeds` and `pauses` of the settings. `yaws` (N,)
        [rad] are the headings at the key points; by default the character faces along the path.
        """
        keys = _key_points(points)
        n, s = len(keys), self.settings
        speeds = _filled(s.speeds, n, s.speed) if speeds is None else _checked("speeds", speeds, n)
        pauses = _filled(s.pauses, n, 0.0) if pauses is None else _checked("pauses", pauses, n)
        if yaws is not None:
            yaws = np.asarray(yaws, np.float64)
            if yaws.shape != (n,) or not np.isfinite(yaws).all():
                raise MmRosError(f"path: expected {n} finite yaws, came {yaws}")
        if n > 1:
            # with speed 0 at a key point the character would stand there for ever
            speeds = np.maximum(speeds, 0.1)
        loops = s.loop and n > 1
        first, around = (keys, speeds, pauses, yaws), None
        if loops:
            closed = np.r_[np.arange(n), 0]
            first = (keys[closed], speeds[closed], pauses[closed], None if yaws is None else yaws[closed])
            around = self._table(*first, 0.0 if pauses[0] else float(speeds[0]), periodic=True)
        began = 0.0
        if self.start_ns is not None:
            here, velocity, yaw = self.at(self._now)
            began = float(np.linalg.norm(velocity))
            if float(np.linalg.norm(here - keys[0])) > JOINS_M:
                first = (np.vstack([here, first[0]]), np.r_[speeds[0], first[1]], np.r_[0.0, first[2]],
                         None if first[3] is None else np.r_[yaw, first[3]])  # fmt: skip
        self._first = self._table(*first, began, around is not None and not pauses[0], before=self._facing_now())
        self._around = around
        self.keys = keys
        self.points = self._first.points if around is None else np.concatenate([self._first.points, around.points])
        self.timeline.reset()
        self.start_ns = None

    def go_to(self, point: Any, yaw: float | None = None) -> None:
        """Walk straight to a point, and turn there to the heading `yaw` [rad] if a heading is given."""
        goal = _key_points([point])[0]
        here, _, before = self.at(self._now)
        if yaw is None:
            self._keep(np.vstack([here, goal]), None)
            return
        way = goal - here
        long = float(np.linalg.norm(way))
        course = before if long < JOINS_M else math.atan2(way[1], way[0])
        turns = here + way * np.array([[0.15], [0.7]])  # Between these two points, the character faces along its path.
        self._keep(np.vstack([here, turns, goal]), np.array([before, course, course, yaw]))

    def append(self, point: Any) -> None:
        """Append a key point to the path, after the key points that the character has not reached yet."""
        new = _key_points([point])
        here = self.at(self._now)[0]
        table, own = self._table_at(self._now)
        self._keep(np.vstack([here, table.keys[table.keys_when > own], new]), None)

    def _keep(self, keys: F64, yaws: Any) -> None:
        """Set the key points of a path that begins at the present place, without the speeds and pauses of the settings.
        """
        n = len(keys)
        given, self.settings = self.settings, self.settings.with_values(loop=False)
        try:
            self.set_path(keys, np.full(n, given.speed), yaws, np.zeros(n))
        finally:
            self.settings = given

    def _facing_now(self) -> float | None:
        return None if self.start_ns is None else self.at(self._now)[2]

    def _table(
        self, keys: F64, speeds: F64, pauses: F64, yaws: Any, began: float, runs_on: bool = False,
        periodic: bool = False, before: float | None = None,
    ) -> Timetable:  # fmt: skip
        points, place = smooth_line(keys, periodic)
        along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
        wanted = np.interp(place, np.arange(len(keys)), speeds)
        at_key = np.searchsorted(place, np.arange(len(keys)))
        wanted[at_key[1:-1][pauses[1:-1] > 0]] = 0.0
        end = float(speeds[-1]) if (runs_on or periodic) and not pauses[-1] else 0.0
        speed = _allowed_speed(points, along, wanted, self.settings.acceleration, self.settings.cornering, began, end)
        when = np.concatenate([[0.0], np.cumsum(np.diff(along) / np.maximum((speed[1:] + speed[:-1]) / 2, 1e-3))])
        facing = self._facing(points, place, keys, yaws, before)
        keys_when = when[at_key] + np.cumsum(pauses) - pauses
        for k in np.flatnonzero(pauses > 0)[::-1]:
            i = int(at_key[k])
            if i == 0 and periodic:
                continue  # the character pauses at the first key point of a loop at the end of the lap
            when = np.concatenate([when[: i + 1], when[i:] + pauses[k]])
            points = np.concatenate([points[: i + 1], points[i:]])
            facing = np.concatenate([facing[: i + 1], facing[i:]])
        return Timetable(when, points, facing, keys, keys_when)

    @staticmethod
    def _facing(points: F64, place: F64, keys: F64, yaws: Any, before: float | None) -> F64:
        if yaws is not None:
            return np.asarray(np.interp(place, np.arange(len(keys)), np.unwrap(yaws)))
        if len(points) < 2 or not np.ptp(points, axis=0).any():
            return np.full(len(points), before or 0.0)
        way = np.gradient(points, axis=0)
        return np.unwrap(np.arctan2(way[:, 1], way[:, 0]))

    @property
    def seconds(self) -> float:
        """Time that the character needs for the path, or for the first lap of a path that is a loop [s]."""
        return self._first.seconds

    @property
    def keys_when(self) -> F64:
        """Times [s] after the start at which the character reaches the key points (in a loop: in its first lap)."""
        return self._first.keys_when

    @property
    def progress(self) -> float:
        """Share of the path, or of the present lap, that the character has walked, from 0 to 1."""
        t = self._now if self._around is None or self._now < self.seconds else self._lap(self._now)
        whole = self.seconds if self._around is None or self._now < self.seconds else self._around.seconds
        return min(1.0, t / whole) if whole > 0 else 1.0

    def course(self) -> tuple[F64, int]:
        """Return the points (N, 2) of the path or of the present lap, and the index of the point that comes next."""
        table, own = self._table_at(self._now)
        return table.points, min(int(np.searchsorted(table.when, own)), len(table.points) - 1)

    def step(self, stamp_ns: int) -> Trajectory | None:
        verdict, _ = self.timeline.judge(stamp_ns)
        if verdict == DROP:
            return None
        if self.start_ns is None or verdict == RESET:
            self.start_ns = stamp_ns
        t = self._now = (stamp_ns - self.start_ns) * 1e-9
        position, velocity, yaw = self.at(t)
        ahead = [self.at(t + float(s)) for s in self.times]
        yaws = np.array([a[2] for a in ahead])
        return Trajectory(
            stamp_ns, 0, "path", position, velocity, wrap(yaw), 0.0, 1.0,
            self.times.copy(), np.stack([a[0] for a in ahead]).astype(np.float32),
            np.stack([np.cos(yaws), np.sin(yaws)], -1).astype(np.float32), False, identity_pose(),
        )  # fmt: skip

    def at(self, t: float) -> tuple[F64, F64, float]:
        """Return position [m], velocity [m/s] and facing [rad] of the character t seconds after the start."""
        h = 0.01
        table, own = self._table_at(t)
        here, (later, then) = table.place(own), self._table_at(t + h)
        return here, (later.place(then) - here) / h, float(np.interp(own, table.when, table.facing))

    def _table_at(self, t: float) -> tuple[Timetable, float]:
        if self._around is None or t < self._first.seconds:
            return self._first, t
        return self._around, self._lap(t)

    def _lap(self, t: float) -> float:
        assert self._around is not None
        return (t - self._first.seconds) % max(self._around.seconds, 1e-3)


def _filled(given: tuple[float, ...], n: int, default: float) -> F64:
    out = np.full(n, default)
    out[: len(given)] = given[:n]
    out[out == 0] = default
    return _checked("speeds or pauses", out, n)


def _checked(what: str, given: Any, n: int) -> F64:
    values = np.asarray(given, np.float64)
    if values.shape != (n,) or not np.isfinite(values).all() or (values < 0).any() or (values > 3600).any():
        raise MmRosError(f"path: expected {n} {what} of 0 or more, came {str(given)[:80]}")
    return values


def _key_points(points: Any) -> F64:
    keys = np.asarray(points, np.float64)
    if keys.ndim != 2 or keys.shape[1] != 2 or not len(keys) or not np.isfinite(keys).all():
        raise MmRosError(f"path: expected at least one finite point (x, y), came shape {keys.shape}")
    long = float(np.linalg.norm(np.diff(keys, axis=0), axis=1).sum())
    if long > LONGEST_M or len(keys) > MOST_KEYS:
        raise MmRosError(
            f"path: {len(keys)} points over {long:.0f} m are too many; at most {MOST_KEYS} over {LONGEST_M:.0f} m"
        )
    return keys


def smooth_line(keys: F64, periodic: bool = False) -> tuple[F64, F64]:
    """Return points on a centripetal Catmull-Rom curve through the key points, and the key index of each point.

    The key index 2.5 means halfway between the key points 2 and 3. If `periodic` is true, the curve is closed and
    smooth, and the last key point must equal the first one.
    """
    if len(keys) < 2:
        return keys.copy(), np.zeros(len(keys))
    before, after = 2 * keys[0] - keys[1], 2 * keys[-1] - keys[-2]
    if periodic:
        before, after = keys[-2], keys[1]
    p = np.concatenate([before[None], keys, after[None]])
    points, place = [keys[:1]], [np.zeros(1)]
    for i in range(len(keys) - 1):
        n = max(2, math.ceil(float(np.linalg.norm(keys[i + 1] - keys[i])) / SPACING_M))
        u = np.arange(1, n + 1) / n
        points.append(_centripetal(p[i : i + 4], u))
        place.append(i + u)
    return np.concatenate(points), np.concatenate(place)


def _centripetal(p: F64, u: F64) -> F64:
    knots = np.concatenate([[0.0], np.cumsum(np.sqrt(np.maximum(np.linalg.norm(np.diff(p, axis=0), axis=1), 1e-6)))])
    t = knots[1] + u * (knots[2] - knots[1])

    def mix(a: F64, b: F64, i: int, j: int) -> F64:
        w = ((t - knots[i]) / (knots[j] - knots[i]))[:, None]
        return np.asarray((1 - w) * a + w * b)

    a = [mix(p[i], p[i + 1], i, i + 1) for i in range(3)]
    b = [mix(a[i], a[i + 1], i, i + 2) for i in range(2)]
    return mix(b[0], b[1], 1, 2)


def _allowed_speed(
    points: F64, along: F64, desired: F64, acceleration: float, cornering: float, began: float = 0.0, end: float = 0.0
) -> F64:
    """Return the speed at each point of a path, reduced in bends and by the maximum acceleration.

    The returned speed is `began` at the start and `end` at the end of the path [m/s].
    """
    speed = desired.copy()
    if len(points) > 2:
        way = np.gradient(points, axis=0)
        yaw = np.unwrap(np.arctan2(way[:, 1], way[:, 0]))
        bend = np.abs(np.gradient(yaw) / np.maximum(np.gradient(along), 1e-9))
        speed = np.minimum(speed, np.sqrt(cornering / np.maximum(bend, 1e-9)))
    speed[0], speed[-1] = began, end
    gap = np.diff(along)
    for i in range(1, len(speed)):
        speed[i] = min(speed[i], math.sqrt(speed[i - 1] ** 2 + 2 * acceleration * gap[i - 1]))
    for i in range(len(speed) - 2, -1, -1):
        speed[i] = min(speed[i], math.sqrt(speed[i + 1] ** 2 + 2 * acceleration * gap[i]))
    return speed
