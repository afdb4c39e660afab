"""Poses as transforms (x, y, z, qw, qx, qy, qz), and the transform from the source's room to the map frame."""

from __future__ import annotations

import numpy as np

from mm_ros.body.types import F64, Calibration, TrackerFrame, identity_pose
from mm_ros.maths import rotations as rot


def compose(a: F64, b: F64) -> F64:
    """Pose a · b: first b, then a."""
    return np.concatenate([a[:3] + rot.rotate(a[3:], b[:3]), rot.multiply(a[3:], b[3:])])


def inverse(a: F64) -> F64:
    back = rot.inverse(a[3:])
    return np.concatenate([-rot.rotate(back, a[:3]), back])


def room_from_source(calibration: Calibration) -> F64:
    """Transform that moves the floor to z = 0 and turns the user's forward direction to x."""
    turn = rot.from_yaw(-calibration.forward_yaw)
    return np.concatenate([rot.rotate(turn, np.array([0.0, 0.0, -calibration.floor_height])), turn])


class Room:
    """Transform frames from the source's room to the world.

    When the transform changes, the next frame has a new epoch, and `new_from_old` moves the state of later stages.
    """

    def __init__(self, place: tuple[float, ...] = (0.0, 0.0)) -> None:
        """`place`: x and y of the user's room in the world [m]; several users have different places."""
        self.place = identity_pose()
        self.place[:2] = place
        self._now = self.place.copy()
        self._moved, self._has_moved = identity_pose(), False
        self._epochs = 0
        self._plain = not any(place)

    @property
    def map_from_source(self) -> F64:
        """The transform in use."""
        return self._now

    def calibrate(self, calibration: Calibration) -> None:
        new = compose(self.place, room_from_source(calibration))
        moved = compose(new, inverse(self._now))
        if np.allclose(moved, identity_pose(), atol=1e-9):
            return
        self._moved, self._has_moved = compose(moved, self._moved), True
        self._now = new
        self._epochs += 1
        self._plain = bool(np.allclose(new, identity_pose(), atol=1e-12))

    def carry(self, frame: TrackerFrame) -> TrackerFrame:
        """Transform a frame in place, and return it."""
        frame.epoch += self._epochs
        if self._plain and not self._has_moved:
            return frame
        # `new_from_old` of the source is in the source's axes; conjugation moves it to world axes.
        inside = frame.new_from_old
        if not self._plain:
            frame.new_from_old = compose(compose(self._now, inside), inverse(self._now))
            turn = self._now[3:]
            frame.positions[:] = rot.rotate(turn, frame.positions) + self._now[:3]
            frame.rotations[:] = rot.multiply(np.broadcast_to(turn, frame.rotations.shape), frame.rotations)
            frame.velocities[:] = rot.rotate(turn, frame.velocities)
            frame.angular_velocities[:] = rot.rotate(turn, frame.angular_velocities)
        if self._has_moved:
            frame.new_from_old = compose(frame.new_from_old, self._moved)
            self._moved, self._has_moved = identity_pose(), False
        return frame
