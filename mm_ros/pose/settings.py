"""What can be tuned behind the matched pose, and the same as plain numbers for compiled code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from mm_ros.base.settings import Settings, setting
from mm_ros.pose.inertialize import QUINTIC, SPRING


@dataclass(frozen=True)
class PostSettings(Settings):
    blend: str = setting(
        "spring", "How the offset of a jump dies away: critically damped, or Bollo's quintic",
        choices=("spring", "quintic"),
    )  # fmt: skip
    blend_halflife: float = setting(0.1, "Half-life of a jump's offset (spring)", "s", 0.0, 2.0)
    blend_time: float = setting(0.3, "Longest blend of a jump (quintic)", "s", 0.01, 3.0)
    foot_lock: bool = setting(True, "Hold feet that stand on their place")
    lock_speed: float = setting(1.5, "A toe faster than this is not locked", "m/s", 0.0, 5.0)
    lock_halflife: float = setting(0.015, "Half-life of a foot's way into its lock", "s", 0.0, 1.0)
    release_time: float = setting(0.25, "Length of a foot's way back to the motion", "s", 0.01, 1.0)
    release_distance: float = setting(0.2, "A locked foot lets go when the motion is farther away", "m", 0.0, 1.0)
    release_angle: float = setting(
        40.0, "A locked foot lets go when the motion has turned away by more", "deg", 0.0, 180.0
    )
    step_time: float = setting(0.25, "Length of a step that the motion does not make", "s", 0.05, 1.0)
    step_height: float = setting(0.05, "Height of a step that the motion does not make", "m", 0.0, 0.3)
    head: bool = setting(True, "Put the head on the headset")
    hands: bool = setting(True, "Put the hands on the controllers")
    extra_trackers: bool = setting(True, "Follow trackers at waist and feet where they are present")
    hips_reach: float = setting(0.3, "Farthest that the hips move aside for the head", "m", 0.0, 1.0)
    lean_limit: float = setting(9.0, "Largest lean that is added for the head's sake", "deg", 0.0, 45.0)
    tracker_fade: float = setting(0.3, "Time to hand a limb over when a tracker is lost or found", "s", 0.0, 2.0)
    posture: str = setting(
        "standing", "seated: the avatar stands upright over a user who sits", choices=("standing", "seated")
    )


class Tuning(NamedTuple):
    kind: int
    halflife: float
    blend_time: float
    lock_on: int
    lock_speed: float
    lock_halflife: float
    release_s: float
    release_m: float
    release_angle: float
    step_s: float
    step_height: float
    hips_reach: float
    lean_limit: float
    fade_s: float


def tuning(s: PostSettings) -> Tuning:
    return Tuning(
        QUINTIC if s.blend == "quintic" else SPRING,
        s.blend_halflife,
        s.blend_time,
        int(s.foot_lock),
        s.lock_speed,
        s.lock_halflife,
        s.release_time,
        s.release_distance,
        math.radians(s.release_angle),
        s.step_time,
        s.step_height,
        s.hips_reach,
        math.radians(s.lean_limit),
        max(s.tracker_fade, 1e-3),
    )
