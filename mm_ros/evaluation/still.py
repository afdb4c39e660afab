"""Baseline that many applications use instead of motion matching: one standing pose that follows the desired
position."""

from __future__ import annotations

import math

import numpy as np

from mm_ros.body.skeleton import WHOLE, Segments
from mm_ros.body.timeline import DROP, Timeline
from mm_ros.body.types import AvatarPose, Match, Trajectory
from mm_ros.motion.database import MotionDatabase


class StillStage:
    """Baseline that replaces motion matching (MatcherStage) by a standing pose that follows the desired trajectory."""

    def __init__(self, database: MotionDatabase, scale: float = 1.0) -> None:
        self.database = database
        self.set_scale(scale)
        self._row = stillest_row(database)
        self.reset()

    def set_scale(self, scale: float, segments: Segments = WHOLE) -> None:
        self.scale, self.segments = scale, segments
        self.skeleton_hash = self.database.skeleton.scaled(scale, segments).hash

    def reset(self) -> None:
        self.timeline = Timeline()
        self._last: tuple[AvatarPose, Match] | None = None

    def step(self, desired: Trajectory) -> tuple[AvatarPose, Match]:
        verdict, _ = self.timeline.judge(desired.stamp_ns, desired.epoch, desired.new_from_old)
        if verdict == DROP and self._last is not None:
            return self._last
        d, row = self.database, self._row
        positions = (np.asarray(d.positions[row]) * np.float32(self.scale)).astype(np.float32)
        rotations = np.array(d.rotations[row], np.float32)
        positions[0], rotations[0] = 0, (1, 0, 0, 0)
        positions *= self.segments.factors(len(positions))
        half = desired.yaw / 2
        root = np.array([*desired.position, 0.0, math.cos(half), 0.0, 0.0, math.sin(half)])
        still, feet = np.zeros_like(positions), np.zeros(2, np.bool_)
        pose = AvatarPose(
            desired.stamp_ns, desired.epoch, self.skeleton_hash, root, positions, rotations, still, still.copy(),
            feet, feet.copy(), stale=desired.stale,
        )  # fmt: skip
        clip = d.clip_names[d.clip_of(row)]
        match = Match(desired.stamp_ns, desired.epoch, "still", clip, frame=row)
        self._last = pose, match
        return self._last


def stillest_row(database: MotionDatabase) -> int:
    """Return the index of the slowest frame of the database in which both feet are in contact and the head is upright.
    If no frame has both feet in contact and an upright head, the slowest of all frames is returned."""
    speed = np.abs(np.asarray(database.velocities[:, 0])).sum(1) + np.abs(np.asarray(database.angular_velocities)).sum(
        (1, 2)
    )
    standing = np.asarray(database.contacts).all(1) & (np.asarray(database.head_height_ratio) > 0.95)
    return int(np.argmin(np.where(standing, speed, np.inf) if standing.any() else speed))
