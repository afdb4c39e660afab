"""Learned offsets of nose and wrists relative to the devices, as corrections of the calibration.

Each picture shows the differences between the three landmarks and the points that follow from the devices, except for a
common shift of all three. In device axes, the offsets are the solution of a linear least-squares problem with nine
unknowns. The sums of this problem fade over time, and ridge regression keeps the solution near the calibration. A tenth
unknown is the size of the estimator's body relative to the user's; without this unknown, an error of the size would be
learned as offsets. The learned offsets help little after an exact calibration, but clearly after one with an error of
10 cm (docs/fusion.md).
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
        self.value = np.zeros((3, 3))  # learned offsets [m] in the axes of headset, left and right controller

    def learn(self, rotations: F64, carried: F64, seen: F64, w: F64, variance: float, dt: float) -> None:
        """Update the offsets by one picture. `carried` (3, 3): points that follow from devices and calibration; `seen`
        (3, 3): landmarks; both in room axes.

        `seen` may have any common shift. `variance` [m² s]: variance of a landmark over one second of observation.
        """
        if (w > 0).sum() < 2:
            return
        share = w / w.sum()
        centred = carried - share @ carried
        missed = (seen - share @ seen) - centred
        # (3, 3, 3); the columns are the axes of the devices.
        axes = np.swapaxes(rot.rotate(rotations[:, None], np.eye(3)[None]), 1, 2)
        # Jacobian: derivative of point i in room axes with respect to the offset of point j in its device's axes
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
