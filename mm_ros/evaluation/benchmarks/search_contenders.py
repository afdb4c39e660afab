"""The search methods that the search benchmark compares: those of mm_ros, and those of installed libraries."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mm_ros.base.extras import setup_command
from mm_ros.body.types import F32
from mm_ros.evaluation.benchmarks.search_data import Case, Stream
from mm_ros.maths.jit import njit
from mm_ros.search import Engine
from mm_ros.search.engine import search_at
from mm_ros.search.interface import I64
from mm_ros.search.tree.simd import LEAN

# A `Run` is a function of a search method: it answers some queries and returns the time [µs] and the found frame of
# each query.
Run = Callable[[Stream, I64], tuple[F32, I64]]


@dataclass
class Contender:
    name: str
    run: Run
    memory_mb: float
    build_ms: float


@intrinsic
def _cycles(typing: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(ir.IntType(64), []))
        return builder.call(counter, [])

    return types.int64(), codegen


@njit(**LEAN)
def _replay(
    address: Any, queries: Any, weights: Any, bounds: Any, currents: Any, which: Any, cycles: Any, frames: Any
) -> None:
    for i in range(which.shape[0]):
        k = which[i]
        start = _cycles()
        frame, _ = search_at(address, queries[k], weights, np.float64(bounds[k]), currents[k], 0, 0, 0, 0)
        cycles[i] = _cycles() - start
        frames[i] = frame


def cycles_per_us() -> float:
    """Return how many cycles per microsecond the cycle counter counts; its rate does not depend on the CPU clock."""

    @njit(**LEAN)
    def now() -> Any:
        return _cycles()

    now()
    start, c = time.perf_counter_ns(), now()
    while time.perf_counter_ns() - start < 50_000_000:
        pass
    stop, d = time.perf_counter_ns(), now()
    return float(d - c) / (stop - start) * 1000


def ours(case: Case, engine_name: str, name: str, pace: float) -> tuple[Contender, Engine]:
    case.engine(engine_name).warm_up()
    start = time.perf_counter()
    engine = case.engine(engine_name)
    build_ms = (time.perf_counter() - start) * 1e3

    def run(stream: Stream, which: I64) -> tuple[F32, I64]:
        cycles, frames = np.empty(len(which), np.int64), np.empty(len(which), np.int64)
        _replay(engine._address, stream.queries, case.weights, stream.bounds, stream.currents, which, cycles, frames)
        return (cycles / pace).astype(np.float32), frames

    return Contender(name, run, engine.memory_bytes / 1e6, build_ms), engine


def from_python(case: Case, engine: Engine, build_ms: float) -> Contender:
    def ask(query: F32, bound: float) -> int:
        return engine.search(query, case.weights, bound=bound)[0]

    return Contender("ours_python", _timed(ask), engine.memory_bytes / 1e6, build_ms)


def _timed(ask: Callable[[F32, float], int]) -> Run:
    def run(stream: Stream, which: I64) -> tuple[F32, I64]:
        times, frames = np.empty(len(which), np.float32), np.empty(len(which), np.int64)
        clock = time.perf_counter_ns
        for i, k in enumerate(which):
            query, bound = stream.queries[k], float(stream.bounds[k])
            start = clock()
            frames[i] = ask(query, bound)
            times[i] = (clock() - start) / 1e3
        return times, frames

    return run


def peers(case: Case, say: Callable[[str], None]) -> list[Contender]:
    """Return the nearest-neighbour searches of all installed libraries, for comparison. The feature columns are scaled
    by their weights, because most libraries compute only Euclidean distances."""
    stops = np.maximum(case.stops - 60, case.starts)
    frames = np.concatenate([np.arange(a, b) for a, b in zip(case.starts, stops, strict=True)])
    scale = np.sqrt(case.weights)
    rows = np.ascontiguousarray(case.features[frames] * scale)
    out = []
    for make in (_numpy, _scipy, _faiss, _hnswlib, _annoy):
        try:
            out += make(rows, frames, scale)
        except ImportError as error:
            say(f"{error.name} is not installed: {setup_command('bench')}")
    return out


def _built(make: Callable[[], Any], rows: F32) -> tuple[Any, float, float]:
    """Return a library's search index, built by `make`, its build time [ms] and its memory [MB]. The memory of a search
    index is the growth of the process during the build, or the size of the features `rows` if this is larger."""
    before, start = _resident_mb(), time.perf_counter()
    made = make()
    return made, (time.perf_counter() - start) * 1e3, max(_resident_mb() - before, rows.nbytes / 1e6)


def _resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096 / 1e6


def _numpy(rows: F32, frames: I64, scale: F32) -> list[Contender]:
    squares, build_ms, _ = _built(lambda: (rows * rows).sum(axis=1), rows)

    def ask(query: F32, bound: float) -> int:
        return int(frames[int(np.argmin(squares - 2 * (rows @ (query * scale))))])

    return [Contender("numpy", _timed(ask), (rows.nbytes + squares.nbytes) / 1e6, build_ms)]


def _scipy(rows: F32, frames: I64, scale: F32) -> list[Contender]:
    spatial = importlib.import_module("scipy.spatial")
    tree, build_ms, memory = _built(lambda: spatial.cKDTree(rows), rows)

    def ask(query: F32, bound: float) -> int:
        at = tree.query(query * scale, distance_upper_bound=np.sqrt(bound))[1]
        return int(frames[at]) if at < len(frames) else -1

    return [Contender("scipy_ckdtree", _timed(ask), memory, build_ms)]


def _faiss(rows: F32, frames: I64, scale: F32) -> list[Contender]:
    faiss = importlib.import_module("faiss")
    faiss.omp_set_num_threads(1)
    out = []
    flat, build_ms, memory = _built(lambda: _filled(faiss.IndexFlatL2(rows.shape[1]), rows), rows)
    hnsw, hnsw_ms, hnsw_memory = _built(lambda: _filled(faiss.IndexHNSWFlat(rows.shape[1], 32), rows), rows)
    choices = (("faiss_flat", flat, build_ms, memory, 0), ("faiss_hnsw_ef16", hnsw, hnsw_ms, hnsw_memory, 16))
    for name, index, ms, mb, ef in choices:
        if ef:
            index.hnsw.efSearch = ef

        def ask(query: F32, bound: float, index: Any = index) -> int:
            return int(frames[index.search((query * scale)[None], 1)[1][0, 0]])

        out.append(Contender(name, _timed(ask), mb, ms))
    return out


def _filled(index: Any, rows: F32) -> Any:
    index.add(rows)
    return index


def _hnswlib(rows: F32, frames: I64, scale: F32) -> list[Contender]:
    hnswlib = importlib.import_module("hnswlib")

    def make() -> Any:
        index = hnswlib.Index(space="l2", dim=rows.shape[1])
        index.init_index(max_elements=len(rows), ef_construction=100, M=16, random_seed=1)
        index.set_num_threads(1)
        index.add_items(rows)
        return index

    index, build_ms, memory = _built(make, rows)
    out = []
    for ef in (16, 64):

        def run(stream: Stream, which: I64, ef: int = ef) -> tuple[F32, I64]:
            index.set_ef(ef)
            return _timed(lambda query, bound: int(frames[index.knn_query(query * scale, k=1)[0][0, 0]]))(stream, which)

        out.append(Contender(f"hnswlib_ef{ef}", run, memory, build_ms))
    return out


def _annoy(rows: F32, frames: I64, scale: F32) -> list[Contender]:
    annoy = importlib.import_module("annoy")
    out = []
    for trees in (10, 50):

        def make(trees: int = trees) -> Any:
            index = annoy.AnnoyIndex(rows.shape[1], "euclidean")
            index.set_seed(1)
            for i, row in enumerate(rows):
                index.add_item(i, row)
            index.build(trees, n_jobs=1)
            return index

        index, build_ms, memory = _built(make, rows)

        def ask(query: F32, bound: float, index: Any = index) -> int:
            return int(frames[index.get_nns_by_vector(query * scale, 1)[0]])

        out.append(Contender(f"annoy_{trees}", _timed(ask), memory, build_ms))
    return out
