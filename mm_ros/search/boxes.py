"""The search engine `boxes`: bounding boxes of 64 and of 16 consecutive frames (Holden 2020; Ponton 2022)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mm_ros.body.types import F32
from mm_ros.maths.jit import njit
from mm_ros.search.interface import LARGEST, U64, Corpus, bad_input, skipped_frames, wanted
from mm_ros.search.tree.simd import LEAN, array_at

SMALL, LARGE = 16, 64


class BoxesIndex(NamedTuple):
    small: F32  # (ceil(N/16), 2, D) low, high
    large: F32  # (ceil(N/64), 2, D)
    small_any: U64  # tags OR-ed
    large_any: U64
    small_all: U64  # tags AND-ed
    large_all: U64


def build_boxes(corpus: Corpus) -> BoxesIndex:
    rows = corpus.features
    small, large = _bounds(rows, SMALL), _bounds(rows, LARGE)
    at_small, at_large = np.arange(0, len(rows), SMALL), np.arange(0, len(rows), LARGE)
    any_of, all_of = np.bitwise_or.reduceat, np.bitwise_and.reduceat
    tags = corpus.tags
    return BoxesIndex(
        small, large, any_of(tags, at_small), any_of(tags, at_large), all_of(tags, at_small), all_of(tags, at_large)
    )


def boxes_table(index: BoxesIndex) -> list[int]:
    return [len(index.small), len(index.large), *(a.ctypes.data for a in index)]


@njit(inline="always", **LEAN)
def boxes_at(table: Any, columns: Any) -> Any:
    small, large = table[0], table[1]
    return BoxesIndex(
        array_at(table[2], (small, 2, columns), np.float32),
        array_at(table[3], (large, 2, columns), np.float32),
        array_at(table[4], (small,), np.uint64),
        array_at(table[5], (large,), np.uint64),
        array_at(table[6], (small,), np.uint64),
        array_at(table[7], (large,), np.uint64),
    )


def _bounds(rows: F32, size: int) -> F32:
    at = np.arange(0, len(rows), size)
    return np.stack([np.minimum.reduceat(rows, at), np.maximum.reduceat(rows, at)], axis=1)


@njit(inline="always", **LEAN)
def _box_cost(boxes: Any, box: Any, query: Any, weights: Any, limit: Any) -> Any:
    cost = np.float32(0)
    for c in range(query.shape[0]):
        outside = max(boxes[box, 0, c] - query[c], query[c] - boxes[box, 1, c], np.float32(0))
        cost += (weights[c] * outside) * outside
        if not cost < limit:
            break
    return cost


@njit(inline="always", **LEAN)
def _row_cost(rows: Any, frame: Any, query: Any, weights: Any, limit: Any) -> Any:
    cost = np.float32(0)
    for c in range(query.shape[0]):
        difference = query[c] - rows[frame, c]
        cost += (weights[c] * difference) * difference
        if not cost < limit:
            break
    return cost


@njit(inline="always", **LEAN)
def _may_hold(any_tags: Any, all_tags: Any, all_of: Any, any_of: Any, none_of: Any) -> Any:
    return wanted(any_tags, all_of, any_of, np.uint64(0)) and (all_tags & none_of) == 0


@njit(**LEAN)
def search_boxes(
    corpus: Any, index: Any, query: Any, weights: Any, bound: Any,
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
        frame, stop = corpus.starts[clip], corpus.searchable_stops[clip]
        while frame < stop:
            box = frame // LARGE
            large_stop = min((box + 1) * LARGE, stop)
            holds = _may_hold(index.large_any[box], index.large_all[box], all_bits, any_bits, none_bits)
            if not holds or not _box_cost(index.large, box, query, weights, best_cost) < best_cost:
                frame = large_stop
                continue
            while frame < large_stop:
                box = frame // SMALL
                small_stop = min((box + 1) * SMALL, large_stop)
                holds = _may_hold(index.small_any[box], index.small_all[box], all_bits, any_bits, none_bits)
                if not holds or not _box_cost(index.small, box, query, weights, best_cost) < best_cost:
                    frame = small_stop
                    continue
                while frame < small_stop:
                    skip = skip_from <= frame < skip_to
                    if not skip and wanted(corpus.tags[frame], all_bits, any_bits, none_bits):
                        cost = _row_cost(corpus.features, frame, query, weights, best_cost)
                        if cost < best_cost:
                            best, best_cost = frame, cost
                    frame += 1
    return best, best_cost
