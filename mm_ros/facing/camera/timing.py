"""Estimates the latency of landmarks by comparison of the landmarks with older positions from the trackers.

Five signals are compared, which do not depend on the position and yaw of the camera: the distances between nose and
wrists, and the heights of the wrists above the nose. The latency is the delay at which the signals of camera and
trackers differ least, apart from constant differences.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F64
from mm_ros.facing import fitted
from mm_ros.facing.camera.alignment import POINTS
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit

KEPT = 160  # number of samples of the trackers that are kept, which last 1.1 s at 144 Hz
SEEN, FACING, TURNS = 3 * POINTS, 4 * POINTS, 4 * POINTS + 1
COLUMNS = TURNS + 4 * POINTS  # numbers in a tracker sample: 3 points, 3 flags (1: tracked), facing, 3 quaternions

# The compared delays of landmarks are -0.025 s to 0.4 s; a delay is negative if the stamp is older than the picture.
FIRST_S, STEP_S, DELAYS = -0.025, 0.0125, 35
SIGNALS = 5


@njit
def at_time(times: F64, rows: F64, newest: int, count: int, t: float, out: F64) -> bool:
    """Write the tracker sample at the time `t` to `out`, interpolated between two of the stored samples `rows`.

    Return false if `t` is before the oldest sample, or more than 0.1 s after the newest. For a `t` up to 0.1 s after
    the newest sample, the newest sample is written.
    """
    n = len(times)
    later = newest
    if count == 0 or t > times[newest] + 0.1:
        return False
    if t >= times[newest]:
        out[:] = rows[newest]
        return True
    for back in range(1, count):
        i = (newest - back) % n
        if times[i] <= t:
            u = (t - times[i]) / max(times[later] - times[i], 1e-9)
            for k in range(rows.shape[1]):
                out[k] = rows[i, k] + u * (rows[later, k] - rows[i, k])
            return True
        later = i
    return False


class TrackerHistory:
    """Stores positions of nose and wrists by the trackers, predicted facings, and rotations of the devices for about
    one second."""

    def __init__(self) -> None:
        self.times, self.rows = np.zeros(KEPT), np.zeros((KEPT, COLUMNS))
        self._row = np.zeros(COLUMNS)
        self.clear()

    def clear(self) -> None:
        self.newest, self.count = -1, 0

    def push(self, t: float, points: F64, seen: F64, facing: float, rotations: F64) -> None:
        """Add a tracker sample. The angle `facing` is unwrapped, and the signs of the quaternions `rotations` (3, 4)
        are made consistent, so that both can be interpolated.
        """
        if self.count:
            last = self.rows[self.newest, FACING]
            facing = last + (facing - last + np.pi) % (2 * np.pi) - np.pi
            before = self.rows[self.newest, TURNS:].reshape(POINTS, 4)
            rotations = np.where((before * rotations).sum(1, keepdims=True) < 0, -rotations, rotations)
        self.newest = (self.newest + 1) % KEPT
        self.count = min(self.count + 1, KEPT)
        self.times[self.newest] = t
        row = self.rows[self.newest]
        row[:SEEN], row[SEEN:FACING], row[FACING], row[TURNS:] = points.ravel(), seen, facing, rotations.ravel()

    def at(self, t: float) -> F64 | None:
        found = at_time(self.times, self.rows, self.newest, self.count, t, self._row)
        return self._row if found else None

    def carry(self, yaw: float, shift: F64) -> None:
        """Rotate all samples by `yaw` [rad] and move them by `shift` (3,) [m], because the axes of the room changed."""
        c, s = np.cos(yaw), np.sin(yaw)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        points = self.rows[:, :SEEN].reshape(KEPT, POINTS, 3)
        self.rows[:, :SEEN] = (points @ turn.T + shift).reshape(KEPT, SEEN)
        self.rows[:, FACING] += yaw
        rotations = self.rows[:, TURNS:].reshape(KEPT, POINTS, 4)
        self.rows[:, TURNS:] = rot.multiply(rot.from_yaw(yaw), rotations).reshape(KEPT, -1)


@njit
def signals(points: F64, out: F64) -> None:
    """Write five signals of nose and wrists (9,) to `out`: three distances and two heights above the nose [m]."""
    for k, (a, b) in enumerate(((0, 1), (0, 2), (1, 2))):
        total = 0.0
        for i in range(3):
            total += (points[3 * a + i] - points[3 * b + i]) ** 2
        out[k] = np.sqrt(total)
    out[3], out[4] = points[5] - points[2], points[8] - points[2]


@njit
def compare(
    camera: F64, usable: NDArray[np.bool_], times: F64, rows: F64, newest: int, count: int, t: float,
    dt: float, means: F64, spreads: F64, compared_s: F64,
) -> None:  # fmt: skip
    """Update mean and variance of the difference between camera and trackers, for each signal and possible delay."""
    row, own = np.empty(rows.shape[1]), np.empty(SIGNALS)
    keep_mean, keep_spread = 0.5 ** (dt / fitted.MEAN_HALFLIFE_S), 0.5 ** (dt / fitted.SPREAD_HALFLIFE_S)
    for k in range(DELAYS):
        then = t - FIRST_S - k * STEP_S
        if then > times[newest] or not at_time(times, rows, newest, count, then, row):
            compared_s[k] = 0.0  # the comparison starts again for a delay at which no tracker sample is stored
            continue
        compared_s[k] += dt
        signals(row, own)
        for s in range(SIGNALS):
            if usable[s]:
                d = camera[s] - own[s]
                if compared_s[k] <= dt:  # first comparison of this signal at this delay
                    means[k, s], spreads[k, s] = d, 0.0
                means[k, s] = d + keep_mean * (means[k, s] - d)
                spreads[k, s] = (d - means[k, s]) ** 2 + keep_spread * (
                    spreads[k, s] - (d - means[k, s]) ** 2
                )


class LatencyEstimator:
    def __init__(self, expected_s: float = 0.0) -> None:
        self.expected_s = expected_s
        self.reset()

    def reset(self) -> None:
        self.latency_s = self.expected_s
        self.known = False
        self._compared_s = np.zeros(DELAYS)  # time for which camera and trackers have been compared, by delay [s]
        self._last: float | None = None
        self._means, self._spreads = np.zeros((2, DELAYS, SIGNALS))
        self._camera = np.zeros(SIGNALS)

    def step(self, t: float, levelled: F64, seen: F64, history: TrackerHistory) -> float:
        """Update the latency by the landmarks of a picture, and return the latency [s] to subtract from stamps.

        `levelled` (3, 3) are nose and wrists in camera axes, with the pitch of the camera removed.
        """
        dt = 0.0 if self._last is None else min(max(t - self._last, 0.0), 0.2)
        self._last = t
        signals(levelled.ravel(), self._camera)
        nose, left, right = seen > 0.5
        usable = np.array([nose and left, nose and right, left and right, nose and left, nose and right])
        compare(
            self._camera, usable, history.times, history.rows, history.newest, history.count, t,
            dt, self._means, self._spreads, self._compared_s,
        )  # fmt: skip
        self._judge(dt)
        return self.latency_s

    def _judge(self, dt: float) -> None:
        """Set the latency of the landmarks to the most likely delay, which has the lowest cost. The cost of a delay is
        the sum of the logarithms of the variances of the differences, because the noise of each signal is not known.
        """
        complete = (self._compared_s > fitted.LATENCY_NEEDED_S) & (self._compared_s > 0.95 * self._compared_s.max())
        cost = np.where(complete, np.log(self._spreads + fitted.SURELY_M2).sum(1), np.inf)
        k = int(np.argmin(cost))
        if not np.isfinite(cost[-1]) or cost[-1] < fitted.CONTRAST + cost[k]:
            return  # landmarks were seen too briefly, or the user has moved too little, to estimate the latency
        a, b, c = cost[max(k - 1, 0)], cost[k], cost[min(k + 1, DELAYS - 1)]
        between = (a - c) / (2 * max(a - 2 * b + c, 1e-12)) if np.isfinite(a) and 0 < k < DELAYS - 1 else 0.0
        found = FIRST_S + STEP_S * (k + between)
        share = 1.0 - 0.5**dt if self.known else 1.0
        self.latency_s += share * (found - self.latency_s)
        self.known = True
