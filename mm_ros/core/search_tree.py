"""The wide tree: boxes around 16 frames, and around 16 boxes, tested 16 at a time; the nearest opened first.

Boxes and rows are kept in one byte a column, and distances of bytes only sift: whoever may be within the bound is
summed exactly, from the database's own features. See docs/search.md for why nothing can slip through.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mm_ros.core.jit import njit
from mm_ros.core.search_base import I32, LARGEST, U64, bad_input, frame_cost, skipped_frames, wanted
from mm_ros.core.search_codes import BAD, BOXES, ROUGH, U8, U16, encode_query
from mm_ros.core.simd import (
    BYTES,
    GUARDED,
    LANES,
    LEAN,
    array_at,
    box_costs,
    code_box_costs,
    code_row_costs,
    local_bytes,
    local_floats,
    local_ints,
    lowest_bit,
    prefetch,
    tag_lanes,
)  # fmt: skip
from mm_ros.core.types import F32

NO_FRAME = -1  # a padding lane


class TreeIndex(NamedTuple):
    """Nodes are numbered: blocks (16 children each) of the lowest level first, then level by level; then the leaves."""

    frames: I32  # (leaves, 16) or NO_FRAME
    row_codes: U8  # (leaves, groups, 64)
    box_codes: U8  # (blocks, groups, 2, 64) low and high of 16 children
    boxes: U16  # (blocks, D, 2, 16) the same as halves of floats
    any_tags: U64  # (blocks, 16) tags of each child OR-ed
    all_tags: U64  # (blocks, 16) AND-ed
    children: I32  # (blocks, 2) first child, and which lanes are real as bits
    top: I32  # (2,) the top level's blocks, from and to
    base: F32  # (D to whole 16s,) where code 0 is, a column
    per_unit: F32  # codes a unit, a column
    closed_below: F32  # 1 where no frame lies below code 0, else 0
    closed_above: F32


def tree_table(index: TreeIndex) -> list[int]:
    return [len(index.frames), len(index.boxes), len(index.base), *(a.ctypes.data for a in index)]


@njit(inline="always", **LEAN)
def tree_at(table: Any, columns: Any) -> Any:
    leaves, blocks, padded = table[0], table[1], table[2]
    groups = (columns + BYTES - 1) // BYTES
    return TreeIndex(
        array_at(table[3], (leaves, LANES), np.int32),
        array_at(table[4], (leaves, groups, 4 * LANES), np.uint8),
        array_at(table[5], (blocks, groups, 2, 4 * LANES), np.uint8),
        array_at(table[6], (blocks, columns, 2, LANES), np.uint16),
        array_at(table[7], (blocks, LANES), np.uint64),
        array_at(table[8], (blocks, LANES), np.uint64),
        array_at(table[9], (blocks, 2), np.int32),
        array_at(table[10], (2,), np.int32),
        array_at(table[11], (padded,), np.float32),
        array_at(table[12], (padded,), np.float32),
        array_at(table[13], (padded,), np.float32),
        array_at(table[14], (padded,), np.float32),
    )


@njit(inline="always", **LEAN)
def _guard(index: Any, node: Any) -> None:
    """numba's own bounds check does not see the loads of intrinsics."""
    if GUARDED and not 0 <= node < index.boxes.shape[0] + index.frames.shape[0]:
        raise IndexError("tree: node out of range")


