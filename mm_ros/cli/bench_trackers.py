"""`mm_ros bench trackers`: measure the filter of tracker samples, the node `tracker_bridge` and the replay."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.own_python import module_command
from mm_ros.cli.arguments import add_number
from mm_ros.cli.output import add_json, table, write_json

HELP = "measure cost and timing of tracker gate, tracker bridge and replay"

EXAMPLE = """examples:
  mm_ros bench trackers
  mm_ros bench trackers --recordings tables/ --json trackers.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_number(parser, "--seconds", default=20.0, help="duration of the bridge and replay runs (default: %(default)s)")
    parser.add_argument("--recordings", type=Path, help="folder of pose tables (.csv) to run through the gate")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    out: dict[str, Any] = {"gate": measure_gate(), "occlusion": measure_occlusion()}
    if args.recordings:
        out["recordings"] = measure_recordings(args.recordings)
    with tempfile.TemporaryDirectory() as folder:
        out["replay"] = measure_replay(Path(folder), args.seconds)
    out["bridge"] = measure_bridge(args.seconds)
    rows = [
        (what, name, value)
        for what, values in out.items()
        if isinstance(values, dict)
        for name, value in values.items()
    ]
    print(table(("what", "figure", "value"), rows))
    for row in out.get("recordings", []):
        print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    write_json(args.json, out)
    return 0


def measure_gate() -> dict[str, float]:
    """Measure how long the filter `TrackerGate` needs per sample, and how much it changes samples without errors."""
    from mm_ros.tracking.gate import TrackerGate, warm_up
    from mm_ros.tracking.simulation import simulate_clip
    from mm_ros.tracking.sources.synthetic import NOISE, user_clip

    warm_up()
    track = simulate_clip(user_clip(60.0), NOISE, start_ns=10**9)
    frames = [track.frame(i) for i in range(len(track))]
    gate = TrackerGate()
    costs, delayed, worst = [], 0, 0.0
    for frame in frames:
        start = time.perf_counter()
        out = gate.step(frame)
        costs.append(time.perf_counter() - start)
        delayed += out is None or out.stamp_ns != frame.stamp_ns
        if out is not None:
            worst = max(worst, float(np.abs(out.positions - frame.positions).max()))
    return {
        "step_us_median": float(np.median(costs) * 1e6),
        "step_us_p99": float(np.percentile(costs, 99) * 1e6),
        "cpu_percent_at_90_hz": float(np.mean(costs) * 90 * 100),
        "delayed_samples": float(delayed),
        "largest_change_mm": worst * 1e3,
    }


def measure_occlusion() -> dict[str, float]:
    """Measure how the filter `TrackerGate` treats an occluded controller that drifts, is reported as tracked, and then
    jumps back by 73 cm (as described in NVIDIA/IsaacTeleop#731)."""
    from mm_ros.body.types import LEFT_HAND_ROLE, TRACKED, TrackerFrame
    from mm_ros.tracking.gate import TrackerGate

    gate = TrackerGate()
    raw, out = [], []
    for i in range(700):
        frame = TrackerFrame(10**9 + round(i * 1e9 / 90))
        t = i / 90
        frame.positions[:3] = [(0, 0, 1.65), (0.3 + 0.1 * np.sin(5 * t), 0.3, 1.1), (0.3, -0.3, 1.1)]
        frame.positions[:3, 2] += 0.001 * np.sin(np.arange(3) + 7 * t)
        frame.state[:3] = TRACKED
        if 90 <= i < 180:
            frame.positions[LEFT_HAND_ROLE, 0] += 0.73 * ((i - 89) / 90) ** 2
        raw.append(frame.positions[LEFT_HAND_ROLE].copy())
        gated = gate.step(frame)
        assert gated is not None
        out.append(gated.positions[LEFT_HAND_ROLE].copy())
    steps = [np.linalg.norm(np.diff(p, axis=0), axis=-1)[179:].max() * 100 for p in (np.array(raw), np.array(out))]
    return {"step_cm_in": float(steps[0]), "step_cm_out": float(steps[1])}


