"""Detection of defects in recorded motion: glitches, flickering joints, and T-poses at the start or end of a file.

A glitch is a short time in which joints move faster than a person can. A joint flickers if its rotation oscillates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mm_ros.body.skeleton import (
    LEFT_LOWER_ARM,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    RIGHT_LOWER_ARM,
    RIGHT_UPPER_ARM,
    RIGHT_UPPER_LEG,
)
from mm_ros.maths import rotations as rot

Array = Any
FASTEST = 16.0  # minimum speed [m/s] of a joint relative to the hips in a glitch
FASTEST_HIPS = 13.0  # minimum speed [m/s] of the hips in a glitch; sprinters reach 12 m/s
SUDDEN = 3.0  # minimum ratio of the speed in a glitch to the median speed in the frames around it
LONGEST_BRIDGED_GLITCH_S = 0.1  # maximum duration [s] of a glitch that is interpolated; a longer glitch splits the clip
# In a flicker, the angular velocity changes by more than `FLICKER_DEG_S` [°/s] and the rotation per frame by more than
# `FLICKER_DEG` [°] from one frame to the next. The ankles of sprinters rotate by up to 1200°/s.
FLICKER_DEG_S, FLICKER_DEG = 3000.0, 20.0
# Maximum gap [s] inside a flicker, time [s] before and after a flicker that is also replaced, and maximum duration [s]
# of a flicker that is replaced.
FLICKER_APART_S, FLICKER_AROUND_S, FLICKER_MENDED_S = 0.06, 0.02, 0.2
ACROSS = 6.0  # maximum speed [m/s] of a joint relative to the hips in interpolated frames
ACROSS_HIPS = 2.0  # maximum increase of the hips' speed [m/s] from before a glitch to its interpolated frames


class Glitch(NamedTuple):
    first: int  # first frame of the glitch
    stop: int  # first frame after the glitch
    joint: str  # fastest joint
    speed: float  # m/s
    bridgeable: bool  # whether the frames of the glitch can be interpolated


def glitches(positions: Array, names: list[str], rate: float) -> list[Glitch]:
    """Find glitches, which are times in which a joint moves faster than any person can move.

    Joint 0 of the `positions` (F, K, 3) in metres must be the hips.
    """
    if len(positions) < 3:
        return []
    hips = np.linalg.norm(np.diff(positions[:, 0], axis=0), axis=-1) * rate
    others = np.linalg.norm(np.diff(positions[:, 1:] - positions[:, :1], axis=0), axis=-1) * rate
    speeds = np.concatenate([hips[:, None] * (FASTEST / FASTEST_HIPS), others], axis=1)
    suspects = speeds > FASTEST
    if suspects.any():
        suspects &= speeds > SUDDEN * _around(speeds, 5) + 2
    bad = np.flatnonzero(suspects.any(axis=1))
    speeds = np.where(suspects, speeds, 0)
    out: list[Glitch] = []
    groups = (
        np.split(bad, np.flatnonzero(np.diff(bad) > max(round(LONGEST_BRIDGED_GLITCH_S * rate), 1)) + 1)
        if len(bad)
        else []
    )
    for steps in groups:
        worst = np.unravel_index(int(np.argmax(speeds[steps])), (len(steps), speeds.shape[1]))
        joint = int(worst[1])
        speed = float(speeds[steps].max()) * (FASTEST_HIPS / FASTEST if joint == 0 else 1)
        first, stop = int(steps[0]) + 1, int(steps[-1]) + 1
        around = max(round(0.03 * rate), 1) if first == stop else 0  # number of replaced frames on each side of a jump
        bridgeable = (
            stop - first <= max(LONGEST_BRIDGED_GLITCH_S * rate, 2)
            and first - around > 2
            and stop + around < len(positions)
        )
        if bridgeable and _near(positions, first - around, stop + around, rate):
            out.append(Glitch(first - around, stop + around, names[joint], speed, True))
        else:
            out.append(Glitch(first, stop, names[joint], speed, False))
    return out


def flickers(rotations: Array, rate: float) -> list[tuple[int, int]]:
    """Find ranges of frames in which the rotations (F, 4) of a joint oscillate faster than an ankle can move."""
    if len(rotations) < 5:
        return []
    steps = rot.log(rot.multiply(rot.inverse(rotations[:-1]), rotations[1:]))
    change = np.degrees(np.linalg.norm(np.diff(steps, axis=0), axis=-1))
    bad = np.flatnonzero(change > max(FLICKER_DEG_S / rate, FLICKER_DEG)) + 1
    around = round(FLICKER_AROUND_S * rate)
    out: list[tuple[int, int]] = []
    for group in np.split(bad, np.flatnonzero(np.diff(bad) > max(round(FLICKER_APART_S * rate), 1)) + 1):
        if len(group) < 2:
            continue
        first, stop = int(group[0]) - around, int(group[-1]) + 1 + around
        if first >= 1 and stop < len(rotations) and stop - first <= FLICKER_MENDED_S * rate:
            out.append((first, stop))
    return out


def _near(positions: Array, first: int, stop: int, rate: float) -> bool:
    moved = positions[stop] - positions[first - 1]
    seconds = (stop - first + 1) / rate
    apart = np.linalg.norm(moved[1:] - moved[0], axis=-1).max() / seconds
    extra = (
        np.linalg.norm(moved[0]) / seconds - np.linalg.norm(positions[first - 1, 0] - positions[first - 2, 0]) * rate
    )
    return bool(apart < ACROSS and extra < ACROSS_HIPS)


def _around(speeds: Array, radius: int) -> Array:
    padded = np.concatenate([np.repeat(speeds[:1], radius, 0), speeds, np.repeat(speeds[-1:], radius, 0)])
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * radius + 1, axis=0), axis=-1)


def bridge(values: Array, glitch: Glitch, spherical: bool) -> None:
    """Replace the values in the frames of a glitch by interpolation; set `spherical` for rotations (F, …, 4)."""
    a, b = values[glitch.first - 1], values[glitch.stop]
    if spherical:
        b = np.where((a * b).sum(-1, keepdims=True) < 0, -b, b)
    gap = glitch.stop - glitch.first + 1
    for k in range(1, gap):
        mixed = a + (b - a) * (k / gap)
        values[glitch.first - 1 + k] = rot.normalize(mixed) if spherical else mixed


def t_pose_frames(rotations: Array, rate: float) -> tuple[int, int]:
    """Return the numbers of frames at the start and at the end of a file in which the person stands still in a T-pose.

    The `rotations` (F, J, 4) of canonical joints are relative to the room.
    """
    hips = rotations[:, 1:2]
    limbs = [LEFT_UPPER_ARM, LEFT_LOWER_ARM, RIGHT_UPPER_ARM, RIGHT_LOWER_ARM, LEFT_UPPER_LEG, RIGHT_UPPER_LEG]
    # Only the directions of bones are compared with a T-pose, which does not depend on the twist about the bones.
    axes = np.array([[0, 1, 0], [0, 1, 0], [0, -1, 0], [0, -1, 0], [0, 0, -1], [0, 0, -1]], np.float64)
    local = rot.multiply(rot.inverse(np.broadcast_to(hips, rotations[:, limbs].shape)), rotations[:, limbs])
    along = (rot.rotate(local, np.broadcast_to(axes, (*local.shape[:-1], 3))) * axes).sum(-1)
    t_like = along.min(axis=1) > np.cos(np.radians(25))
    turn = 2 * np.arccos(np.clip(np.abs((rotations[1:] * rotations[:-1]).sum(-1)), 0, 1)).max(axis=1) * rate
    still = np.concatenate([turn < 0.3, [False]]) | np.concatenate([[False], turn < 0.3])
    flags = t_like & still
    start = int(np.argmin(flags)) if not flags.all() else 0
    end = int(np.argmin(flags[::-1])) if not flags.all() else 0
    shortest = 0.2 * rate  # minimum number of frames of a T-pose that is cut off
    return (start if start >= shortest else 0), (end if end >= shortest else 0)
