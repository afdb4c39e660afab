"""Compare the body proportions of skeletons with those of people, and correct joints at implausible positions.

A motion database is scaled to its user by the height of the head joint. If the head joint of the skeleton is too low,
the legs of the user's avatar become too long. All lengths are relative to the leg length, which is the length of the
bones from hip joint to ankle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mm_ros.body.skeleton import (
    HEAD,
    HIPS,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    LEFT_SHOULDER,
    LEFT_TOES,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    NECK,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_LOWER_ARM,
    RIGHT_LOWER_LEG,
    RIGHT_SHOULDER,
    RIGHT_UPPER_ARM,
    RIGHT_UPPER_LEG,
    TRUNK_BONES,
    UPPER_CHEST,
    Skeleton,
)

Array = Any
# Range of the leg length of adults [m]. A skeleton outside of this range is a child's, or its unit is not the metre.
ADULT_LEG_M = (0.70, 1.0)
ROUNDING = 0.005  # tolerance of the ranges of lengths for rounding errors in the average of several skeletons
NO_BONE_M = 1e-4  # A bone of a skeleton that is shorter than this length [m] counts as missing.


class Range(NamedTuple):
    """Range of a body length relative to the length of the leg. If a length is below `low` or above `high`, the joint
    is at an implausible position and is moved so that the length becomes `usual`."""

    low: float
    usual: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low - ROUNDING <= value <= self.high + ROUNDING

    def outside(self, value: float) -> float:
        return max(self.low - value, value - self.high, 0.0)


# Lowest, usual and highest lengths, divided by the leg length. The range of the head height covers skeletons of eight
# motion-capture studios. Arm and shoulders: mean of women and men (de Leva 1996), ± 6 % (arm) and ± 25 % (shoulders).
HEAD_OVER_LEG = Range(1.84, 1.90, 1.97)  # height of the head joint above the floor, divided by the leg length
ARM_OVER_LEG = Range(0.60, 0.65, 0.71)  # distance from shoulder to wrist, divided by the leg length
SHOULDERS_OVER_LEG = Range(0.32, 0.42, 0.53)  # distance between the shoulder joints, divided by the leg length
# A leg length is wrong if it differs by more than LEG_OFF (log ratio) from both lengths that head and arms suggest.
LEG_OFF = 0.17
AGREE = 0.10  # A leg is corrected only if the lengths suggested by head and arms differ by less than this (log ratio).
LARGEST_CHANGE = 1.45  # A leg that a correction would change by a larger factor than this is not human and is kept.
# Minimum and maximum plausible proportions, from children to tall people. A proportion outside of its range is reported
# as probably wrong.
PLAUSIBLE = (
    ("head joint above the floor", 1.5, 2.6), ("arm", 0.4, 1.0), ("width of the shoulders", 0.15, 0.85),
    ("width of the hips", 0.05, 0.6), ("shin over thigh", 0.55, 1.8), ("left over right leg", 0.85, 1.18),
    ("left over right arm", 0.85, 1.18), ("foot", 0.05, 0.5),
)  # fmt: skip

_LEGS = ((LEFT_LOWER_LEG, LEFT_FOOT), (RIGHT_LOWER_LEG, RIGHT_FOOT))
_ARMS = ((LEFT_LOWER_ARM, LEFT_HAND), (RIGHT_LOWER_ARM, RIGHT_HAND))
_TRUNK = tuple(j for j in TRUNK_BONES if j not in (LEFT_UPPER_ARM, RIGHT_UPPER_ARM))


class Correction(NamedTuple):
    """A description of a correction, and by which share the corrected body part was outside the range of people."""

    why: str
    outside: float = 0.0


@dataclass(frozen=True)
class Proportions:
    """Proportions of a skeleton: the length `leg` [m], and the other lengths relative to it."""

    leg: float
    head: float
    arm: float
    shoulders: float

    @property
    def adult(self) -> bool:
        return ADULT_LEG_M[0] <= self.leg <= ADULT_LEG_M[1]


def proportions_of(skeleton: Skeleton) -> Proportions:
    p, leg = skeleton.rest_positions().astype(np.float64), skeleton.leg_length
    arm = sum(_length(skeleton, arm) for arm in _ARMS) / 2
    wide = float(np.linalg.norm(p[LEFT_UPPER_ARM] - p[RIGHT_UPPER_ARM]))
    return Proportions(leg, float(p[HEAD, 2]) / leg, arm / leg, wide / leg)


def _length(skeleton: Skeleton, bones: tuple[int, ...]) -> float:
    return float(np.linalg.norm(skeleton.offsets[list(bones)].astype(np.float64), axis=1).sum())


def implausible(skeleton: Skeleton) -> list[tuple[float, str]]:
    """Return the value and a description of each proportion that no person has."""
    p, now = skeleton.rest_positions().astype(np.float64), proportions_of(skeleton)
    leg = now.leg
    legs, arms = ([_length(skeleton, b) for b in side] for side in (_LEGS, _ARMS))
    thigh, shin = (float(np.linalg.norm(skeleton.offsets[j])) for j in _LEGS[0])
    came = (
        now.head, now.arm, now.shoulders, float(np.linalg.norm(p[LEFT_UPPER_LEG] - p[RIGHT_UPPER_LEG])) / leg,
        shin / max(thigh, 1e-9), legs[0] / max(legs[1], 1e-9), arms[0] / max(arms[1], 1e-9),
        float(np.linalg.norm(skeleton.offsets[LEFT_TOES])) / leg,
    )  # fmt: skip
    out = []
    for (what, low, high), value in zip(PLAUSIBLE, came, strict=True):
        if not low <= value <= high:
            scale = "" if "over" in what else f" ({value * leg:.2f} m)"
            out.append((value, f"{what}{scale}; expected {low:g} to {high:g} for legs of {leg:.2f} m"))
    return out


def unusual(skeleton: Skeleton) -> list[str]:
    """Return a description of each proportion of an adult's skeleton that is outside the usual range."""
    now = proportions_of(skeleton)
    if not now.adult:
        return []
    rows = (("head joint above the floor", now.head, HEAD_OVER_LEG), ("arm", now.arm, ARM_OVER_LEG),
            ("width of the shoulders", now.shoulders, SHOULDERS_OVER_LEG))  # fmt: skip
    return [
        f"{what}: {value:.2f} leg lengths, people have {r.low:g} to {r.high:g}"
        for what, value, r in rows
        if not r.holds(value)
    ]


