"""Define the settings of the pose stage, and convert them to plain numbers for compiled code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from mm_ros.base.settings import Settings, setting
from mm_ros.pose.inertialize import QUINTIC, SPRING


@dataclass(frozen=True)
class PostSettings(Settings):
    """Parameters of the pose stage, which corrects the matched pose."""

    blend: str = setting(
        "spring", "Curve by which the offset decays after a jump between clips: that of a critically damped `spring`, "
                  "or the `quintic` polynomial of Bollo (2018)",
        choices=("spring", "quintic"),
    )  # fmt: skip
    blend_halflife: float = setting(
        0.1, "Half-life of the offset after a jump between clips, if `blend` is `spring`; larger values make blends "
             "slower", "s", 0.0, 2.0
    )
    blend_time: float = setting(
        0.3, "Maximum duration of the blend after a jump between clips, if `blend` is `quintic`; larger values make "
             "blends slower", "s", 0.01, 3.0
    )
    foot_lock: bool = setting(True, "Lock standing feet to a fixed place on the floor")
    lock_speed: float = setting(
        1.5, "Maximum speed of the toe at which a foot is locked; larger values lock feet earlier", "m/s", 0.0, 5.0
    )
    lock_halflife: float = setting(
        0.015,
        "Half-life with which a foot approaches its locked place; with larger values a landing foot glides longer",
        "s", 0.0, 1.0,
    )
    release_time: float = setting(
        0.25,
        "Duration of the blend from a released foot to the foot of the played motion; larger values make the blend "
        "slower",
        "s", 0.01, 1.0,
    )
    release_distance: float = setting(
        0.2,
        "Distance between the locked place and the toe in the played motion at which a foot is released; larger values "
        "keep feet locked longer",
        "m", 0.0, 1.0,
    )
    release_angle: float = setting(
        40.0, "Angle between the locked foot and the foot in the played motion at which the foot is released; larger "
              "values keep feet locked longer", "deg", 0.0, 180.0
    )
    step_time: float = setting(
        0.25,
        "Duration of a corrective step, with which a released foot moves to its place in the played motion; larger "
        "values make these steps slower",
        "s", 0.05, 1.0,
    )
    step_height: float = setting(
        0.05, "Maximum height of the foot in a corrective step; larger values lift the foot higher", "m", 0.0, 0.3
    )
    hold_feet: bool = setting(
        True, "Lock and release feet by the user's estimated contacts instead of the contacts of the played motion"
    )
    follow_feet: float = setting(
        1.0, "Maximum share of the user's estimated feet in the avatar's feet. With larger values the avatar's feet "
        "are nearer to the estimated feet; with 0 they follow only the played motion", "", 0.0, 1.0,
    )
    certain_feet: float = setting(
        0.2, "Expected error at which an estimated foot has half of the share `follow_feet`; larger values give more "
             "weight to uncertain estimates of the feet",
        "m", 0.01, 10.0,
    )
    head: bool = setting(True, "Put the avatar's head on the headset")
    hands: bool = setting(True, "Put the avatar's hands on the controllers")
    extra_trackers: bool = setting(True, "Follow the body trackers whose mounting was measured")
    hips_reach: float = setting(
        0.3,
        "Maximum horizontal shift of the hips toward the headset; with larger values the hips follow farther",
        "m", 0.0, 1.0,
    )
    lean_limit: float = setting(
        9.0,
        "Maximum lean added to the torso toward the headset; with larger values the torso leans more",
        "deg", 0.0, 45.0,
    )
    tracker_fade: float = setting(
        0.3,
        "Duration of the blend of a limb when its tracker is lost or found; larger values make the blend slower",
        "s", 0.0, 2.0,
    )
    posture: str = setting(
        "standing",
        "Posture of the user; with `seated`, the avatar stands upright while the user sits",
        choices=("standing", "seated"),
    )


class Tuning(NamedTuple):
    """Settings of the pose stage as numbers for compiled code, with angles in radians."""

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
