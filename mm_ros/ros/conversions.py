"""Conversions between mm_ros messages and the dataclasses of mm_ros, in pairs `x_to_ros` and `x_from_ros`.

Most of these conversions come from `body/messages.py`, because recorded sessions use these conversions, too. Only the
conversions of the match and of the feature layout are defined in `conversions.py`.
"""

from __future__ import annotations

import math
from array import array
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body import messages, plausible
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import AvatarPose, Match
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.features import KINDS, FeatureLayout
from mm_ros.msg import FeatureLayout as FeatureLayoutMsg
from mm_ros.msg import Match as MatchMsg
from mm_ros.msg import Skeleton as SkeletonMsg


@cache
def _kind(name: str) -> Any:
    package, _, kind = name.split("/")
    return getattr(import_module(f"{package}.msg"), kind)


def floats(values: NDArray[Any]) -> array[float]:
    """Return float32 numbers for a ROS message as `array('f')`, because rclpy would check each number of a list."""
    out = array("f")
    out.frombytes(np.ascontiguousarray(values, np.float32).tobytes())
    return out


WORLD = messages.WORLD
_ENCODER = messages.Encoder(_kind, floats, lambda values: [bool(v) for v in values])
stamp_to_ros, stamp_from_ros = _ENCODER.stamp, messages.stamp_from
header = _ENCODER.header
pose_to_ros, pose_from_ros = _ENCODER.pose, messages.pose_from
landmarks_to_ros, landmarks_from_ros = _ENCODER.landmarks, messages.landmarks_from
trackers_to_ros, trackers_from_ros = _ENCODER.trackers, messages.trackers_from
orientation_to_ros, orientation_from_ros = _ENCODER.orientation, messages.orientation_from
trajectory_to_ros, trajectory_from_ros = _ENCODER.trajectory, messages.trajectory_from
avatar_pose_to_ros, avatar_pose_from_ros = _ENCODER.avatar_pose, messages.avatar_pose_from
calibration_to_ros, calibration_from_ros = _ENCODER.calibration, messages.calibration_from
skeleton_from_ros = messages.skeleton_from


def skeleton_to_ros(skeleton: Skeleton, stamp_ns: int, name: str = "avatar") -> SkeletonMsg:
    return _ENCODER.skeleton(skeleton, stamp_ns, name)


def match_to_ros(m: Match, pose: AvatarPose, database: MotionDatabase | None = None, scale: float = 1.0) -> MatchMsg:
    """Convert a `Match`, which explains the choice of a frame, to a ROS message. If `database` is given, the message
    also contains names and values of the search's features, in the axes of the avatar's root and the user's size."""
    described = database if m.query.size else None
    return MatchMsg(
        header=header(m.stamp_ns),
        epoch=m.epoch,
        engine=m.engine,
        search_structure=m.search_structure,
        run=pose.run,
        segment=pose.segment,
        database=m.database,
        layout=m.layout,
        clip=m.clip,
        clip_index=m.clip_index,
        frame=m.frame,
        frame_fraction=m.frame_fraction,
        time=m.time,
        tags=list(m.tags),
        band=m.band,
        searched=m.searched,
        reason=m.reason,
        jumped=m.jumped,
        cost=float(m.cost),
        continue_cost=float(m.continue_cost),
        search_time=m.search_time,
        feature_names=list(described.layout.column_names) if described else [],
        weights=floats(m.weights),
        query=floats(m.query),
        winner=floats(m.winner),
        query_physical=floats(_physical(described, m.query, scale)),
        winner_physical=floats(_physical(described, m.winner, scale)),
        runner_up_frames=m.runner_up_frames.astype(np.int32),
        runner_up_clips=list(m.runner_up_clips),
        runner_up_costs=floats(m.runner_up_costs),
    )


def _physical(database: MotionDatabase | None, normalized: Any, scale: float) -> Any:
    if database is None:
        return np.zeros(0)
    out = np.asarray(normalized) * database.feature_std + database.feature_mean
    for f in database.layout.features:
        if KINDS[f.kind].length:
            out[database.layout.offsets[f.name]] *= scale
    return out


def feature_layout_to_ros(layout: FeatureLayout, stamp_ns: int) -> FeatureLayoutMsg:
    return FeatureLayoutMsg(
        header=header(stamp_ns),
        hash=int(layout.hash, 16),
        features=[f.name for f in layout.features],
        weights=[float(f.weight) for f in layout.features],
        trajectory_times=list(layout.trajectory_times),
    )


def trajectory_times_from_ros(msg: FeatureLayoutMsg) -> tuple[float, ...]:
    """Return the times [s] of the trajectory samples from the message of a feature layout."""
    times = tuple(float(t) for t in msg.trajectory_times)
    if not times or not all(a < b < math.inf for a, b in pairwise((0.0, *times))):
        raise MmRosError(f"feature layout: expected ascending trajectory times above 0, came {times}")
    plausible.check("number of times of the feature layout", len(times), "samples")
    plausible.check("times of the feature layout", np.array(times), "time ahead")
    return times