def corrected(skeleton: Skeleton) -> tuple[Skeleton, list[Correction]]:
    """Move joints at implausible positions to positions that people have. Return the corrected skeleton and a
    description of each correction. The directions of bones do not change, so that joint rotations keep their meaning.
    Skeletons of children, who have other proportions, and skeletons that are not human are returned unchanged."""
    notes: list[Correction] = []
    if implausible(skeleton) or not proportions_of(skeleton).adult:
        return skeleton, notes
    out = skeleton
    for change in (_with_thorax, _with_leg, _with_head, _with_arms, _with_shoulders):
        out = change(out, notes)
    return out, notes


def _with_thorax(skeleton: Skeleton, notes: list[Correction]) -> Skeleton:
    """Add the bone between chest and neck if it is missing. BVH files of CMU lack the bone between chest and neck, so
    that neck and shoulders are 11 cm too low. The added bone gets the length of the next lower bone; in the original
    skeletons of CMU, both lengths agree within 2 %."""
    upper = [NECK, LEFT_SHOULDER, RIGHT_SHOULDER]
    zero = np.linalg.norm(skeleton.offsets[upper], axis=1).max() < NO_BONE_M
    bone = skeleton.offsets[UPPER_CHEST]
    if not zero or proportions_of(skeleton).head >= HEAD_OVER_LEG.low or np.linalg.norm(bone) < NO_BONE_M:
        return skeleton
    offsets = skeleton.offsets.copy()
    offsets[upper] = bone
    why = f"a bone of {np.linalg.norm(bone):.2f} m is added from chest to neck and shoulders: it had length 0"
    notes.append(Correction(why))
    return skeleton.with_offsets(offsets)


