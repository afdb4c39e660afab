"""Former definitions of the messages in msg/, and the conversion of recorded messages to the present definitions.

For each change of a definition in msg/, add a row to `FORMER`, increment `VERSION`, and keep a recording from before
the change in test/data. Fields that are in both definitions keep their values, and removed fields are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.body.messages import PACKAGE

VERSION = 4  # version of the present message definitions of mm_ros


@dataclass(frozen=True)
class Former:
    until: int  # last version in which the message type `type` had the definition `definition`
    type: str
    definition: str
    change: Callable[[Any], dict[str, Any]] = lambda message: {}
    """Present values of fields that are new or have another meaning now."""


def _calibration_3(message: Any) -> dict[str, Any]:
    """Return default uncertainties for a calibration older than version 3, which states none."""
    return {"head_height_sigma": 0.0, "floor_sigma": 0.0, "arm_span_sigma": 0.0, "note": ""}


def _match_2(message: Any) -> dict[str, Any]:
    searches = message.engine in ("tree", "boxes", "brute")
    return {
        "engine": "search" if searches else message.engine,
        "search_structure": message.engine if searches else "",
        # empty values for those fields of `Match` that recordings of version 1 do not contain
        "clip_index": -1,
        "tags": [],
        "weights": np.zeros(0, np.float32),
        "runner_up_clips": [],
    }


def _avatar_pose_3(message: Any) -> dict[str, Any]:
    """Return no feet, and the present name of the engine that version 1 named `motion_matching`."""
    return _no_feet(message) | {"engine": "search" if message.engine == "motion_matching" else message.engine}


def _no_feet(message: Any) -> dict[str, Any]:
    return {"feet": np.zeros(0, np.float32)}


FORMER: tuple[Former, ...] = (
    Former(
        1,
        PACKAGE + "Calibration",
        """
std_msgs/Header header
uint32 epoch
string user
bool calibrated
string posture
float64 head_height
float64 floor_height
float64 arm_span
float64 forward_yaw
float64 scale
string[] roles
geometry_msgs/Pose[] offsets
""",
        _calibration_3,
    ),
    Former(
        2,
        PACKAGE + "Calibration",
        """
std_msgs/Header header
string user
bool calibrated
string posture
float64 head_height
float64 floor_height
float64 arm_span
float64 forward_yaw
string[] roles
geometry_msgs/Pose[] offsets
""",
        _calibration_3,
    ),
    Former(
        1,
        PACKAGE + "Match",
        """
std_msgs/Header header
uint32 epoch
string engine
uint32 run
uint32 segment
uint64 database
uint64 layout
string clip
int32 clip_index
int32 frame
float64 frame_fraction
float64 time
string[] tags
string band
bool searched
string reason
bool jumped
float64 cost
float64 continue_cost
float64 search_time
string[] feature_names
float32[] weights
float32[] query
float32[] winner
float32[] query_physical
float32[] winner_physical
int32[] runner_up_frames
string[] runner_up_clips
float32[] runner_up_costs
""",
        _match_2,
    ),
    Former(
        1,
        PACKAGE + "Skeleton",
        """
std_msgs/Header header
uint32 epoch
uint64 hash
string name
string[] joints
int16[] parents
float32[] offsets
float32[] rest_rotations
float32 height
int16[2] feet
int16[2] toes
""",
    ),
    Former(
        3,
        PACKAGE + "AvatarPose",
        """
std_msgs/Header header
uint32 epoch
uint64 skeleton
string engine
uint32 run
uint32 segment
float64[7] root
float32[6] root_velocity
float32[] positions
float32[] rotations
float32[] velocities
float32[] angular_velocities
bool[2] contacts
bool[2] locked
bool stale
""",
        _avatar_pose_3,
    ),
    Former(
        3,
        PACKAGE + "Trajectory",
        """
std_msgs/Header header
uint32 epoch
geometry_msgs/Pose new_from_old
string source
float64[2] position
float64[2] velocity
float64 yaw
float64 yaw_sigma
float64 height_ratio
float32[] times
float32[] positions
float32[] directions
bool stale
""",
        _no_feet,
    ),
)


def former(kind: str, version: int) -> Former | None:
    """Return the definition of the message type `kind` in a version, or None if this definition is the present one."""
    rows = [row for row in FORMER if row.type == kind and row.until >= version]
    return min(rows, key=lambda row: row.until, default=None)
