"""`mm_ros view`: run the browser viewer for a graph that runs in another process."""

from __future__ import annotations

import argparse
from functools import partial

from mm_ros.cli.arguments import port

HELP = "show the avatars of a running graph in the browser"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: mm_ros view --port 8081, then open the printed address in a browser"
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to serve on (default: %(default)s, this machine only); 0.0.0.0: all networks",
    )
    parser.add_argument(
        "--port", type=port, default=8080, metavar="PORT", help="port of the page (default: %(default)s)"
    )
    parser.add_argument(
        "--show", default="", metavar="NAMES", help="avatars to show, separated by commas (default: all)"
    )
    parser.add_argument("--urdf", default="", help="robot file of a humanoid that follows (URDF, xacro, MJCF)")


def run(args: argparse.Namespace) -> int:
    from mm_ros.ros.reach import settle_reach

    settle_reach("LOCALHOST")
    from rclpy.parameter import Parameter

    from mm_ros.ros.node import run_all
    from mm_ros.ros.nodes.viewer import Viewer

    given = {"host": args.host, "port": args.port, "avatars": args.show, "urdf": args.urdf}
    # ROS reads values of its option `-p` as YAML, in which the address `::` is invalid and `true` is no name.
    overrides = [Parameter(name, value=value) for name, value in given.items() if name != "urdf" or value]
    return run_all([partial(Viewer, parameter_overrides=overrides)])
