"""`mm_ros record`: record the inputs of an avatar as a rosbag2."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from mm_ros.cli.arguments import add_number, add_output, add_storage, avatar
from mm_ros.cli.output import add_json, table, write_json

HELP = "record trackers, calibration and truth as a session (rosbag2)"

EXAMPLE = """examples:
  mm_ros record -o walk                        until Ctrl-C
  mm_ros record -o walk --seconds 60 --outputs also record the graph's outputs
  ros2 bag info walk; ros2 bag play walk       a session is an ordinary bag
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_output(parser, "new folder (default: session_DATE_TIME)")
    parser.add_argument("--avatar", type=avatar, default="avatar", help="namespace to record (default: %(default)s)")
    parser.add_argument(
        "--outputs", action="store_true", help="also record trajectory, poses and match, under recorded/"
    )
    add_number(parser, "--seconds", default=0.0, help="stop after this time (default: stop at Ctrl-C)")
    add_storage(parser)
    parser.add_argument("--use-sim-time", action="store_true", help="take time from /clock")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.ros.reach import settle_reach

    settle_reach("LOCALHOST")
    import rclpy
    from rclpy.parameter import Parameter
    from rclpy.signals import SignalHandlerOptions

    from mm_ros.ros.recorder import Recorder

    output = args.output or Path(f"session_{datetime.now():%Y%m%d_%H%M%S}")
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda got, _: stopped.append(got))
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    overrides = [Parameter("use_sim_time", value=True)] if args.use_sim_time else []
    try:
        node = Recorder(
            output, args.avatar, args.outputs, args.storage, args.compression, parameter_overrides=overrides
        )
        print(f"recording /{args.avatar} into {output}; stop with Ctrl-C", flush=True)
        try:
            _spin(node, args.seconds, stopped)
        finally:
            node.close()
    finally:
        rclpy.try_shutdown()
    return _report(node, output, args.json)


def _spin(node: Any, seconds: float, stopped: list[int]) -> None:
    """Run the node for `seconds`, or until a signal handler appends the number of a signal to `stopped`."""
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

    executor = SingleThreadedExecutor()
    executor.add_node(node)
    end = time.monotonic() + seconds if seconds else float("inf")
    while not stopped and time.monotonic() < end:
        try:
            executor.spin_once(timeout_sec=min(0.2, max(0.0, end - time.monotonic())))
        except ExternalShutdownException:
            return


def _report(node: Any, output: Path, json: Path | None) -> int:
    counts = {topic: n for topic, n in node.bag.counts.items() if n}
    print(table(("topic", "messages"), list(counts.items())))
    print(f"{node.seconds:.1f} s in {output}")
    write_json(json, {"path": output, "seconds": node.seconds, "messages": counts})
    if not any(topic.endswith("/trackers") for topic in counts):
        print(
            "mm_ros: no tracker messages received. Is the graph running, and in this namespace (--avatar)?",
            file=sys.stderr,
        )
        return 1
    return 0
