"""The search engine `brute`, which computes the cost of every frame and is the reference for the other engines."""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.maths.jit import njit
from mm_ros.search.interface import LARGEST, bad_input, frame_cost, skipped_frames, wanted
from mm_ros.search.tree.simd import LEAN


@njit(**LEAN)
def search_brute(
    corpus: Any, query: Any, weights: Any, bound: Any,
    current: Any, radius: Any, all_of: Any, any_of: Any, none_of: Any,
) -> Any:  # fmt: skip
    wrong = bad_input(corpus.features.shape[1], query, weights, bound)
    if wrong:
        return wrong, np.float32(np.inf)
    all_bits, any_bits, none_bits = (
        np.uint64(np.int64(all_of)),
        np.uint64(np.int64(any_of)),
        np.uint64(np.int64(none_of)),
    )
    skip_from, skip_to = skipped_frames(corpus.starts, corpus.stops, current, radius)
    best, best_cost = -1, min(np.float32(bound), LARGEST)
    for clip in range(corpus.starts.shape[0]):
        for frame in range(corpus.starts[clip], corpus.searchable_stops[clip]):
            if skip_from <= frame < skip_to or not wanted(corpus.tags[frame], all_bits, any_bits, none_bits):
                continue
            cost = frame_cost(corpus.features, query, weights, frame)
            if cost < best_cost:
                best, best_cost = frame, cost
    return best, best_cost
