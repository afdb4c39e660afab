"""The wide tree: boxes around 16 frames, and around 16 boxes, tested 16 at a time, level by level.

Boxes and rows are kept in whole numbers of 16 bits, and distances of those only sift: whoever may be within the bound
is summed exactly, from the database's own features. See docs/search.md for why nothing can slip through.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mm_ros.body.types import F32
from mm_ros.maths.jit import njit
from mm_ros.search.brute import search_brute
from mm_ros.search.interface import I32, LARGEST, U64, bad_input, frame_cost, skipped_frames
from mm_ros.search.tree.codes import MAX_COLUMNS, PAIR, STEP, U16, CodeSpace
from mm_ros.search.tree.encode import BAD, FLOATS, NOT_AT_ALL, encode_query, float_factors
from mm_ros.search.tree.sift import (
    NO_LIMIT,
    WORDS,
    sift_boxes,
    sift_boxes_in_floats,
    sift_rows,
    sift_rows_in_floats,
)
from mm_ros.search.tree.simd import GUARDED, LANES, LEAN, array_at, local_array, prefetch, tag_lanes

NO_FRAME = -1  # the only leaf of a tree without frames
ROOM = 512  # entries of a level's list; when it is full, what is on it is worked off first
CACHED_BLOCKS = 300  # more than that (about 0.5 MB) are not at hand in the nearer caches: fetched ahead
FEW = 16  # on a list: worked off sooner than one could go ahead for a better bound
LEVELS = 8  # 16 to the 8th leaves
EVERY_LANE = (1 << LANES) - 1


class TreeIndex(NamedTuple):
    """Nodes are numbered: blocks (16 children each) of the lowest level first, then level by level; then the leaves."""

    frames: I32  # (leaves, 16)
    row_codes: U16  # (leaves, pairs, 32)
    row_tags: U64  # (leaves · 16,)
    box_codes: U16  # (blocks, pairs, 2, 32) low and high of 16 children
    any_tags: U64  # (blocks · 16,) tags of each child OR-ed
    all_tags: U64  # (blocks · 16,) AND-ed
    children: I32  # (blocks, 2) first child, and which lanes are real as bits
    top: I32  # (4,) the top level's blocks, from and to; how many levels of blocks; the last code
    base: F32  # CodeSpace
    per_unit: F32
    unit: Any
    closed_below: F32
    closed_above: F32


def tree_table(index: TreeIndex) -> list[int]:
    return [len(index.frames), len(index.children), len(index.base), *(a.ctypes.data for a in index)]


@njit(inline="always", **LEAN)
def tree_at(table: Any, columns: Any) -> Any:
    leaves, blocks, padded = table[0], table[1], table[2]
    pairs = (columns + STEP - 1) // STEP * (STEP // PAIR)
    return TreeIndex(
        array_at(table[3], (leaves, LANES), np.int32),
        array_at(table[4], (leaves, pairs, WORDS), np.uint16),
        array_at(table[5], (leaves * LANES,), np.uint64),
        array_at(table[6], (blocks, pairs, 2, WORDS), np.uint16),
        array_at(table[7], (blocks * LANES,), np.uint64),
        array_at(table[8], (blocks * LANES,), np.uint64),
        array_at(table[9], (blocks, 2), np.int32),
        array_at(table[10], (4,), np.int32),
        array_at(table[11], (padded,), np.float32),
        array_at(table[12], (padded,), np.float32),
        array_at(table[13], (padded,), np.float64),
        array_at(table[14], (padded,), np.float32),
        array_at(table[15], (padded,), np.float32),
    )


class Wish(NamedTuple):
    """A search's question, in codes and exactly."""

    query: Any  # (D,)
    weights: Any
    codes: Any
    line: Any  # for sums in floats
    square: Any
    in_floats: Any
    all_of: Any
    any_of: Any
    none_of: Any
    masked: Any
    skip_from: Any
    skip_to: Any
    one_costs: Any  # what one of the sums costs
    beyond: Any
    slack: Any


local_words, local_floats = local_array(np.uint16, 2 * MAX_COLUMNS), local_array(np.float32, MAX_COLUMNS)
local_doubles = local_array(np.float64, MAX_COLUMNS)
local_levels, local_lists = local_array(np.int64, LEVELS), local_array(np.int32, LEVELS * ROOM)
local_list = local_array(np.int32, ROOM)


@njit(inline="always", **LEAN)
def _limit(wish: Any, best_cost: Any) -> Any:
    """The largest sum that may still cost no more than the best. Float sums of codes and costs lose a little."""
    limit = (np.float64(best_cost) * wish.slack + 1e-30 - wish.beyond) / wish.one_costs
    return np.int32(-1) if limit < 0 else np.int32(min(limit, np.float64(NO_LIMIT)))


