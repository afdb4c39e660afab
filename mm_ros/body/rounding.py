"""Round values as a topic rounds them. The chain in one process does this between its stages, so that it agrees with
the graph bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mm_ros.body.types import AvatarPose, BodyOrientation, FeetEstimate, Trajectory, feet_from_flat


def rounded_orientation(o: BodyOrientation) -> BodyOrientation:
    return BodyOrientation(int(o.stamp_ns), int(o.epoch), float(o.yaw), float(o.yaw_rate), float(o.sigma), o.source)


def rounded_trajectory(t: Trajectory) -> Trajectory:
    return replace(
        t,
        position=np.array(t.position, np.float64),
        velocity=np.array(t.velocity, np.float64),
        times=np.array(t.times, np.float32),
        positions=np.array(t.positions, np.float32),
        directions=np.array(t.directions, np.float32),
        new_from_old=np.array(t.new_from_old, np.float64),
        feet=rounded_feet(t.feet),
    )


def rounded_feet(feet: FeetEstimate | None) -> FeetEstimate | None:
    return None if feet is None else feet_from_flat(feet.flat())


def rounded_pose(p: AvatarPose) -> AvatarPose:
    """Rounded pose. The message has `root` and `root_velocity` in place of row 0's position and rotation."""
    positions, rotations = np.array(p.positions, np.float32), np.array(p.rotations, np.float32)
    positions[0], rotations[0] = 0, (1, 0, 0, 0)
    return replace(
        p,
        root=np.array(p.root, np.float64),
        positions=positions,
        rotations=rotations,
        velocities=np.array(p.velocities, np.float32),
        angular_velocities=np.array(p.angular_velocities, np.float32),
        contacts=np.array(p.contacts, np.bool_),
        locked=np.array(p.locked, np.bool_),
        feet=rounded_feet(p.feet),
    )
