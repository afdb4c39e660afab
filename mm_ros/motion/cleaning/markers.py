"""Repair of errors in motion capture that come from wrong or lost markers.

Three errors are detected and repaired: feet that point backward, joints whose rotations jump for a few frames, and feet
that are rotated by 180° about their length. Motion without marker errors is not changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mm_ros.body.clip import Clip
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
    NAMES,
    NECK,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_LOWER_ARM,
    RIGHT_LOWER_LEG,
    RIGHT_SHOULDER,
    RIGHT_TOES,
    RIGHT_UPPER_ARM,
    RIGHT_UPPER_LEG,
    ROOT,
    UPPER_CHEST,
)
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import continuous

Array = Any

FARTHEST_ANKLE = 1.4  # maximum plausible rotation [rad] of an ankle from the rest pose
FASTEST_ANKLE = 15.0  # ankle rotation [rad/s] above which a frame beside one with a wrong ankle is wrong, too
LONGEST_MISTAKE_S = 0.35  # maximum duration [s] of an ankle error that is repaired by interpolation

UPSIDE_DOWN = -0.7  # cosine of the roll of a foot below which its sole points up

STRUCK = 800.0  # maximum angular acceleration [rad/s²] by muscles; markers that jump cause larger accelerations
LONGEST_STRIKE_S = 0.15  # maximum duration [s] of a repaired jump in a rotation; a longer jump may be real motion
# The joints of a group are repaired together, because a wrong knee marker rotates the thigh and the shin.
PARTS = (
    [*range(HIPS, UPPER_CHEST + 1), LEFT_SHOULDER, RIGHT_SHOULDER], [NECK, HEAD],
    [LEFT_UPPER_LEG, LEFT_LOWER_LEG], [RIGHT_UPPER_LEG, RIGHT_LOWER_LEG], [LEFT_FOOT], [RIGHT_FOOT],
    [LEFT_UPPER_ARM, LEFT_LOWER_ARM], [RIGHT_UPPER_ARM, RIGHT_LOWER_ARM], [LEFT_HAND], [RIGHT_HAND],
)  # fmt: skip


def mended(clip: Clip) -> Clip:
    """Return the clip with interpolated rotations in place of marker errors.

    Jumps are detected in rotations relative to the root, in which the error of a joint does not affect its children.
    """
    clip = with_repaired_legs(clip)
    local = clip.rotations.astype(np.float64)
    local[:, ROOT] = (1, 0, 0, 0)
    parents = clip.skeleton.parents
    _, q = clip.skeleton.kinematics(np.zeros((*local.shape[:2], 3)), local)
    changed = np.zeros(q.shape[:2], np.bool_)
    for joints in PARTS:
        for first, stop in _strikes(q[:, joints], clip.rate):
            changed[first:stop, joints] = True
            for joint in joints:
                q[first:stop, joint] = _bridge(q[:, joint], first, stop)
    changed[:, 1:] |= changed[:, parents[1:]]
    changed[:, [LEFT_TOES, RIGHT_TOES]] = False  # Toes turn with the repaired foot.
    changed[:, len(NAMES) :] = False  # Fingers turn with the repaired hand.
    frames, nodes = np.nonzero(changed)
    rotations = clip.rotations.copy()
    rotations[frames, nodes] = rot.multiply(rot.inverse(q[frames, parents[nodes]]), q[frames, nodes])
    return replace(clip, rotations=rotations)


def _hardness(q: F64, rate: float) -> F64:
    out = np.zeros(q.shape[:-1])
    if len(q) > 2:
        steps = rot.log(rot.multiply(rot.inverse(q[:-1]), q[1:]))
        out[1:-1] = np.linalg.norm(np.diff(steps, axis=0), axis=-1) * rate**2
    return out


def _strikes(q: F64, rate: float) -> list[tuple[int, int]]:
    """Return ranges of frames whose angular acceleration exceeds `STRUCK`, but is small after an interpolation."""
    hard, longest, out = _hardness(q, rate).max(1), round(LONGEST_STRIKE_S * rate), []
    struck = np.flatnonzero(hard > STRUCK)
    for group in np.split(struck, np.flatnonzero(np.diff(struck) > longest) + 1) if len(struck) else []:
        first, stop = int(group[0]), int(group[-1]) + 1
        while stop - first <= longest:
            around = slice(max(first - 3, 0), stop + 3)
            tried = q[around].copy()
            for joint in range(q.shape[1]):
                tried[first - around.start : stop - around.start, joint] = _bridge(q[:, joint], first, stop)
            if _hardness(tried, rate).max() < STRUCK / 2:
                out.append((first, stop))
                break
            first, stop = max(first - 1, 0), min(stop + 1, len(q))
    return out


def with_repaired_legs(clip: Clip) -> Clip:
    """Interpolate feet and shins in frames in which a foot points backward, as in all jogs of CMU subject 104.

    If a foot points backward, its shin is also wrong, because the recording software used a wrong ankle marker.
    """
    rotations = clip.rotations.copy()
    for foot in (LEFT_FOOT, RIGHT_FOOT):
        _roll_back(rotations, foot, clip.skeleton.offsets[foot + 1])
        for first, stop in _wrong_ankles(rotations[:, foot].astype(np.float64), clip.rate):
            for joint in (foot - 1, foot):
                rotations[first:stop, joint] = _bridge(rotations[:, joint].astype(np.float64), first, stop)
    return replace(clip, rotations=rotations)


def _roll_back(rotations: Array, foot: int, bone: Array) -> None:
    """Rotate feet whose sole points up by 180° about their length; the toes do not move."""
    q = rotations[:, foot].astype(np.float64)
    over = (rot.rotate(q, np.array([0.0, 1.0, 0.0]))[:, 1] < UPSIDE_DOWN) & (rot.rotate(q, bone)[:, 0] > 0)
    if not over.any():
        return
    half = np.concatenate([[0.0], bone / np.linalg.norm(bone)])
    rotations[over, foot] = rot.multiply(q[over], half)
    rotations[over, foot + 1] = rot.multiply(rot.inverse(half), rotations[over, foot + 1].astype(np.float64))


def _wrong_ankles(q: F64, rate: float) -> Any:
    """Return ranges of frames (N, 2) with a wrong ankle, including adjacent frames in which the ankle is fast."""
    wrong = np.linalg.norm(rot.log(q), axis=-1) > FARTHEST_ANKLE
    fast = np.linalg.norm(rot.log(rot.multiply(rot.inverse(q[:-1]), q[1:])), axis=-1) * rate > FASTEST_ANKLE
    # If the ankle rotates fast between two frames, and one of the frames is wrong, the other frame is wrong, too.
    for i in np.flatnonzero(fast):
        wrong[i + 1] |= wrong[i]
    for i in np.flatnonzero(fast)[::-1]:
        wrong[i] |= wrong[i + 1]
    before = wrong.copy()
    wrong[:-1] |= before[1:]
    wrong[1:] |= before[:-1]
    stretches = np.flatnonzero(np.diff(np.concatenate([[0], wrong, [0]]).astype(np.int8))).reshape(-1, 2)
    return stretches[(stretches[:, 1] - stretches[:, 0]) / rate <= LONGEST_MISTAKE_S]


def _bridge(q: F64, first: int, stop: int) -> F64:
    """Return interpolated rotations for the frames from `first` to `stop` − 1, on a cubic Hermite curve."""
    n, frames = stop - first, len(q)
    if n >= frames:
        return np.repeat(q[:1], n, axis=0)
    if stop == frames:
        return _coast(q[max(first - 2, 0)], q[first - 1], n)
    if first == 0:
        return _coast(q[min(stop + 1, frames - 1)], q[stop], n)[::-1]
    a, b = first - 1, stop
    start = rot.inverse(q[a])
    way = rot.log(rot.multiply(start, continuous(q[[a, b]])[1]))
    leaves = -rot.log(rot.multiply(start, continuous(q[[a, max(a - 1, 0)]])[1]))
    arrives = rot.log(rot.multiply(start, continuous(q[[a, min(b + 1, frames - 1)]])[1])) - way
    u = np.arange(1, n + 1)[:, None] / (n + 1)
    path = u * u * (3 - 2 * u) * way + (n + 1) * (u * (1 - u) ** 2 * leaves - u * u * (1 - u) * arrives)
    return np.asarray(rot.multiply(q[a], rot.exp(path)))


def _coast(before: F64, last: F64, n: int) -> F64:
    """Extrapolate `n` rotations after the frames `before` and `last`, with a velocity that decreases linearly to 0."""
    step = rot.log(rot.multiply(rot.inverse(before), last))
    s = np.arange(1, n + 1)[:, None] / n
    return np.asarray(rot.multiply(last, rot.exp(step * n * (s - s * s / 2))))