@njit(inline="always", **LEAN)
def _guard(index: Any, node: Any) -> None:
    """numba's own bounds check does not see the loads of intrinsics."""
    if GUARDED and not 0 <= node < index.children.shape[0] + index.frames.shape[0]:
        raise IndexError("tree: node out of range")


@njit(inline="always", **LEAN)
def _open(index: Any, wish: Any, block: Any, limit: Any, ids: Any, costs: Any, count: Any) -> Any:
    """Appends those of a block's 16 children that may hold a frame within the limit."""
    _guard(index, block)
    first, lanes = np.int64(index.children[block, 0]), np.int64(index.children[block, 1])
    if wish.masked:
        zero = np.uint64(0)
        lanes &= tag_lanes(index.any_tags, block * LANES, wish.all_of, wish.any_of, zero)
        lanes &= tag_lanes(index.all_tags, block * LANES, zero, zero, wish.none_of)
    pairs = np.int64(index.box_codes.shape[1])
    if wish.in_floats:
        return sift_boxes_in_floats(
            index.box_codes, block, wish.codes, wish.line, wish.square, pairs, limit, lanes, first, ids, costs, count
        )
    return sift_boxes(index.box_codes, block, wish.codes, pairs, limit, lanes, first, ids, costs, count)


@njit(inline="always", **LEAN)
def _open_leaf(index: Any, wish: Any, leaf: Any, limit: Any, ids: Any, costs: Any, count: Any) -> Any:
    """Appends those of a leaf's rows that may be within the limit, by their place in `frames`."""
    _guard(index, leaf + index.children.shape[0])
    first, lanes = leaf * LANES, np.int64(EVERY_LANE)
    if wish.masked:
        lanes = tag_lanes(index.row_tags, first, wish.all_of, wish.any_of, wish.none_of)
    pairs = np.int64(index.row_codes.shape[1])
    if wish.in_floats:
        return sift_rows_in_floats(
            index.row_codes, leaf, wish.codes, wish.line, wish.square, pairs, limit, lanes, first, ids, costs, count
        )
    return sift_rows(index.row_codes, leaf, wish.codes, pairs, limit, lanes, first, ids, costs, count)


@njit(inline="always", **LEAN)
def _nearest(costs: Any, start: Any, stop: Any) -> Any:
    nearest = start
    for i in range(start + 1, stop):
        nearest = i if costs[i] < costs[nearest] else nearest
    return nearest


@njit(inline="always", **LEAN)
def _swap(values: Any, a: Any, b: Any) -> None:
    values[a], values[b] = values[b], values[a]


