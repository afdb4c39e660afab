"""Correct the step network's estimate of the feet by camera landmarks and foot trackers.

The weights of camera and trackers follow from their standard deviations and from the expected error that the network
reports.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from mm_ros.body.landmarks import (
    LEFT_ANKLE,
    LEFT_HIP,
    LEFT_SHOULDER,
    RIGHT_ANKLE,
    RIGHT_HIP,
    RIGHT_SHOULDER,
    Landmarks,
)
from mm_ros.body.types import F64, LEFT_FOOT_ROLE, LOST, ROLES, TRACKED, Calibration, FeetEstimate, TrackerFrame
from mm_ros.maths import rotations as rot

# A camera image counts if its confidence is at least `SURE` and the visibility of hips and ankles at least `VISIBLE`.
VISIBLE, SURE = 0.5, 0.5
NEEDED = np.array([LEFT_HIP, RIGHT_HIP, LEFT_ANKLE, RIGHT_ANKLE])
PAST_S = 0.6  # Estimates of the feet are stored for the time `PAST_S`, because camera images arrive late.
FORGOTTEN_S = 0.4  # The camera corrects the feet no longer if its newest image is older than `FORGOTTEN_S`.
IMAGE_HALFLIFE_S = 0.03  # Half-life of the averaged difference between ankles in images and estimated ankles.
# `CAMERA_M` and `SHARES` were fitted on the CMU subjects 07, 16, 82, 83 and 120 with a simulated camera
# (benchmarks/2026-11-steps.md). `CAMERA_M` and `SHARES` hold one value for each of the directions forward, left and up.
# `CAMERA_M` is the standard deviation of the distance between the ankles in a camera image [m]. The values of
# `CAMERA_M` are 1.4 times the measured values, because the errors of successive images are correlated.
CAMERA_M = np.array([0.20, 0.17, 0.13])
SHARES = np.array([0.8, 0.1, 0.1])  # shares of forward, left and up in the squared error of the network's ankles

TRACKER_M = 0.015  # Standard deviation of an ankle position from a foot tracker whose mounting was measured.
UNMEASURED_M = 0.15  # Standard deviation of an ankle by a foot tracker that is extrapolated or has an unknown mounting.
BLEND_HALFLIFE_S = 0.1  # Half-life with which the weight of a foot tracker changes when the tracker is found or lost.
# A tracked foot with the speed `MOVING` [m/s] counts as moving with probability 0.5.
MOVING, SPREAD = 0.12, 0.03
LOW = 0.12  # A still ankle does not stand on the floor if it is higher than `LOW` times the standing height.


def ankles_apart(positions: F64) -> F64 | None:
    """Return the vector (3,) from the right to the left ankle in body axes (forward, left, up) [m].

    If the directions of the hips and of the shoulders do not agree, `ankles_apart` returns None. If the camera's pose
    estimator mistook the left side of the body for the right side, only the height of the vector has the wrong sign.
    """
    hips = positions[LEFT_HIP, :2] - positions[RIGHT_HIP, :2]
    shoulders = positions[LEFT_SHOULDER, :2] - positions[RIGHT_SHOULDER, :2]
    left = hips / max(math.hypot(*hips), 1e-6) + shoulders / max(math.hypot(*shoulders), 1e-6)
    breadth = math.hypot(*left)
    if breadth < 1.0:
        return None
    x, y = left / breadth
    apart = positions[LEFT_ANKLE] - positions[RIGHT_ANKLE]
    return np.array([apart[0] * y - apart[1] * x, apart[0] * x + apart[1] * y, apart[2]])


class CameraFeet:
    """Correct the user's estimated feet by the ankles in camera images.

    The vector between the ankles in an image is compared with the network's estimate at the time of the image. The
    difference corrects the present estimate, although the image is 0.1 to 0.2 s old, because errors of the network that
    are 0.1 to 0.2 s apart have a correlation of 0.8 to 0.9.
    """

    def __init__(self) -> None:
        self._past: deque[tuple[int, F64]] = deque()
        self.clear()

    def clear(self) -> None:
        self._past.clear()
        self._image_ns: int | None = None
        self._missing: F64 | None = None  # (3,) smoothed correction of the vector between ankles, in facing axes [m]

    def watch(self, seen: Landmarks) -> None:
        """Add the body landmarks of one camera image. Images in which the legs are hidden are ignored."""
        if self._image_ns is not None and seen.stamp_ns <= self._image_ns:
            self.clear()
        apart = None
        if seen.confidence >= SURE and seen.visibility[NEEDED].min() >= VISIBLE:
            apart = ankles_apart(seen.positions)
        if apart is None or not np.isfinite(apart).all():
            return
        before, self._image_ns = self._image_ns, seen.stamp_ns
        if not self._past or not self._past[0][0] <= seen.stamp_ns <= self._past[-1][0] + PAST_S * 1e9:
            return
        estimate = min(self._past, key=lambda row: abs(row[0] - seen.stamp_ns))[1]
        if self._missing is None or before is None:
            self._missing = np.zeros(3)
        share = 1.0 if before is None else 1.0 - 0.5 ** ((seen.stamp_ns - before) * 1e-9 / IMAGE_HALFLIFE_S)
        self._missing += share * (apart - estimate - self._missing)

    def correct(self, stamp_ns: int, feet: F64, yaw: float) -> None:
        """Correct the ankles of `feet` (2, 10) in place by past camera images. `yaw` is the user's facing."""
        if self._image_ns is None:
            return
        c, s = math.cos(yaw), math.sin(yaw)
        x, y, z = (feet[0, 3:6] - feet[1, 3:6]).tolist()
        while self._past and not 0 < stamp_ns - self._past[0][0] < PAST_S * 1e9:
            self._past.popleft()
        self._past.append((stamp_ns, np.array([c * x + s * y, -s * x + c * y, z])))
        if stamp_ns - self._image_ns > FORGOTTEN_S * 1e9:
            self._missing = None
        if self._missing is None:
            return
        squares = feet[:, 9] ** 2
        both = SHARES * squares.sum()
        gain = both / (both + CAMERA_M**2)
        fx, fy, fz = (gain * self._missing).tolist()
        correction = np.array([c * fx - s * fy, s * fx + c * fy, fz])
        parts = squares / max(squares.sum(), 1e-12)
        feet[0, 3:6] += parts[0] * correction
        feet[1, 3:6] -= parts[1] * correction
        feet[:, 9] *= np.sqrt(1.0 - parts * min(float(SHARES @ gain), 1.0))


