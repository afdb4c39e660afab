"""Latency from a tracker's stamp until /tf arrives in another process, compared with the bare transport."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions
from tf2_msgs.msg import TFMessage

from mm_ros.base.errors import MmRosError
from mm_ros.base.own_python import module_command
from mm_ros.ros import graph
from mm_ros.ros.bench.floor import HOPS
from mm_ros.ros.conversions import stamp_from_ros
from mm_ros.ros.qos import subscription_qos
from mm_ros.ros.reach import settle_reach

START_S = 120.0
SETTLE_S = 2.0
GRACE_S = 0.5  # younger samples may still be in transport
TICKS = os.sysconf("SC_CLK_TCK")

Say = Callable[[str], None]


@dataclass
class Plan:
    seconds: float = 30.0
    rounds: int = 5
    rates: Sequence[int] = (72, 90, 120)
    modes: Sequence[str] = ("processes", "composed")
    avatars: Sequence[int] = (1, 2, 4)
    avatar_rate: int = 90


@dataclass
class Listener:
    """Serialized messages with their arrival times; decoded after the round, so that decoding delays nothing."""

    came: list[tuple[int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.node = rclpy.create_node("graph_bench")
        qos = subscription_qos(graph.TOPICS["/tf"].qos)
        self.node.create_subscription(TFMessage, "/tf", lambda m: self.came.append((time.time_ns(), m)), qos, raw=True)
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)

    def spin(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.executor.spin_once(left)

    def stamps(self) -> tuple[dict[str, set[int]], dict[str, dict[int, int]]]:
        """Return by avatar the stamps of its trackers, and the arrival time of each pose by stamp."""
        sent: dict[str, set[int]] = {}
        arrived: dict[str, dict[int, int]] = {}
        for at, raw in self.came:
            first = deserialize_message(raw, TFMessage).transforms[0]
            avatar, _, rest = first.child_frame_id.partition("/")
            stamp = stamp_from_ros(first.header.stamp)
            if rest.startswith("tracker/"):
                sent.setdefault(avatar, set()).add(stamp)
            elif rest == "root":
                arrived.setdefault(avatar, {}).setdefault(stamp, at)
        return sent, arrived


def graph_commands(mode: str, avatars: int, rate: int, folder: Path) -> list[list[str]]:
    config = folder / f"rate{rate}.yaml"
    config.write_text(f"/**/tracker_bridge:\n  ros__parameters:\n    rate: {float(rate)}\n")
    if mode == "composed":
        several = ["--avatars", str(avatars)] if avatars > 1 else []
        return [module_command("mm_ros", "up", "--avatar", "bench", "--config", str(config), *several)]
    ros = ["--ros-args", "-r", "__ns:=/bench", "--params-file", str(config)]
    return [module_command("mm_ros.ros.nodes", n.name, *ros) for n in graph.nodes_for("vr")]


def floor_commands(mode: str, rate: int) -> list[list[str]]:
    base = module_command("mm_ros.ros.bench.floor", "bench0", str(rate))
    return [base] if mode == "composed" else [[*base, str(hop)] for hop in range(len(HOPS))]


@dataclass
class Running:
    pids: list[int]
    check: Callable[[], None]  # raises MmRosError if a process has ended


@contextmanager
def running(commands: list[list[str]], folder: Path) -> Iterator[Running]:
    log = folder / "log"
    with log.open("ab") as handle:
        started = [subprocess.Popen(c, stdout=handle, stderr=handle, stdin=subprocess.DEVNULL) for c in commands]

    def check() -> None:
        for p, words in zip(started, commands, strict=True):
            if p.poll() is not None:
                output = log.read_text(errors="replace")[-2000:]
                raise MmRosError(f"{' '.join(words[1:5])} ended by itself with code {p.returncode}:\n{output}")

    try:
        yield Running([p.pid for p in started], check)
        check()
    finally:
        for p in started:
            if p.poll() is None:
                p.send_signal(signal.SIGINT)
        for p in started:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()


def measure(commands: list[list[str]], avatars: int, seconds: float, folder: Path) -> dict[str, Any]:
    listener = Listener()
    try:
        started_ns = time.time_ns()
        with running(commands, folder) as started:
            start_s = (_wait_for_all(listener, avatars, started.check) - started_ns) * 1e-9
            listener.spin(SETTLE_S)
            pids = [p for pid in started.pids for p in family(pid)]
            listener.came.clear()
            began, cpu = time.monotonic(), _cpu_s(pids)
            listener.spin(seconds)
            used = (_cpu_s(pids) - cpu) / (time.monotonic() - began)
            ended_ns = time.time_ns()
            memory, threads = memory_mb(pids), _threads(pids)
    finally:
        listener.executor.shutdown()
        listener.node.destroy_node()
    out = _latencies(listener, ended_ns)
    return {**out, "start_s": start_s, "cpu_percent": 100 * used, "memory_mb": memory, "threads": threads}


def _wait_for_all(listener: Listener, avatars: int, check: Callable[[], None]) -> int:
    """Wait until each avatar has published a pose; return the arrival time (ns) of the last avatar's first pose."""
    until = time.monotonic() + START_S
    first: dict[str, int] = {}
    while time.monotonic() < until:
        check()
        listener.came.clear()
        listener.spin(1.0)
        for avatar, poses in listener.stamps()[1].items():
            first.setdefault(avatar, min(poses.values()))
        if len(first) == avatars:
            return max(first.values())
    raise MmRosError(f"after {START_S:g} s {len(first)} of {avatars} avatars had poses")


