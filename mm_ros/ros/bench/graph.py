"""Measures the time from a tracker sample until the avatar's /tf message arrives in another process, and compares it
with the time that messages need without any computation."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import rclpy
from rclpy.signals import SignalHandlerOptions

from mm_ros.base.errors import MmRosError
from mm_ros.base.own_python import module_command
from mm_ros.ros import graph
from mm_ros.ros.bench.floor import HOPS
from mm_ros.ros.internals import WaitSet
from mm_ros.ros.qos import message_class, subscription_qos
from mm_ros.ros.reach import settle_reach

START_S = 120.0
SETTLE_S = 2.0
# The rate of the tracker source fluctuates, so a measurement is accepted if at most 1 % of the expected samples are
# missing.
SHORT_TOLERANCE = 0.01
GRACE_S = 0.5  # A sample younger than GRACE_S seconds does not count as lost: its pose can still arrive.
TICKS = os.sysconf("SC_CLK_TCK")

Say = Callable[[str], None]


@dataclass
class Plan:
    seconds: float = 5.0
    rounds: int = 2
    rates: Sequence[int] = (90,)
    modes: Sequence[str] = ("composed", "processes")
    avatars: Sequence[int] = ()
    avatar_rate: int = 90
    record: bool = False
    disturb: bool = False
    against: Path | None = None  # folder with another version of mm_ros, whose latency is also measured


class Listener:
    """Receives messages of /tf and stores them with their arrival times, to decode them after the measurement.

    No executor of rclpy is used, because an executor is too slow for 24 avatars. For the avatars in `poses`, the
    messages of the topic `pose` are received, too, as a user's program would do.
    """

    def __init__(self, poses: Sequence[str] = ()) -> None:
        self.came: list[tuple[int, bytes]] = []
        self.node = rclpy.create_node("graph_bench")
        names = {"/tf": "/tf", **{f"/{avatar}/pose": "pose" for avatar in poses}}
        self._all = [self._subscribe(name, graph.TOPICS[topic]) for name, topic in names.items()]
        with self.node.context.handle:
            self._waiting = WaitSet(len(self._all), 0, 0, 0, 0, 0, self.node.context.handle)

    def _subscribe(self, name: str, topic: graph.Topic) -> Any:
        qos = subscription_qos(topic.qos)
        return self.node.create_subscription(message_class(topic.type), name, lambda _: None, qos, raw=True)

    def spin(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._waiting.clear_entities()
            for subscription in self._all:
                self._waiting.add_subscription(subscription.handle)
            self._waiting.wait(int(left * 1e9))
            for number, subscription in enumerate(self._all):
                while (found := subscription.handle.take_message(subscription.msg_type, True)) is not None:
                    if number == 0:
                        self.came.append((time.time_ns(), found[0]))

    def close(self) -> None:
        self.node.destroy_node()

    def stamps(self) -> tuple[dict[str, set[int]], dict[str, dict[int, int]]]:
        """Return for each avatar the stamps of its tracker samples, and a dict from the stamp of each pose to its
        arrival time."""
        sent: dict[str, set[int]] = {}
        arrived: dict[str, dict[int, int]] = {}
        for at, raw in self.came:
            stamp, frame = first_transform(raw)
            avatar, _, rest = frame.partition("/")
            if rest.startswith("tracker/"):
                sent.setdefault(avatar, set()).add(stamp)
            elif rest == "root":
                arrived.setdefault(avatar, {}).setdefault(stamp, at)
        return sent, arrived


def first_transform(raw: bytes) -> tuple[int, str]:
    """Return the stamp [ns] and the child frame of the first transform in a serialized TFMessage, or (0, "") if the
    message is empty. To convert the whole TFMessage would take 0.4 ms, which is too long for many avatars."""
    if len(raw) < 20 or not struct.unpack_from("<I", raw, 4)[0]:
        return 0, ""
    sec, nanosec, length = struct.unpack_from("<iII", raw, 8)
    at = 20 + length + -length % 4
    length = struct.unpack_from("<I", raw, at)[0]
    return sec * 1_000_000_000 + nanosec, raw[at + 4 : at + 3 + length].decode()


def names_of(avatars: int) -> list[str]:
    return ["bench"] if avatars == 1 else [f"bench{i + 1}" for i in range(avatars)]


def graph_commands(mode: str, avatars: int, rate: int, folder: Path, python: Sequence[str] = ()) -> list[list[str]]:
    """Return the shell commands that start the ROS nodes whose latency is measured. `python` is the Python command of
    another version of mm_ros, or empty for the present version."""
    config = folder / f"rate{rate}.yaml"
    config.write_text(f"/**/tracker_bridge:\n  ros__parameters:\n    rate: {float(rate)}\n")
    run = partial(_run_module, python)
    if mode == "composed":
        several = ["--avatars", str(avatars)] if avatars > 1 else []
        return [run("mm_ros", "up", "--avatar", "bench", "--config", str(config), *several)]
    ros = ["--ros-args", "-r", "__ns:=/bench", "--params-file", str(config)]
    return [run("mm_ros.ros.nodes", n.name, *ros) for n in graph.nodes_for("vr")]


def _run_module(python: Sequence[str], *words: str) -> list[str]:
    return [*python, *words] if python else module_command(*words)


def floor_commands(kind: str, rate: int) -> list[list[str]]:
    """Return the shell commands that start the nodes of the baseline in `floor.py`. The baseline `kind` is one_hop,
    four_hops (nodes in one process), or four_hops_processes (one process per node)."""
    base = module_command("mm_ros.ros.bench.floor", "bench0", str(rate))
    if kind == "four_hops_processes":
        return [[*base, str(hop)] for hop in range(len(HOPS))]
    return [[*base, "one_hop"] if kind == "one_hop" else base]


@dataclass
class Running:
    pids: list[int]
    check: Callable[[], None]  # function that raises MmRosError if a process of the ROS graph has ended


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


def measure(
    commands: list[list[str]],
    avatars: int,
    seconds: float,
    folder: Path,
    poses: bool = True,
    beside: Sequence[list[str]] = (),
    rate: int = 0,
) -> dict[str, Any]:
    """Start the processes `commands` of a graph, and measure the latency and the load of the graph. The commands
    `beside` start further processes, whose CPU time and memory are not counted."""
    listener = Listener(names_of(avatars) if poses else ())
    try:
        started_ns = time.time_ns()
        with running(commands, folder) as started:
            start_s = (wait_for_all(listener, avatars, started.check) - started_ns) * 1e-9
            with running(list(beside), folder):
                listener.spin(SETTLE_S + (SETTLE_S if beside else 0.0))
                listener.came.clear()
                pids = [p for pid in started.pids for p in family(pid)]
                began, cpu = time.monotonic(), cpu_s(pids)
                listener.spin(seconds)
                took_s = time.monotonic() - began
                used = (cpu_s(pids) - cpu) / took_s
                ended_ns = time.time_ns()
            memory, threads = memory_mb(pids), _threads(pids)
    finally:
        listener.close()
    out = _latencies(listener, ended_ns)
    out["short"] = max(0, round(avatars * (took_s - GRACE_S) * rate * (1 - SHORT_TOLERANCE)) - out["samples"])
    each = {"cpu_percent_per_avatar": 100 * used / avatars, "memory_mb_per_avatar": memory / avatars}
    return {**out, "start_s": start_s, "cpu_percent": 100 * used, "memory_mb": memory, "threads": threads, **each}


def wait_for_all(listener: Listener, avatars: int, check: Callable[[], None]) -> int:
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
    """Return the ids of the process `pid` and of all processes that it has started, directly or not."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(p for child in children for p in family(int(child)))]


