"""Former definitions of our messages, and how a message of then becomes one of today.

When a definition in msg/ changes, it gets a row here, `VERSION` grows by one, and a recording made before the change is
kept under test/data. Fields keep their values by name; fields that are gone are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

PACKAGE = "mm_ros/msg/"
VERSION = 2  # of today's definitions


@dataclass(frozen=True)
class Former:
    until: int  # last version of the messages that had this definition
    type: str
    definition: str
    change: Callable[[Any], dict[str, Any]] = lambda message: {}
    """Today's values of fields that are new, or that mean something else now."""


def engine_today(name: str) -> str:
    """AvatarPose.engine, whose definition is the same in all versions."""
    return "search" if name == "motion_matching" else name


def _match_2(message: Any) -> dict[str, Any]:
    searches = message.engine in ("tree", "boxes", "brute")
    return {
        "engine": "search" if searches else message.engine,
        "search_structure": message.engine if searches else "",
        # Version 1 never filled these.
        "clip_index": -1,
        "tags": [],
        "weights": np.zeros(0, np.float32),
        "runner_up_clips": [],
    }


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
)


def former(kind: str, version: int) -> Former | None:
    """The definition of `kind` in that version; None where it is today's."""
    rows = [row for row in FORMER if row.type == kind and row.until >= version]
    return min(rows, key=lambda row: row.until, default=None)
