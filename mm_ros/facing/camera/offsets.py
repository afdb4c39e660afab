"""Where nose and wrists sit on the devices, as the camera sees them: learned beside what the calibration says.

Each picture says how far the three landmarks lie from where the devices should carry them, all but a common shift. In
the devices' own axes that is linear least squares over nine numbers, which fade, and which the calibration holds back:
a ridge. A tenth number says how much smaller than the user the estimator sees the body, which would else be taken for
offsets. A calibration that is right has little to learn from this; one that is 10 cm off has (docs/fusion.md).
"""

from __future__ import annotations

import numpy as np

from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot

CALIBRATED_M = 0.04  # how far a calibration's offsets are usually off
SMALLER = 0.2  # share by which an estimator sees the body smaller or larger
HALFLIFE_S = 60.0
LARGEST_M = 0.15


class Offsets:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._n, self._b = np.zeros((10, 10)), np.zeros(10)
        self.value = np.zeros((3, 3))  # m, in the axes of headset, left and right controller

    def learn(self, rotations: F64, carried: F64, seen: F64, w: F64, variance: float, dt: float) -> None:
        """`carried`: points by the calibration; `seen`: landmarks in the room's axes, wherever they are; both (3, 3).

        `variance` (m² s): of a landmark watched for a second.
        """
        if (w > 0).sum() < 2:
            return
        share = w / w.sum()
        centred = carried - share @ carried
        missed = (seen - share @ seen) - centred
        axes = np.swapaxes(rot.rotate(rotations[:, None], np.eye(3)[None]), 1, 2)  # (3, 3, 3): columns are the axes
        moved = np.zeros((3, 3, 3, 3))  # point i, in the room; by what is added to point j, in its device's axes
        for j in range(3):
            moved[:, :, j] = (np.eye(3)[:, j] - share[j])[:, None, None] * axes[j]
        a = np.column_stack([moved.reshape(9, 9), -centred.ravel()])
        weight = np.repeat(w, 3)[:, None] * dt / variance
        keep = 0.5 ** (dt / HALFLIFE_S)
        self._n = keep * self._n + a.T @ (weight * a)
        self._b = keep * self._b + a.T @ (weight[:, 0] * missed.ravel())
        found = np.linalg.solve(self._n + np.diag([CALIBRATED_M**-2] * 9 + [SMALLER**-2]), self._b)
        self.value = np.clip(found[:9].reshape(3, 3), -LARGEST_M, LARGEST_M)
