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
    lanes_within_limit,
    local_bytes,
    local_floats,
    local_ints,
    lowest_bit,
    nearest,
    prefetch,
    tag_lanes,
)  # fmt: skip
from mm_ros.core.types import F32

NO_FRAME = -1  # a padding lane
CACHED_BLOCKS = 500  # more than that (about 0.5 MB) are not at hand in the nearer caches: fetched ahead


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


@njit(inline="always", **LEAN)
def _open(
    index: Any, block: Any, trust: Any, codes: Any, code_weights: Any, q: Any, w: Any, limit: Any, costs: Any
) -> Any:
    """Lower bounds of a block's 16 children, and which of them are real and within the limit."""
    if trust == BOXES:
        alive = code_box_costs(index.box_codes, block, codes, code_weights, limit, costs)
    else:
        alive = box_costs(index.boxes, block, q, w, limit, costs)
    return alive & np.int64(index.children[block, 1])


@njit(inline="always", **LEAN)
def _put(
    index: Any, first_child: Any, lanes: Any, costs: Any, at: Any, waiting: Any, waiting_cost: Any, count: Any
) -> Any:
    """Puts children on the stack, the nearest on top: it is opened next and makes the bound small for the rest."""
    bottom, blocks = count, index.boxes.shape[0]
    ahead = blocks > CACHED_BLOCKS
    while lanes:
        lane = lowest_bit(lanes)
        lanes &= lanes - 1
        child = first_child + lane
        if ahead and child < blocks:
            prefetch(index.box_codes, child)
        elif ahead:
            prefetch(index.row_codes, child - blocks)
        waiting[count], waiting_cost[count] = child, costs[at + lane]
        if count > bottom and waiting_cost[count] > waiting_cost[count - 1]:
            waiting[count], waiting[count - 1] = waiting[count - 1], waiting[count]
            waiting_cost[count], waiting_cost[count - 1] = waiting_cost[count - 1], waiting_cost[count]
        count += 1
    return count


@njit(inline="always", **LEAN)
def _allowed(index: Any, block: Any, alive: Any, all_of: Any, any_of: Any, none_of: Any) -> Any:
    """Those children that may hold a wanted frame, by the bits of all frames in them."""
    for lane in range(LANES):
        any_tags, all_tags = index.any_tags[block, lane], index.all_tags[block, lane]
        if not wanted(any_tags, all_of, any_of, np.uint64(0)) or (all_tags & none_of) != 0:
            alive &= ~(np.int64(1) << lane)
    return alive


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
    costs, row_costs, alive = local_floats(), local_floats(), local_ints()
    waiting, waiting_cost = local_ints(), local_floats()
    blocks = index.boxes.shape[0]
    top, top_blocks = np.int64(index.top[0]), np.int64(index.top[1]) - np.int64(index.top[0])
    least, nearest_at = np.float32(np.inf), np.int64(-1)
    for block in range(top_blocks):
        limit = (best_cost * slack + tiny - beyond) if trust == BOXES else best_cost
        at = block * LANES
        alive[block] = _open(index, top + block, trust, codes, code_weights, q, w, limit, costs[at:])
        if masked:
            alive[block] = _allowed(index, top + block, alive[block], all_bits, any_bits, none_bits)
        lane = nearest(costs, at, alive[block], limit)
        if lane >= 0 and costs[at + lane] < least:
            least, nearest_at = costs[at + lane], at + lane
    if nearest_at < 0:
        return best, best_cost
    # What is below the nearest box of the top level first: of the others, few are then still within the bound.
    block, count = np.int64(0), np.int64(1)  # type: ignore[assignment]  # to the compiler all of them are int64
    waiting[0], waiting_cost[0] = np.int64(index.children[top, 0]) + nearest_at, least
    alive[nearest_at // LANES] ^= np.int64(1) << (nearest_at % LANES)
    while True:
        code_limit = best_cost * slack + tiny - beyond
        limit = code_limit if trust == BOXES else best_cost
        if count == 0:
            if block == top_blocks:
                break
            lanes = alive[block] & lanes_within_limit(costs, block * LANES, limit)
            first_child = np.int64(index.children[top + block, 0])
            count = _put(index, first_child, lanes, costs, block * LANES, waiting, waiting_cost, count)
            block += 1
            continue
        count -= 1
        child = waiting[count]
        if not waiting_cost[count] <= limit:
            continue
        _guard(index, child)
        if child < blocks:
            # row_costs serve here too: a block's costs are done with once its children wait
            lanes = _open(index, child, trust, codes, code_weights, q, w, limit, row_costs)
            if masked:
                lanes = _allowed(index, child, lanes, all_bits, any_bits, none_bits)
            first_child = np.int64(index.children[child, 0])
            count = _put(index, first_child, lanes, row_costs, 0, waiting, waiting_cost, count)
            continue
        leaf = child - blocks
        rows = np.int64((1 << LANES) - 1)
        first = np.int64(index.frames[leaf, 0])
        if masked and first >= 0 and np.int64(index.frames[leaf, LANES - 1]) == first + LANES - 1:
            rows = tag_lanes(corpus.tags, first, all_bits, any_bits, none_bits)  # a whole run of frames
        if trust == ROUGH:
            for i in range(LANES):
                row_costs[i] = 0
        elif rows:
            rows &= code_row_costs(index.row_codes, leaf, codes, code_weights, code_limit, row_costs)
        while True:
            code_limit = (best_cost * slack + tiny - beyond) if trust != ROUGH else LARGEST
            lane = nearest(row_costs, 0, rows, code_limit)
            if lane < 0:
                break
            rows ^= np.int64(1) << lane
            frame: Any = np.int64(index.frames[leaf, lane])
            if frame < 0 or skip_from <= frame < skip_to:
                continue
            if masked and not wanted(corpus.tags[frame], all_bits, any_bits, none_bits):
                continue
            cost = frame_cost(corpus.features, q, w, frame)
            if cost < best_cost or (cost == best_cost and frame < best):
                best, best_cost = frame, cost
    return best, best_cost
