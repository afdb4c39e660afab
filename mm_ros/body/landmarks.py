"""Landmarks of a person in a camera image: the 33 body points of the pose estimator BlazePose, as in msg/Landmarks.msg.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F32, F64

NAMES: tuple[str, ...] = (
    "nose", "left_eye_inner", "left_eye", "left_eye_outer", "right_eye_inner", "right_eye", "right_eye_outer",
    "left_ear", "right_ear", "mouth_left", "mouth_right", "left_shoulder", "right_shoulder", "left_elbow",
    "right_elbow", "left_wrist", "right_wrist", "left_pinky", "right_pinky", "left_index", "right_index",
    "left_thumb", "right_thumb", "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle",
    "left_heel", "right_heel", "left_foot_index", "right_foot_index",
)  # fmt: skip
COUNT = len(NAMES)
NOSE, LEFT_WRIST, RIGHT_WRIST = (NAMES.index(n) for n in ("nose", "left_wrist", "right_wrist"))
LEFT_SHOULDER, RIGHT_SHOULDER = NAMES.index("left_shoulder"), NAMES.index("right_shoulder")
LEFT_HIP, RIGHT_HIP = NAMES.index("left_hip"), NAMES.index("right_hip")
LEFT_ANKLE, RIGHT_ANKLE = NAMES.index("left_ankle"), NAMES.index("right_ankle")


def _mirrored(name: str) -> str:
    return name.replace("left", "\0").replace("right", "left").replace("\0", "right")


# Indices that swap left and right landmarks, because a pose estimator may mistake a person's back for the front.
SWAPPED: NDArray[np.int64] = np.array([NAMES.index(_mirrored(n)) for n in NAMES])


@dataclass
class Landmarks:
    """Landmarks of one camera image. `positions` are relative to the middle of the hips, with x forward, y left and z
    up [m]. The pose estimator uses a part of the image around the person, so the x axis of the landmarks points along
    the ray from the camera to the person, not along the axis of the camera. The ray to the person follows from the
    positions `image` of the landmarks in the image."""

    stamp_ns: int  # time at which the camera took the image [ns]
    positions: F64  # (33, 3)
    visibility: F32  # (33,)
    image: F32 = field(default_factory=lambda: np.full((COUNT, 2), 0.5, np.float32))  # (33, 2) from left, top
    confidence: float = 1.0
    epoch: int = 0
    source: str = ""


def flat(seen: Landmarks) -> dict[str, Any]:
    """Return the fields of the landmark message by name, with flat float32 arrays and without the time stamp."""
    return {
        "epoch": seen.epoch,
        "source": seen.source,
        "positions": np.asarray(seen.positions, np.float32).ravel(),
        "visibility": np.asarray(seen.visibility, np.float32),
        "image": np.asarray(seen.image, np.float32).ravel(),
        "confidence": float(seen.confidence),
    }


@dataclass(frozen=True)
class Sighting:
    """Landmarks of a camera image and the time of their arrival [ns], from which the user's facing is estimated."""

    arrives_ns: int
    landmarks: Landmarks
