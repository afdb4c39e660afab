"""Build the query vector of a search from the current pose and the desired trajectory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mm_ros.body.types import F32, F64, FeetEstimate, Trajectory
from mm_ros.maths.jit import njit
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.features import DIRECTION, POSITION, VELOCITY

FEET = ("left_foot", "right_foot")
_KINDS = (POSITION, DIRECTION, VELOCITY)
_DIRECTION, _VELOCITY = 1, 2
_NEAR_S = 1 / 60  # A velocity of a trajectory is computed from its positions 1/60 s before and after.


@njit
def _trajectory_at(times: Any, values: Any, now: Any, t: float) -> tuple[float, float]:
    """Return the trajectory at time `t` by linear interpolation, and by linear extrapolation outside of `times`."""
    t0, x0, y0 = 0.0, float(now[0]), float(now[1])
    t1, x1, y1 = float(times[0]), float(values[0, 0]), float(values[0, 1])
    i = 1
    while i < times.shape[0] and t > t1 + 1e-6:
        t0, x0, y0 = t1, x1, y1
        t1, x1, y1 = float(times[i]), float(values[i, 0]), float(values[i, 1])
        i += 1
    k = (t - t0) / (t1 - t0) if t1 > t0 else 0.0
    return x0 + k * (x1 - x0), y0 + k * (y1 - y0)


@njit
def fill_trajectory(
    columns: Any, column_times: Any, kinds: Any,
    times: Any, positions: Any, directions: Any, position: Any, direction: Any,
    root: Any, scale: float, mean: Any, std: Any, query: Any,
) -> None:  # fmt: skip
    """Write the desired trajectory into its columns of a query: in root axes, in the scale of the database, and
    normalized."""
    c, s = np.cos(root[2]), np.sin(root[2])
    for i in range(columns.shape[0]):
        at = columns[i]
        if kinds[i] == _DIRECTION:
            x, y = _trajectory_at(times, directions, direction, column_times[i])
            n = np.sqrt(x * x + y * y)
            x, y = (x / n, y / n) if n > 1e-9 else (direction[0], direction[1])
        elif kinds[i] == _VELOCITY:
            x0, y0 = _trajectory_at(times, positions, position, column_times[i] - _NEAR_S)
            x, y = _trajectory_at(times, positions, position, column_times[i] + _NEAR_S)
            x, y = (x - x0) / (2.0 * _NEAR_S * scale), (y - y0) / (2.0 * _NEAR_S * scale)
        else:
            x, y = _trajectory_at(times, positions, position, column_times[i])
            x, y = (x - root[0]) / scale, (y - root[1]) / scale
        query[at] = np.float32((c * x + s * y - mean[at]) / std[at])
        query[at + 1] = np.float32((-s * x + c * y - mean[at + 1]) / std[at + 1])


@njit
def _played_at(past: Any, values: Any, t: float) -> float:
    """Interpolate `values` (P,), which belong to the times in column 0 of `past`, linearly at time `t`. Before the
    first time, the first value is returned; after the last time, the last value."""
    if t <= past[0, 0]:
        return float(values[0])
    for i in range(1, len(past)):
        if t < past[i, 0]:
            slope = (values[i] - values[i - 1]) / (past[i, 0] - past[i - 1, 0])
            return float(slope * (t - past[i - 1, 0]) + values[i - 1])
    return float(values[-1])


@njit
def fill_past(
    columns: Any, column_times: Any, kinds: Any, past: Any, root: Any, scale: float, mean: Any, std: Any, query: Any
) -> None:
    """Write the past motion of the avatar's root into the columns of a query for past times.

    The rows of `past` (P, 4) are time, x, y and yaw of the root.
    """
    xs, ys, yaws = past[:, 1].copy(), past[:, 2].copy(), past[:, 3].copy()
    for i in range(1, len(yaws)):
        yaws[i] = yaws[i - 1] + (past[i, 3] - past[i - 1, 3] + np.pi) % (2.0 * np.pi) - np.pi
    c, s = np.cos(root[2]), np.sin(root[2])
    oldest, now = past[0, 0], past[-1, 0]
    for i in range(columns.shape[0]):
        at, t = columns[i], now + column_times[i]
        if not oldest - now <= column_times[i] < 0.0:
            continue
        if kinds[i] == _DIRECTION:
            yaw = _played_at(past, yaws, t)
            x, y = np.cos(yaw), np.sin(yaw)
        elif kinds[i] == _VELOCITY:
            t0, t1 = min(max(t - _NEAR_S, oldest), now), min(max(t + _NEAR_S, oldest), now)
            x = (_played_at(past, xs, t1) - _played_at(past, xs, t0)) / ((t1 - t0) * scale)
            y = (_played_at(past, ys, t1) - _played_at(past, ys, t0)) / ((t1 - t0) * scale)
        else:
            x = (_played_at(past, xs, t) - root[0]) / scale
            y = (_played_at(past, ys, t) - root[1]) / scale
        query[at] = np.float32((c * x + s * y - mean[at]) / std[at])
        query[at + 1] = np.float32((-s * x + c * y - mean[at + 1]) / std[at + 1])


@njit
def blend_feet(
    query: Any, weights: Any, feet: Any, root: Any, scale: float, mean: Any, std: Any, columns: Any, sigma: float,
    gain: float,
) -> float:  # fmt: skip
    """Blend the user's feet into a query, as `QueryBuilder.feet` describes.

    `feet` (2, 10) holds the numbers of a `FeetEstimate`. `columns` (4,) holds the first columns of the positions of
    left and right foot and of their velocities, or -1 if the layout lacks the feature.
    """
    c, s = np.cos(root[2]), np.sin(root[2])
    known = 0.0
    for foot in range(2):
        share = 1.0 / (1.0 + (feet[foot, 9] / sigma) ** 2)
        known += 0.5 * share
        for kind in range(2):
            at = columns[2 * kind + foot]
            if at < 0:
                continue
            x, y, z = feet[foot, 3 + 3 * kind], feet[foot, 4 + 3 * kind], feet[foot, 5 + 3 * kind]
            if kind == 0:
                x, y = x - root[0], y - root[1]
            own = ((c * x + s * y) / scale, (-s * x + c * y) / scale, z / scale)
            for k in range(3):
                there = (own[k] - mean[at + k]) / std[at + k]
                query[at + k] = np.float32(query[at + k] + share * (there - query[at + k]))
                weights[at + k] *= np.float32(1.0 + (gain - 1.0) * share)
    return known


class QueryBuilder:
    """Builder of queries. The pose columns of a query come from the current frame, for smooth transitions, and the
    trajectory columns come from the desired trajectory."""

    def __init__(self, database: MotionDatabase, scale: float):
        self.database, self.scale = database, scale
        layout = database.layout
        columns, times, kinds = [], [], []
        for f in layout.features:
            if f.is_trajectory:
                for i, t in enumerate(f.times):
                    columns.append(layout.offsets[f.name].start + 2 * i)
                    times.append(t)
                    kinds.append(_KINDS.index(f.kind))
        self.columns, self.times = np.array(columns, np.int64), np.array(times)
        self.kinds = np.array(kinds, np.int64)
        self.past_s = layout.past_s
        of_joint = {(f.kind, f.joint): layout.offsets[f.name] for f in layout.features}
        places = [of_joint.get((kind, foot)) for kind in ("joint_position", "joint_velocity") for foot in FEET]
        self.foot_columns = np.array([-1 if at is None else at.start for at in places], np.int64)
        self.mean = np.asarray(database.feature_mean, np.float32)
        self.std = np.asarray(database.feature_std, np.float32)

    def query(self, desired: Trajectory, root: Any, pose_features: F32, past: F64 | None = None) -> F32:
        """Return the normalized query (D,) of a search.

        `root` is x, y and yaw of the avatar in the room. `pose_features` (D,) are normalized features, of which only
        the pose columns are used. The rows of `past` are past times with x, y and yaw of the root, the oldest first.
        Without `past`, features of past times are extrapolated from the desired trajectory.
        """
        out = np.array(pose_features, np.float32)
        direction = np.array([math.cos(desired.yaw), math.sin(desired.yaw)])
        fill_trajectory(
            self.columns, self.times, self.kinds,
            desired.times, desired.positions, desired.directions, desired.position, direction,
            root, self.scale, self.mean, self.std, out,
        )  # fmt: skip
        if past is not None:
            fill_past(self.columns, self.times, self.kinds, past, root, self.scale, self.mean, self.std, out)
        return out

    def feet(self, query: F32, weights: F32, feet: FeetEstimate, root: Any, sigma: float, gain: float) -> float:
        """Blend the user's feet into the columns of both feet, and multiply the weights of these columns by up to
        `gain`. Return the mean share of the user's feet in the query.

        The share of the user's foot is one half if its expected error is `sigma`, and larger for a smaller error; the
        foot of the current pose has the remaining share.
        """
        columns = self.foot_columns
        return float(
            blend_feet(query, weights, feet.numbers, root, self.scale, self.mean, self.std, columns, sigma, gain)
        )

    def carried_over(self, other: QueryBuilder, features: F32) -> F32:
        """Convert the normalized features of a frame in another database to the layout and normalization of this
        database. A feature that the other database lacks gets its mean value."""
        mine, theirs = self.database.layout, other.database.layout
        known = {f.meaning: theirs.offsets[f.name] for f in theirs.features}
        values = features * other.std + other.mean
        out = np.zeros(mine.size, np.float32)
        for f in mine.features:
            if f.meaning in known:
                at = mine.offsets[f.name]
                out[at] = (values[known[f.meaning]] - self.mean[at]) / self.std[at]
        return out
