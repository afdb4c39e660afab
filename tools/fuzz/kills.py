"""Kill processes of a running graph, and measure when TF returns: `python -m fuzz.kills --nodes 60 --composed 40`.

The program starts the graph of a synthetic user, once with a process for each node and once with all nodes in one
process. The parent process replaces a killed process of nodes; with `--whole`, the parent is killed too, and started
again after the delay of the launch files. After each kill, the graph must publish TF again. Leaps of the avatar (a
joint moves by more than 30 cm between two poses) are counted unless `epoch` or `run` of the poses announces them."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor

from mm_ros.base.own_python import module_command
from mm_ros.body.skeleton import NAMES, PARENTS
from mm_ros.maths import rotations as rot
from mm_ros.ros import graph
from mm_ros.ros.conversions import avatar_pose_from_ros
from mm_ros.ros.launching import RESPAWN_S
from mm_ros.ros.qos import listener_qos, message_class
from mm_ros.ros.reach import settle_reach

LEAP_M = 0.3
BETWEEN_S = (1.0, 3.0)  # minimum and maximum time from the return of TF to the next kill [s]
FLOWING = 40  # The killed graph counts as back after this number of TF messages.
PATIENCE_S = 120.0
FAST_S = 0.06  # maximum time between the stamps of two poses if no pose between them was lost


class Program:
    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name, self.command, self.log = name, command, log
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as handle:
            self.process = subprocess.Popen(self.command, stdout=handle, stderr=handle, stdin=subprocess.DEVNULL)

    def victim(self) -> int:
        """Return the id of the process that runs the nodes: the oldest child, because the spare process is younger."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return min(map(int, path.read_text().split()), key=_begun)

    def ready(self) -> int:
        return self.log.read_text(errors="replace").count("]: ready")


class Watch:
    """Records when TF messages arrive, and when the avatar leaps between two poses."""

    def __init__(self, avatar: str) -> None:
        self.node = rclpy.create_node("kills_watch", namespace=avatar)
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.arrived: list[float] = []
        self.leaps: list[dict[str, float | bool]] = []
        self._last: Any = None
        for topic, callback in (("/tf", self._on_tf), ("pose", self._on_pose)):
            t = graph.TOPICS[topic]
            self.node.create_subscription(message_class(t.type), t.name, callback, listener_qos(t.qos))

    def _on_tf(self, msg: Any) -> None:
        if msg.transforms and msg.transforms[0].child_frame_id.endswith("/root"):
            self.arrived.append(time.monotonic())

    def _on_pose(self, msg: Any) -> None:
        pose = avatar_pose_from_ros(msg)
        positions, rotations = pose.positions.astype(np.float64), pose.rotations.astype(np.float64)
        positions[0], rotations[0] = pose.root[:3], pose.root[3:]
        joints = rot.forward_kinematics(np.array(PARENTS), positions, rotations)[0]
        last, self._last = self._last, (pose, joints)
        if last is None:
            return
        before, seconds = last[0], (pose.stamp_ns - last[0].stamp_ns) * 1e-9
        away = np.linalg.norm(joints - last[1], axis=1)
        lost = FAST_S < seconds < 0.5  # while poses are lost, the user moves, so only the root is compared
        if not np.isfinite(away).all() or (away[0] if lost else away.max()) > LEAP_M:
            declared = (before.epoch, before.run) != (pose.epoch, pose.run)
            self.leaps.append({
                "joint": NAMES[int(away.argmax())], "joint_m": float(away.max()), "root_m": float(away[0]),
                "seconds": seconds, "declared": declared,
            })  # fmt: skip

    def spin(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.executor.spin_once(0.02)


def _begun(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])


