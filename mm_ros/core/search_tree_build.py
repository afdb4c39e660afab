"""Builds the wide tree: leaves of 16 frames, close ones together, level upon level until one scan covers the top."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.core.errors import MmRosError
from mm_ros.core.search_base import I32, I64, Corpus
from mm_ros.core.search_codes import make_code_space, to_codes, to_upper_half
from mm_ros.core.search_tree import NO_FRAME, TreeIndex
from mm_ros.core.simd import LANES, MAX_COLUMNS
from mm_ros.core.types import F32

TOP_BLOCKS = 16  # a level more when the top one has more blocks than this
_SAMPLE = 1024  # leaves that say in which direction a large set is longest


def build_tree(corpus: Corpus, usual_weights: F32 | None = None) -> TreeIndex:
    columns = corpus.features.shape[1]
    if columns > MAX_COLUMNS:
        raise MmRosError(f"the tree takes up to {MAX_COLUMNS} columns, came {columns}; use the engine 'boxes'")
    space = make_code_space(corpus.features, usual_weights)
    frames = _leaves(corpus)
    centers = _leaf_centers(corpus, frames)
    if usual_weights is not None:
        centers *= np.sqrt(usual_weights)
    frames = np.ascontiguousarray(frames[_close_together(centers)])
    real = frames != NO_FRAME
    rows = corpus.features[np.where(real, frames, 0)]
    tags = corpus.tags[frames]
    level = _Level(
        np.where(real[..., None], rows, np.inf).min(axis=1),
        np.where(real[..., None], rows, -np.inf).max(axis=1),
        np.bitwise_or.reduce(np.where(real, tags, np.uint64(0)), axis=1),
        np.bitwise_and.reduce(np.where(real, tags, ~np.uint64(0)), axis=1),
    )
    levels = [level.blocks()]
    while len(levels[-1].low) > TOP_BLOCKS:
        levels.append(levels[-1].parents().blocks())
    sizes = [len(block.low) for block in levels]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    children = [_children(level.count, starts[-1] if i == 0 else starts[i - 1]) for i, level in enumerate(levels)]
    low, high = (np.concatenate([getattr(block, side) for block in levels]) for side in ("low", "high"))
    codes = np.stack([to_codes(space, low, upwards=False), to_codes(space, high, upwards=True)], axis=3)
    boxes = np.stack([to_upper_half(low, upwards=False), to_upper_half(high, upwards=True)], axis=3)
    return TreeIndex(
        frames=frames,
        row_codes=aligned(_lanes_inside(to_codes(space, rows, upwards=False))),
        box_codes=aligned(codes.transpose(0, 2, 3, 1, 4).reshape(len(low), -1, 2, 4 * LANES)),
        boxes=aligned(boxes.transpose(0, 2, 3, 1)),
        any_tags=np.concatenate([block.any_tags for block in levels]),
        all_tags=np.concatenate([block.all_tags for block in levels]),
        children=np.concatenate(children),
        top=np.array([starts[-2], starts[-1]], np.int32),
        **space._asdict(),
    )


class _Level:
    """Boxes (n, D) and tags (n,) of one level's nodes; or of its blocks, (n/16, 16, …), padded."""

    def __init__(self, low: Any, high: Any, any_tags: Any, all_tags: Any, count: int = 0) -> None:
        self.low, self.high, self.any_tags, self.all_tags = low, high, any_tags, all_tags
        self.count = count or len(low)

    def blocks(self) -> _Level:
        padding = (np.inf, -np.inf, np.uint64(0), ~np.uint64(0))
        values = (self.low, self.high, self.any_tags, self.all_tags)
        low, high, any_tags, all_tags = (_sixteens(v, p) for v, p in zip(values, padding, strict=True))
        return _Level(low, high, any_tags, all_tags, self.count)

    def parents(self) -> _Level:
        any_tags, all_tags = np.bitwise_or.reduce(self.any_tags, axis=1), np.bitwise_and.reduce(self.all_tags, axis=1)
        return _Level(self.low.min(axis=1), self.high.max(axis=1), any_tags, all_tags)


def _sixteens(values: NDArray[Any], padding: Any) -> NDArray[Any]:
    count = -(-len(values) // LANES)
    out = np.full((count * LANES, *values.shape[1:]), padding, values.dtype)
    out[: len(values)] = values
    return out.reshape(count, LANES, *values.shape[1:])


def _children(count: int, first: int) -> I32:
    blocks = -(-count // LANES)
    lanes = np.clip(count - np.arange(blocks) * LANES, 0, LANES)
    return np.stack([first + np.arange(blocks) * LANES, (1 << lanes) - 1], axis=1).astype(np.int32)


def _lanes_inside(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(leaves, 16, groups, 4) → (leaves, groups, 64)"""
    return codes.transpose(0, 2, 1, 3).reshape(len(codes), codes.shape[2], 4 * LANES)


def aligned(values: NDArray[Any]) -> NDArray[Any]:
    """A copy that starts on a cache line."""
    raw = np.empty(values.nbytes + 64, np.uint8)
    at = -raw.ctypes.data % 64
    out: NDArray[Any] = raw[at : at + values.nbytes].view(values.dtype).reshape(values.shape)
    out[:] = values
    return out


def _leaves(corpus: Corpus) -> I32:
    """Runs of 16 consecutive searchable frames; a clip's last run is padded."""
    leaves = []
    for start, stop in zip(corpus.starts, corpus.searchable_stops, strict=True):
        count = -(-(stop - start) // LANES)
        frames = np.arange(start, start + count * LANES, dtype=np.int32).reshape(count, LANES)
        leaves.append(np.where(frames < stop, frames, np.int32(NO_FRAME)))
    if not any(len(leaf) for leaf in leaves):  # nothing to search: one leaf of padding
        return np.full((1, LANES), NO_FRAME, np.int32)
    return np.concatenate(leaves)


def _leaf_centers(corpus: Corpus, frames: I32) -> F32:
    real = frames != NO_FRAME
    total = (corpus.features[np.where(real, frames, 0)] * real[..., None]).sum(axis=1)
    return np.asarray(total / np.maximum(real.sum(axis=1), 1)[:, None], np.float32)


def _close_together(centers: F32) -> I64:
    """An order in which each 16, 256, … neighbours are close: halved across the longest direction, again and again."""
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
        left = min(unit * -(-count // (2 * unit)), count - 1)
        points = centers[part]
        along = np.einsum("ij,j->i", points, _longest_direction(points))  # not BLAS: its threads only get in the way
        order[start:stop] = part[np.argpartition(along, left)]
        todo += [(start, start + left), (start + left, stop)]
    return order


def _longest_direction(points: F32) -> F32:
    sample = points[:: max(1, len(points) // _SAMPLE)]
    sample = sample - sample.mean(axis=0)
    return np.asarray(np.linalg.eigh(np.einsum("ij,ik->jk", sample, sample))[1][:, -1], np.float32)
