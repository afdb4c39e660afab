"""Moments in which markers were mistaken for one another, found by the motion alone and bridged.

A leg solved from a mistaken ankle points its foot backward; a rotation that jumps and comes back within a few frames
turns harder than muscles can; a sole that looks up is a foot turned half about its length. All else stays as it is.
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
    NECK,
    PARENTS,
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
from mm_ros.motion.cleaning import continuous

Array = Any

FARTHEST_ANKLE = 1.4  # rad from standing: no ankle goes there, a toe marker that was mistaken does
FASTEST_ANKLE = 15.0  # rad/s: the way there and back, which the samples before and after share
LONGEST_MISTAKE_S = 0.35  # longer ones are how the skeleton is, or nothing to guess

UPSIDE_DOWN = -0.7  # cosine of a roll: nearer to a sole that looks up than to one that looks aside

STRUCK = 800.0  # rad/s²: no muscle turns a limb so hard, a marker that jumps does
LONGEST_STRIKE_S = 0.15
# What is judged and bridged together: thigh and shin make up for each other, as do the parts of an arm
PARTS = (
    [*range(HIPS, UPPER_CHEST + 1), LEFT_SHOULDER, RIGHT_SHOULDER], [NECK, HEAD],
    [LEFT_UPPER_LEG, LEFT_LOWER_LEG], [RIGHT_UPPER_LEG, RIGHT_LOWER_LEG], [LEFT_FOOT], [RIGHT_FOOT],
    [LEFT_UPPER_ARM, LEFT_LOWER_ARM], [RIGHT_UPPER_ARM, RIGHT_LOWER_ARM], [LEFT_HAND], [RIGHT_HAND],
)  # fmt: skip


def mended(clip: Clip) -> Clip:
    """Without the moments in which markers were mistaken: legs solved backward, rotations that jump and come back.

    Judged and bridged in the root's axes, where a limb does not carry what its parent did wrong.
    """
    clip = mended_legs(clip)
    local = clip.rotations.astype(np.float64)
    local[:, ROOT] = (1, 0, 0, 0)
    _, q = rot.forward_kinematics(PARENTS, np.zeros((*local.shape[:2], 3)), local)
    changed = np.zeros(q.shape[:2], np.bool_)
    for joints in PARTS:
        for first, stop in _strikes(q[:, joints], clip.rate):
            changed[first:stop, joints] = True
            for joint in joints:
                q[first:stop, joint] = _bridge(q[:, joint], first, stop)
    changed[:, 1:] |= changed[:, PARENTS[1:]]
    changed[:, [LEFT_TOES, RIGHT_TOES]] = False  # they go with their feet
    at, who = np.nonzero(changed)
    rotations = clip.rotations.copy()
    rotations[at, who] = rot.multiply(rot.inverse(q[at, PARENTS[who]]), q[at, who])
    return replace(clip, rotations=rotations)


def _hardness(q: F64, rate: float) -> F64:
    """(F, …) angular acceleration, rad/s², from the frame before to the one after; 0 at the ends."""
    out = np.zeros(q.shape[:-1])
    if len(q) > 2:
        steps = rot.log(rot.multiply(rot.inverse(q[:-1]), q[1:]))
        out[1:-1] = np.linalg.norm(np.diff(steps, axis=0), axis=-1) * rate**2
    return out


def _strikes(q: F64, rate: float) -> list[tuple[int, int]]:
    """Stretches [first, stop) to bridge, no wider than it takes; where no short bridge is far calmer, it is motion."""
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


def mended_legs(clip: Clip) -> Clip:
    """Feet that point backward for some frames (CMU's subject 104, in each jog) go smoothly from before to after.

    Such a leg was solved from a mistaken ankle: its shin is as wrong as its foot, and goes the same way.
    """
    rotations = clip.rotations.copy()
    for foot in (LEFT_FOOT, RIGHT_FOOT):
        _roll_back(rotations, foot, clip.skeleton.offsets[foot + 1])
        for first, stop in _wrong_ankles(rotations[:, foot].astype(np.float64), clip.rate):
            for joint in (foot - 1, foot):
                rotations[first:stop, joint] = _bridge(rotations[:, joint].astype(np.float64), first, stop)
    return replace(clip, rotations=rotations)


def _roll_back(rotations: Array, foot: int, bone: Array) -> None:
    """A foot whose sole looks up (CMU's 69_35, for half a minute) is turned half about its length; its toes stay."""
    q = rotations[:, foot].astype(np.float64)
    over = (rot.rotate(q, np.array([0.0, 1.0, 0.0]))[:, 1] < UPSIDE_DOWN) & (rot.rotate(q, bone)[:, 0] > 0)
    if not over.any():
        return
    half = np.concatenate([[0.0], bone / np.linalg.norm(bone)])
    rotations[over, foot] = rot.multiply(q[over], half)
    rotations[over, foot + 1] = rot.multiply(rot.inverse(half), rotations[over, foot + 1].astype(np.float64))


def _wrong_ankles(q: F64, rate: float) -> Any:
    """(N, 2) stretches: frames too far from standing, those on the way there and back, and one more either way."""
    wrong = np.linalg.norm(rot.log(q), axis=-1) > FARTHEST_ANKLE
    fast = np.linalg.norm(rot.log(rot.multiply(rot.inverse(q[:-1]), q[1:])), axis=-1) * rate > FASTEST_ANKLE
    for i in np.flatnonzero(fast):  # forward, then backward: a frame that a quick step joins to a wrong one is wrong
        wrong[i + 1] |= wrong[i]
    for i in np.flatnonzero(fast)[::-1]:
        wrong[i] |= wrong[i + 1]
    before = wrong.copy()
    wrong[:-1] |= before[1:]
    wrong[1:] |= before[:-1]
    stretches = np.flatnonzero(np.diff(np.concatenate([[0], wrong, [0]]).astype(np.int8))).reshape(-1, 2)
    return stretches[(stretches[:, 1] - stretches[:, 0]) / rate <= LONGEST_MISTAKE_S]


def _bridge(q: F64, first: int, stop: int) -> F64:
    """Rotations for frames [first, stop): a cubic that keeps place and rate at both ends (Hermite, about the first).

    With one end alone it comes to rest on the way: the rate there dies away evenly.
    """
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
    """n rotations that go on from `last` as from `before` to it, ever more slowly."""
    step = rot.log(rot.multiply(rot.inverse(before), last))
    s = np.arange(1, n + 1)[:, None] / n
    return np.asarray(rot.multiply(last, rot.exp(step * n * (s - s * s / 2))))
