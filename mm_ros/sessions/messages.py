"""Convert messages of bags without ROS, by the functions of `body/messages.py` with the message classes of rosbags."""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.body import messages
from mm_ros.body.messages import avatar_pose_from as avatar_pose_from_bag
from mm_ros.body.messages import calibration_from as calibration_from_bag
from mm_ros.body.messages import landmarks_from as landmarks_from_bag
from mm_ros.body.messages import skeleton_from as skeleton_from_bag
from mm_ros.body.messages import stamp_from as time_ns
from mm_ros.body.messages import trackers_from as trackers_from_bag
from mm_ros.body.skeleton import Skeleton
from mm_ros.sessions.definitions import typestore

__all__ = [
    "avatar_pose_from_bag", "calibration_from_bag", "landmarks_from_bag", "skeleton_from_bag", "time_ns",
    "trackers_from_bag",
]  # fmt: skip
_ENCODER = messages.Encoder(
    lambda name: typestore().types[name],
    lambda values: np.ascontiguousarray(values, np.float32).ravel(),
    lambda values: np.asarray(values, np.bool_),
)
trackers_to_bag = _ENCODER.trackers
landmarks_to_bag = _ENCODER.landmarks
avatar_pose_to_bag = _ENCODER.avatar_pose
calibration_to_bag = _ENCODER.calibration


def skeleton_to_bag(skeleton: Skeleton, stamp_ns: int, name: str = "truth") -> Any:
    return _ENCODER.skeleton(skeleton, stamp_ns, name)
