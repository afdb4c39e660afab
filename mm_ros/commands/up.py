"""The whole graph in one process, without ROS's launch."""

from __future__ import annotations

import argparse
import os
from functools import partial

from mm_ros.core.errors import MmRosError

HELP = "start the graph: trackers → pose → TF, in one process"

EXAMPLE = """example:
  mm_ros up --trackers synthetic            an invented user walks about
  mm_ros up --trackers openxr --avatar anna a headset, in the namespace /anna
  mm_ros up --avatars 4                     four invented users side by side, a process each
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--trackers", default="synthetic", help="source of trackers; 'none': they come over the topic"
    )
    parser.add_argument("--path", default="", help="file of the source: BVH or session")
    parser.add_argument("--database", default="", help="pose database (default: the procedural one)")
    parser.add_argument("--avatar", default="avatar", help="namespace of the avatar (default: %(default)s)")
    parser.add_argument(
        "--avatars",
        type=int,
        default=0,
        metavar="N",
        help="so many invented users, named avatar1, avatar2, …: each in its own process, which shares what it can",
    )
    parser.add_argument(
        "--control", default="vr", choices=("vr", "joystick", "path"), help="who says where to go"
    )
    parser.add_argument("--visualizer", action="store_true", help="publish markers for RViz")
    parser.add_argument("--place", default="", help="x,y of the user's room in the world [m] (default: 0,0)")
    parser.add_argument("--urdf", default="", help="a humanoid robot that follows on joint_states")
    parser.add_argument(
        "--urdf-t-pose", default="", help="its angles in T-pose: 'joint=1.57, joint=-1.57' (default: all 0)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the synthetic user (default: %(default)s)")
    parser.add_argument(
        "--world-frame", default="map", help="parent of <avatar>/root on TF (default: %(default)s)"
    )
    parser.add_argument(
        "--discovery",
        default="LOCALHOST",
        choices=("LOCALHOST", "SUBNET", "OFF", "SYSTEM_DEFAULT"),
        help="how far DDS looks for others (default: %(default)s, this machine; SUBNET: several machines); "
        "ROS_AUTOMATIC_DISCOVERY_RANGE, where set, wins",
    )
    parser.add_argument("--use-sim-time", action="store_true", help="take time from /clock")
    parser.add_argument("--config", default="", help="YAML with parameters of the nodes")


def run(args: argparse.Namespace) -> int:
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", args.discovery)
    from mm_ros import graph
    from mm_ros.ros.node import run_all

    extra = ["visualizer"] if args.visualizer else []
    nodes = [
        n.node_class()
        for n in graph.nodes_for(args.control, extra)
        if n.name != "tracker_bridge" or args.trackers != "none"
    ]
    if not args.avatars:
        return run_all(nodes, ros_arguments(args))
    from mm_ros.ros.process import run_each

    each = _each(args)
    _load_once(args.database)
    return run_each([partial(run_all, nodes, ros_arguments(one)) for one in each])


def _each(args: argparse.Namespace) -> list[argparse.Namespace]:
    """The arguments of each avatar."""
    from mm_ros.ros.several import side_by_side

    if args.trackers != "synthetic" or args.place:
        raise MmRosError("--avatars starts invented users side by side; it takes neither --trackers nor --place")
    users = side_by_side(args.avatar, args.avatars, args.seed)
    return [argparse.Namespace(**{**vars(args), **vars(user)}) for user in users]


def _load_once(database: str) -> None:
    """Before the avatars part: kernels, libraries and the invented user's motion come into memory once."""
    from mm_ros.commands.warm import load_kernels
    from mm_ros.trackers.synthetic import first_segment

    load_kernels(database)
    first_segment()


def ros_arguments(args: argparse.Namespace) -> list[str]:
    out = ["--ros-args", "-r", f"__ns:=/{args.avatar.strip('/')}"]
    if args.config:
        out += ["--params-file", args.config]
    given = {
        "tracker_bridge:source": args.trackers if args.trackers != "none" else "",
        "tracker_bridge:path": args.path,
        "tracker_bridge:seed": str(args.seed),
        "tracker_bridge:place": _numbers(args.place),
        "pose_postprocessor:urdf": args.urdf,
        "pose_postprocessor:urdf_t_pose": args.urdf_t_pose,
        "motion_matcher:database": args.database,
        "pose_postprocessor:world_frame": args.world_frame,
        "visualizer:world_frame": args.world_frame,
        "use_sim_time": "true" if args.use_sim_time else "",
    }
    for name, value in given.items():
        if value:
            out += ["-p", f"{name}:={value}"]
    return out


def _numbers(text: str) -> str:
    """'0,4' → '[0.0, 4.0]', a list of doubles to ROS's parser."""
    try:
        return str([float(v) for v in text.split(",")]) if text else ""
    except ValueError:
        raise MmRosError(f"--place: expected x,y, came '{text}'") from None
