"""Computes with poses (x, y, z, qw, qx, qy, qz), and transforms frames from the room of the source to the map frame."""

from __future__ import annotations

import numpy as np

from mm_ros.body.types import F64, Calibration, TrackerFrame, identity_pose
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit


def compose(a: F64, b: F64) -> F64:
    """Return the composed pose a · b, which applies first `b` and then `a`."""
    return np.concatenate([a[:3] + rot.rotate(a[3:], b[:3]), rot.multiply(a[3:], b[3:])])


def inverse(a: F64) -> F64:
    back = rot.inverse(a[3:])
    return np.concatenate([-rot.rotate(back, a[:3]), back])


def room_from_source(calibration: Calibration) -> F64:
    """Return the transform that moves the floor to z = 0 and turns the forward direction of the user to x."""
    turn = rot.from_yaw(-calibration.forward_yaw)
    return np.concatenate([rot.rotate(turn, np.array([0.0, 0.0, -calibration.floor_height])), turn])


_IDENTITY = identity_pose()


@njit
def carry_rows(moved: F64, positions: F64, rotations: F64, velocities: F64, angular_velocities: F64) -> None:
    """Apply the pose `moved` to positions and rotations, and its rotation to velocities, in place."""
    turn = (moved[3], moved[4], moved[5], moved[6])
    for r in range(len(positions)):
        p = quat.rotate(turn, (positions[r, 0], positions[r, 1], positions[r, 2]))
        v = quat.rotate(turn, (velocities[r, 0], velocities[r, 1], velocities[r, 2]))
        w = quat.rotate(turn, (angular_velocities[r, 0], angular_velocities[r, 1], angular_velocities[r, 2]))
        q = quat.mul(turn, (rotations[r, 0], rotations[r, 1], rotations[r, 2], rotations[r, 3]))
        for k in range(3):
            positions[r, k], velocities[r, k], angular_velocities[r, k] = p[k] + moved[k], v[k], w[k]
        for k in range(4):
            rotations[r, k] = q[k]


class Room:
    """Transforms tracker frames from the room axes of the tracker source to the frame `map`.

    `place` is the position (x, y) [m] of this user's room in the map frame; several users have different places. After
    a change of the transform, the next frame has a new epoch, and its `new_from_old` moves the state of later stages.
    """

    def __init__(self, place: tuple[float, ...] = (0.0, 0.0)) -> None:
        self.place = identity_pose()
        self.place[:2] = place
        self._now = self.place.copy()
        self._moved, self._has_moved = identity_pose(), False
        self._epochs = 0
        self._plain = not any(place)
        # This call compiles `carry_rows`, so that the compilation does not delay the first frame.
        carry_rows(self._now, *(np.zeros((1, n)) for n in (3, 4, 3, 3)))

    @property
    def map_from_source(self) -> F64:
        """Transform from the room of the source to the map frame that is used at present."""
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
        """Transform the poses in the tracker frame `frame` to the frame `map` in place, and return `frame`."""
        frame.epoch += self._epochs
        if self._plain and not self._has_moved:
            return frame
        # `new_from_old` is the source's transform from its old to its new play space; convert it to map axes.
        inside = frame.new_from_old
        if not self._plain:
            if (inside != _IDENTITY).any():
                frame.new_from_old = compose(compose(self._now, inside), inverse(self._now))
            carry_rows(self._now, frame.positions, frame.rotations, frame.velocities, frame.angular_velocities)
        if self._has_moved:
            frame.new_from_old = compose(frame.new_from_old, self._moved)
            self._moved, self._has_moved = identity_pose(), False
        return frame
