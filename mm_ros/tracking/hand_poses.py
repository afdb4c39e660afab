"""Conventions of hand poses, and the rotation of each into the frame that all other stages use.

This frame is called `wrist`: its axes are those of the canonical hand joint, and its position is the middle of the
palm, 8 cm from the wrist along the hand. In a T-pose with the palms down, x points along the thumb, y to the user's
left (along the left fingers, against the right ones) and z out of the back of the hand.

In every other convention the axis across the device is the normal of the palm. These conventions differ by one angle:
the angle of the fingers below the device's forward axis (OpenXR −z, here x) when the thumb is up.
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
    """One convention. `fingers_below`: angle of the fingers below the forward axis [deg]; NaN for `wrist`.
    `palm`: middle of the palm in device axes (x forward, z up) [m]."""

    name: str
    definition: str
    fingers_below: float
    palm: tuple[float, float, float] = (0.0, 0.0, 0.0)
    seen: str = "by specification"


_GRIP = (
    "Position: centre of the fist. OpenXR +x: normal of the palm, out of the left palm and into the right one; "
    "-z: through the tube of the closed fingers, from the little finger to the thumb; +y: toward the forearm."
)
# Conventions: name, description, angle of the fingers below the forward axis [deg], middle of the palm [m], source
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
    """The palm (x, y, z, qw, qx, qy, qz) with the axes of the hand joint, in device axes; side 0 left, 1 right."""
    row = hand_pose(name)
    out = np.array([*row.palm, 1.0, 0.0, 0.0, 0.0])
    if math.isnan(row.fingers_below):
        return out
    # A quarter turn about the thumb's axis turns the palm from facing down to facing sideways, with the thumb up.
    below = math.radians(row.fingers_below)
    out[3:] = rot.multiply(rot.exp(np.array([0.0, below, 0.0])), _THUMB_UP[side])
    return out


def _thumb_up(side: int) -> F64:
    """Hand axes in the device's axes for fingers along x, the thumb up, and the palm inward."""
    s = 1.0 - 2.0 * side
    # Columns x (thumb) = z, y = s·x, z (back of the hand) = s·y.
    m = np.array([[0.0, s, 0.0], [0.0, 0.0, s], [1.0, 0.0, 0.0]])
    w = 0.5 * math.sqrt(max(1.0 + np.trace(m), 0.0))
    return np.array([w, (m[2, 1] - m[1, 2]) / (4 * w), (m[0, 2] - m[2, 0]) / (4 * w), (m[1, 0] - m[0, 1]) / (4 * w)])


_THUMB_UP = (_thumb_up(0), _thumb_up(1))