class FootTrackers:
    """Correct each estimated foot by its foot tracker, weighted by the standard deviations of both."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.shares = np.zeros(2)  # weight of each foot's tracker in the estimate, from 0 to 1
        self._offsets = np.zeros((2, 3))  # vector from the estimated ankle to the tracked ankle, in the room [m]
        self._started = False

    def carry(self, rotation: F64) -> None:
        """Rotate the stored vectors from estimated to tracked ankles when the room is re-centred."""
        self._offsets = rot.rotate(rotation, self._offsets)

    def correct(self, frame: TrackerFrame, calibration: Calibration, feet: FeetEstimate, dt: float) -> None:
        """Correct `feet` by the foot trackers of the frame, in place. `dt` is the time since the last frame [s]."""
        blend = 1.0 - 0.5 ** (dt / BLEND_HALFLIFE_S) if self._started else 1.0
        self._started = True
        for foot in range(2):
            role = LEFT_FOOT_ROLE + foot
            tracked = frame.state[role] != LOST
            if not tracked and self.shares[foot] == 0.0:
                continue
            mounting, variance = calibration.mountings.get(ROLES[role]), feet.sigma[foot] ** 2
            sure = mounting is not None and frame.state[role] == TRACKED
            goal = variance / (variance + (TRACKER_M if sure else UNMEASURED_M) ** 2) if tracked else 0.0
            self.shares[foot] += blend * (goal - self.shares[foot])
            share = self.shares[foot]
            if tracked:
                ankle, velocity = _ankle(frame, role, mounting)
                self._offsets[foot] = ankle - feet.ankles[foot]
                feet.velocities[foot] += share * (velocity - feet.velocities[foot])
                speed = (float(np.linalg.norm(velocity)) - MOVING) / SPREAD
                moves = 1.0 / (1.0 + math.exp(-min(max(speed, -50.0), 50.0)))
                stands = 1.0 - moves if mounting is None or ankle[2] < LOW * calibration.head_height else 0.0
                feet.moves[foot] += share * (moves - feet.moves[foot])
                feet.contact[foot] += share * (stands - feet.contact[foot])
                feet.sigma[foot] *= math.sqrt(max(1.0 - share, 1e-4))
            feet.ankles[foot] += share * self._offsets[foot]


def _ankle(frame: TrackerFrame, role: int, mounting: F64 | None) -> tuple[F64, F64]:
    """Return position and velocity of an ankle by its foot tracker; if the mounting is unknown, those of the tracker.
    """
    if mounting is None:
        return frame.positions[role], frame.velocities[role]
    joint = rot.multiply(frame.rotations[role], rot.inverse(mounting[3:]))
    arm = rot.rotate(joint, mounting[:3])
    return frame.positions[role] - arm, frame.velocities[role] - np.cross(frame.angular_velocities[role], arm)