@njit(inline="always", **LEAN)
def _weigh_rows(corpus: Any, index: Any, wish: Any, ids: Any, costs: Any, count: Any, best: Any, best_cost: Any) -> Any:
    """The exact cost of those on the list, as long as they may be within the bound; the likeliest first."""
    if count > 1:
        nearest = _nearest(costs, 0, count)
        _swap(ids, 0, nearest)
        _swap(costs, 0, nearest)
    limit = _limit(wish, best_cost)
    for i in range(count):
        if costs[i] > limit:
            continue
        place = np.int64(ids[i])
        frame: Any = np.int64(index.frames[place // LANES, place % LANES])
        if frame < 0 or wish.skip_from <= frame < wish.skip_to:
            continue
        cost = frame_cost(corpus.features, wish.query, wish.weights, frame)
        if cost < best_cost or (cost == best_cost and frame < best):
            best, best_cost = frame, cost
            limit = _limit(wish, best_cost)
    return best, best_cost


@njit(inline="always", **LEAN)
def _weigh_leaves(
    corpus: Any, index: Any, wish: Any, leaves: Any, leaf_costs: Any, count: Any, rows: Any, row_costs: Any,
    best: Any, best_cost: Any,
) -> Any:  # fmt: skip
    """All that is on a list of leaves; the nearest first and at once, for it makes the bound small."""
    nearest = _nearest(leaf_costs, 0, count)
    _swap(leaves, 0, nearest)
    _swap(leaf_costs, 0, nearest)
    blocks = index.children.shape[0]
    found = np.int64(0)
    ahead = blocks > CACHED_BLOCKS
    limit = _limit(wish, best_cost)
    for i in range(count):
        if ahead and i + 1 < count:
            prefetch(index.row_codes, np.int64(leaves[i + 1]) - blocks)
        if leaf_costs[i] <= limit:
            found = _open_leaf(index, wish, np.int64(leaves[i]) - blocks, limit, rows, row_costs, found)
        if ((i == 0 and count > FEW) or found > ROOM - 2 * LANES or i == count - 1) and found > 0:
            best, best_cost = _weigh_rows(corpus, index, wish, rows, row_costs, found, best, best_cost)
            found, limit = np.int64(0), _limit(wish, best_cost)
    return best, best_cost


@njit(inline="always", **LEAN)
def _descend(corpus: Any, index: Any, wish: Any, node: Any, ids: Any, costs: Any, best: Any, best_cost: Any) -> Any:
    """Straight down to the nearest row, for a first bound."""
    blocks = index.children.shape[0]
    limit = _limit(wish, best_cost)
    while node < blocks:
        found = _open(index, wish, node, limit, ids, costs, np.int64(0))
        if found == 0:
            return best, best_cost
        node = np.int64(ids[_nearest(costs, 0, found)])
    found = _open_leaf(index, wish, node - blocks, limit, ids, costs, np.int64(0))
    if found == 0:
        return best, best_cost
    return _weigh_rows(corpus, index, wish, ids, costs, found, best, best_cost)


@njit(inline="always", **LEAN)
def _walk(corpus: Any, index: Any, wish: Any, best: Any, best_cost: Any) -> Any:
    """A list of nodes a level. Each list is worked off into the one below, until that is full or this one is done."""
    ids, costs, heads, counts = local_lists(), local_lists(), local_levels(), local_levels()
    rows, row_costs = local_list(), local_list()
    top: Any = np.int64(index.top[2]) - 1  # lists of blocks: 1 … top; of leaves: 0
    for i in range(top + 1):
        heads[i] = counts[i] = 0
    limit = _limit(wish, best_cost)
    at: Any = top * ROOM
    count: Any = np.int64(0)
    for block in range(np.int64(index.top[0]), np.int64(index.top[1])):
        count = _open(index, wish, block, limit, ids[at:], costs[at:], count)
    if count == 0:
        return best, best_cost
    if top > 0 and count > FEW:
        node = np.int64(ids[at + _nearest(costs[at:], 0, count)])
        best, best_cost = _descend(corpus, index, wish, node, rows, row_costs, best, best_cost)
    if top == 0:
        return _weigh_leaves(corpus, index, wish, ids, costs, count, rows, row_costs, best, best_cost)
    level: Any = top
    counts[top] = count
    ahead = index.children.shape[0] > CACHED_BLOCKS
    limit = _limit(wish, best_cost)
    while True:
        at, below = level * ROOM, (level - 1) * ROOM
        head, stop, found = heads[level], counts[level], counts[level - 1]
        while head < stop and found <= ROOM - 2 * LANES:
            if ahead and head + 1 < stop:
                prefetch(index.box_codes, np.int64(ids[at + head + 1]))
            if costs[at + head] <= limit:
                found = _open(index, wish, np.int64(ids[at + head]), limit, ids[below:], costs[below:], found)
            head += 1
        heads[level], counts[level - 1] = head, found
        if found > 0 and level == 1:
            best, best_cost = _weigh_leaves(corpus, index, wish, ids, costs, found, rows, row_costs, best, best_cost)
            counts[0], limit = 0, _limit(wish, best_cost)
        elif found > 0:
            level -= 1
        elif head == stop:
            heads[level] = counts[level] = 0
            level += 1
            if level > top:
                return best, best_cost


@njit(**LEAN)
def search_tree(
    corpus: Any, index: Any, query: Any, weights: Any, bound: Any,
    current: Any, radius: Any, all_of: Any, any_of: Any, none_of: Any,
) -> Any:  # fmt: skip
    columns, padded = corpus.features.shape[1], index.base.shape[0]
    if query.shape[0] != columns or weights.shape[0] != columns or math.isnan(bound):
        return bad_input(columns, query, weights, bound), np.float32(np.inf)
    q, w, codes, scaled, outside = local_floats(), local_floats(), local_words(), local_doubles(), local_doubles()
    for c in range(columns):
        q[c], w[c] = query[c], weights[c]
    for c in range(columns, padded):
        q[c], w[c] = 0, 0
    space = CodeSpace(index.base, index.per_unit, index.unit, index.closed_below, index.closed_above)
    last = np.float64(index.top[3])
    lost = (columns + 16) * 2.0**-22  # more than sums of float32 lose
    how, one_costs, beyond = encode_query(space, last, lost, q, w, scaled, outside, codes)
    if how == NOT_AT_ALL:
        return search_brute(corpus, query, weights, bound, current, radius, all_of, any_of, none_of)
    if how == BAD:
        return bad_input(columns, query, weights, bound), np.float32(np.inf)
    line, square = local_floats(), local_floats()
    if how == FLOATS:
        float_factors(padded, one_costs, scaled, outside, line, square)
    skip_from, skip_to = skipped_frames(corpus.starts, corpus.stops, current, radius)
    wish = Wish(
        q[:columns], w[:columns], codes, line, square, how == FLOATS,
        np.uint64(np.int64(all_of)), np.uint64(np.int64(any_of)), np.uint64(np.int64(none_of)),
        all_of != 0 or any_of != 0 or none_of != 0, skip_from, skip_to,
        one_costs, beyond, 1 + lost,
    )  # fmt: skip
    return _walk(corpus, index, wish, np.int64(-1), min(np.float32(bound), LARGEST))
