"""Measured data about the user for the comparison with the avatar: body trackers, marked footfalls, length of the arm.

Because a body tracker sits on a strap beside its joint, the constant offset between tracker and joint is computed from
the first FITTED_S seconds of a recording, and removed before the comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.skeleton import LEFT_HAND, RIGHT_HAND, Skeleton
from mm_ros.body.types import (
    BODY_ROLES,
    F64,
    HEAD_ROLE,
    JOINT_OF_ROLE,
    LEFT_HAND_ROLE,
    RIGHT_HAND_ROLE,
    ROLES,
    TRACKED,
    Calibration,
    TrackerFrame,
)
from mm_ros.evaluation.footfalls import Landings
from mm_ros.maths import rotations as rot
from mm_ros.tracking.calibration import CONTROLLER_ALONG_HAND, head_joint_height

FITTED_S, FEWEST = 3.0, 10
GAP_S = 0.25  # Between two samples that are more than 0.25 s apart, the pose of a device is unknown.
FED = ("head", "left_hand", "right_hand")
# maps each kind of body tracker to the joint after which the error metric of the tracker is named
_NAMES = {"waist": "hips", "foot": "ankle", "chest": "chest", "knee": "knee", "forearm": "elbow"}
CARRIERS = {ROLES[r]: (JOINT_OF_ROLE[r], _NAMES[ROLES[r].split("_")[-1]]) for r in BODY_ROLES}
# The length of an arm from shoulder to wrist is computed from the distance between the wrists of spread arms or from
# the height of the head joint, by the proportions of the default skeleton, which are means of the population.
ARM_OF_SPAN = 0.53 / 1.40
ARM_OF_HEIGHT = 0.53 / 1.60


@dataclass(frozen=True)
class Device:
    """Samples of one body tracker in world coordinates."""

    stamps_ns: NDArray[np.int64]
    positions: F64
    rotations: F64

    def at(self, stamps_ns: NDArray[np.int64]) -> tuple[F64, F64]:
        """Return the tracker's position (F, 3) and rotation (F, 4), interpolated at the times `stamps_ns`; NaN at times
        without samples nearby."""
        own = (self.stamps_ns - self.stamps_ns[0]) * 1e-9
        times = (stamps_ns - self.stamps_ns[0]) * 1e-9
        k = np.clip(np.searchsorted(own, times, side="right") - 1, 0, max(len(own) - 2, 0))
        after = np.minimum(k + 1, len(own) - 1)
        width = np.maximum(own[after] - own[k], 1e-9)
        share = np.clip((times - own[k]) / width, 0.0, 1.0)[:, None]
        p = self.positions[k] + share * (self.positions[after] - self.positions[k])
        a, b = self.rotations[k], self.rotations[after]
        b = np.where((a * b).sum(-1, keepdims=True) < 0, -b, b)
        q = rot.normalize(a + share * (b - a))
        unknown = (times < own[0] - 1e-6) | (times > own[-1] + 1e-6) | (width > GAP_S)
        p[unknown], q[unknown] = np.nan, np.nan
        return p, q


@dataclass(frozen=True)
class Offset:
    """Constant pose of a joint relative to the body tracker that is mounted on this joint."""

    position: F64
    rotation: F64

    @property
    def centimetres(self) -> float:
        return float(np.linalg.norm(self.position)) * 100

    @property
    def degrees(self) -> float:
        w, v = abs(float(self.rotation[0])), float(np.linalg.norm(self.rotation[1:]))
        return float(np.degrees(2 * np.arctan2(v, w)))

    def joint(self, positions: F64, rotations: F64) -> tuple[F64, F64]:
        """Compute the pose of the joint from the positions (F, 3) and rotations (F, 4) of the body tracker."""
        p = positions + rot.rotate(rotations, np.broadcast_to(self.position, positions.shape))
        return p, rot.multiply(rotations, np.broadcast_to(self.rotation, rotations.shape))


@dataclass(frozen=True)
class Known:
    """Measured data about the user: body trackers by role, `landings` with the marked footfalls in seconds after
    `start_ns`, and `arm`, the length from shoulder to wrist [m]."""

    devices: dict[str, Device] = field(default_factory=dict)
    landings: Landings | None = None
    arm: float | None = None
    start_ns: int = 0


def fit_offset(p: F64, q: F64, joint_p: F64, joint_q: F64, times: F64) -> Offset | None:
    """Return the constant offset between a body tracker (`p`, `q`) and its joint in the first FITTED_S seconds, or None
    if there are fewer than FEWEST samples in this time."""
    first = (times <= FITTED_S) & np.isfinite(p).all(1) & np.isfinite(q).all(1)
    if first.sum() < FEWEST:
        return None
    back = rot.inverse(q[first])
    position = np.median(rot.rotate(back, joint_p[first] - p[first]), axis=0)
    return Offset(position, mean_rotation(rot.multiply(back, joint_q[first])))


def mean_rotation(q: F64) -> F64:
    """Return the mean rotation of quaternions (N, 4), whose signs do not matter (Markley 2007, equation 13)."""
    return np.asarray(np.linalg.eigh(q.T @ q)[1][:, -1])


def devices_of_frames(frames: list[TrackerFrame]) -> dict[str, Device]:
    """Return the samples of each body tracker in recorded tracker frames; samples of a lost tracker are left out."""
    out = {}
    for r, role in enumerate(ROLES):
        seen = [f for f in frames if f.state[r] == TRACKED] if role in CARRIERS else []
        if len(seen) >= 2:
            out[role] = Device(
                np.array([f.stamp_ns for f in seen]), np.stack([f.positions[r] for f in seen]),
                np.stack([f.rotations[r] for f in seen]),
            )  # fmt: skip
    return out


def arm_of_skeleton(skeleton: Skeleton) -> float:
    lengths = np.linalg.norm(skeleton.offsets.astype(np.float64), axis=1)
    left = lengths[LEFT_HAND] + lengths[LEFT_HAND - 1]
    return float((left + lengths[RIGHT_HAND] + lengths[RIGHT_HAND - 1]) / 2)


def arm_of_user(frames: list[TrackerFrame], calibration: Calibration) -> float:
    """Return the length of the user's arm from shoulder to wrist [m]. The length of the arm is computed from a T-pose
    in the recording, or else from the calibrated arm span, or else from the user's height."""
    span = spread_of_hands(frames) or calibration.arm_span
    if span:
        return ARM_OF_SPAN * (span - 2 * CONTROLLER_ALONG_HAND)
    return ARM_OF_HEIGHT * head_joint_height(calibration)


