"""Learns the offsets of nose and wrists relative to headset and controllers, as corrections of the calibration.

The positions of nose and wrists are measured twice: by the landmarks of a picture, and by headset, controllers and
calibration. Each picture shows how both measurements differ, except for a shift that is common to nose and wrists. In
the axes of the devices, the offsets are the solution of a linear least-squares problem with nine unknowns. In the
least-squares problem, old pictures lose weight, and ridge regression keeps the solution near the calibration. A tenth
unknown is the body size that the pose estimator assumes, relative to the user's body, so that an error of the size is
not learned as offsets. The learned offsets help little after an exact calibration, but clearly after a calibration with
an error of 10 cm (docs/fusion.md).
"""

from __future__ import annotations

import numpy as np

from mm_ros.body.types import F64
from mm_ros.facing import fitted
from mm_ros.maths import rotations as rot


class Offsets:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._n, self._b = np.zeros((10, 10)), np.zeros(10)
        self.value = np.zeros((3, 3))  # learned offsets of nose and wrists in the axes of headset and controllers [m]

    def learn(self, rotations: F64, carried: F64, seen: F64, w: F64, variance: float, dt: float) -> None:
        """Update the learned offsets of nose and wrists with the measurement of one picture.

        The positions of nose and wrists in room axes are `carried` (3, 3) by devices and calibration, and `seen` (3, 3)
        by landmarks. A common shift of all three points of `seen` does not change the offsets. `variance` [m² s] is the
        variance of the mean position of a landmark in one second of pictures.
        """
        if (w > 0).sum() < 2:
            return
        share = w / w.sum()
        centred = carried - share @ carried
        missed = (seen - share @ seen) - centred
        # The columns of each matrix in `axes` (3, 3, 3) are the axes of a device in the room.
        axes = np.swapaxes(rot.rotate(rotations[:, None], np.eye(3)[None]), 1, 2)
        # The Jacobian holds the derivative of point i in room axes by the offset of point j in the axes of its device.
        moved = np.zeros((3, 3, 3, 3))
        for j in range(3):
            moved[:, :, j] = (np.eye(3)[:, j] - share[j])[:, None, None] * axes[j]
        a = np.column_stack([moved.reshape(9, 9), -centred.ravel()])
        weight = np.repeat(w, 3)[:, None] * dt / variance
        keep = 0.5 ** (dt / fitted.OFFSETS_HALFLIFE_S)
        self._n = keep * self._n + a.T @ (weight * a)
        self._b = keep * self._b + a.T @ (weight[:, 0] * missed.ravel())
        found = np.linalg.solve(self._n + np.diag([fitted.OFFSETS_SIGMA_M**-2] * 9 + [fitted.SIZE_SIGMA**-2]), self._b)
        self.value = np.clip(found[:9].reshape(3, 3), -fitted.OFFSETS_LARGEST_M, fitted.OFFSETS_LARGEST_M)
