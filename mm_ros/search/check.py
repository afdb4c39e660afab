"""Validation of a stored search index, because compiled code uses its numbers as array indices without bounds checks.

Wrong frame numbers, node numbers or sizes in an index would cause access outside the arrays. Codes and tags in an index
are not checked, because wrong ones only cause wrong results; checksums detect damage (base/checksums.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.search.boxes import LARGE, SMALL, BoxesIndex
from mm_ros.search.interface import I32, Corpus
from mm_ros.search.tree.codes import MAX_COLUMNS, PAIR, STEP, WIDE, last_code
from mm_ros.search.tree.sift import WORDS
from mm_ros.search.tree.simd import LANES
from mm_ros.search.tree.tree import LEVELS, NO_FRAME, TreeIndex

TOP_BLOCKS = 16  # maximum number of blocks in the top level of a search tree; if there are more, a level is added
Shapes = dict[str, tuple[type[np.generic], tuple[int, ...]]]


def tree_links(leaves: int, columns: int) -> tuple[I32, I32]:
    """Return the arrays `children` and `top` of a `TreeIndex` with a given number of leaves and columns."""
    counts = [leaves]  # number of nodes in each level of the tree, beginning with the leaves
    while True:
        blocks = -(-counts[-1] // LANES)
        if blocks <= TOP_BLOCKS:
            break
        counts.append(blocks)
    starts = np.concatenate([[0], np.cumsum([-(-count // LANES) for count in counts])])
    firsts = [starts[-1], *starts[: len(counts) - 1]]  # the leaves have the node numbers after those of all blocks
    children = [_children(count, int(first)) for count, first in zip(counts, firsts, strict=True)]
    top = np.array([starts[-2], starts[-1], len(counts), last_code(columns)], np.int32)
    return np.concatenate(children), top


def _children(count: int, first: int) -> I32:
    blocks = -(-count // LANES)
    lanes = np.clip(count - np.arange(blocks) * LANES, 0, LANES)
    return np.stack([first + np.arange(blocks) * LANES, (1 << lanes) - 1], axis=1).astype(np.int32)


def checked_index(name: str, arrays: dict[str, NDArray[Any]], corpus: Corpus) -> Any:
    """Return the search index whose arrays were read from a database file.

    Raise MmRosError if the arrays are not an index of the engine `name` for the data in `corpus`.
    """
    index_type: Any = TreeIndex if name == "tree" else BoxesIndex
    missing = [f for f in index_type._fields if f not in arrays]
    if missing:
        raise _damaged(f"it lacks {', '.join(missing)}")
    index = index_type(*(arrays[f] for f in index_type._fields))
    frames, columns = corpus.features.shape
    if name == "tree":
        _check_shapes(arrays, _tree_shapes(len(index.frames), columns))
        _check_tree(index, frames, columns)
    else:
        _check_shapes(arrays, _boxes_shapes(frames, columns))
    return index


def _check_tree(index: TreeIndex, frames: int, columns: int) -> None:
    if columns > MAX_COLUMNS:
        raise _damaged(f"a tree has at most {MAX_COLUMNS} columns, but the features have {columns}")
    children, top = tree_links(len(index.frames), columns)
    if not np.array_equal(index.children, children) or not np.array_equal(index.top, top) or top[2] > LEVELS:
        raise _damaged("its levels do not fit the number of its leaves")
    lowest, highest = int(index.frames.min()), int(index.frames.max())
    if lowest < NO_FRAME or highest >= frames:
        raise _damaged(f"it refers to frames {lowest} to {highest}; the database has 0 to {frames - 1}")
    for field in ("base", "per_unit", "unit", "closed_below", "closed_above"):
        if not np.isfinite(getattr(index, field)).all():
            raise _damaged(f"its {field} has numbers that are not finite")


def _tree_shapes(leaves: int, columns: int) -> Shapes:
    pairs = -(-columns // STEP) * (STEP // PAIR)
    blocks = len(tree_links(max(leaves, 1), columns)[0])
    padded = (-(-columns // WIDE) * WIDE,)
    return {
        "frames": (np.int32, (max(leaves, 1), LANES)),
        "row_codes": (np.uint16, (leaves, pairs, WORDS)),
        "row_tags": (np.uint64, (leaves * LANES,)),
        "box_codes": (np.uint16, (blocks, pairs, 2, WORDS)),
        "any_tags": (np.uint64, (blocks * LANES,)),
        "all_tags": (np.uint64, (blocks * LANES,)),
        "children": (np.int32, (blocks, 2)),
        "top": (np.int32, (4,)),
        "base": (np.float32, padded),
        "per_unit": (np.float32, padded),
        "unit": (np.float64, padded),
        "closed_below": (np.float32, padded),
        "closed_above": (np.float32, padded),
    }


def _boxes_shapes(frames: int, columns: int) -> Shapes:
    small, large = -(-frames // SMALL), -(-frames // LARGE)
    return {
        "small": (np.float32, (small, 2, columns)),
        "large": (np.float32, (large, 2, columns)),
        "small_any": (np.uint64, (small,)),
        "large_any": (np.uint64, (large,)),
        "small_all": (np.uint64, (small,)),
        "large_all": (np.uint64, (large,)),
    }


def _check_shapes(arrays: dict[str, NDArray[Any]], shapes: Shapes) -> None:
    for name, (dtype, shape) in shapes.items():
        array = arrays[name]
        if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
            raise _damaged(
                f"{name} must be contiguous {np.dtype(dtype).name} {shape}, came {array.dtype} {array.shape}"
            )


def _damaged(what: str) -> MmRosError:
    return MmRosError(f"the database's search index is damaged: {what}. Build the database again with mm_ros import")
