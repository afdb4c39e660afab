"""Construction of the search tree, from leaves of 16 similar frames up to the bounding boxes of the top level."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F32
from mm_ros.maths.jit import njit
from mm_ros.search.check import TOP_BLOCKS, tree_links
from mm_ros.search.interface import I32, I64, Corpus
from mm_ros.search.tree.codes import MAX_COLUMNS, make_code_space, to_codes
from mm_ros.search.tree.simd import LANES
from mm_ros.search.tree.tree import NO_FRAME, TreeIndex

RUN = 4  # number of consecutive frames in a run; the leaves of the tree contain whole runs
RUNS = LANES // RUN  # number of runs of consecutive frames in a leaf
_SAMPLE = 512  # approximate number of runs in the sample from which `_column_to_halve` computes variances
_CANDIDATES = 6  # number of columns with the largest variances that `_column_to_halve` compares


def build_tree(corpus: Corpus, usual_weights: F32 | None = None) -> TreeIndex:
    columns = corpus.features.shape[1]
    if columns > MAX_COLUMNS:
        raise MmRosError(f"the tree takes at most {MAX_COLUMNS} columns, came {columns}; use the engine 'boxes'")
    space = make_code_space(corpus.features, usual_weights)
    frames = _leaves(corpus, np.ones(columns, np.float32) if usual_weights is None else np.sqrt(usual_weights))
    row_codes, low, high = _codes_of_leaves(space, corpus.features, frames)
    tags = corpus.tags[frames]
    level = _Level(low, high, np.bitwise_or.reduce(tags, axis=1), np.bitwise_and.reduce(tags, axis=1))
    levels = [level.blocks()]
    while len(levels[-1].low) > TOP_BLOCKS:
        levels.append(levels[-1].parents().blocks())
    children, top = tree_links(len(frames), columns)
    boxes = [np.stack([_lanes_inside(block.low), _lanes_inside(block.high)], axis=2) for block in levels]
    return TreeIndex(
        frames=aligned(frames),
        row_codes=aligned(row_codes),
        row_tags=aligned(tags.reshape(-1)),
        box_codes=aligned(np.concatenate(boxes)),
        any_tags=aligned(np.concatenate([block.any_tags for block in levels]).reshape(-1)),
        all_tags=aligned(np.concatenate([block.all_tags for block in levels]).reshape(-1)),
        children=children,
        top=top,
        **space._asdict(),
    )


def _codes_of_leaves(space: Any, features: F32, frames: I32) -> tuple[Any, Any, Any]:
    """Return the 16-bit codes of all frames, and of the limits of each leaf's bounding box (leaves, pairs, 2)."""
    rows, low, high = [], [], []
    for part in np.array_split(frames, -(-len(frames) // 4096)):
        values = features[part]
        rows.append(_lanes_inside(to_codes(space, values, upwards=False)))
        low.append(to_codes(space, values.min(axis=1), upwards=False))
        high.append(to_codes(space, values.max(axis=1), upwards=True))
    return np.concatenate(rows), np.concatenate(low), np.concatenate(high)


class _Level:
    """Bounding boxes and tags of the nodes in one level of the tree, or of its blocks of 16 nodes."""

    def __init__(self, low: Any, high: Any, any_tags: Any, all_tags: Any) -> None:
        self.low, self.high, self.any_tags, self.all_tags = low, high, any_tags, all_tags

    def blocks(self) -> _Level:
        padding = (np.uint16(0), np.uint16(0), np.uint64(0), ~np.uint64(0))
        values = (self.low, self.high, self.any_tags, self.all_tags)
        low, high, any_tags, all_tags = (_sixteens(v, p) for v, p in zip(values, padding, strict=True))
        return _Level(low, high, any_tags, all_tags)

    def parents(self) -> _Level:
        any_tags, all_tags = np.bitwise_or.reduce(self.any_tags, axis=1), np.bitwise_and.reduce(self.all_tags, axis=1)
        return _Level(self.low.min(axis=1), self.high.max(axis=1), any_tags, all_tags)


def _sixteens(values: NDArray[Any], padding: Any) -> NDArray[Any]:
    count = -(-len(values) // LANES)
    out = np.full((count * LANES, *values.shape[1:]), padding, values.dtype)
    out[: len(values)] = values
    return out.reshape(count, LANES, *values.shape[1:])


def _lanes_inside(codes: NDArray[np.uint16]) -> NDArray[np.uint16]:
    return codes.transpose(0, 2, 1, 3).reshape(len(codes), codes.shape[2], -1)


def aligned(values: NDArray[Any]) -> NDArray[Any]:
    """Copy an array to memory that starts at a multiple of 64 bytes, the size of a cache line."""
    raw = np.empty(values.nbytes + 64, np.uint8)
    at = -raw.ctypes.data % 64
    out: NDArray[Any] = raw[at : at + values.nbytes].view(values.dtype).reshape(values.shape)
    out[:] = values
    return out


def _leaves(corpus: Corpus, root_weights: F32) -> I32:
    """Return the frame numbers in each leaf (leaves, 16). A leaf contains four similar runs of four consecutive frames.

    A run at the end of a clip repeats the last frame, and the last leaf repeats a run, until they are full. Repeated
    frames do not change the results of searches.
    """
    runs = []
    for start, stop in zip(corpus.starts, corpus.searchable_stops, strict=True):
        runs.append(np.minimum(np.arange(start, start + -(-(stop - start) // RUN) * RUN, dtype=np.int32), stop - 1))
    frames = np.concatenate(runs).reshape(-1, RUN) if runs else np.zeros((0, RUN), np.int32)
    if not len(frames):
        return np.full((1, LANES), NO_FRAME, np.int32)
    centers = np.zeros((len(frames), corpus.features.shape[1]), np.float32)
    for i in range(RUN):
        centers += corpus.features[frames[:, i]]
    frames = frames[_close_together(centers * root_weights)]
    missing = np.repeat(frames[-1:], -len(frames) % RUNS, axis=0)
    return np.concatenate([frames, missing]).reshape(-1, LANES).astype(np.int32)


@njit
def _close_together(points: F32) -> I64:
    """Return an order of the runs of frames in which the runs in each leaf and each block of the tree are similar."""
    order = np.arange(len(points))
    todo = [(0, len(points))]
    while len(todo) > 0:
        start, stop = todo.pop()
        count = stop - start
        if count <= RUNS:
            continue
        unit = RUNS
        while unit * LANES < count:
            unit *= LANES
        left = min(unit * -(-count // (2 * unit)), count - 1)
        column = _column_to_halve(points, order, start, stop, count <= RUNS * LANES)
        _halve(points[:, column], order, start, stop, start + left)
        todo.append((start, start + left))
        todo.append((start + left, stop))
    return order


@njit
def _column_to_halve(points: F32, order: I64, start: int, stop: int, within_block: bool) -> int:
    """Return the feature column by which runs are split so that the variance in both halves becomes small."""
    columns = points.shape[1]
    step = max(1, (stop - start) // _SAMPLE)
    mean, square = np.zeros(columns), np.zeros(columns)
    count = 0
    for i in range(start, stop, step):
        count += 1
        for c in range(columns):
            value = np.float64(points[order[i], c])
            mean[c] += value
            square[c] += value * value
    mean /= count
    variance = square / count - mean * mean
    if not within_block:
        return int(np.argmax(variance))
    best, best_gain = 0, -1.0
    upper = np.zeros(columns)
    for _ in range(min(_CANDIDATES, columns)):
        candidate = int(np.argmax(variance))
        variance[candidate] = -1
        upper[:] = 0
        above = 0
        for i in range(start, stop, step):
            if points[order[i], candidate] > mean[candidate]:
                above += 1
                for c in range(columns):
                    upper[c] += points[order[i], c]
        gain = 0.0
        if 0 < above < count:
            for c in range(columns):
                gain += (upper[c] - above * mean[c]) ** 2  # proportional to the variance between the two halves
            gain /= above * (count - above)
        if gain > best_gain:
            best, best_gain = candidate, gain
    return best


@njit
def _halve(values: F32, order: I64, start: int, stop: int, middle: int) -> None:
    """Sort `order` partly (quickselect), so that no value before index `middle` is larger than a value after it."""
    low, high = start, stop - 1
    while low < high:
        pivot = values[order[(low + high) // 2]]
        i, j = low, high
        while i <= j:
            while values[order[i]] < pivot:
                i += 1
            while values[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return
