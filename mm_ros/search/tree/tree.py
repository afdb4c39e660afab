"""The search engine `tree`: bounding boxes of 16 frames, and of 16 smaller boxes, in several levels.

Frames and boxes are stored as 16-bit integers, called codes. The codes give lower bounds of the cost, which exclude
most frames. The cost of each remaining frame is computed from its features. The guide docs/search.md explains why the
search always finds the best frame.
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

NO_FRAME = -1  # frame number in the only leaf of a search tree without frames
ROOM = 512  # maximum number of nodes in the list for a level of the tree
CACHED_BLOCKS = 300  # nodes are prefetched if the tree has more blocks than this, too many for the CPU's nearest caches
FEW = 16  # in lists of more nodes than this, the node nearest to the query is searched first, for a low cost early
LEVELS = 8  # maximum number of levels; a tree of this depth has up to 16^8 leaves
EVERY_LANE = (1 << LANES) - 1


class TreeIndex(NamedTuple):
    """The arrays that store a search tree. A block is a node with up to 16 children; a leaf is a node with 16 frames.

    Nodes are numbered in this order: the blocks from the lowest level to the top level, then the leaves.
    """

    frames: I32  # (leaves, 16)
    row_codes: U16  # (leaves, pairs, 32)
    row_tags: U64  # (leaves · 16,)
    box_codes: U16  # (blocks, pairs, 2, 32) lower and upper codes of the boxes of each block's 16 children
    any_tags: U64  # (blocks · 16,) bitwise OR of the tags of all frames in each child of a block
    all_tags: U64  # (blocks · 16,) bitwise AND of the tags of all frames in each child of a block
    children: I32  # (blocks, 2) node number of each block's first child; bit mask of the children that exist
    top: I32  # (4,) first block of the top level; number of all blocks; number of levels of blocks; largest code
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


class EncodedQuery(NamedTuple):
    """The query of a search, as float32 numbers and as 16-bit codes."""

    query: Any  # (D,)
    weights: Any
    codes: Any
    line: Any  # factors of the distance in float sums; `square` holds the factors of the squared distance
    square: Any
    in_floats: Any
    all_of: Any
    any_of: Any
    none_of: Any
    masked: Any
    skip_from: Any
    skip_to: Any
    one_costs: Any  # factor that converts a sum of codes to a cost
    beyond: Any  # cost that all frames have in common, because the query is outside the range of the codes
    slack: Any  # factor on the cost limit that allows for rounding errors of float32


local_words, local_floats = local_array(np.uint16, 2 * MAX_COLUMNS), local_array(np.float32, MAX_COLUMNS)
local_doubles = local_array(np.float64, MAX_COLUMNS)
local_levels, local_lists = local_array(np.int64, LEVELS), local_array(np.int32, LEVELS * ROOM)
local_list = local_array(np.int32, ROOM)


@njit(inline="always", **LEAN)
def _limit(probe: Any, best_cost: Any) -> Any:
    """Convert `best_cost` to an upper limit for sums of codes, with an allowance for rounding errors of float32."""
    limit = (np.float64(best_cost) * probe.slack + 1e-30 - probe.beyond) / probe.one_costs
    return np.int32(-1) if limit < 0 else np.int32(min(limit, np.float64(NO_LIMIT)))


@njit(inline="always", **LEAN)
def _guard(index: Any, node: Any) -> None:
    """Check a node number when bounds checks are enabled, because numba does not check memory access by intrinsics."""
    if GUARDED and not 0 <= node < index.children.shape[0] + index.frames.shape[0]:
        raise IndexError("tree: node out of range")


@njit(inline="always", **LEAN)
def _expand(index: Any, probe: Any, block: Any, limit: Any, ids: Any, costs: Any, count: Any) -> Any:
    _guard(index, block)
    first, lanes = np.int64(index.children[block, 0]), np.int64(index.children[block, 1])
    if probe.masked:
        zero = np.uint64(0)
        lanes &= tag_lanes(index.any_tags, block * LANES, probe.all_of, probe.any_of, zero)
        lanes &= tag_lanes(index.all_tags, block * LANES, zero, zero, probe.none_of)
    pairs = np.int64(index.box_codes.shape[1])
    if probe.in_floats:
        return sift_boxes_in_floats(
            index.box_codes, block, probe.codes, probe.line, probe.square, pairs, limit, lanes, first, ids, costs, count
        )
    return sift_boxes(index.box_codes, block, probe.codes, pairs, limit, lanes, first, ids, costs, count)


@njit(inline="always", **LEAN)
def _expand_leaf(index: Any, probe: Any, leaf: Any, limit: Any, ids: Any, costs: Any, count: Any) -> Any:
    _guard(index, leaf + index.children.shape[0])
    first, lanes = leaf * LANES, np.int64(EVERY_LANE)
    if probe.masked:
        lanes = tag_lanes(index.row_tags, first, probe.all_of, probe.any_of, probe.none_of)
    pairs = np.int64(index.row_codes.shape[1])
    if probe.in_floats:
        return sift_rows_in_floats(
            index.row_codes, leaf, probe.codes, probe.line, probe.square, pairs, limit, lanes, first, ids, costs, count
        )
    return sift_rows(index.row_codes, leaf, probe.codes, pairs, limit, lanes, first, ids, costs, count)


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
def _score_rows(
    corpus: Any, index: Any, probe: Any, ids: Any, costs: Any, count: Any, best: Any, best_cost: Any
) -> Any:
    """Compute the exact cost of the frames in the list `ids`, beginning with the frame that has the lowest bound."""
    if count > 1:
        nearest = _nearest(costs, 0, count)
        _swap(ids, 0, nearest)
        _swap(costs, 0, nearest)
    limit = _limit(probe, best_cost)
    for i in range(count):
        if costs[i] > limit:
            continue
        place = np.int64(ids[i])
        frame: Any = np.int64(index.frames[place // LANES, place % LANES])
        if frame < 0 or probe.skip_from <= frame < probe.skip_to:
            continue
        cost = frame_cost(corpus.features, probe.query, probe.weights, frame)
        if cost < best_cost or (cost == best_cost and frame < best):
            best, best_cost = frame, cost
            limit = _limit(probe, best_cost)
    return best, best_cost


@njit(inline="always", **LEAN)
def _score_leaves(
    corpus: Any, index: Any, probe: Any, leaves: Any, leaf_costs: Any, count: Any, rows: Any, row_costs: Any,
    best: Any, best_cost: Any,
) -> Any:  # fmt: skip
    """Search the frames of all leaves in a list, beginning with the nearest leaf, which probably has low costs."""
    nearest = _nearest(leaf_costs, 0, count)
    _swap(leaves, 0, nearest)
    _swap(leaf_costs, 0, nearest)
    blocks = index.children.shape[0]
    found = np.int64(0)
    ahead = blocks > CACHED_BLOCKS
    limit = _limit(probe, best_cost)
    for i in range(count):
        if ahead and i + 1 < count:
            prefetch(index.row_codes, np.int64(leaves[i + 1]) - blocks)
        if leaf_costs[i] <= limit:
            found = _expand_leaf(index, probe, np.int64(leaves[i]) - blocks, limit, rows, row_costs, found)
        if ((i == 0 and count > FEW) or found > ROOM - 2 * LANES or i == count - 1) and found > 0:
            best, best_cost = _score_rows(corpus, index, probe, rows, row_costs, found, best, best_cost)
            found, limit = np.int64(0), _limit(probe, best_cost)
    return best, best_cost


@njit(inline="always", **LEAN)
def _descend(corpus: Any, index: Any, probe: Any, node: Any, ids: Any, costs: Any, best: Any, best_cost: Any) -> Any:
    """Search one leaf, found by following the nearest child at each level, to obtain a low cost early."""
    blocks = index.children.shape[0]
    limit = _limit(probe, best_cost)
    while node < blocks:
        found = _expand(index, probe, node, limit, ids, costs, np.int64(0))
        if found == 0:
            return best, best_cost
        node = np.int64(ids[_nearest(costs, 0, found)])
    found = _expand_leaf(index, probe, node - blocks, limit, ids, costs, np.int64(0))
    if found == 0:
        return best, best_cost
    return _score_rows(corpus, index, probe, ids, costs, found, best, best_cost)


@njit(inline="always", **LEAN)
def _search_levels(corpus: Any, index: Any, probe: Any, best: Any, best_cost: Any) -> Any:
    """Search the tree from the top level down, with one list of nodes for each level."""
    ids, costs, heads, counts = local_lists(), local_lists(), local_levels(), local_levels()
    rows, row_costs = local_list(), local_list()
    top: Any = np.int64(index.top[2]) - 1  # the nodes of level 0 are leaves, those of other levels are blocks
    for i in range(top + 1):
        heads[i] = counts[i] = 0
    limit = _limit(probe, best_cost)
    at: Any = top * ROOM
    count: Any = np.int64(0)
    for block in range(np.int64(index.top[0]), np.int64(index.top[1])):
        count = _expand(index, probe, block, limit, ids[at:], costs[at:], count)
    if count == 0:
        return best, best_cost
    if top > 0 and count > FEW:
        node = np.int64(ids[at + _nearest(costs[at:], 0, count)])
        best, best_cost = _descend(corpus, index, probe, node, rows, row_costs, best, best_cost)
    if top == 0:
        return _score_leaves(corpus, index, probe, ids, costs, count, rows, row_costs, best, best_cost)
    level: Any = top
    counts[top] = count
    ahead = index.children.shape[0] > CACHED_BLOCKS
    limit = _limit(probe, best_cost)
    while True:
        at, below = level * ROOM, (level - 1) * ROOM
        head, stop, found = heads[level], counts[level], counts[level - 1]
        while head < stop and found <= ROOM - 2 * LANES:
            if ahead and head + 1 < stop:
                prefetch(index.box_codes, np.int64(ids[at + head + 1]))
            if costs[at + head] <= limit:
                found = _expand(index, probe, np.int64(ids[at + head]), limit, ids[below:], costs[below:], found)
            head += 1
        heads[level], counts[level - 1] = head, found
        if found > 0 and level == 1:
            best, best_cost = _score_leaves(corpus, index, probe, ids, costs, found, rows, row_costs, best, best_cost)
            counts[0], limit = 0, _limit(probe, best_cost)
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
    lost = (columns + 16) * 2.0**-22  # upper limit of the relative rounding error of a float32 sum
    how, one_costs, beyond = encode_query(space, last, lost, q, w, scaled, outside, codes)
    if how == NOT_AT_ALL:
        return search_brute(corpus, query, weights, bound, current, radius, all_of, any_of, none_of)
    if how == BAD:
        return bad_input(columns, query, weights, bound), np.float32(np.inf)
    line, square = local_floats(), local_floats()
    if how == FLOATS:
        float_factors(padded, one_costs, scaled, outside, line, square)
    skip_from, skip_to = skipped_frames(corpus.starts, corpus.stops, current, radius)
    probe = EncodedQuery(
        q[:columns], w[:columns], codes, line, square, how == FLOATS,
        np.uint64(np.int64(all_of)), np.uint64(np.int64(any_of)), np.uint64(np.int64(none_of)),
        all_of != 0 or any_of != 0 or none_of != 0, skip_from, skip_to,
        one_costs, beyond, 1 + lost,
    )  # fmt: skip
    return _search_levels(corpus, index, probe, np.int64(-1), min(np.float32(bound), LARGEST))
