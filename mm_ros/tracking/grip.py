"""Estimates the distance of a controller from the axis of the forearm, while the forearm turns about this axis.

When a user turns the palm up or down, the wrist hardly moves, so the positions of the controller show how far it is
from the axis of the forearm. Second differences of the positions over 50 ms remove the motion of the whole arm. The
position of the controller along the forearm cannot be observed from turns, so an error of this position becomes a part
of the measured length of the arm.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.maths.quat import Quat, Vec

STEP_S = 0.024  # time between the three positions of a second difference of the controller's path [s]
TWIST = 1.3  # samples of a controller that turns more slowly than this [rad/s] are not used
AXIS = 0.8  # minimum cosine of the angle between the controller's axis of rotation and the forearm
RESIDUAL = 0.004  # residual of the fit [m] at which a sample has a quarter of its weight
# assumed errors of the palm's position [m]: across the forearm without and with a stored position, along the forearm
PRIOR_SIGMA, STORED_SIGMA, ALONG_SIGMA = 0.02, 0.008, 0.007
LONG = 3000.0  # number of samples over which the estimated position of the palm is averaged
FURTHEST = 0.05  # m


class GripOffset:
    """Estimates where the axis of the forearm is in device axes, relative to the palm of the convention of hand poses.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[float, Vec, Quat]] = deque(maxlen=32)
        self._matrix, self._right = np.zeros((3, 3)), np.zeros(3)
        self._skip = False
        self.samples = 0.0
        self.stored: Vec | None = None

    def forget_motion(self) -> None:
        self._recent.clear()

    def add(self, time_s: float, palm: Vec, q: Quat, turn: Vec, along: Vec, wrist: float) -> bool:
        """Add a sample of the controller, and return true if the estimated offset has changed.

        `palm` is the position of the palm, `q` the rotation and `turn` the angular velocity [rad/s] of the controller,
        all in room axes. `along` is the direction of the fingers in device axes, and `wrist` the distance from palm to
        wrist [m].
        """
        self._recent.append((time_s, palm, q))
        rate = quat.norm(turn)
        if rate < TWIST or abs(quat.dot(turn, quat.rotate(q, along))) < AXIS * rate:
            return False
        # every second sample of the controller is skipped, because neighbouring samples share most of their data
        self._skip = not self._skip
        if self._skip:
            return False
        middle, first = self._at(time_s - STEP_S), self._at(time_s - 2 * STEP_S)
        if middle is None or first is None or not time_s > middle[0] > first[0]:
            return False
        (t1, p1, q1), (t0, p0, q0) = middle, first
        share = (t1 - t0) / (time_s - t0)  # weight of the newest of three samples in the second difference
        moved = np.array(p1) - share * np.array(palm) - (1 - share) * np.array(p0)
        turned = _matrix(q1) - share * _matrix(q) - (1 - share) * _matrix(q0)
        off = moved + turned @ self._solve(along, wrist)
        weight = 1.0 / (1.0 + float(off @ off) / RESIDUAL**2) ** 2
        keep = 1.0 - 1.0 / LONG
        self._matrix = keep * self._matrix + weight * turned.T @ turned
        self._right = keep * self._right - weight * turned.T @ moved
        self.samples = keep * self.samples + weight
        return True

    def _at(self, time_s: float) -> tuple[float, Vec, Quat] | None:
        for sample in reversed(self._recent):
            if sample[0] <= time_s + 0.004:
                return sample if sample[0] > time_s - 0.012 else None
        return None

    def _solve(self, along: Vec, wrist: float) -> np.ndarray:
        f = np.array(along)
        lateral = np.eye(3) - np.outer(f, f)
        sigma = PRIOR_SIGMA if self.stored is None else STORED_SIGMA
        prior = (RESIDUAL / sigma) ** 2 * lateral + (RESIDUAL / ALONG_SIGMA) ** 2 * np.outer(f, f)
        expected = -wrist * f + (0.0 if self.stored is None else lateral @ np.array(self.stored))
        return np.asarray(np.linalg.solve(self._matrix + prior, self._right + prior @ expected))

    def offset(self, along: Vec, wrist: float) -> Vec:
        """Return the vector [m] from the palm that the convention assumes to the estimated palm, in device axes."""
        f = np.array(along)
        out = self._solve(along, wrist)
        out = out - f * float(f @ out)
        length = float(np.linalg.norm(out))
        out = out * min(1.0, FURTHEST / max(length, 1e-9))
        return float(out[0]), float(out[1]), float(out[2])


def _matrix(q: Quat) -> np.ndarray:
    return np.asarray(rot.to_matrix(np.array(q)))
