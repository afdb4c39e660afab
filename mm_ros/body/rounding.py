"""Round values in the same way as ROS messages round them. A program that runs all stages in one process rounds the
values between its stages, so that its poses equal those of the ROS graph bit for bit. Rounded values are read-only
copies, so that no stage can change values that another stage keeps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import (
    LOST,
    AvatarPose,
    BodyOrientation,
    FeetEstimate,
    TrackerFrame,
    Trajectory,
)
from mm_ros.maths.jit import njit


def _kept(values: Any, kind: Any) -> NDArray[Any]:
    """Return a read-only copy of an array. The method `astype` is used, because `np.array` takes twice the time."""
    out: NDArray[Any] = np.asarray(values).astype(kind)
    out.setflags(write=False)
    return out


def frozen(value: Any) -> Any:
    """Make all arrays of a dataclass object read-only, and return the object."""
    for part in vars(value).values():
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
        elif isinstance(part, FeetEstimate):
            part.numbers.flags.writeable = False
    return value


def handed_trackers(t: TrackerFrame) -> TrackerFrame:
    """Round a tracker frame as a message would, and clear the rows of devices that are lost and were never sampled."""
    positions, rotations = t.positions.astype(np.float64), t.rotations.astype(np.float64)
    velocities, angular = t.velocities.astype(np.float64), t.angular_velocities.astype(np.float64)
    state, sampled = t.state.astype(np.uint8), t.sampled_ns.astype(np.int64)
    _clear_absent(positions, rotations, velocities, angular, state, sampled)
    for values in (positions, rotations, velocities, angular, state, sampled):
        values.setflags(write=False)
    return TrackerFrame(
        t.stamp_ns, t.epoch, positions, rotations, velocities, angular, state, sampled,
        _kept(t.new_from_old, np.float64),
    )  # fmt: skip


@njit
def _clear_absent(positions: Any, rotations: Any, velocities: Any, angular: Any, state: Any, sampled: Any) -> None:
    for r in range(len(state)):
        if state[r] == LOST and sampled[r] == 0:
            positions[r], velocities[r], angular[r], rotations[r] = 0.0, 0.0, 0.0, 0.0
            rotations[r, 0] = 1.0


def rounded_orientation(o: BodyOrientation) -> BodyOrientation:
    return BodyOrientation(int(o.stamp_ns), int(o.epoch), float(o.yaw), float(o.yaw_rate), float(o.sigma), o.source)


def rounded_trajectory(t: Trajectory) -> Trajectory:
    return Trajectory(  # `dataclasses.replace` would take several times as long as the constructor
        t.stamp_ns, t.epoch, t.source, _kept(t.position, np.float64), _kept(t.velocity, np.float64), t.yaw, t.yaw_sigma,
        t.height_ratio, _kept(t.times, np.float32), _kept(t.positions, np.float32), _kept(t.directions, np.float32),
        t.stale, _kept(t.new_from_old, np.float64), rounded_feet(t.feet),
    )  # fmt: skip


def rounded_feet(feet: FeetEstimate | None) -> FeetEstimate | None:
    return None if feet is None else FeetEstimate(_kept(feet.numbers.astype(np.float32), np.float64))


def rounded_pose(p: AvatarPose) -> AvatarPose:
    """Round a pose to float32 as a message would, and clear row 0 (the root) of positions and rotations, because a
    message has the field `root` instead."""
    positions, rotations = p.positions.astype(np.float32), p.rotations.astype(np.float32)
    positions[0], rotations[0] = 0, (1, 0, 0, 0)
    positions.setflags(write=False)
    rotations.setflags(write=False)
    return AvatarPose(
        p.stamp_ns, p.epoch, p.skeleton, _kept(p.root, np.float64), positions, rotations,
        _kept(p.velocities, np.float32), _kept(p.angular_velocities, np.float32), _kept(p.contacts, np.bool_),
        _kept(p.locked, np.bool_), p.run, p.segment, p.stale, p.engine, rounded_feet(p.feet),
    )  # fmt: skip


NO_ROOT = np.zeros(0)


@njit
def write_transforms(
    words: Any, doubles: Any, stamps: Any, numbers: Any, sec: int, nanosec: int, positions: Any, rotations: Any,
    root: Any,
) -> None:
    """Write a time stamp, positions (N, 3) and rotations (N, 4) into a serialized TFMessage: stamps at the indices
    `stamps` of `words`, poses at `numbers` of `doubles`. A `root` (7,) replaces the pose of the first transform.
    Rotations are normalized, because tf2 refuses quaternions whose length is wrong by more than 1e-6."""
    for i in range(len(stamps)):
        words[stamps[i]], words[stamps[i] + 1] = sec, nanosec
        w, x = np.float64(rotations[i, 0]), np.float64(rotations[i, 1])
        y, z = np.float64(rotations[i, 2]), np.float64(rotations[i, 3])
        n = math.sqrt(w * w + x * x + y * y + z * z)
        at = numbers[i]
        for k in range(3):
            doubles[at + k] = positions[i, k]
        doubles[at + 3], doubles[at + 4], doubles[at + 5], doubles[at + 6] = x / n, y / n, z / n, w / n
    if len(root):
        at = numbers[0]
        for k in range(3):
            doubles[at + k], doubles[at + 3 + k] = root[k], root[4 + k]
        doubles[at + 6] = root[3]


def warm_up() -> None:
    """Compile `write_transforms` for the number types of poses and of trackers."""
    words, doubles, at = np.zeros(2, np.uint32), np.zeros(7), np.zeros(1, np.int64)
    for kind in (np.float32, np.float64):
        write_transforms(words, doubles, at, at, 0, 0, np.zeros((1, 3), kind), np.ones((1, 4), kind), NO_ROOT)
