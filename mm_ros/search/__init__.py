"""Exact search for the frame whose features are nearest to a query, with weights and masks per query.

See docs/search.md.

    engine = make_engine("tree", features_normalized, range_starts, range_stops, tags, ends_excluded_frames=60)
    frame, cost = engine.search(query_normalized, weights, bound=cost_of_continuing, mask=Mask(all_of=upright))

All engines return the same frame and the same cost, bit for bit. Frames too near the end of their clip are never
returned. Of frames with equal cost, the frame with the lower number is returned. If no cost is below the bound, the
frame is -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F32
from mm_ros.search.boxes import build_boxes
from mm_ros.search.check import checked_index
from mm_ros.search.engine import SEAL, Engine, seal
from mm_ros.search.interface import ANY_FRAME, NONE, U64, Mask, make_corpus
from mm_ros.search.tree.build import build_tree

__all__ = ["ANY_FRAME", "DEFAULT", "ENGINES", "NONE", "Engine", "Mask", "make_engine", "warm_up"]

ENGINES = ("tree", "boxes", "brute")
DEFAULT = "tree"
_BUILD: dict[str, Any] = {
    "tree": build_tree,
    "boxes": lambda corpus, usual_weights: build_boxes(corpus),
    "brute": lambda corpus, usual_weights: None,
}


def make_engine(
    name: str,
    features_normalized: F32,
    range_starts: Any,
    range_stops: Any,
    tags: U64 | None = None,
    ends_excluded_frames: int = 0,
    *,
    arrays: dict[str, Any] | None = None,
    usual_weights: F32 | None = None,
) -> Engine:
    """Create an engine over normalized features (N, D), which may be memory-mapped; clips are [start, stop).

    `arrays`: a stored index from `to_arrays`. An index that was made from the same data is used in place, also when
    memory-mapped (see `from_store`); otherwise a new index is built. `usual_weights`: the weights for which the index
    is optimized; searches with other weights are exact too, but may be slower.
    """
    if name not in ENGINES:
        raise MmRosError(f"search engine '{name}' does not exist. Engines: {', '.join(ENGINES)}")
    if tags is None:
        tags = np.zeros(len(features_normalized), np.uint64)
    corpus = make_corpus(features_normalized, range_starts, range_stops, tags, ends_excluded_frames)
    if usual_weights is not None and np.shape(usual_weights) != (features_normalized.shape[1],):
        raise MmRosError(f"usual_weights must have one number per column, came shape {np.shape(usual_weights)}")
    if arrays and name != "brute" and np.array_equal(arrays.get(SEAL, ()), seal(name, corpus)):
        return Engine(name, corpus, checked_index(name, arrays, corpus), arrays[SEAL])
    return Engine(name, corpus, _BUILD[name](corpus, usual_weights))


def warm_up() -> None:
    """Compile, or load from the cache, all functions that a search needs."""
    features = np.linspace(0, 1, 64 * 3, dtype=np.float32).reshape(64, 3)
    for name in ENGINES:
        make_engine(name, features, [0], [64]).warm_up()