def measure_recordings(folder: Path) -> list[dict[str, Any]]:
    from mm_ros.body.types import TRACKED
    from mm_ros.sessions.tables import read_table
    from mm_ros.tracking.gate import TrackerGate

    out = []
    for path in sorted(p for p in folder.glob("*.csv") if p.name != "manifest.csv"):
        raws, gate = read_table(path, 10**9), TrackerGate()
        pairs = [(raw, gated) for raw, gated in ((raw, gate.step(raw)) for raw in raws) if gated is not None]
        p, q = np.array([r.positions for r, _ in pairs]), np.array([g.positions for _, g in pairs])
        seen, came = (
            np.array([f.state for f in side]) == TRACKED for side in ([g for _, g in pairs], [r for r, _ in pairs])
        )
        out.append(
            {
                "file": path.stem,
                "samples": len(raws),
                "out": len(pairs),
                "tracked": float(seen[came].mean()),
                "largest_change_mm": float(np.linalg.norm(q - p, axis=-1)[seen].max() * 1e3),
                "refused": sum(gate.refused[k] for k in ("zero", "frozen", "reach", "jump")),
            }
        )
    return out


def _environment() -> dict[str, str]:
    return {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_DOMAIN_ID": str(1 + os.getpid() % 100)}


def measure_replay(folder: Path, seconds: float) -> dict[str, float]:
    """Measure the difference between the recorded times and the times at which `mm_ros replay` publishes."""
    from mm_ros.sessions.session import write_session
    from mm_ros.tracking.session_making import session_of_clips
    from mm_ros.tracking.sources.synthetic import user_clip

    write_session(folder / "walk", session_of_clips([user_clip(seconds)]))
    command = module_command("mm_ros", "replay", str(folder / "walk"), "--json", str(folder / "replay.json"))
    subprocess.run(command, env=_environment(), check=True, stdout=subprocess.DEVNULL)
    return dict(json.loads((folder / "replay.json").read_text()))


def measure_bridge(seconds: float) -> dict[str, float]:
    """Measure CPU time, rate and age of the messages of the node `tracker_bridge`, which runs in another process."""
    os.environ.update(_environment())
    import rclpy
    from rclpy.executors import SingleThreadedExecutor

    from mm_ros.ros import graph
    from mm_ros.ros.bench.graph import cpu_s, family
    from mm_ros.ros.qos import message_class, subscription_qos

    command = module_command("mm_ros.ros.nodes", "tracker_bridge", "--ros-args", "-r", "__ns:=/bench")
    process = subprocess.Popen(command, env=_environment(), stderr=subprocess.DEVNULL)
    rclpy.init(args=[])
    node = rclpy.create_node("bench_trackers", namespace="bench")
    arrived: list[tuple[float, float]] = []

    def received(msg: Any) -> None:
        now = time.time()
        arrived.append((now, now - msg.header.stamp.sec - msg.header.stamp.nanosec * 1e-9))

    t = graph.TOPICS["trackers"]
    node.create_subscription(message_class(t.type), t.name, received, subscription_qos(t.qos))
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        end = time.monotonic() + 120
        while len(arrived) < 180 and time.monotonic() < end:
            executor.spin_once(timeout_sec=0.1)
        arrived.clear()
        pids = family(process.pid)
        cpu, start = cpu_s(pids), time.monotonic()
        while time.monotonic() - start < seconds:
            executor.spin_once(timeout_sec=0.1)
        used, took = cpu_s(pids) - cpu, time.monotonic() - start
    finally:
        process.terminate()
        process.wait(20)
        node.destroy_node()
        rclpy.try_shutdown()
    ages = np.array([age for _, age in arrived]) * 1e3
    return {
        "rate_hz": len(arrived) / took,
        "cpu_percent": used / took * 100,
        "age_ms_median": float(np.median(ages)),
        "age_ms_p99": float(np.percentile(ages, 99)),
    }