def cpu_s(pids: list[int]) -> float:
    total = 0.0
    for pid in pids:
        after = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(after[11]) + int(after[12])) / TICKS
    return total


def memory_mb(pids: list[int]) -> float:
    """Return the memory of the processes `pids` [MB]; a memory page that several processes share counts once."""
    lines = [x for pid in pids for x in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(x.split()[1]) for x in lines if x.startswith("Pss:")) / 1024


def _threads(pids: list[int]) -> int:
    return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)


def median_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return each quantity's median over the rounds, and the numbers of lost and counted samples of all rounds."""
    keys = rounds[0]["latency_ms"]
    out: dict[str, Any] = {
        "latency_ms": {k: round(float(np.median([r["latency_ms"][k] for r in rounds])), 2) for k in keys}
    }
    sums = ("lost", "samples", "short")
    out |= {k: sum(r[k] for r in rounds) for k in sums}
    costs = [k for k in rounds[0] if k not in ("latency_ms", *sums)]
    return out | {k: round(float(np.median([r[k] for r in rounds])), 1) for k in costs}


@contextmanager
def measuring() -> Iterator[None]:
    """Initialize ROS for a benchmark; in this context, SIGTERM raises KeyboardInterrupt.

    The signal handlers of rclpy are not used, because after a signal they would close ROS while the benchmark runs.
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


def _variants(plan: Plan, rate: int, folder: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    def floor(kind: str) -> Callable[[], dict[str, Any]]:
        return lambda: measure(floor_commands(kind, rate), 1, plan.seconds, folder, poses=False, rate=rate)

    def ours(mode: str, beside: Sequence[list[str]] = (), python: Sequence[str] = ()) -> Callable[[], dict[str, Any]]:
        return lambda: measure(
            graph_commands(mode, 1, rate, folder, python), 1, plan.seconds, folder, beside=beside, rate=rate
        )

    out = {kind: floor(kind) for kind in ("one_hop", "four_hops")}
    if "processes" in plan.modes:
        out["four_hops_processes"] = floor("four_hops_processes")
    for mode in plan.modes:
        out[mode] = ours(mode)
        if plan.against is not None:
            out[f"against {mode}"] = ours(mode, python=_python_of(plan.against))
    if plan.record:
        out["record"] = ours("composed", [record_command(folder)])
    if plan.disturb:
        out["disturb"] = ours("composed", [module_command("mm_ros.ros.bench.disturb", "bench")])
    return out


def record_command(folder: Path) -> list[str]:
    """Return the command that records all topics: `ros2 bag record` or, where this is missing, bench/record.py."""
    target = folder / f"bag{time.time_ns()}"
    if which("ros2") is not None:
        return ["ros2", "bag", "record", "-a", "-o", str(target)]
    return module_command("mm_ros.ros.bench.record", str(target))


def _python_of(checkout: Path) -> list[str]:
    python = checkout.absolute() / ".venv" / "bin" / "python"
    if not python.exists():
        raise MmRosError(f"--against {checkout}: {python} does not exist; run `make venv` in that checkout")
    # LD_LIBRARY_PATH and the like would make another version of mm_ros load the libraries of the present version.
    ours = ("LD_LIBRARY_PATH", "AMENT_PREFIX_PATH", "PYTHONPATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE")
    return ["env", *(word for name in ours for word in ("-u", name)), str(python), *module_command("")[1:3]]


def _all(plan: Plan, folder: Path, say: Say) -> dict[str, Any]:
    subprocess.run(module_command("mm_ros", "warm", "--quiet"), check=True)
    if plan.against is not None:
        subprocess.run([*_python_of(plan.against), "mm_ros", "warm", "--quiet"], check=True)
    out: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "load_1_min": os.getloadavg()[0],
        "seconds": plan.seconds,
        "rounds": plan.rounds,
        "floor": {"rates": {}},
    }
    for rate in plan.rates:
        variants = _variants(plan, rate, folder)
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in variants}
        for _ in range(plan.rounds):  # Graph and baselines run in turns: other programs slow all of them down.
            for name, run in variants.items():
                rounds[name].append(run())
        for name, figures in rounds.items():
            found = median_of(figures)
            say(f"{name:20s} {rate:3d} Hz   {_words(found)}")
            if name.endswith(("hop", "hops", "hops_processes")):
                out["floor"]["rates"].setdefault(str(rate), {})[name] = found
            elif name.startswith("against "):
                out.setdefault("against", {}).setdefault(name.split()[1], {})[str(rate)] = found
            else:
                out.setdefault(name, {})[str(rate)] = found
    first = str(90 if 90 in plan.rates else plan.rates[0]) if plan.rates else ""
    out["floor"] |= out["floor"]["rates"].get(first, {})
    out["avatars"] = {}
    rate = plan.avatar_rate
    for n in plan.avatars:
        commands = graph_commands("composed", n, rate, folder)
        each = [measure(commands, n, plan.seconds, folder, rate=rate) for _ in range(plan.rounds)]
        out["avatars"][str(n)] = median_of(each)
        say(f"{f'{n} avatars':20s} {rate:3d} Hz   {_words(out['avatars'][str(n)])}")
    out["load_1_min_end"] = os.getloadavg()[0]
    return out


def ratios(result: dict[str, Any]) -> list[str]:
    """Return sentences that compare the latency of the graph with the baseline and with another version of mm_ros."""
    out = []
    for mode in ("composed", "processes"):
        for rate, ours in result.get(mode, {}).items():
            floor = result["floor"]["rates"][rate]
            bare = floor["four_hops_processes" if mode == "processes" else "four_hops"]["latency_ms"]["p99"]
            late, hop = ours["latency_ms"]["p99"], floor["one_hop"]["latency_ms"]["p99"]
            out.append(
                f"{mode} at {rate} Hz: p99 is {late / bare:.2f} of four bare hops; one bare hop + {late - hop:.2f} ms"
            )
            before = result.get("against", {}).get(mode, {}).get(rate)
            if before:
                share = ours["cpu_percent"] / before["cpu_percent"]
                out.append(f"{mode} at {rate} Hz: CPU is {share:.2f} of the version before, p99 "
                           f"{late / before['latency_ms']['p99']:.2f} of it")  # fmt: skip
    return out


def _words(f: dict[str, Any]) -> str:
    late = "  ".join(f"{k} {v:6.2f}" for k, v in f["latency_ms"].items())
    return (
        f"{late} ms   lost {f['lost']} of {f['samples']}, {f['short']} not made   CPU {f['cpu_percent']:5.1f} %   "
        f"memory {f['memory_mb']:6.0f} MB   threads {f['threads']:.0f}   first pose after {f['start_s']:.1f} s"
    )
