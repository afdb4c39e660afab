"""Parse the angles of a robot's joints from the text of an option or of a parameter."""

from __future__ import annotations

import math

from mm_ros.base.errors import MmRosError

LARGEST_DEG = 360.0  # maximum joint angle [°] in an option


def parsed_angles(text: str, parameter: str, unit: str = "radians", largest: float = math.inf) -> dict[str, float]:
    """Parse joint angles from a text such as 'left_elbow=1.57, right_elbow=-1.57'."""
    out = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        try:
            angle = float(value)
        except ValueError:
            angle = math.nan
        if not (math.isfinite(angle) and abs(angle) <= largest):
            limits = "" if math.isinf(largest) else f", {-largest:g} to {largest:g}"
            raise MmRosError(f"{parameter}: expected 'joint={unit}'{limits}, came '{part}'")
        out[name.strip()] = angle
    return out


def t_pose_in_radians(option: str, text: str) -> str:
    """Convert joint angles in T-pose from degrees, as 'left_elbow=90, right_elbow=-90', to the same text in radians."""
    angles = parsed_angles(text, option, "degrees", LARGEST_DEG)
    return ", ".join(f"{name}={math.radians(angle)}" for name, angle in angles.items())
