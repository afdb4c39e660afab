"""`mm_ros replay`: publish the messages of a recorded session with recorded or present time stamps."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import numpy as np

from mm_ros.cli.arguments import add_number, avatar
from mm_ros.cli.output import add_json, write_json

HELP = "publish a recorded session on the topics that it was recorded from"

EXAMPLE = """examples:
  mm_ros replay walk                       with current stamps, for a graph on wall-clock time
  mm_ros replay walk --clock --speed 0.5   with recorded stamps and /clock, at half speed, for use_sim_time
  mm_ros replay walk --loop --start 12     in a loop; the first pass starts at 12 s

Pause or seek during playback:
  ros2 service call /avatar/replay/pause std_srvs/srv/SetBool "{data: true}"
  ros2 param set /avatar/replay position 30.0
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("session", type=Path, help="rosbag2 folder, or its .mcap or .db3 file")
    add_number(parser, "--speed", default=1.0, help="playback speed relative to the recording (default: %(default)s)")
    parser.add_argument("--loop", action="store_true", help="repeat the session; each repetition is a new epoch")
    add_number(parser, "--start", default=0.0, help="start at this time of the session (default: %(default)s)")
    parser.add_argument("--clock", action="store_true", help="keep the recorded stamps and publish /clock")
    parser.add_argument("--avatar", type=avatar, default="", help="namespace to publish in (default: as recorded)")
    parser.add_argument("--from-avatar", default="", help="recorded avatar to play when the session holds several")
    add_number(
        parser, "--wait-for", default=0, help="wait until N nodes subscribe to the trackers (default: %(default)s)"
    )
    parser.add_argument(
        "--world-frame",
        default="",
        help="world frame to write into the headers (default: as recorded); poses stay the same",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.ros.reach import settle_reach

    settle_reach("LOCALHOST")
    from mm_ros.sessions.bag import Bag

    bag = Bag(args.session)
    if bag.damage:
        print(f"mm_ros: {bag.damage}", file=sys.stderr)
    import rclpy

    from mm_ros.ros.replay import Replay, spin_in_background

    rclpy.init(args=[])
    try:
        node = Replay(
            bag, args.avatar, args.speed, args.start, args.loop, args.clock, args.from_avatar, args.world_frame
        )
        signal.signal(signal.SIGTERM, lambda *_: node.end())
        signal.signal(signal.SIGINT, lambda *_: node.end())
        executor, thread = spin_in_background(node)
        if args.wait_for:
            node.wait_for(args.wait_for, 120.0)
        print(f"{args.session}: {node.player.seconds:.1f} s, published in {node.get_namespace()}", flush=True)
        node.play()
        executor.shutdown()
        thread.join(2.0)
    finally:
        rclpy.try_shutdown()
    summary = timing(node.errors_s)
    print(f"{summary['messages']} messages; mean timing error {summary['mean_error_ms']:.2f} ms")
    write_json(args.json, summary)
    return 0


def timing(errors_s: list[float]) -> dict[str, float]:
    late = np.abs(np.array(errors_s or [0.0])) * 1e3
    return {
        "messages": len(errors_s),
        "mean_error_ms": float(late.mean()),
        "p99_error_ms": float(np.percentile(late, 99)),
        "max_error_ms": float(late.max()),
    }