@njit(**LEAN)
def search_tree(
    corpus: Any, index: Any, query: Any, weights: Any, bound: Any,
    current: Any, radius: Any, all_of: Any, any_of: Any, none_of: Any,
) -> Any:  # fmt: skip
    columns, padded = corpus.features.shape[1], index.base.shape[0]
    if query.shape[0] != columns or weights.shape[0] != columns or math.isnan(bound):
        return bad_input(columns, query, weights, bound), np.float32(np.inf)
    q, w, codes, scratch = local_floats(), local_floats(), local_bytes(), local_floats()
    for c in range(columns):
        q[c], w[c] = query[c], weights[c]
    for c in range(columns, padded):
        q[c], w[c] = 0, 0
    groups = (columns + BYTES - 1) // BYTES
    code_weights = local_floats()
    trust, beyond = encode_query(
        index.base, index.per_unit, index.closed_below, index.closed_above, q, w, codes, code_weights, groups, scratch
    )
    if trust == BAD:
        return bad_input(columns, query, weights, bound), np.float32(np.inf)
    q, w, code_weights = q[:columns], w[:columns], code_weights[:groups]
    all_bits, any_bits, none_bits = (
        np.uint64(np.int64(all_of)),
        np.uint64(np.int64(any_of)),
        np.uint64(np.int64(none_of)),
    )
    masked = all_of != 0 or any_of != 0 or none_of != 0
    skip_from, skip_to = skipped_frames(corpus.starts, corpus.stops, current, radius)

    best, best_cost = -1, min(np.float32(bound), LARGEST)
    # Sums of codes are rounded in another order than the cost: their limit is a little wider.
    slack, tiny = np.float32(1 + (columns + 16) * 2.0**-22), np.float32(1e-30)
    beyond -= beyond * (slack - np.float32(1))
    costs, waiting, waiting_cost = local_floats(), local_ints(), local_floats()
    blocks = index.boxes.shape[0]
    block, top_stop = np.int64(index.top[0]), np.int64(index.top[1])
    count = bottom = 0
    while True:
        code_limit = best_cost * slack + tiny - beyond
        if block < top_stop:  # all blocks of the top level first
            node = block
            block += 1
        elif count == 0:
            break
        else:
            count -= 1
            node = waiting[count]
            if not waiting_cost[count] <= (code_limit if trust == BOXES else best_cost):
                continue
            bottom = count
        _guard(index, node)
        if node >= blocks:
            leaf = node - blocks
            alive = (1 << LANES) - 1
            first = np.int64(index.frames[leaf, 0])
            if masked and first >= 0 and np.int64(index.frames[leaf, LANES - 1]) == first + LANES - 1:
                alive = tag_lanes(corpus.tags, first, all_bits, any_bits, none_bits)  # a whole run of frames
            if trust != ROUGH and alive:
                alive &= code_row_costs(index.row_codes, leaf, codes, code_weights, code_limit, costs)
            while alive:
                frame: Any = np.int64(index.frames[leaf, lowest_bit(alive)])
                alive &= alive - 1
                if frame < 0 or skip_from <= frame < skip_to:
                    continue
                if masked and not wanted(corpus.tags[frame], all_bits, any_bits, none_bits):
                    continue
                cost = frame_cost(corpus.features, q, w, frame)
                if cost < best_cost or (cost == best_cost and frame < best):
                    best, best_cost = frame, cost
            continue
        if trust == BOXES:
            alive = code_box_costs(index.box_codes, node, codes, code_weights, code_limit, costs)
        else:
            alive = box_costs(index.boxes, node, q, w, best_cost, costs)
        alive &= np.int64(index.children[node, 1])
        first_child = np.int64(index.children[node, 0])
        while alive:
            lane = lowest_bit(alive)
            alive &= alive - 1
            if masked:
                any_tags, all_tags = index.any_tags[node, lane], index.all_tags[node, lane]
                if not wanted(any_tags, all_bits, any_bits, np.uint64(0)) or (all_tags & none_bits) != 0:
                    continue
            child = first_child + lane
            if child < blocks:
                prefetch(index.box_codes, child)
            else:
                prefetch(index.row_codes, child - blocks)
            waiting[count], waiting_cost[count] = child, costs[lane]
            # The nearest on top: it is opened next and makes the bound small for the rest.
            if count > bottom and waiting_cost[count] > waiting_cost[count - 1]:
                waiting[count], waiting[count - 1] = waiting[count - 1], waiting[count]
                waiting_cost[count], waiting_cost[count - 1] = waiting_cost[count - 1], waiting_cost[count]
            count += 1
    return best, best_cost
