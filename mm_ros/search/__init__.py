"""Exact search for the frame whose features are nearest to a query; weights and masks may differ between queries.

The guide docs/search.md describes the search engines. All engines return the same frame and a bit-identical cost:

    engine = make_engine("tree", features_normalized, range_starts, range_stops, tags, ends_excluded_frames=60)
    frame, cost = engine.search(query_normalized, weights, bound=cost_of_continuing, mask=Mask(all_of=upright))

A search never returns the last `ends_excluded_frames` frames of a clip. If several frames have the lowest cost, the
search returns the frame with the lowest number. If no frame costs less than `bound`, the search returns frame -1.
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
    """Create a search engine for the normalized features (N, D) of a database; the arrays may be memory-mapped.

    `range_starts` and `range_stops` hold the first frame of each clip and the frame after its last frame. `arrays`
    holds a stored search index, as returned by `Engine.to_arrays`. The engine uses the stored index if it was made from
    the same data, and otherwise builds a new one. The index is optimized for `usual_weights`; other weights give exact
    results too, but more slowly.
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
    """Compile all functions that a search needs, or load their machine code from the cache."""
    features = np.linspace(0, 1, 64 * 3, dtype=np.float32).reshape(64, 3)
    for name in ENGINES:
        make_engine(name, features, [0], [64]).warm_up()
