"""Measures the latency of the ROS nodes with and without an open inspector page. A test client replaces the browser:
the client receives all data of the viewer but draws nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.own_python import module_command
from mm_ros.ros.bench.graph import Say, graph_commands, measure, measuring, median_of
from mm_ros.web.access import TOKEN_VARIABLE, new_token

LEAST_FRAMES_PER_S = 15.0  # minimum number of frames that the test client must receive per second


def viewer_commands(port: int, said: Path) -> list[list[str]]:
    return [
        module_command("mm_ros", "view", "--port", str(port)),
        module_command("mm_ros.show.page.listener", str(port), str(said)),
    ]


def run_bench(mode: str, rate: int, seconds: float, rounds: int, say: Say) -> dict[str, Any]:
    os.environ[TOKEN_VARIABLE] = new_token()
    subprocess.run(module_command("mm_ros", "warm", "--quiet"), check=True)
    with measuring(), tempfile.TemporaryDirectory(prefix="mm_ros_bench") as name:
        return _rounds(mode, rate, seconds, rounds, say, Path(name))


def _rounds(mode: str, rate: int, seconds: float, rounds: int, say: Say, folder: Path) -> dict[str, Any]:
    without, beside, frames = [], [], []
    for i in range(rounds):  # measurements without and with the viewer alternate
        graph, said = graph_commands(mode, 1, rate, folder), folder / f"page{i}.json"
        without.append(measure(graph, 1, seconds, folder))
        beside.append(measure([*graph, *viewer_commands(_free_port(), said)], 1, seconds, folder))
        frames.append(_frames_per_s(said))
        pair = [round(m[-1]["latency_ms"]["p99"], 2) for m in (without, beside)]
        say(f"round {i + 1}: p99 {pair[0]} ms without, {pair[1]} ms with; {frames[-1]:.0f} frames per second")
    out = {"without": median_of(without), "with": median_of(beside)}
    ratio = out["with"]["latency_ms"]["p99"] / out["without"]["latency_ms"]["p99"]
    return {
        "mode": mode, "rate": rate, "seconds": seconds, "rounds": rounds, "cpus": os.cpu_count(), **out,
        "p99_ratio": round(ratio, 3), "frames_per_s": min(frames),
    }  # fmt: skip


def _frames_per_s(said: Path) -> float:
    if not said.exists():
        raise MmRosError("the page's test client could not connect to the viewer")
    rate = float(json.loads(said.read_text())["frames_per_s"])
    if rate < LEAST_FRAMES_PER_S:
        raise MmRosError(f"received only {rate:.0f} frames per second from the viewer; expected {LEAST_FRAMES_PER_S:g}")
    return rate


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
