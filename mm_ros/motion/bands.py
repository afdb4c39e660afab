"""Height bands: classes of head height, from crouching to standing on tiptoe, with limits that fit the motion data.

The head height ratio is the height of the head divided by its height in upright standing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.skeleton import HIPS, NECK
from mm_ros.body.types import F64
from mm_ros.maths.signals import odd_window, savitzky_golay

Array = Any
# Standing (head height ratio 1.0) and walking (ratio 0.97 to 0.98) must both be in the band "upright".
_UPPER = (("slight_bend", 0.94, 0.015), ("upright", 1.014, 0.006), ("tip_toe", np.inf, 0.0))
# Each row: name of a height band, usual upper limit of its head height ratio, maximum shift of this limit.
USUAL = (("crouch", 0.75, 0.025), ("medium_bend", 0.87, 0.025), *_UPPER)
# Narrower height bands for databases with bent copies (see stoop.py), so that the head of a matched pose is closer to
# the height of the user's head.
FINE = (
    ("crouch", 0.735, 0.0), ("deep_bend", 0.78, 0.0), ("low_bend", 0.825, 0.0), ("medium_bend", 0.87, 0.0), *_UPPER,
)  # fmt: skip
STRAIGHT = ("upright", "tip_toe")
# A person counts as bent if the torso tilts by more than this; it tilts by less than 15° in 95 % of upright CMU frames.
BENT_TORSO = np.radians(25)
# Frames up to 0.5 s before the person bends also count as bent, because playback would continue to the bent pose.
BEND_LEAD_S = 0.5


class Band(NamedTuple):
    name: str
    low: float  # smallest head height ratio in the height band; −inf for the lowest height band
    high: float  # all head height ratios in the height band are below this limit; inf for the highest height band


def find_bands(ratios: Array, fewest: int = 60, made: Array = ()) -> tuple[Band, ...]:
    """Choose height bands, with at least `fewest` frames each, for the head height ratios of all frames in a database.

    The limits between bands are near the usual limits, at head heights with few frames. `made` holds the head height
    ratios of bent copies; if there are bent copies, the bands are narrower.
    """
    ratios, made = np.asarray(ratios, np.float64), np.asarray(made, np.float64)
    wanted = FINE if len(made) else USUAL
    names = [name for name, _, _ in wanted]
    limits = [_valley(ratios, limit, far, fewest) for _, limit, far in wanted[:-1]]
    ratios = np.concatenate([ratios, made])
    while len(names) > 1:
        counts = np.histogram(ratios, [-np.inf, *limits, np.inf])[0]
        poorest = int(np.argmin(counts))
        if counts[poorest] >= fewest:
            break
        # The height band with the fewest frames is merged into the larger of the adjacent bands.
        at = (
            poorest
            if poorest < len(limits) and (poorest == 0 or counts[poorest + 1] >= counts[poorest - 1])
            else poorest - 1
        )
        del limits[at], names[poorest]
    edges = [-np.inf, *limits, np.inf]
    return tuple(Band(n, float(a), float(b)) for n, a, b in zip(names, edges, edges[1:], strict=False))


def _valley(ratios: F64, limit: float, far: float, fewest: int) -> float:
    if not far:
        return limit
    counts, edges = np.histogram(ratios, 21, (limit - far, limit + far))
    smooth = np.convolve(np.pad(counts.astype(float), 2, "edge"), np.ones(5) / 5, "valid")
    # A band limit must leave at least `fewest` frames on both sides; otherwise, a height band would be empty.
    above = (ratios >= edges[-1]).sum() + np.cumsum(counts[::-1])[::-1]
    below = (ratios < edges[0]).sum() + np.cumsum(counts)
    inside = (above >= fewest) & (below >= fewest)
    if not inside.any():
        return limit
    smooth[~inside] = np.inf
    lowest = np.flatnonzero(smooth == smooth.min())
    best = lowest[np.argmin(np.abs(lowest - 10))]  # of equally good limits, the one nearest to the usual limit
    return round(float((edges[best] + edges[best + 1]) / 2), 4)


def band_index(ratios: Array, bands: Sequence[Band]) -> NDArray[np.int64]:
    return np.asarray(np.searchsorted([b.high for b in bands[:-1]], ratios, side="right"), np.int64)


def bands_of_frames(ratios: Array, torsos: Array, rate: float, bands: Sequence[Band]) -> NDArray[np.int64]:
    """Return the index of the height band of each frame in a clip, from head height ratios and torso angles [rad].

    Frames with a bent torso are never in an upright band; otherwise, a bent person on tiptoe would be in the band
    "upright", because the head is at standing height (as in the clips 136_05 to 136_08 of the CMU data).
    """
    index = band_index(smooth_ratios(ratios, rate), bands)
    highest = sum(b.name not in STRAIGHT for b in bands) - 1
    bent = smooth_ratios(torsos, rate) > BENT_TORSO
    for frame in np.flatnonzero(bent[1:] & ~bent[:-1]) + 1:
        bent[max(frame - round(BEND_LEAD_S * rate), 0) : frame] = True
    return np.where(bent & (highest >= 0), np.minimum(index, highest), index)


def torso_angles(positions: Array) -> F64:
    """Return the angle [rad] between the vertical and the line from hips to neck, for joint positions (F, J, 3)."""
    line = np.asarray(positions[:, NECK], np.float64) - positions[:, HIPS]
    return np.asarray(np.arctan2(np.linalg.norm(line[:, :2], axis=-1), line[:, 2]))


def smooth_ratios(ratios: Array, rate: float) -> F64:
    """Smooth the head height ratios of a clip over 0.6 s, so that the steps of a walk do not change the height band."""
    return np.asarray(savitzky_golay(ratios, odd_window(0.6, rate), 1))


def bands_to_plain(bands: Sequence[Band]) -> list[list[Any]]:
    """Convert height bands to lists for JSON, in which None replaces infinite limits."""
    return [[b.name, b.low if np.isfinite(b.low) else None, b.high if np.isfinite(b.high) else None] for b in bands]
