"""Measures how memory and latency of the graph grow over an hour of simulated time, faster than real time."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from numpy.typing import NDArray
from rclpy.executors import SingleThreadedExecutor

from mm_ros.base.own_python import module_command
from mm_ros.ros import graph
from mm_ros.ros.bench.graph import Say, family, measuring, running
from mm_ros.ros.qos import message_class, publisher_qos
from mm_ros.ros.reach import settle_reach

SESSION_S = 120  # duration [s] of the recorded session that the benchmark plays in a loop
PARTS = 12  # number of equal parts of the run; memory and latency are measured once per part
# The first WARM_PARTS measurements of the memory are ignored, because buffers and logs are still filling.
WARM_PARTS = 2
START_S = 120.0


def run_hour(hours: float, rate: float, say: Say) -> dict[str, Any]:
    settle_reach("LOCALHOST")
    mm_ros = module_command("mm_ros")
    with tempfile.TemporaryDirectory(prefix="mm_ros_hour") as name:
        folder = Path(name)
        session = [*mm_ros, "synth", "session", "--seconds", str(SESSION_S), "-o", str(folder / "session")]
        subprocess.run([*mm_ros, "warm", "--quiet"], check=True)
        subprocess.run(session, check=True, stdout=subprocess.DEVNULL)
        up = [*mm_ros, "up", "--avatar", "hour", "--trackers", "none", "--use-sim-time"]
        replay = [*mm_ros, "replay", str(folder / "session"), "--clock", "--loop", "--speed", f"{rate:g}"]
        with measuring(), running([up, [*replay, "--avatar", "hour", "--wait-for", "3"]], folder) as started:
            return _watch(started.pids[0], hours * 3600 / rate / PARTS, rate, started.check, say)


class Ears:
    """Stores the arrival times of tracker samples and poses, because stamps in simulated time give no latency."""

    def __init__(self, avatar: str) -> None:
        self.node = rclpy.create_node("graph_hour", namespace=avatar)
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.late_ns: list[int] = []
        self._sent: dict[bytes, int] = {}
        self._listen("trackers", 4, self._sent.__setitem__)
        self._listen("/tf", 8, self._pose)

    def _listen(self, topic: str, at: int, callback: Callable[[bytes, int], None]) -> None:
        t = graph.TOPICS[topic]
        kind, qos = message_class(t.type), publisher_qos(t.qos)

        def came(raw: bytes) -> None:
            callback(raw[at : at + 8], time.monotonic_ns())

        self.node.create_subscription(kind, t.name, came, qos, raw=True)

    def _pose(self, stamp: bytes, at: int) -> None:
        if stamp in self._sent:
            self.late_ns.append(at - self._sent.pop(stamp))

    def spin(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.executor.spin_once(left)

    def take(self) -> tuple[int, NDArray[np.float64]]:
        """Return the number of tracker samples without a pose and the latencies [ms] of the poses since the last call.
        """
        missing, late = len(self._sent), np.array(self.late_ns, np.float64) * 1e-6
        self._sent.clear()
        self.late_ns.clear()
        return missing, late


def _watch(up: int, part_s: float, rate: float, check: Callable[[], None], say: Say) -> dict[str, Any]:
    arrivals = Ears("hour")
    until = time.monotonic() + START_S
    while not arrivals.late_ns and time.monotonic() < until:
        check()
        arrivals.spin(1.0)
    arrivals.take()
    parts: list[dict[str, float]] = []
    for i in range(PARTS):
        arrivals.spin(part_s)
        check()
        missing, late = arrivals.take()
        p50, p99 = (float(v) for v in np.percentile(late if len(late) else [np.nan], [50, 99]))
        now = {"poses": float(len(late)), "missing": float(missing), "memory_mb": anonymous_mb(family(up))}
        parts.append({**now, "p50_ms": p50, "p99_ms": p99})
        figures = "   ".join(f"{k} {v:.2f}" for k, v in parts[-1].items())
        say(f"{(i + 1) * part_s * rate / 60:5.1f} min played   {figures}")
    return _summary({k: [round(float(p[k]), 3) for p in parts] for k in parts[0]}, say)


def anonymous_mb(pids: list[int]) -> float:
    """Return the memory of the processes `pids` [MB] without pages of files, which processes share with each other."""
    lines = [x for pid in pids for x in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(x.split()[1]) for x in lines if x.startswith("Anonymous:")) / 1024


def _summary(parts: dict[str, list[float]], say: Say) -> dict[str, Any]:
    memory, late = (np.array(parts[k][WARM_PARTS:]) for k in ("memory_mb", "p50_ms"))
    growth = 100 * float(np.polyfit(np.arange(len(memory)), memory, 1)[0]) * (len(memory) - 1) / float(memory[0])
    third = max(len(late) // 3, 1)
    drift = float(np.median(late[-third:]) - np.median(late[:third]))
    say(f"after warm-up memory grew by {growth:.2f} %, and the median latency changed by {drift:+.2f} ms")
    return {**parts, "growth_percent": round(growth, 3), "drift_ms": round(drift, 3)}