def kill(watch: Watch, program: Program, whole: bool) -> dict[str, Any]:
    """Kill the process of the nodes, or also its parent, which is then started again; wait until TF is published."""
    begun, readies, leaps = time.monotonic(), program.ready(), len(watch.leaps)
    before = program.command.count("up") * 4 + 1  # one start of the graph logs this number of lines "ready"
    if whole:
        program.process.kill()
        program.process.wait()
        watch.spin(RESPAWN_S)
        program.start()
    else:
        os.kill(program.victim(), signal.SIGKILL)
    back, arrived = False, len(watch.arrived)
    while not back and time.monotonic() - begun < PATIENCE_S:
        watch.spin(0.05)
        if program.ready() < readies + before:
            arrived = len(watch.arrived)
        back = len(watch.arrived) - arrived >= FLOWING
    times = [t for t in watch.arrived if t > begun - 1.0]
    return {
        "killed": program.name, "back": back, "gap_s": float(np.diff(times).max()) if len(times) > 1 else PATIENCE_S,
        "leaps": watch.leaps[leaps:],
    }  # fmt: skip


def trial(
    composed: bool, count: int, rng: random.Random, folder: Path, only: str = "", whole: bool = False
) -> list[dict[str, Any]]:
    avatar = "killed_composed" if composed else "killed_nodes"
    names = [n.name for n in graph.nodes_for()]
    if composed:
        command = module_command("mm_ros", "up", "--avatar", avatar, "--trackers", "synthetic")
        programs = [Program("composed", command, folder / "composed.log")]
    else:
        place = ["--ros-args", "-r", f"__ns:=/{avatar}"]
        programs = [Program(n, module_command("mm_ros.ros.nodes", n, *place), folder / f"{n}.log") for n in names]
    victims = [p for p in programs if composed or only in ("", p.name)]
    watch, rows = Watch(avatar), []
    try:
        until = time.monotonic() + PATIENCE_S
        while len(watch.arrived) < FLOWING and time.monotonic() < until:
            watch.spin(0.1)
        for i in range(count):
            watch.spin(rng.uniform(*BETWEEN_S))
            rows.append(kill(watch, victims[i % len(victims)], whole))
            print(json.dumps(rows[-1]), flush=True)
    finally:
        for program in programs:
            program.process.terminate()
        for program in programs:
            program.process.wait(30)
        watch.executor.shutdown()
        watch.node.destroy_node()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=60, help="kills of single nodes (default: %(default)s)")
    parser.add_argument("--composed", type=int, default=40, help="kills of the composed graph (default: %(default)s)")
    parser.add_argument("--only", default="", help="kill only this node, as pose_postprocessor (default: all in turn)")
    parser.add_argument(
        "--whole", action="store_true", help="kill the program that replaces a killed process of nodes, too"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.only:
        graph.node(args.only)
    os.environ.setdefault("ROS_DOMAIN_ID", str(20 + os.getpid() % 80))  # TF messages of another graph would hide gaps
    settle_reach("LOCALHOST")
    rclpy.init()
    subprocess.run(module_command("mm_ros", "warm", "--quiet"), check=True)
    failed = False
    with tempfile.TemporaryDirectory(prefix="mm_ros-kills-") as folder:
        for composed, count in ((False, args.nodes), (True, args.composed)):
            if not count:
                continue
            rows = trial(composed, count, random.Random(args.seed), Path(folder), args.only, args.whole)
            gaps = [r["gap_s"] for r in rows]
            leaps = [leap for r in rows for leap in r["leaps"]]
            undeclared = [leap for leap in leaps if not leap["declared"]]
            print(
                f"{'composed' if composed else 'nodes'}: {len(rows)} kills, back {sum(r['back'] for r in rows)}, "
                f"TF gap median {statistics.median(gaps):.2f} s, worst {max(gaps):.2f} s, leaps {len(leaps)}, "
                f"undeclared {len(undeclared)}, load {os.getloadavg()[0]:.1f}"
            )
            for name in dict.fromkeys(r["killed"] for r in rows):
                of_node = [r["gap_s"] for r in rows if r["killed"] == name]
                print(f"  {name}: {len(of_node)} kills, TF gap median {statistics.median(of_node):.2f} s")
            failed |= bool(undeclared) or not all(r["back"] for r in rows)
    rclpy.try_shutdown()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
