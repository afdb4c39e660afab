"""Measures memory, lost samples and latency of several avatars over many minutes of real time."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.own_python import module_command
from mm_ros.ros.bench.graph import (
    GRACE_S,
    SETTLE_S,
    Listener,
    Say,
    family,
    graph_commands,
    measuring,
    names_of,
    running,
    wait_for_all,
)
from mm_ros.ros.bench.hour import anonymous_mb

PARTS = 6
CHUNK_S = 10.0  # time between two counts of the received messages [s]


def run_minutes(minutes: float, avatars: int, rate: int, say: Say) -> dict[str, Any]:
    """Run `avatars` synthetic users for `minutes` minutes, and measure latency and memory in PARTS equal parts."""
    subprocess.run(module_command("mm_ros", "warm", "--quiet"), check=True)
    with measuring(), tempfile.TemporaryDirectory(prefix="mm_ros_minutes") as name:
        listener = Listener(names_of(avatars))
        try:
            with running(graph_commands("composed", avatars, rate, Path(name)), Path(name)) as started:
                wait_for_all(listener, avatars, started.check)
                listener.spin(SETTLE_S)
                listener.came.clear()
                return _watch(listener, started.pids[0], minutes * 60 / PARTS, avatars * rate, started.check, say)
        finally:
            listener.close()


def _watch(listener: Listener, pid: int, part_s: float, per_second: int, check: Any, say: Say) -> dict[str, Any]:
    count = _Count()
    parts: list[dict[str, float]] = []
    memory = [anonymous_mb(family(pid))]
    for i in range(PARTS):
        until = time.monotonic() + part_s
        while (left := until - time.monotonic()) > 0:
            listener.spin(min(left, CHUNK_S))
            check()
            count.add(listener)
        memory.append(anonymous_mb(family(pid)))
        late, lost = count.taken()
        due = round(per_second * (part_s - (0.0 if i else GRACE_S)))
        p50, p99 = (float(v) for v in np.percentile(late if len(late) else [np.nan], [50, 99]))
        parts.append({"p50": round(p50, 3), "p99": round(p99, 3), "lost": lost, "poses": len(late)})
        say(
            f"{(i + 1) * part_s / 60:5.1f} min   p50 {p50:.2f} ms   p99 {p99:.2f} ms   lost {lost} of "
            f"{lost + len(late)}, {max(0, due - lost - len(late))} not made   "
            f"memory {memory[-1]:.1f} MB"
        )
    lost_in_all = sum(int(p["lost"]) for p in parts)
    say(
        f"memory {memory[0]:.1f} MB at the start, {memory[-1]:.1f} MB at the end ({memory[-1] - memory[0]:+.1f}); "
        f"lost {lost_in_all}; p50 {parts[0]['p50']:.2f} ms in the first part, {parts[-1]['p50']:.2f} ms in the last"
    )
    return {"memory_mb": [round(m, 2) for m in memory], "lost": lost_in_all, "parts": parts}


class _Count:
    """Counts lost tracker samples and collects the latencies of poses from one call of `taken` to the next."""

    def __init__(self) -> None:
        self._sent: dict[str, set[int]] = defaultdict(set)
        self._arrived: dict[str, dict[int, int]] = defaultdict(dict)
        self._late_ms: list[float] = []
        self._lost = 0
        self._from_ns = time.time_ns()

    def add(self, listener: Listener) -> None:
        """Take all messages from `listener`, and count the tracker samples that are older than GRACE_S seconds."""
        sent, arrived = listener.stamps()
        listener.came.clear()
        old_ns = time.time_ns() - round(GRACE_S * 1e9)
        for avatar in sent.keys() | arrived.keys():
            mine, poses = self._sent[avatar], self._arrived[avatar]
            mine |= sent.get(avatar, set())
            poses |= arrived.get(avatar, {})
            for stamp in [s for s in mine if s < old_ns]:
                mine.discard(stamp)
                at = poses.pop(stamp, None)
                if at is not None:
                    self._late_ms.append((at - stamp) * 1e-6)
                elif stamp >= self._from_ns:  # samples sent before the count began do not count as lost
                    self._lost += 1
            for stamp in [s for s in poses if s < old_ns]:
                del poses[stamp]  # forget poses whose tracker sample arrived before the count began

    def taken(self) -> tuple[list[float], int]:
        late, lost = self._late_ms, self._lost
        self._late_ms, self._lost = [], 0
        return late, lost
