"""Conventions of hand poses, and the rotation from each convention to the convention that all other stages use.

All other stages use the convention `wrist`, whose axes are those of the canonical hand joint, and whose position is the
middle of the palm, 8 cm from the wrist along the hand. In a T-pose with the palms down, the x axis of `wrist` points
along the thumb, y to the left of the user, and z out of the back of the hand.

In every other convention the axis across the device is the normal of the palm, and the conventions differ by one angle:
the angle of the fingers below the forward axis of the device when the thumb is up. The forward axis of a device is −z
in OpenXR and x in mm_ros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot

ESTIMATED = "estimated"


@dataclass(frozen=True)
class HandPose:
    """Convention of hand poses: which point of a controller a source reports, and the directions of its axes.

    `fingers_below` is the angle of the fingers below the forward axis of the device [deg], and NaN for `wrist`. `palm`
    is the middle of the palm in device axes (x forward, z up) [m].
    """

    name: str
    definition: str
    fingers_below: float
    palm: tuple[float, float, float] = (0.0, 0.0, 0.0)
    seen: str = "by specification"


_GRIP = (
    "Position: centre of the fist. OpenXR +x: normal of the palm, out of the left palm and into the right one; "
    "-z: through the tube of the closed fingers, from the little finger to the thumb; +y: toward the forearm."
)
# conventions of hand poses, with the angle of the fingers in degrees and the position of the palm in metres
ROWS: tuple[HandPose, ...] = (
    HandPose("openxr_grip", _GRIP, 90.0),
    HandPose("webxr_grip", "WebXR gripSpace. " + _GRIP, 90.0),
    HandPose("unity_device", "devicePosition, deviceRotation of Unity's OpenXR plug-in in ROS axes. " + _GRIP, 90.0),
    HandPose(
        "openxr_palm",
        "Position: centre of the palm's surface (palm_ext, grip_surface). OpenXR +x: as of the grip pose; -z: along "
        "the straight index finger.",
        0.0, (0.0, 0.0, 0.0),
    ),
    HandPose(
        "openxr_aim",
        "OpenXR -z: the direction in which the platform lets the user point, +x to the right; its own position. "
        "45 degrees and 5 cm are those of a Touch controller.",
        45.0, (-0.05, 0.0, -0.02),
    ),
    HandPose(
        "steamvr_raw",
        "Device pose of OpenVR. -z: along the shaft of the wand, away from the user; origin near its front end.",
        25.0, (-0.10, 0.0, -0.015), "HTC Vive wands, 4 recordings of vr_sessions",
    ),
    HandPose(
        "wrist",
        "Axes of the hand joint: in a T-pose with the palms down x forward, y left, z up; position 8 cm from the wrist "
        "along the hand. Simulated devices and recorded sessions.",
        math.nan, seen="by definition of this project",
    ),
)  # fmt: skip
HAND_POSES: dict[str, HandPose] = {row.name: row for row in ROWS}


def hand_pose(name: str) -> HandPose:
    if name not in HAND_POSES:
        raise MmRosError(f"hand pose '{name}' does not exist. Conventions: {', '.join(HAND_POSES)}")
    return HAND_POSES[name]


def hand_in_device(name: str, side: int) -> F64:
    """Return the pose of the hand (x, y, z, qw, qx, qy, qz) in device axes; `side` is 0 for the left hand, 1 for the
    right. The position of the hand is the middle of the palm, and the axes are those of the hand joint."""
    row = hand_pose(name)
    out = np.array([*row.palm, 1.0, 0.0, 0.0, 0.0])
    if math.isnan(row.fingers_below):
        return out
    # The rotation by the angle `below` about y lowers fingers that point along x.
    below = math.radians(row.fingers_below)
    out[3:] = rot.multiply(rot.exp(np.array([0.0, below, 0.0])), _THUMB_UP[side])
    return out


def _thumb_up(side: int) -> F64:
    """Return the axes of the hand in device axes, for fingers along x, the thumb up and the palm towards the body."""
    s = 1.0 - 2.0 * side
    # The columns of `m` are the hand's axes in device axes: thumb (x) = z, fingers (y) = s·x, back of hand (z) = s·y.
    m = np.array([[0.0, s, 0.0], [0.0, 0.0, s], [1.0, 0.0, 0.0]])
    w = 0.5 * math.sqrt(max(1.0 + np.trace(m), 0.0))
    return np.array([w, (m[2, 1] - m[1, 2]) / (4 * w), (m[0, 2] - m[2, 0]) / (4 * w), (m[1, 0] - m[0, 1]) / (4 * w)])


_THUMB_UP = (_thumb_up(0), _thumb_up(1))
