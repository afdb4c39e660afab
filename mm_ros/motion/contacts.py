"""Detection of foot contacts: a foot is in contact with the floor while its toes are slow and near the floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.settings import Settings, setting
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import LEFT_TOES, RIGHT_TOES
from mm_ros.body.types import F64
from mm_ros.maths.signals import odd_window

Array = Any
TOES = (LEFT_TOES, RIGHT_TOES)


@dataclass(frozen=True)
class ContactSettings(Settings):
    speed: float = setting(
        0.15, "Maximum speed of toes in contact with the floor; larger values prolong foot contacts.", "m/s", 0.0, 5.0
    )
    height: float = setting(
        0.06,
        "Maximum height of toes in contact, above their height in the rest pose; larger values prolong foot contacts.",
        "m",
        0.0,
        1.0,
    )
    median_radius_s: float = setting(
        0.1, "Radius of the median filter of foot contacts; larger values remove more short contacts.", "s", 0.0, 1.0
    )


def central_difference(values: Array, rate: float) -> F64:
    """Differentiate values along axis 0 by central differences; the derivative of a single frame is 0."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return np.zeros(values.shape)
    return np.asarray(np.gradient(values, 1 / rate, axis=0))


def median_filter(flags: NDArray[np.bool_], radius: int) -> NDArray[np.bool_]:
    """Replace each flag by the majority of the flags up to `radius` frames before and after it, along axis 0."""
    if radius < 1 or not len(flags):
        return flags.copy()
    padded = np.concatenate([np.repeat(flags[:1], radius, 0), flags, np.repeat(flags[-1:], radius, 0)])
    sums = np.concatenate([np.zeros((1, *flags.shape[1:]), np.int64), np.cumsum(padded, axis=0)])
    return np.asarray(2 * (sums[2 * radius + 1 :] - sums[: -2 * radius - 1]) > 2 * radius + 1)


def contacts(
    toes: Array, rest_heights: Array, rate: float, settings: ContactSettings | None = None
) -> NDArray[np.bool_]:
    """Return whether each foot is in contact (F, 2), from toe positions (F, 2, 3) in the room; the floor is z = 0."""
    settings = settings or ContactSettings()
    speed = np.linalg.norm(central_difference(toes, rate), axis=-1)
    low = np.asarray(toes)[..., 2] < np.asarray(rest_heights) + settings.height
    return median_filter((speed < settings.speed) & low, odd_window(2 * settings.median_radius_s, rate) // 2)


def contacts_of(clip: Clip, settings: ContactSettings | None = None) -> NDArray[np.bool_]:
    positions, _ = clip.globals()
    rest = clip.skeleton.rest_positions()[list(TOES), 2]
    return contacts(positions[:, list(TOES)], rest, clip.rate, settings)


def stances(flags: NDArray[np.bool_], shortest: int = 1) -> list[tuple[int, int]]:
    """Return the first frame of each foot contact of at least `shortest` frames, and the first frame after it."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= shortest]
