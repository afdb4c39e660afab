"""One file → canonical clips, by the model of its actor: floor, gaps, rate, virtual root."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.core import rotations as rot
from mm_ros.core.cleaning import RootSettings, cubic, sample_times, spherical, with_virtual_root
from mm_ros.core.clip import Clip
from mm_ros.core.contacts import TOES, central_difference
from mm_ros.core.skeleton import HIPS, PARENTS, J
from mm_ros.io.bvh import Bvh
from mm_ros.io.importing.canonical import ActorModel, local_rotations, to_canonical

Array = Any


def subject_of(path: str, actor: int = 0) -> str:
    """'69_01.bvh' → '69', 'walk1_subject2.bvh' → 'subject2'; otherwise the actor's number in this import."""
    stem = Path(path).stem
    named = re.search(r"subject[_-]?\w*\d+", stem, re.IGNORECASE)
    if named:
        return named.group(0).lower()
    numbered = re.match(r"(\d{1,4})_\d+", stem)
    return numbered.group(1) if numbered else f"actor{actor + 1}"


def convert(
    bvh: Bvh, model: ActorModel, rate: float, first: int, stop: int, name: str, subject: str,
    new_rate: float = 60.0, floor: float | None = None, smooth_root: bool = True,
) -> tuple[Clip, float]:
    """Frames first … stop of the file → a clip on the actor's own skeleton, and the floor that was taken off (m)."""  # fmt: skip
    p, q = bvh.globals(bvh.motion[first:stop])
    hips, rotations = to_canonical(model, p, q)
    at = sample_times(len(hips), rate, new_rate)
    hips = cubic(hips, at)
    rotations = spherical(local_rotations(rotations), at)
    positions = np.broadcast_to(model.skeleton.offsets, (len(at), J, 3)).astype(np.float64)
    positions[:, HIPS] = hips
    positions[:, 0] = 0
    found = floor if floor is not None else floor_of(model, positions, rotations, new_rate)
    positions[:, HIPS, 2] -= found
    clip = Clip(
        name, float(new_rate), model.skeleton, positions.astype(np.float32), rotations.astype(np.float32),
        subject=subject, source=bvh.path,
    )  # fmt: skip
    return with_virtual_root(clip, RootSettings(smooth=smooth_root)), found


def floor_of(model: ActorModel, positions: Array, rotations: Array, rate: float) -> float:
    """The height at which toes stand, less their height at rest."""
    p, _ = rot.forward_kinematics(PARENTS, positions, rotations)
    toes = p[:, list(TOES)]
    rest = model.skeleton.rest_positions()[list(TOES), 2]
    heights = toes[..., 2] - rest
    slow = np.linalg.norm(central_difference(toes, rate), axis=-1) < 0.15
    lowest = np.percentile(heights, 3)
    standing = heights[slow & (heights < lowest + 0.08)]
    return float(np.median(standing)) if len(standing) >= 5 else float(lowest)
