"""Mask, cost function and checks of arguments, which all search engines share.

The cost of a frame is the sum of (weight · difference) · difference over the columns of the feature vector. All engines
add the float32 terms in the order of the columns, so that their costs are bit-identical. Bounding boxes give lower
bounds of the cost, which rounding cannot make larger than the cost, because the terms of both have the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F32
from mm_ros.maths.jit import njit
from mm_ros.search.tree.simd import LEAN

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

# Maximum of the argument `bound` of a search; with an infinite bound, a search could return rows of padding.
LARGEST = np.float32(np.finfo(np.float32).max)
NONE = -1  # frame number that a search returns if no frame costs less than the bound
BAD_LENGTH, BAD_QUERY, BAD_WEIGHT, BAD_BOUND, BAD_CURRENT = -2, -3, -4, -5, -6
_ALL_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class Mask:
    """A condition on the tags of a frame; each bit of an integer in the condition stands for one tag.

    A frame matches if it has all tags in `all_of`, none of the tags in `none_of`, and at least one tag in `any_of`. The
    condition on `any_of` does not apply if `any_of` is 0.
    """

    all_of: int = 0
    any_of: int = 0
    none_of: int = 0
    signed: tuple[int, int, int] = field(default=(0, 0, 0), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("all_of", "any_of", "none_of"):
            bits = getattr(self, name)
            if not 0 <= bits <= _ALL_BITS:
                raise MmRosError(f"mask: {name} must be 64 bits (0 … 2^64-1), came {bits}")
        if self.all_of & self.none_of:
            raise MmRosError(f"mask is empty: all_of and none_of share the bits {self.all_of & self.none_of:#x}")
        if self.any_of and not self.any_of & ~self.none_of:
            raise MmRosError(f"mask is empty: none_of forbids every bit of any_of ({self.any_of:#x})")
        # numba converts Python integers to int64, so bit 63 of a mask is passed as the sign.
        signed = tuple(b - (1 << 64) if b >> 63 else b for b in (self.all_of, self.any_of, self.none_of))
        object.__setattr__(self, "signed", signed)

    def matches(self, tags: U64) -> NDArray[np.bool_]:
        all_of, any_of, none_of = (np.uint64(b) for b in (self.all_of, self.any_of, self.none_of))
        some = (tags & any_of) != 0 if self.any_of else np.ones(tags.shape, np.bool_)
        out: NDArray[np.bool_] = ((tags & all_of) == all_of) & some & ((tags & none_of) == 0)
        return out


ANY_FRAME = Mask()


class Corpus(NamedTuple):
    """The data that an engine searches: features, clip ranges and tags of a database."""

    features: F32  # (N, D) normalized
    starts: I64  # (C,) clip ranges
    stops: I64  # (C,) exclusive
    searchable_stops: I64  # (C,) first frame of each clip that a search never returns, because the clip's end is near
    tags: U64  # (N,)


def make_corpus(
    features: F32, range_starts: Any, range_stops: Any, tags: U64, ends_excluded_frames: int
) -> Corpus:
    if features.ndim != 2 or features.dtype != np.float32 or not features.flags.c_contiguous or not features.size:
        raise MmRosError(
            f"features must be a C-contiguous float32 array (frames, columns), came {features.dtype} {features.shape}"
        )
    starts, stops = np.asarray(range_starts, np.int64), np.asarray(range_stops, np.int64)
    n = len(features)
    if not np.isfinite(features).all():
        frame, column = np.argwhere(~np.isfinite(features))[0]
        raise MmRosError(f"features must be finite: frame {frame}, column {column} is {features[frame, column]}")
    if starts.ndim != 1 or starts.shape != stops.shape:
        raise MmRosError(f"range_starts has shape {starts.shape}, range_stops {stops.shape}; expected the same shape")
    if len(starts) and (starts[0] < 0 or stops[-1] > n or (starts > stops).any() or (stops[:-1] > starts[1:]).any()):
        raise MmRosError(f"clip ranges must ascend, not overlap and lie within 0 … {n}")
    if tags.shape != (n,) or tags.dtype != np.uint64:
        raise MmRosError(f"tags must be uint64, one per frame ({n}), came {tags.dtype} {tags.shape}")
    if ends_excluded_frames < 0:
        raise MmRosError(f"ends_excluded_frames must be 0 or more, came {ends_excluded_frames}")
    searchable = np.maximum(stops - ends_excluded_frames, starts)
    return Corpus(features, starts, stops, searchable, np.ascontiguousarray(tags))


@njit(inline="always", **LEAN)
def wanted(tags: Any, all_of: Any, any_of: Any, none_of: Any) -> Any:
    return (tags & all_of) == all_of and (any_of == 0 or (tags & any_of) != 0) and (tags & none_of) == 0


@njit(**LEAN)
def skipped_frames(starts: I64, stops: I64, current: int, radius: int) -> tuple[int, int]:
    """Return the first frame near frame `current` that a search skips, and the frame after the last skipped frame."""
    if current < 0 or radius <= 0:
        return 0, 0
    clip, after = -1, starts.shape[0]
    while after - clip > 1:
        middle = (clip + after) // 2
        if starts[middle] <= current:
            clip = middle
        else:
            after = middle
    if clip < 0 or current >= stops[clip]:
        return 0, 0
    return max(starts[clip], current - radius + 1), min(stops[clip], current + radius)


@njit(**LEAN)
def bad_input(dimensions: int, query: F32, weights: F32, bound: float) -> int:
    """Return 0 if the query, the weights and the bound of a search are valid, or an error code such as BAD_LENGTH."""
    if query.shape[0] != dimensions or weights.shape[0] != dimensions:
        return BAD_LENGTH
    query_sum = np.float32(0)
    for c in range(dimensions):
        query_sum += query[c] - query[c]  # `query_sum` is NaN if a number of the query is not finite, else 0
        if not (weights[c] >= 0 and weights[c] <= LARGEST):
            return BAD_WEIGHT
    if query_sum != 0:
        return BAD_QUERY
    return BAD_BOUND if math.isnan(bound) else 0


@njit(inline="always", **LEAN)
def frame_cost(features: F32, query: F32, weights: F32, frame: int) -> Any:
    """Return the reference cost of a frame; every search engine must return a bit-identical cost."""
    cost = np.float32(0)
    for c in range(features.shape[1]):
        difference = query[c] - features[frame, c]
        cost += (weights[c] * difference) * difference
    return cost
