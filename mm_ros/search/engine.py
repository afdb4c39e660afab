"""The class `Engine`, which checks the arguments of a search and calls the compiled code of a search engine.

The compiled code gets all arrays through one table of their addresses and sizes, because numba would take longer to
pass a dozen arrays than to search them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F32
from mm_ros.maths.jit import njit
from mm_ros.search import interface as base
from mm_ros.search.boxes import boxes_at, boxes_table, search_boxes
from mm_ros.search.brute import search_brute
from mm_ros.search.interface import ANY_FRAME, U64, Corpus, Mask
from mm_ros.search.tree.simd import COMPILED, LEAN, array_at
from mm_ros.search.tree.tree import search_tree, tree_at, tree_table

BRUTE, BOXES, TREE = 0, 1, 2
KINDS = {"brute": BRUTE, "boxes": BOXES, "tree": TREE}
TABLE_SIZE, INDEX_AT = 64, 16
FORMAT = 2  # version of the format of stored search indices; an index in another version is not used
SEAL = "made_of"
MASKS = 256  # maximum number of masks for which an engine caches whether any frame matches
_SEARCH_SIGNATURE = "(int64, float32[::1], float32[::1], float64, int64, int64, int64, int64, int64)"
_BATCH_SIGNATURE = (
    "(int64, float32[:,::1], float32[:,::1], float32[::1], int64[::1], int64, int64, int64, int64, "
    "int64[::1], float32[::1])"
)


@njit(inline="always", **LEAN)
def _corpus_at(table: Any) -> Any:
    frames, columns, clips = table[1], table[2], table[3]
    return Corpus(
        array_at(table[4], (frames, columns), np.float32),
        array_at(table[5], (clips,), np.int64),
        array_at(table[6], (clips,), np.int64),
        array_at(table[7], (clips,), np.int64),
        array_at(table[8], (frames,), np.uint64),
    )


@njit(**LEAN)
def search_at(
    address: Any, query: Any, weights: Any, bound: Any, current: Any, radius: Any,
    all_of: Any, any_of: Any, none_of: Any
) -> Any:
    table = array_at(address, (TABLE_SIZE,), np.int64)
    corpus = _corpus_at(table)
    index = table[INDEX_AT:]
    if table[0] == TREE:
        tree = tree_at(index, corpus.features.shape[1])
        return search_tree(corpus, tree, query, weights, bound, current, radius, all_of, any_of, none_of)
    if table[0] == BOXES:
        boxes = boxes_at(index, corpus.features.shape[1])
        return search_boxes(corpus, boxes, query, weights, bound, current, radius, all_of, any_of, none_of)
    return search_brute(corpus, query, weights, bound, current, radius, all_of, any_of, none_of)


@njit(nogil=True, **LEAN)
def batch_at(
    address: Any, queries: Any, weights: Any, bounds: Any, currents: Any, radius: Any,
    all_of: Any, any_of: Any, none_of: Any,
    frames: Any, costs: Any,
) -> Any:  # fmt: skip
    """Search for each row of `queries`; return the number of the first invalid query, or -1 if all are valid."""
    for i in range(queries.shape[0]):
        w = weights[i if weights.shape[0] > 1 else 0]
        frames[i], costs[i] = search_at(
            address, queries[i], w, np.float64(bounds[i]), currents[i], radius, all_of, any_of, none_of
        )
        if frames[i] < base.NONE:
            return i
    return -1


_ENTRIES = {search_at: _SEARCH_SIGNATURE, batch_at: _BATCH_SIGNATURE}


def _compile_once() -> None:
    """Compile functions for one signature, so that other types raise TypeError without a slow compilation."""
    for function, signature in _ENTRIES.items():
        if COMPILED and not function.signatures:  # type: ignore[attr-defined]
            function.compile(signature)  # type: ignore[attr-defined]
            function.disable_compile()  # type: ignore[attr-defined]


def seal(name: str, corpus: Corpus) -> U64:
    """Return checksums of engine, index format and data; a stored index with other checksums is not used."""
    head = f"{name} {FORMAT} {corpus.features.shape} {corpus.starts.tolist()} {corpus.searchable_stops.tolist()}"
    return np.array([crc32(head.encode()), crc32(corpus.features.data), crc32(corpus.tags.data)], np.uint64)


class Engine:
    """Search engine for the frames of one database. Threads can share an engine, because no search changes it."""

    def __init__(self, name: str, corpus: Corpus, index: Any, stored_seal: U64 | None = None) -> None:
        self.name = name
        self._seal = stored_seal
        self.corpus = corpus
        self.index = index
        self._masks: dict[tuple[int, int, int], bool] = {}  # maps the bits of a mask to whether any frame matches
        self._table = np.zeros(TABLE_SIZE, np.int64)
        tables: dict[str, Callable[[Any], list[int]]] = {"tree": tree_table, "boxes": boxes_table}
        index_table = tables[name](index) if name in tables else []
        head = [KINDS[name], *corpus.features.shape, len(corpus.starts), *(a.ctypes.data for a in corpus)]
        self._table[: len(head)] = head
        self._table[INDEX_AT : INDEX_AT + len(index_table)] = index_table
        self._address = int(self._table.ctypes.data)
        _compile_once()

    @property
    def from_store(self) -> bool:
        """Whether the engine uses the search index from a database file, instead of an index that it has built."""
        return self._seal is not None

    @property
    def columns(self) -> int:
        return int(self.corpus.features.shape[1])

    def search(
        self,
        query_normalized: F32,
        weights: F32,
        *,
        bound: float = np.inf,
        current: int = -1,
        exclude_radius: int = 0,
        mask: Mask | None = None,
    ) -> tuple[int, float]:
        """Return the best frame and its cost, or (-1, bound) if no frame that matches `mask` costs less than `bound`.

        The search skips frames of the current clip that are less than `exclude_radius` frames from frame `current`.
        """
        bits = ANY_FRAME.signed if mask is None else mask.signed
        try:
            frame, cost = search_at(self._address, query_normalized, weights, bound, current, exclude_radius, *bits)
        except TypeError:
            query_normalized, weights = _floats("query", query_normalized), _floats("weights", weights)
            bound, current, exclude_radius = float(bound), int(current), int(exclude_radius)
            frame, cost = search_at(self._address, query_normalized, weights, bound, current, exclude_radius, *bits)
        if frame < 0:
            self._explain(frame, query_normalized, weights, mask)
        return frame, cost

    def search_batch(
        self,
        queries_normalized: F32,
        weights: F32,
        *,
        bounds: F32 | None = None,
        currents: Any = None,
        exclude_radius: int = 0,
        mask: Mask | None = None,
        threads: int = 1,
    ) -> tuple[NDArray[np.int64], F32]:
        """Search for many queries (Q, D) with weights (D,) or (Q, D); return the best frames (Q,) and costs (Q,)."""
        queries = np.ascontiguousarray(queries_normalized, np.float32)
        rows = np.ascontiguousarray(np.atleast_2d(weights), np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.columns:
            raise MmRosError(f"queries must have the shape (Q, {self.columns}), came {queries.shape}")
        if rows.shape[1] != self.columns or len(rows) not in (1, len(queries)):
            shapes = f"({self.columns},) or {queries.shape}"
            raise MmRosError(f"weights must have the shape {shapes}, came {np.shape(weights)}")
        count = len(queries)
        limits = np.full(count, np.inf, np.float32) if bounds is None else np.ascontiguousarray(bounds, np.float32)
        playing = np.full(count, -1, np.int64) if currents is None else np.ascontiguousarray(currents, np.int64)
        if limits.shape != (count,) or playing.shape != (count,):
            came = f"{limits.shape}, {playing.shape}"
            raise MmRosError(f"bounds and currents must have one entry per query ({count}), came {came}")
        frames, costs = np.empty(count, np.int64), np.empty(count, np.float32)
        bits = (mask or ANY_FRAME).signed

        def part(start: int, stop: int) -> None:
            s = slice(start, stop)
            w = rows if len(rows) == 1 else rows[s]
            bad = batch_at(
                self._address, queries[s], w, limits[s], playing[s], exclude_radius, *bits, frames[s], costs[s]
            )
            if bad >= 0:
                self._explain(int(frames[s][bad]), queries[s][bad], w[min(bad, len(w) - 1)], None)

        edges = np.linspace(0, count, max(1, min(threads, count)) + 1).astype(int)
        if len(edges) == 2:
            part(0, count)
        else:
            with ThreadPoolExecutor(len(edges) - 1) as pool:
                list(pool.map(part, edges[:-1], edges[1:]))
        return frames, costs

    def k_best(
        self, query_normalized: F32, weights: F32, k: int, *, mask: Mask | None = None, apart_frames: int = 1
    ) -> tuple[NDArray[np.int64], F32, F32]:
        """Return the `k` frames with the lowest costs, their costs (k,), and the part of each cost by column (k, D).

        Any two returned frames are at least `apart_frames` apart. Use `k_best` to analyse matches; for real-time
        matching it is too slow, because it computes the cost of every frame.
        """
        query, w = _floats("query", query_normalized), _floats("weights", weights)
        self.search(query, w, mask=mask)  # its result is ignored: `search` is called to check query, weights and mask
        wanted = np.zeros(len(self.corpus.features), np.bool_)
        for start, stop in zip(self.corpus.starts, self.corpus.searchable_stops, strict=True):
            wanted[start:stop] = True
        wanted &= (mask or ANY_FRAME).matches(self.corpus.tags)
        frames = np.flatnonzero(wanted)
        difference = query - self.corpus.features[frames]
        terms = (w * difference) * difference
        costs = np.zeros(len(frames), np.float32)
        for c in range(self.columns):
            costs += terms[:, c]
        chosen: list[int] = []
        for i in np.argsort(costs, kind="stable"):
            if len(chosen) == k:
                break
            if all(abs(frames[i] - frames[j]) >= apart_frames for j in chosen):
                chosen.append(int(i))
        return frames[chosen], costs[chosen], terms[chosen]

    def cost(self, query_normalized: F32, weights: F32, frame: int) -> float:
        """Return the cost of one frame, bit-identical to the cost in a search."""
        if not 0 <= frame < len(self.corpus.features):
            raise MmRosError(f"frame {frame} is not in the database (0 … {len(self.corpus.features) - 1})")
        query, w = _floats("query", query_normalized), _floats("weights", weights)
        if query.shape != (self.columns,) or w.shape != query.shape:
            self._explain(base.BAD_LENGTH, query, w, None)
        return float(base.frame_cost(self.corpus.features, query, w, frame))

    def warm_up(self) -> None:
        """Run every compiled function once, so that later searches do not compile or load code."""
        query, weights = self.corpus.features[0].copy(), np.ones(self.columns, np.float32)
        self.search(query, weights)
        self.search_batch(query[None], weights)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the search index by name, to store them in a file for `make_engine`."""
        if not self.index:
            return {}
        return {**self.index._asdict(), SEAL: seal(self.name, self.corpus) if self._seal is None else self._seal}

    @property
    def memory_bytes(self) -> int:
        """Size of the search index in bytes, without the features."""
        return sum(a.nbytes for a in self.index or ())

    def _explain(self, code: int, query: Any, weights: Any, mask: Mask | None) -> None:
        query, weights = np.asarray(query), np.asarray(weights)
        if code == base.BAD_LENGTH:
            came = f"{query.shape} and {weights.shape}"
            raise MmRosError(f"query and weights must have {self.columns} numbers, came {came}")
        if code == base.BAD_QUERY:
            column = int(np.flatnonzero(~np.isfinite(query))[0])
            raise MmRosError(f"query must be finite: column {column} is {query[column]}")
        if code == base.BAD_WEIGHT:
            column = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
            raise MmRosError(f"weights must be 0 or more and finite: column {column} is {weights[column]}")
        if code == base.BAD_BOUND:
            raise MmRosError("bound must be a number, came nan")
        if code == base.BAD_CURRENT:
            last = len(self.corpus.features) - 1
            raise MmRosError(f"current frame is not in the database (-1 for none, or 0 … {last})")
        if mask is not None and not self._exists(mask):
            raise MmRosError(
                f"mask is empty: no frame has all of {mask.all_of:#x}, one of {mask.any_of:#x} "
                f"and none of {mask.none_of:#x}; "
                f"existing tags: {int(np.bitwise_or.reduce(self.corpus.tags)):#x}"
            )


    def _exists(self, mask: Mask) -> bool:
        """Return whether any frame matches the mask; results are cached, because the test takes as long as a search."""
        known = self._masks.get(mask.signed)
        if known is None:
            if len(self._masks) >= MASKS:
                self._masks.clear()
            known = self._masks[mask.signed] = bool(mask.matches(self.corpus.tags).any())
        return known


def _floats(name: str, values: Any) -> F32:
    try:
        out = np.ascontiguousarray(values, np.float32)
    except (TypeError, ValueError):
        raise MmRosError(f"{name} must be numbers, came {values!r}") from None
    if not out.flags.writeable:  # compiled functions accept only writable arrays, so a read-only array is copied
        out = out.copy()
    if np.ndim(values) != 1:
        raise MmRosError(f"{name} must be one row of numbers, came shape {np.shape(values)}")
    return out
