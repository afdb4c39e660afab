"""Search benchmark: all searches answer the same recorded queries, in turns, in one thread on a fixed CPU core."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.body.types import F32
from mm_ros.evaluation.benchmarks.search_contenders import Contender, cycles_per_us, from_python, ours, peers
from mm_ros.evaluation.benchmarks.search_data import SIZES, Case, Progress, Stream, make_case, motion_features
from mm_ros.search import Engine
from mm_ros.search.interface import I64

GROWTH = (16_000, 32_000, 64_000, 125_000, 250_000, 500_000, 1_000_000)
_ROUND_S = 0.7  # Search methods that would need more than 0.7 s for all queries answer only some of them.
Say = Callable[[str], None]


def run_bench(
    sizes: Sequence[str], rounds: int, others: bool, growth: bool, stream: str, progress: Progress, say: Say
) -> dict[str, Any]:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pace = cycles_per_us()
    motion = motion_features(progress)
    result: dict[str, Any] = {}
    for size in sizes:
        say(f"{size}: {SIZES[size]} rows")
        case = make_case(SIZES[size], motion)
        result[size] = measure(case, stream, rounds, others, pace, say)
        result[size]["_data"] = {
            "rows": len(case.features), "made_of": case.made_of, "queries": len(case.streams[stream].queries),
            "stream": stream, "features_mb": case.features.nbytes / 1e6,
        }  # fmt: skip
    if growth:
        result["growth"] = measure_growth(motion, stream, rounds, pace, say)
    result |= {
        "cpu": cpu_name(),
        "versions": versions(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "load_1_min": os.getloadavg()[0],
    }
    return result


def measure(case: Case, stream_name: str, rounds: int, others: bool, pace: float, say: Say) -> dict[str, Any]:
    stream = case.streams[stream_name]
    tree, engine = ours(case, "tree", "ours", pace)
    contenders = [tree, ours(case, "boxes", "aabb_16_64", pace)[0], ours(case, "brute", "brute", pace)[0]]
    contenders.append(from_python(case, engine, tree.build_ms))
    if others:
        contenders += peers(case, say)
    times: dict[str, list[F32]] = {c.name: [] for c in contenders}
    frames: dict[str, I64] = {}
    asked = {c.name: _which(c, stream) for c in contenders}
    for turn in range(rounds + 1):  # Round 0 of the search benchmark is a warm-up and is not counted.
        for contender in contenders:
            took, found = contender.run(stream, asked[contender.name])
            frames[contender.name] = found
            if turn:
                times[contender.name].append(took)
    return {c.name: _figures(c, times[c.name], frames[c.name], asked[c.name], engine, case, stream) for c in contenders}


def _which(contender: Contender, stream: Stream) -> I64:
    """Return the indices of the queries that a search method answers: all queries, or evenly spaced ones if all of them
    would take longer than _ROUND_S seconds."""
    count = len(stream.queries)
    probe = np.linspace(0, count - 1, 12).astype(np.int64)
    contender.run(stream, probe)
    each_us = float(np.median(contender.run(stream, probe)[0]))
    step = max(1, int(np.ceil(count * each_us / (_ROUND_S * 1e6))))
    return np.arange(0, count, step)


def _figures(
    contender: Contender, times: list[F32], frames: I64, asked: I64, engine: Engine, case: Case, stream: Stream
) -> dict[str, float]:
    """Compute the times and errors of one search method in the benchmark. The time of a query is its median over all
    rounds, so that other load on the machine does not affect the 99th percentile over the queries."""
    typical = np.median(times, axis=0)
    exact = engine.search_batch(stream.queries[asked], case.weights)[1].astype(np.float64)
    best = np.minimum(exact, stream.bounds[asked])
    queries, rows = stream.queries[asked].astype(np.float64), case.features[np.maximum(frames, 0)].astype(np.float64)
    cost = (case.weights * (queries - rows) ** 2).sum(axis=1)
    cost = np.minimum(
        np.where(frames < 0, np.inf, cost), stream.bounds[asked]
    )  # if a search finds no better frame, the cost of continuing the current clip counts
    right = cost <= best * (1 + 1e-5) + 1e-9
    return {
        "median_us": round(float(np.median(typical)), 3),
        "p99_us": round(float(np.percentile(typical, 99)), 3),
        "recall": round(float(right.mean()), 4),
        "regret": round(float(np.where(right, 0, cost / np.maximum(best, 1e-9) - 1).mean()), 5),
        "memory_mb": round(contender.memory_mb, 2),
        "build_ms": round(contender.build_ms, 1),
    }


def measure_growth(motion: dict[str, F32], stream: str, rounds: int, pace: float, say: Say) -> dict[str, Any]:
    rows, median = [], {"ours": [], "aabb_16_64": []}  # type: ignore[var-annotated]
    for count in GROWTH:
        case = make_case(count, motion)
        say(f"growth: {case.made_of}")
        figures = measure_ours(case, stream, rounds, pace)
        rows.append(len(case.features))
        for name, so_far in median.items():
            so_far.append(figures[name])
    exponent = {name: round(float(np.polyfit(np.log(rows), np.log(m), 1)[0]), 3) for name, m in median.items()}
    return {"rows": rows, "median_us": median, "exponent": exponent}


def measure_ours(case: Case, stream_name: str, rounds: int, pace: float) -> dict[str, float]:
    stream = case.streams[stream_name]
    pair = {name: ours(case, engine, name, pace)[0] for name, engine in (("ours", "tree"), ("aabb_16_64", "boxes"))}
    asked = {name: _which(c, stream) for name, c in pair.items()}
    times: dict[str, list[F32]] = {name: [] for name in pair}
    for _ in range(rounds):
        for name, contender in pair.items():
            times[name].append(contender.run(stream, asked[name])[0])
    return {name: round(float(np.median(np.median(t, axis=0))), 3) for name, t in times.items()}


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    out = {"python": platform.python_version()}
    for name in ("numpy", "numba", "llvmlite", "scipy", "faiss-cpu", "hnswlib", "annoy"):
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return out


def plot(result: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = [s for s in SIZES if s in result]
    figure, axes = plt.subplots(
        1, len(sizes) + ("growth" in result), figsize=(5 * (len(sizes) + 1), 4.2), squeeze=False
    )
    for axis, size in zip(axes[0], sizes, strict=False):
        rows = {n: f for n, f in result[size].items() if not n.startswith("_")}
        for name, figures in rows.items():
            axis.plot(figures["median_us"], figures["recall"], "o" if name.startswith("ours") else "s", label=name)
            axis.annotate(name, (figures["median_us"], figures["recall"]), fontsize=7, rotation=25)
        axis.set(
            xscale="log", xlabel="median, µs", ylabel="recall", title=f"{size}: {result[size]['_data']['rows']:,} rows"
        )
        axis.margins(x=0.15, y=0.2)
        axis.grid(alpha=0.3)
    if "growth" in result:
        growth = result["growth"]
        for name, median in growth["median_us"].items():
            label = f"{name}, exponent {growth['exponent'][name]}"
            axes[0][-1].plot(growth["rows"], median, "o-", label=label)
        axes[0][-1].set(xscale="log", yscale="log", xlabel="rows", ylabel="median, µs", title="growth")
        axes[0][-1].legend()
        axes[0][-1].grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