def _latencies(listener: Listener, ended_ns: int) -> dict[str, Any]:
    """Return the largest latencies over all avatars; samples before an avatar's first pose do not count."""
    sent, arrived = listener.stamps()
    worst: dict[str, float] = {}
    lost = count = 0
    for avatar, poses in arrived.items():
        first = min(poses)
        due = {s for s in sent.get(avatar, set()) if first <= s < ended_ns - GRACE_S * 1e9}
        lost += len(due - set(poses))
        count += len(due)
        late = np.array([at - stamp for stamp, at in poses.items() if stamp in due]) * 1e-6
        p50, p90, p99 = np.percentile(late, [50, 90, 99])
        mine = {"p50": float(p50), "p90": float(p90), "p99": float(p99), "max": float(late.max())}
        worst = {k: max(v, worst.get(k, 0.0)) for k, v in mine.items()}
    return {"latency_ms": worst, "lost": lost, "samples": count}


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(p for child in children for p in family(int(child)))]


def _cpu_s(pids: list[int]) -> float:
    total = 0.0
    for pid in pids:
        after = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(after[11]) + int(after[12])) / TICKS
    return total


def memory_mb(pids: list[int]) -> float:
    """Return the proportional set size: shared pages count once."""
    lines = [x for pid in pids for x in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(x.split()[1]) for x in lines if x.startswith("Pss:")) / 1024


def _threads(pids: list[int]) -> int:
    return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)


def median_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return medians over the rounds, but sums of lost and counted samples."""
    keys = rounds[0]["latency_ms"]
    out: dict[str, Any] = {
        "latency_ms": {k: round(float(np.median([r["latency_ms"][k] for r in rounds])), 2) for k in keys}
    }
    out |= {k: sum(r[k] for r in rounds) for k in ("lost", "samples")}
    costs = ("start_s", "cpu_percent", "memory_mb", "threads")
    return out | {k: round(float(np.median([r[k] for r in rounds])), 1) for k in costs}


@contextmanager
def measuring() -> Iterator[None]:
    """Initialize ROS for a benchmark; SIGTERM raises KeyboardInterrupt.

    rclpy's own signal handlers would close the context between two rounds, and the next round would fail.
    """
    settle_reach("LOCALHOST")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        yield
    finally:
        rclpy.try_shutdown()
        signal.signal(signal.SIGTERM, before)


def run_bench(plan: Plan, say: Say) -> dict[str, Any]:
    with measuring(), tempfile.TemporaryDirectory(prefix="mm_ros_bench") as name:
        return _all(plan, Path(name), say)


def _all(plan: Plan, folder: Path, say: Say) -> dict[str, Any]:
    subprocess.run(module_command("mm_ros", "warm", "--quiet"), check=True)
    out: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "load_1_min": os.getloadavg()[0],
        "seconds": plan.seconds,
        "rounds": plan.rounds,
    }
    for mode in plan.modes:
        out[mode] = {"floor": {}}
        for rate in plan.rates:
            ours, floor = [], []
            for _ in range(plan.rounds):  # alternately, so that both run under the same load
                floor.append(measure(floor_commands(mode, rate), 1, plan.seconds, folder))
                ours.append(measure(graph_commands(mode, 1, rate, folder), 1, plan.seconds, folder))
            out[mode][str(rate)], out[mode]["floor"][str(rate)] = median_of(ours), median_of(floor)
            say(f"{mode:9s} {rate:3d} Hz   {_words(out[mode][str(rate)])}")
            say(f"{'  floor':9s} {rate:3d} Hz   {_words(out[mode]['floor'][str(rate)])}")
    out["avatars"] = {}
    for n in plan.avatars:
        each = [
            measure(graph_commands("composed", n, plan.avatar_rate, folder), n, plan.seconds, folder)
            for _ in range(plan.rounds)
        ]
        out["avatars"][str(n)] = median_of(each)
        say(f"{n} avatars {plan.avatar_rate:3d} Hz   {_words(out['avatars'][str(n)])}")
    out["load_1_min_end"] = os.getloadavg()[0]
    return out


def _words(f: dict[str, Any]) -> str:
    late = "  ".join(f"{k} {v:6.2f}" for k, v in f["latency_ms"].items())
    return (
        f"{late} ms   lost {f['lost']} of {f['samples']}   CPU {f['cpu_percent']:5.1f} %   "
        f"memory {f['memory_mb']:6.0f} MB   threads {f['threads']:.0f}   first pose after {f['start_s']:.1f} s"
    )
