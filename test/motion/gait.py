"""Measures of walking and running as in gait laboratories, computed from the joint positions of a clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import (
    HIPS,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_LOWER_LEG,
    LEFT_TOES,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_LOWER_LEG,
    RIGHT_TOES,
)
from mm_ros.maths import rotations as rot
from mm_ros.motion.procedural.feet import BALL, HEEL, TIP
from mm_ros.motion.procedural.smooth import gaussian

Array = Any
TOUCH_M = 0.002  # maximum height [m] of the sole's lowest point above the floor for a foot that touches the floor
FEET = ((LEFT_FOOT, LEFT_TOES), (RIGHT_FOOT, RIGHT_TOES))


@dataclass(frozen=True)
class GaitFigures:
    speed: float  # m/s
    step_length: float  # m
    cadence: float  # steps/s
    double_support: float  # share of the time in which both feet are on the floor
    flight: float
    bob: float  # vertical range of the pelvis within a stride [m]
    sway: float  # lateral range of the pelvis within a stride [m]
    knee_swing_deg: float  # maximum flexion of the knee within a stride [deg], mean of all strides
    knee_least_deg: float
    knee_loading_deg: float  # maximum flexion of the knee in the first fifth of a stride [deg], mean of all strides
    arm_leg: float  # correlation between the positions of hand and foot of the same side along the path

    @property
    def walk_ratio(self) -> float:
        return self.step_length / self.cadence


def on_floor(positions: Array, rotations: Array) -> Array:
    """Return for each frame whether the sole of the left and of the right foot touches the floor (F, 2)."""
    out = []
    for foot, toes in FEET:
        heel_local = np.array([HEEL[0], 0.0, HEEL[1] - 0.07])
        tip_local = np.array([TIP[0] - BALL[0], 0.0, 0.0])
        heel = positions[:, foot] + rot.rotate(
            rotations[:, foot], np.broadcast_to(heel_local, positions[:, foot].shape)
        )
        tip = positions[:, toes] + rot.rotate(rotations[:, toes], np.broadcast_to(tip_local, positions[:, toes].shape))
        lowest = np.min([heel[:, 2], positions[:, toes, 2] - BALL[1], tip[:, 2] - TIP[1]], axis=0)
        out.append(lowest < TOUCH_M)
    return np.stack(out, axis=1)


def knee_angles(clip: Clip) -> Array:
    """Return the flexion of the left and of the right knee (F, 2) [deg]."""
    q = clip.rotations[:, [LEFT_LOWER_LEG, RIGHT_LOWER_LEG]].astype(float)
    return np.degrees(2 * np.arctan2(q[..., 2], q[..., 0]))


def jitter(positions: Array, rate: float, low_pass_s: float = 0.0) -> float:
    """Return the mean jerk of all joints [m/s³], after a low-pass filter if `low_pass_s` is not 0."""
    if low_pass_s:
        positions = gaussian(positions, low_pass_s, rate)
    return float(np.linalg.norm(np.diff(positions.astype(float), 3, axis=0), axis=-1).mean() * rate**3)


def gait_figures(clip: Clip, first: int, stop: int) -> GaitFigures:
    """Measure steady straight walking or running in the frames from `first` to `stop` − 1 of a clip."""
    p, q = (a.astype(float)[first:stop] for a in clip.globals())
    knees = knee_angles(clip)[first:stop]
    touch = on_floor(p, q)
    travel = p[-1, HIPS, :2] - p[0, HIPS, :2]
    seconds = (len(p) - 1) / clip.rate
    way = travel / np.linalg.norm(travel)
    along = p[..., :2] @ way
    strikes = [np.flatnonzero(np.diff(touch[:, f].astype(int)) == 1) + 1 for f in (0, 1)]
    both = np.sort(np.concatenate(strikes))
    landings = np.sort(np.concatenate([along[s, FEET[f][0]] for f, s in enumerate(strikes)]))
    strides = [(f, a, b) for f in (0, 1) for a, b in zip(strikes[f][:-1], strikes[f][1:], strict=True)]
    lateral = p[:, HIPS, :2] @ np.array([-way[1], way[0]])
    hands = [along[:, LEFT_HAND] - along[:, HIPS], along[:, RIGHT_HAND] - along[:, HIPS]]
    feet = [along[:, FEET[f][0]] - along[:, HIPS] for f in (0, 1)]
    whole = slice(both[0], both[-1])
    return GaitFigures(
        speed=float(np.linalg.norm(travel) / seconds),
        step_length=float(np.diff(landings).mean()),
        cadence=float(clip.rate / np.diff(both).mean()),
        double_support=float(touch[whole].all(axis=1).mean()),
        flight=float((~touch[whole].any(axis=1)).mean()),
        bob=float(np.mean([np.ptp(p[a:b, HIPS, 2]) for _, a, b in strides])),
        sway=float(np.mean([np.ptp(lateral[a:b] - np.linspace(lateral[a], lateral[b], b - a)) for _, a, b in strides])),
        knee_swing_deg=float(np.mean([knees[a:b, f].max() for f, a, b in strides])),
        knee_least_deg=float(knees.min()),
        knee_loading_deg=float(np.mean([knees[a : a + (b - a) // 5, f].max() for f, a, b in strides])),
        arm_leg=float(np.mean([np.corrcoef(hands[f], feet[f])[0, 1] for f in (0, 1)])),
    )
