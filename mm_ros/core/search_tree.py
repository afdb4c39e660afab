"""The wide tree: boxes of 16 frames, and boxes of 16 boxes, tested 16 at a time; the nearest first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.core.jit import njit
from mm_ros.core.search_base import I32, I64, LARGEST, U64, Corpus, bad_input, skipped_frames, wanted
from mm_ros.core.simd import GUARDED, LANES, array_at, box_costs, lowest_bit, row_costs
from mm_ros.core.types import F32

TOP_BLOCKS = 16  # a level more when the top one has more blocks than this
NO_FRAME = -1  # a padding lane


class TreeIndex(NamedTuple):
    rows: F32  # (leaves, D, 16) columns in the corpus's order; padding is infinite
    frames: I32  # (leaves, 16) or NO_FRAME
    boxes: F32  # (blocks, D, 2, 16) low and high of 16 children; the lowest level first
    any_tags: U64  # (blocks, 16) tags of each child OR-ed
    all_tags: U64  # (blocks, 16) AND-ed
    levels: I64  # (levels + 1,) first block of each level


def build_tree(corpus: Corpus) -> TreeIndex:
    frames = _leaves(corpus)
    centers = _leaf_centers(corpus, frames)
    frames = np.ascontiguousarray(frames[_close_together(centers)])
    padded = np.vstack([corpus.features[:, corpus.order], np.full((1, len(corpus.order)), np.inf, np.float32)])
    rows = aligned((len(frames), len(corpus.order), LANES), np.float32)
    rows[:] = padded[frames].transpose(0, 2, 1)
    real = frames != NO_FRAME
    tags = corpus.tags[frames]
    low, high = rows.min(axis=2), np.where(real[:, None], rows, -np.inf).max(axis=2)
    any_tags = np.bitwise_or.reduce(np.where(real, tags, np.uint64(0)), axis=1)
    all_tags = np.bitwise_and.reduce(np.where(real, tags, ~np.uint64(0)), axis=1)
    boxes, any_of, all_of, levels = [], [], [], [0]
    while True:
        boxes.append(np.stack([_blocks(low, np.inf), _blocks(high, -np.inf)], axis=2))
        any_of.append(_blocks(any_tags, 0))
        all_of.append(_blocks(all_tags, ~np.uint64(0)))
        levels.append(levels[-1] + len(boxes[-1]))
        if len(boxes[-1]) <= TOP_BLOCKS:
            break
        low, high = boxes[-1][:, :, 0].min(axis=2), boxes[-1][:, :, 1].max(axis=2)
        any_tags = np.bitwise_or.reduce(any_of[-1], axis=1)
        all_tags = np.bitwise_and.reduce(all_of[-1], axis=1)
    all_boxes = aligned((levels[-1], len(corpus.order), 2, LANES), np.float32)
    all_boxes[:] = np.concatenate(boxes)
    return TreeIndex(rows, frames, all_boxes, np.concatenate(any_of), np.concatenate(all_of), np.array(levels))


def tree_table(index: TreeIndex) -> list[int]:
    return [len(index.rows), len(index.boxes), len(index.levels), *(a.ctypes.data for a in index)]


@njit(inline="always")
def tree_at(table: Any, columns: Any) -> Any:
    leaves, blocks, levels = table[0], table[1], table[2]
    return TreeIndex(
        array_at(table[3], (leaves, columns, LANES), np.float32),
        array_at(table[4], (leaves, LANES), np.int32),
        array_at(table[5], (blocks, columns, 2, LANES), np.float32),
        array_at(table[6], (blocks, LANES), np.uint64),
        array_at(table[7], (blocks, LANES), np.uint64),
        array_at(table[8], (levels,), np.int64),
    )


def aligned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros that start on a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    at = -raw.ctypes.data % 64
    return raw[at : at + size].view(dtype).reshape(shape)


def _leaves(corpus: Corpus) -> I32:
    """Runs of 16 consecutive searchable frames; a clip's last run is padded."""
    leaves = [np.zeros((0, LANES), np.int32)]
    for start, stop in zip(corpus.starts, corpus.searchable_stops, strict=True):
        count = -(-(stop - start) // LANES)
        frames = np.arange(start, start + count * LANES, dtype=np.int32).reshape(count, LANES)
        leaves.append(np.where(frames < stop, frames, NO_FRAME))
    return np.concatenate(leaves).astype(np.int32)


def _leaf_centers(corpus: Corpus, frames: I32) -> F32:
    count = np.maximum((frames != NO_FRAME).sum(axis=1), 1)
    centers = np.zeros((len(frames), corpus.features.shape[1]), np.float32)
    for lane in range(LANES):
        real = frames[:, lane] != NO_FRAME
        centers[real] += corpus.features[frames[real, lane]]
    return np.asarray(centers / count[:, None], np.float32)


def _close_together(centers: F32) -> I64:
    """An order in which each 16, 256, … neighbours are close: halved along the widest column, again and again."""
    order = np.arange(len(centers))
    todo = [(0, len(centers))]
    while todo:
        start, stop = todo.pop()
        count = stop - start
        if count <= LANES:
            continue
        unit = LANES
        while unit * LANES < count:
            unit *= LANES
        part = order[start:stop]
        values = centers[part]
        column = int(np.argmax(values.var(axis=0)))
        left = unit * -(-count // (2 * unit))
        order[start:stop] = part[np.argpartition(values[:, column], min(left, count - 1))]
        todo += [(start, start + left), (start + left, stop)]
    return order


def _blocks(values: NDArray[Any], padding: Any) -> NDArray[Any]:
    """(children, …) → (blocks, …, 16)"""
    count = -(-max(len(values), 1) // LANES)
    out = np.full((count * LANES, *values.shape[1:]), padding, values.dtype)
    out[: len(values)] = values
    return np.moveaxis(out.reshape(count, LANES, *values.shape[1:]), 1, -1)


@njit(inline="always")
def _guard_block(index: Any, block: Any) -> None:
    if GUARDED and not 0 <= block < index.boxes.shape[0]:
        raise IndexError("tree: block out of range")


@njit(inline="always")
def _guard_leaf(index: Any, leaf: Any) -> None:
    if GUARDED and not 0 <= leaf < index.rows.shape[0]:
        raise IndexError("tree: leaf out of range")


@njit
def search_tree(
    corpus: Corpus, index: Any, query: Any, weights: Any, bound: Any, current: Any, radius: Any, all_of: Any, any_of: Any, none_of: Any
) -> Any:
    wrong = bad_input(corpus.order.shape[0], query, weights, bound)
    if wrong:
        return wrong, np.float32(np.inf)
    all_bits, any_bits, none_bits = np.uint64(all_of), np.uint64(any_of), np.uint64(none_of)
    masked = all_of != 0 or any_of != 0 or none_of != 0
    skip_from, skip_to = skipped_frames(corpus.starts, corpus.stops, current, radius)
    q, w = query[corpus.order], weights[corpus.order]
    best, best_cost = -1, min(np.float32(bound), LARGEST)

    costs = np.empty(LANES, np.float32)
    top = index.levels.shape[0] - 2
    top_blocks = index.levels[top + 1] - index.levels[top]
    # Each block that is opened takes one entry off and puts up to 16 on, one level further down.
    waiting = np.empty((top_blocks + top + 1) * LANES, np.int64)
    waiting_cost = np.empty(waiting.shape[0], np.float32)
    waiting_level = np.empty(waiting.shape[0], np.int64)
    count = 0
    opened, level, bottom = 0, top, 0  # blocks of the top level first
    while True:
        if opened < top_blocks:
            block = index.levels[top] + opened
            opened += 1
        else:
            if count == 0:
                break
            count -= 1
            node, level = waiting[count], waiting_level[count]
            if not waiting_cost[count] <= best_cost:
                continue
            if level < 0:
                _guard_leaf(index, node)
                alive = row_costs(index.rows, node, q, w, best_cost, costs)
                while alive:
                    lane = lowest_bit(alive)
                    alive &= alive - 1
                    frame, cost = index.frames[node, lane], costs[lane]
                    if frame < 0 or skip_from <= frame < skip_to:
                        continue
                    if masked and not wanted(corpus.tags[frame], all_bits, any_bits, none_bits):
                        continue
                    if cost < best_cost or (cost == best_cost and frame < best):
                        best, best_cost = frame, cost
                continue
            block = index.levels[level] + node
            bottom = count
        _guard_block(index, block)
        alive = box_costs(index.boxes, block, q, w, best_cost, costs)
        first_child = (block - index.levels[level]) * LANES
        while alive:
            lane = lowest_bit(alive)
            alive &= alive - 1
            if masked:
                any_tags, all_tags = index.any_tags[block, lane], index.all_tags[block, lane]
                if not wanted(any_tags, all_bits, any_bits, np.uint64(0)) or (all_tags & none_bits) != 0:
                    continue
            waiting[count], waiting_cost[count], waiting_level[count] = first_child + lane, costs[lane], level - 1
            # the nearest on top: it is opened next and makes the bound small for the rest
            if count > bottom and waiting_cost[count] > waiting_cost[count - 1]:
                waiting[count], waiting[count - 1] = waiting[count - 1], waiting[count]
                waiting_cost[count], waiting_cost[count - 1] = waiting_cost[count - 1], waiting_cost[count]
            count += 1
    return best, best_cost
