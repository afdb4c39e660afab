"""Round values as a topic rounds them. The chain in one process does this between its stages, so that it agrees with
the graph bit for bit. The results are copies that cannot be written: a stage cannot change what another one keeps."""

from __future__ import annotations

from dataclasses import replace
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
    feet_from_flat,
)


def _kept(values: Any, kind: Any) -> NDArray[Any]:
    out = np.array(values, kind)
    out.flags.writeable = False
    return out


def frozen(value: Any) -> Any:
    """The same value, whose arrays cannot be written any more."""
    for part in vars(value).values():
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
    return value


def handed_trackers(t: TrackerFrame) -> TrackerFrame:
    """Trackers as the message has them, which leaves out roles that are lost and were never sampled."""
    absent = (t.state == LOST) & (t.sampled_ns == 0)
    positions, rotations = np.array(t.positions, np.float64), np.array(t.rotations, np.float64)
    velocities, angular = np.array(t.velocities, np.float64), np.array(t.angular_velocities, np.float64)
    if absent.any():
        positions[absent] = velocities[absent] = angular[absent] = 0.0
        rotations[absent] = (1.0, 0.0, 0.0, 0.0)
    for values in (positions, rotations, velocities, angular):
        values.flags.writeable = False
    return TrackerFrame(
        t.stamp_ns, t.epoch, positions, rotations, velocities, angular,
        _kept(t.state, np.uint8), _kept(t.sampled_ns, np.int64), _kept(t.new_from_old, np.float64),
    )  # fmt: skip


def rounded_orientation(o: BodyOrientation) -> BodyOrientation:
    return BodyOrientation(int(o.stamp_ns), int(o.epoch), float(o.yaw), float(o.yaw_rate), float(o.sigma), o.source)


def rounded_trajectory(t: Trajectory) -> Trajectory:
    return replace(
        t,
        position=_kept(t.position, np.float64),
        velocity=_kept(t.velocity, np.float64),
        times=_kept(t.times, np.float32),
        positions=_kept(t.positions, np.float32),
        directions=_kept(t.directions, np.float32),
        new_from_old=_kept(t.new_from_old, np.float64),
        feet=rounded_feet(t.feet),
    )


def rounded_feet(feet: FeetEstimate | None) -> FeetEstimate | None:
    return None if feet is None else feet_from_flat(feet.flat())


def rounded_pose(p: AvatarPose) -> AvatarPose:
    """Rounded pose. The message has `root` and `root_velocity` in place of row 0's position and rotation."""
    positions, rotations = np.array(p.positions, np.float32), np.array(p.rotations, np.float32)
    positions[0], rotations[0] = 0, (1, 0, 0, 0)
    positions.flags.writeable = rotations.flags.writeable = False
    return replace(
        p,
        root=_kept(p.root, np.float64),
        positions=positions,
        rotations=rotations,
        velocities=_kept(p.velocities, np.float32),
        angular_velocities=_kept(p.angular_velocities, np.float32),
        contacts=_kept(p.contacts, np.bool_),
        locked=_kept(p.locked, np.bool_),
        feet=rounded_feet(p.feet),
    )
