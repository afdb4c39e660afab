"""Processing of recorded clips for the database: resampling, mirroring, and addition of a virtual root.

The virtual root is the projection of the hips to the floor, with the facing of the hips. A Savitzky–Golay filter
smooths the position of the root over 31/60 s and its direction over 61/60 s, as in Karst 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HIPS, Skeleton
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import cubic, odd_window, savitzky_golay, spherical

Array = Any
# Maximum number of frames of a resampled clip, 2.8 hours at 60 Hz; longer clips probably come from a wrong frame rate.
MOST_FRAMES = 600_000

MIRRORED = "_mirrored"  # suffix of the names of mirrored clips

_Y_FLIPPED = np.array([1, -1, 1], np.float32)


@dataclass(frozen=True)
class RootSettings(Settings):
    smooth: bool = setting(True, "Smooth the virtual root; a root that is not smoothed follows the hips exactly.")
    position_window_s: float = setting(
        31 / 60, "Filter window of the root's position; larger values make the root's path smoother.", "s", 0.0, 10.0
    )
    direction_window_s: float = setting(
        61 / 60, "Filter window of the root's facing; larger values make the root's turns smoother.", "s", 0.0, 10.0
    )
    order: int = setting(3, "Polynomial order of the root's filter; larger orders smooth the root less.", "", 0, 9)


def sample_times(frames: int, rate: float, new_rate: float) -> F64:
    """Return the times of the resampled frames as fractional numbers of the original frames, beginning with 0."""
    if frames == 0 or not rate > 0 or not new_rate > 0:
        raise MmRosError(
            f"resample: expected frames and rates above 0, came {frames} frames, {rate} Hz → {new_rate} Hz"
        )
    count = math.floor(min((frames - 1) * new_rate / rate, 2.0 * MOST_FRAMES) + 1e-6) + 1
    if count > MOST_FRAMES:
        raise MmRosError(
            f"resample: {frames} frames at {rate:g} Hz last {frames / rate:.0f} s; expected at most "
            f"{MOST_FRAMES / new_rate:.0f} s ({MOST_FRAMES} frames at {new_rate:g} Hz). Is the rate right?"
        )
    return np.asarray(np.minimum(np.arange(count) * (rate / new_rate), frames - 1))


def resample(clip: Clip, rate: float) -> Clip:
    if rate == clip.rate:
        return clip
    at = sample_times(len(clip), clip.rate, rate)
    factor = rate / clip.rate
    moves = np.ptp(clip.positions, axis=0).max(axis=1) > 0  # joints whose positions change; only these are interpolated
    positions = np.repeat(clip.positions[:1], len(at), axis=0)
    positions[:, moves] = cubic(clip.positions[:, moves], at)
    return replace(
        clip,
        rate=float(rate),
        positions=positions.astype(np.float32),
        rotations=spherical(clip.rotations, at).astype(np.float32),
        tags=tuple((n, round(a * factor), min(round(b * factor), len(at))) for n, a, b in clip.tags),
    )


def mirror_skeleton(skeleton: Skeleton) -> Skeleton:
    return skeleton.with_offsets((skeleton.offsets[skeleton.mirrored] * _Y_FLIPPED).astype(np.float32))


def symmetric_skeleton(skeleton: Skeleton) -> Skeleton:
    both = (skeleton.offsets + mirror_skeleton(skeleton).offsets) / np.float32(2)
    return skeleton.with_offsets(both.astype(np.float32))


def mirror(clip: Clip) -> Clip:
    """Mirror a clip, so that left and right are exchanged in its skeleton, its motion and its tags."""
    other = clip.skeleton.mirrored
    return replace(
        clip,
        name=clip.name + MIRRORED,
        skeleton=mirror_skeleton(clip.skeleton),
        positions=np.ascontiguousarray(clip.positions[:, other] * _Y_FLIPPED),
        rotations=np.ascontiguousarray(clip.rotations[:, other] * np.array([1, -1, 1, -1], np.float32)),
        tags=tuple((_other_side(n), a, b) for n, a, b in clip.tags),
    )


def _other_side(tag: str) -> str:
    words = {"left": "right", "right": "left"}
    return "_".join(words.get(w, w) for w in tag.split("_"))


def facing_yaw(hips_rotations: Array) -> Array:
    """Return the yaw of the pelvis from the direction of its left–right axis, which forward tilt does not change."""
    left = rot.rotate(hips_rotations, np.broadcast_to(np.array([0.0, 1.0, 0.0]), (*hips_rotations.shape[:-1], 3)))
    return np.arctan2(-left[..., 0], left[..., 1])


def root_path(hips: Array, hips_rotations: Array, rate: float, settings: RootSettings | None = None) -> tuple[F64, F64]:
    """Return the positions (F, 2) and the continuous yaw angles (F,) of the virtual root.

    The arguments `hips` (F, 3) and `hips_rotations` (F, 4) are the poses of the hips in the room.
    """
    settings = settings or RootSettings()
    positions = np.asarray(hips, np.float64)[:, :2]
    yaws = np.unwrap(facing_yaw(np.asarray(hips_rotations, np.float64)))
    if settings.smooth:
        positions = savitzky_golay(positions, odd_window(settings.position_window_s, rate), settings.order)
        yaws = savitzky_golay(yaws, odd_window(settings.direction_window_s, rate), settings.order)
    return positions, yaws


def with_virtual_root(clip: Clip, settings: RootSettings | None = None) -> Clip:
    """Replace the root of a clip by the virtual root; all other joints keep their poses in the room."""
    hips_local = clip.positions[:, HIPS].astype(np.float64)
    root_q = clip.rotations[:, 0].astype(np.float64)
    hips = clip.positions[:, 0] + rot.rotate(root_q, hips_local)
    hips_q = rot.multiply(root_q, clip.rotations[:, HIPS].astype(np.float64))
    at, yaws = root_path(hips, hips_q, clip.rate, settings)
    root = np.concatenate([at, np.zeros((len(at), 1))], axis=1)
    back = rot.inverse(rot.from_yaw(yaws))
    positions, rotations = clip.positions.copy(), clip.rotations.copy()
    positions[:, 0], rotations[:, 0] = root, rot.from_yaw(yaws)
    positions[:, HIPS] = rot.rotate(back, hips - root)
    rotations[:, HIPS] = rot.multiply(back, hips_q)
    return replace(clip, positions=positions, rotations=rotations)