def spread_of_hands(frames: list[TrackerFrame]) -> float:
    """Return the distance [m] between the controllers while the user holds a T-pose (95th percentile), or 0 if no
    T-pose lasts 0.3 s."""
    hands = [LEFT_HAND_ROLE, RIGHT_HAND_ROLE]
    rows = [f for f in frames if (f.state[[HEAD_ROLE, *hands]] == TRACKED).all()]
    if len(rows) < 2:
        return 0.0
    p = np.stack([f.positions[:3] for f in rows])
    left, right, head = p[:, LEFT_HAND_ROLE], p[:, RIGHT_HAND_ROLE], p[:, HEAD_ROLE]
    span = np.linalg.norm(left - right, axis=1)
    below = head[:, None, 2] - p[:, hands, 2]
    middle = np.linalg.norm(((left + right) / 2 - head)[:, :2], axis=1)
    spread = (below > 0.0).all(1) & (below < 0.5).all(1) & (np.abs(left - right)[:, 2] < 0.2) & (middle < 0.25)
    spread &= (span > 0.75 * head[:, 2]) & (span < 1.25 * head[:, 2])
    seconds = float(np.median(np.diff([f.stamp_ns for f in rows]))) * 1e-9 * float(spread.sum())
    return float(np.percentile(span[spread], 95)) if seconds >= 0.3 else 0.0


