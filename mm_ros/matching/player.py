"""Play clips of a database in continuous time. Frames are interpolated, so that any display rate is possible."""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.body.types import F32, F64
from mm_ros.maths.jit import njit
from mm_ros.motion.database import MotionDatabase


@njit
def _blend_rows(a: Any, b: Any, fraction: Any, factor: Any, out: Any) -> None:
    for j in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[j, k] = np.float32(factor * (a[j, k] + fraction * (b[j, k] - a[j, k])))


@njit
def _blend_rotations(a: Any, b: Any, fraction: Any, out: Any) -> None:
    """Blend quaternions linearly along the shorter arc and normalize the result, which for frames that are 1/60 s apart
    is as accurate as slerp."""
    for j in range(out.shape[0]):
        dot = 0.0
        for k in range(4):
            dot += float(a[j, k]) * float(b[j, k])
        sign = 1.0 if dot >= 0 else -1.0
        n = 0.0
        q0 = (1 - fraction) * a[j, 0] + sign * fraction * b[j, 0]
        q1 = (1 - fraction) * a[j, 1] + sign * fraction * b[j, 1]
        q2 = (1 - fraction) * a[j, 2] + sign * fraction * b[j, 2]
        q3 = (1 - fraction) * a[j, 3] + sign * fraction * b[j, 3]
        n = 1.0 / np.sqrt(q0 * q0 + q1 * q1 + q2 * q2 + q3 * q3)
        out[j, 0], out[j, 1] = np.float32(q0 * n), np.float32(q1 * n)
        out[j, 2], out[j, 3] = np.float32(q2 * n), np.float32(q3 * n)


@njit
def sample(
    positions: Any,
    rotations: Any,
    velocities: Any,
    angular: Any,
    row: int,
    fraction: float,
    scale: float,
    out: Any,
) -> None:
    """Interpolate between `row` and the next row, scale the pose, and write it to the four arrays of `out`."""
    after = row + 1 if fraction > 0 else row
    out_positions, out_rotations, out_velocities, out_angular = out
    _blend_rows(positions[row], positions[after], fraction, scale, out_positions)
    _blend_rotations(rotations[row], rotations[after], fraction, out_rotations)
    _blend_rows(velocities[row], velocities[after], fraction, scale, out_velocities)
    _blend_rows(angular[row], angular[after], fraction, 1.0, out_angular)


@njit
def _root_between(positions: Any, rotations: Any, row: int, fraction: float) -> tuple[float, float, float]:
    after = row + 1 if fraction > 0 else row
    x = positions[row, 0, 0] + fraction * (positions[after, 0, 0] - positions[row, 0, 0])
    y = positions[row, 0, 1] + fraction * (positions[after, 0, 1] - positions[row, 0, 1])
    yaw = 2.0 * np.arctan2(float(rotations[row, 0, 3]), float(rotations[row, 0, 0]))
    turn = 2.0 * np.arctan2(float(rotations[after, 0, 3]), float(rotations[after, 0, 0])) - yaw
    turn -= 2 * np.pi * np.round(turn / (2 * np.pi))
    return float(x), float(y), yaw + fraction * turn


@njit
def root_delta(positions: Any, rotations: Any, from_row: int, from_fraction: float, row: int, fraction: float) -> Any:
    """Return displacement (x, y) and turn of the root between two times of a clip, in the axes of the earlier root."""
    x0, y0, yaw0 = _root_between(positions, rotations, from_row, from_fraction)
    x1, y1, yaw1 = _root_between(positions, rotations, row, fraction)
    c, s = np.cos(yaw0), np.sin(yaw0)
    turn = yaw1 - yaw0
    turn -= 2 * np.pi * np.round(turn / (2 * np.pi))
    return c * (x1 - x0) + s * (y1 - y0), -s * (x1 - x0) + c * (y1 - y0), turn


@njit
def _root_velocity(velocities: Any, angular: Any, row: int, scale: Any, out: Any) -> None:
    out[0], out[1] = velocities[row, 0, 0] * scale, velocities[row, 0, 1] * scale
    out[2] = angular[row, 0, 2]


class Player:
    """Player that interpolates the clips of a database. Playback stops at the last frame of a clip."""

    def __init__(self, database: MotionDatabase, scale: float):
        self.database, self.scale = database, scale
        arrays = (database.positions, database.rotations, database.velocities, database.angular_velocities)
        self.arrays = tuple(np.asarray(a) for a in arrays)
        self.seek(int(database.range_starts[0]))

    def seek(self, frame: int) -> None:
        clip = self.database.clip_of(frame)
        self.clip = clip
        self.first = int(self.database.range_starts[clip])
        self.last = int(self.database.range_stops[clip]) - 1
        self.row, self.fraction = frame, 0.0

    @property
    def nearest(self) -> int:
        """Return the index of the frame that is nearest to the playback time."""
        return self.row + int(self.fraction >= 0.5)

    @property
    def time(self) -> float:
        """Return the playback time since the start of the clip [s]."""
        return (self.row - self.first + self.fraction) / self.database.rate

    @property
    def remaining(self) -> float:
        """Return the playback time to the end of the clip [s]."""
        return (self.last - self.row - self.fraction) / self.database.rate

    def advance(self, dt: float) -> tuple[float, float, float]:
        """Advance playback by `dt` seconds. Return the motion of the root (x, y, turn) in the axes of the previous
        root, scaled to the user's size."""
        frames = self.fraction + dt * self.database.rate
        whole = int(frames)
        row, fraction = self.row + whole, frames - whole
        if row >= self.last:
            row, fraction = self.last, 0.0
        dx, dy, turn = root_delta(self.arrays[0], self.arrays[1], self.row, self.fraction, row, fraction)
        self.row, self.fraction = row, fraction
        return dx * self.scale, dy * self.scale, turn

    def pose(self) -> tuple[F32, F32, F32, F32]:
        """Return local positions, rotations, velocities and angular velocities of the joints, scaled to the user's
        size, in new arrays."""
        joints = self.arrays[0].shape[1]
        out = tuple(np.empty((joints, n), np.float32) for n in (3, 4, 3, 3))
        positions, rotations, velocities, angular = self.arrays
        sample(positions, rotations, velocities, angular, self.row, self.fraction, self.scale, out)
        return out  # type: ignore[return-value]

    def root_velocity(self) -> F64:
        """Return velocity (x, y) and turn rate of the root in root axes, scaled to the user's size."""
        out = np.empty(3)
        _root_velocity(self.arrays[2], self.arrays[3], self.nearest, np.float32(self.scale), out)
        return out