def _with_leg(skeleton: Skeleton, notes: list[Correction]) -> Skeleton:
    now = proportions_of(skeleton)
    by_head, by_arm = (now.head - 1) / (HEAD_OVER_LEG.usual - 1), now.arm / ARM_OVER_LEG.usual
    if by_head <= 0:
        return skeleton
    off = [abs(math.log(by)) for by in (by_head, by_arm)]
    factor = math.sqrt(by_head * by_arm)
    agree = abs(math.log(by_head / by_arm)) < AGREE
    if not agree or min(off) < LEG_OFF or not 1 / LARGEST_CHANGE < factor < LARGEST_CHANGE:
        return skeleton
    length = factor * now.leg
    offsets = skeleton.offsets.copy()
    for bone in (b for side in _LEGS for b in side):
        offsets[bone] *= np.float32(factor)
    offsets[HIPS, 2] += np.float32(length - now.leg)
    why = f"the legs are changed from {now.leg:.2f} to {length:.2f} m: head and arms belong to such legs"
    notes.append(Correction(why, abs(math.log(factor))))
    return skeleton.with_offsets(offsets)


def _with_head(skeleton: Skeleton, notes: list[Correction]) -> Skeleton:
    now, p = proportions_of(skeleton), skeleton.rest_positions().astype(np.float64)
    if HEAD_OVER_LEG.low <= now.head <= HEAD_OVER_LEG.high:
        return skeleton
    own = float(p[HEAD, 2] - p[HIPS, 2])
    factor = (own + (HEAD_OVER_LEG.usual - now.head) * now.leg) / own if own > NO_BONE_M else 0.0
    if not 1 / LARGEST_CHANGE < factor < LARGEST_CHANGE:
        return skeleton
    offsets = skeleton.offsets.copy()
    offsets[list(_TRUNK)] *= np.float32(factor)
    why = (
        f"trunk and neck are changed by {factor - 1:+.0%}: the head joint was at {now.head:.2f} leg lengths, people "
        f"have {HEAD_OVER_LEG.low:g} to {HEAD_OVER_LEG.high:g}"
    )
    notes.append(Correction(why, HEAD_OVER_LEG.outside(now.head) / now.head))
    return skeleton.with_offsets(offsets)


def _with_arms(skeleton: Skeleton, notes: list[Correction]) -> Skeleton:
    bones = tuple(b for arm in _ARMS for b in arm)
    return _with_length(skeleton, notes, "arms", bones, ARM_OVER_LEG, lambda now: now.arm)


def _with_shoulders(skeleton: Skeleton, notes: list[Correction]) -> Skeleton:
    bones = (LEFT_SHOULDER, LEFT_UPPER_ARM, RIGHT_SHOULDER, RIGHT_UPPER_ARM)
    return _with_length(skeleton, notes, "shoulders", bones, SHOULDERS_OVER_LEG, lambda now: now.shoulders, (1,))


def _with_length(
    skeleton: Skeleton, notes: list[Correction], what: str, bones: tuple[int, ...], people: Range,
    measure: Callable[[Proportions], float], axes: tuple[int, ...] = (0, 1, 2),
) -> Skeleton:  # fmt: skip
    value = measure(proportions_of(skeleton))
    if people.low <= value <= people.high or not 1 / LARGEST_CHANGE < people.usual / max(value, 1e-9) < LARGEST_CHANGE:
        return skeleton
    offsets = skeleton.offsets.copy()
    for axis in axes:
        offsets[list(bones), axis] *= np.float32(people.usual / value)
    why = (
        f"{what} are changed by {people.usual / value - 1:+.0%}: they had {value:.2f} leg lengths, people have "
        f"{people.low:g} to {people.high:g}"
    )
    notes.append(Correction(why, people.outside(value) / value))
    return skeleton.with_offsets(offsets)
