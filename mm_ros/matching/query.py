"""Build the query vector of a search from the current pose and the desired trajectory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mm_ros.body.types import F32, F64, FeetEstimate, Trajectory
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.features import DIRECTION, POSITION, VELOCITY

FEET = ("left_foot", "right_foot")
_KINDS = (POSITION, DIRECTION, VELOCITY)
_DIRECTION, _VELOCITY = 1, 2  # in _KINDS
_NEAR_S = 1 / 60  # a velocity is the difference of the positions this long before and after


@njit
def _trajectory_at(times: Any, values: Any, now: Any, t: float) -> tuple[float, float]:
    """The trajectory at time t: linear interpolation between the given times, linear extrapolation outside them."""
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
    """Write the trajectory columns of a query: in root space, in the scale of the database, normalized."""
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


class QueryBuilder:
    """Takes pose columns from the current frame, for smooth transitions, and the others from the desired trajectory."""

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
        self.foot_positions = [of_joint.get(("joint_position", foot)) for foot in FEET]
        self.foot_velocities = [of_joint.get(("joint_velocity", foot)) for foot in FEET]
        self.mean = np.asarray(database.feature_mean, np.float32)
        self.std = np.asarray(database.feature_std, np.float32)

    def query(self, desired: Trajectory, root: Any, pose_features: F32, past: F64 | None = None) -> F32:
        """Normalized query (D,). `root`: x, y, yaw of the avatar in the room. `pose_features` (D,): a normalized row
        of which only the pose columns are used. `past`: rows of time, x, y, yaw of the root as it was played, oldest
        first; without it, past times are extrapolated from the desired trajectory."""
        out = np.array(pose_features, np.float32)
        direction = np.array([math.cos(desired.yaw), math.sin(desired.yaw)])
        fill_trajectory(
            self.columns, self.times, self.kinds,
            desired.times, desired.positions, desired.directions, desired.position, direction,
            root, self.scale, self.mean, self.std, out,
        )  # fmt: skip
        if past is not None:
            self._fill_past(out, past, root)
        return out

    def _fill_past(self, query: F32, past: F64, root: Any) -> None:
        """Write the trajectory columns of past times from the motion that was played."""
        now, oldest = past[-1, 0], past[0, 0]
        back = rot.exp(np.array([0.0, 0.0, -root[2]]))
        for at, t, kind in zip(self.columns, self.times, self.kinds, strict=True):
            if not oldest - now <= t < 0:
                continue
            x, y = (np.interp(now + t, past[:, 0], past[:, i]) for i in (1, 2))
            if _KINDS[kind] == POSITION:
                own = np.array([x - root[0], y - root[1], 0.0]) / self.scale
            elif _KINDS[kind] == VELOCITY:
                near = np.clip([now + t - _NEAR_S, now + t + _NEAR_S], oldest, now)
                ends = np.array([np.interp(near, past[:, 0], past[:, i]) for i in (1, 2)])
                own = np.array([*(ends[:, 1] - ends[:, 0]), 0.0]) / ((near[1] - near[0]) * self.scale)
            else:
                yaw = np.interp(now + t, past[:, 0], np.unwrap(past[:, 3]))
                own = np.array([math.cos(yaw), math.sin(yaw), 0.0])
            columns = slice(at, at + 2)
            query[columns] = (rot.rotate(back, own)[:2] - self.mean[columns]) / self.std[columns]

    def feet(self, query: F32, feet: FeetEstimate, root: Any, shares: F64) -> Iterator[tuple[slice, float]]:
        """Write the user's feet into the columns of both feet: in root space, in the scale of the database.

        `shares` (2,): share of the estimate in the query; the rest stays that of the current pose. Yields each column
        slice with its share.
        """
        c, s = math.cos(root[2]), math.sin(root[2])
        origin = np.array([root[0], root[1], 0.0])
        for columns, values in ((self.foot_positions, feet.ankles - origin), (self.foot_velocities, feet.velocities)):
            for foot, at in enumerate(columns):
                if at is not None:
                    x, y, z = values[foot].tolist()
                    own = np.array([c * x + s * y, -s * x + c * y, z]) / self.scale
                    share = float(shares[foot])
                    query[at] += share * ((own - self.mean[at]) / self.std[at] - query[at])
                    yield at, share

    def carried_over(self, other: QueryBuilder, features: F32) -> F32:
        """Convert a feature row of another database to this normalization. Features that the other layout lacks get
        their mean."""
        mine, theirs = self.database.layout, other.database.layout
        known = {f.meaning: theirs.offsets[f.name] for f in theirs.features}
        values = features * other.std + other.mean
        out = np.zeros(mine.size, np.float32)
        for f in mine.features:
            if f.meaning in known:
                at = mine.offsets[f.name]
                out[at] = (values[known[f.meaning]] - self.mean[at]) / self.std[at]
        return out
