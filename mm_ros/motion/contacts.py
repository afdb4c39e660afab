"""Foot contacts: frames in which the toes are slow and near the floor, after a median filter."""

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
        0.15, "Toes slower than this can be in contact. Larger values give more contacts.", "m/s", 0.0, 5.0
    )
    height: float = setting(
        0.06,
        "Toes less than this above their rest height can be in contact. Larger values give more contacts.",
        "m",
        0.0,
        1.0,
    )
    median_radius_s: float = setting(
        0.1, "Radius of the median filter. Larger values give fewer short contacts.", "s", 0.0, 1.0
    )


def central_difference(values: Array, rate: float) -> F64:
    """Differentiate along axis 0; one-sided at the ends, 0 for a single frame."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return np.zeros(values.shape)
    return np.asarray(np.gradient(values, 1 / rate, axis=0))


def median_filter(flags: NDArray[np.bool_], radius: int) -> NDArray[np.bool_]:
    """Return the majority over 2 · radius + 1 frames along axis 0, padded with the first and last frames."""
    if radius < 1 or not len(flags):
        return flags.copy()
    padded = np.concatenate([np.repeat(flags[:1], radius, 0), flags, np.repeat(flags[-1:], radius, 0)])
    sums = np.concatenate([np.zeros((1, *flags.shape[1:]), np.int64), np.cumsum(padded, axis=0)])
    return np.asarray(2 * (sums[2 * radius + 1 :] - sums[: -2 * radius - 1]) > 2 * radius + 1)


def contacts(
    toes: Array, rest_heights: Array, rate: float, settings: ContactSettings | None = None
) -> NDArray[np.bool_]:
    """Return contacts (F, 2) for global toes (F, 2, 3); the floor is z = 0."""
    settings = settings or ContactSettings()
    speed = np.linalg.norm(central_difference(toes, rate), axis=-1)
    low = np.asarray(toes)[..., 2] < np.asarray(rest_heights) + settings.height
    return median_filter((speed < settings.speed) & low, odd_window(2 * settings.median_radius_s, rate) // 2)


def contacts_of(clip: Clip, settings: ContactSettings | None = None) -> NDArray[np.bool_]:
    positions, _ = clip.globals()
    rest = clip.skeleton.rest_positions()[list(TOES), 2]
    return contacts(positions[:, list(TOES)], rest, clip.rate, settings)


def stances(flags: NDArray[np.bool_], shortest: int = 1) -> list[tuple[int, int]]:
    """Return the ranges [first, stop) of one foot's contact (F,) with at least `shortest` frames."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= shortest]
