"""`mm_ros up`: run all nodes of the graph in one process, without `ros2 launch`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import read_yaml
from mm_ros.body.plausible import LIMITS
from mm_ros.cli.arguments import add_database, add_number, avatar
from mm_ros.robot.angles import t_pose_in_radians
from mm_ros.ros import graph
from mm_ros.trajectory import CONTROLS

BITS = 63  # An integer parameter of ROS has at most 63 bits without its sign.

HELP = "start the graph (trackers → pose → TF) in one process"

EXAMPLE = """examples:
  mm_ros up --trackers synthetic            a synthetic user walks around
  mm_ros up --trackers webxr                a headset's browser; `mm_ros headset` leads through it
  mm_ros up --trackers openxr --avatar anna a headset, in the namespace /anna
  mm_ros up --control joystick              a gamepad on the topic /avatar/joy
  mm_ros up --control keyboard              keys, gamepad or touch on a page; prints its address
  mm_ros up --avatars 4                     four synthetic users side by side
  mm_ros up --users users.yaml              the users of a file, each with a source of its own
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--trackers",
        default="",
        help="tracker source: synthetic (default), webxr (a headset's browser), mocap, openxr, steamvr, session, "
        "topics; none: no tracker node",
    )
    parser.add_argument(
        "--headset-wifi", action="store_true",
        help="serve the page (--trackers webxr, --control keyboard, --page) to the Wi-Fi, encrypted",
    )
    parser.add_argument("--path", default="", help="input of the tracker source: BVH file or session")
    add_database(parser)
    parser.add_argument("--avatar", type=avatar, default="avatar", help="avatar namespace (default: %(default)s)")
    add_number(
        parser,
        "--avatars",
        help="start N synthetic users named avatar1, avatar2, …, in as few processes as this machine allows",
    )
    parser.add_argument(
        "--users", type=Path, metavar="FILE",
        help="start the users of a YAML file in the same way, each with a separate source (docs/graph.md)",
    )
    add_number(
        parser, "--per-process",
        help="with --avatars and --users: maximum number of avatars in a process (default: measured at the start)",
    )
    parser.add_argument(
        "--control", default="vr", choices=CONTROLS,
        help="source of the desired trajectory (default: %(default)s, the trackers)",
    )  # fmt: skip
    parser.add_argument(
        "--page", action="store_true", help="also serve the page for steering with --control joystick or path"
    )
    parser.add_argument("--visualizer", action="store_true", help="publish markers for RViz")
    parser.add_argument(
        "--camera",
        default="",
        metavar="SOURCE",
        help="camera that corrects the facing: webcam number, video file, image folder, or 'topic' for an image topic",
    )
    parser.add_argument("--place", default="", help="position x,y of the user's room in the world [m] (default: 0,0)")
    parser.add_argument(
        "--tf", default="", choices=("", "joints", "root", "off"),
        help="frames on TF: joints (default), root, off; `root` and `off` also leave out the trackers' frames",
    )
    parser.add_argument("--urdf", default="", help="robot file of a humanoid that follows (URDF, xacro, MJCF)")
    parser.add_argument(
        "--urdf-t-pose", default="", metavar="JOINT=DEG,…",
        help="for method decompose: joint angles in T-pose, 'left_arm=90, right_arm=-90' (default: found)",
    )  # fmt: skip
    add_number(parser, "--seed", help="seed of the synthetic user (default: 0)")
    parser.add_argument(
        "--world-frame",
        default="",
        help="world frame: parent of <avatar>/root on TF and frame of all headers (default: map)",
    )
    parser.add_argument(
        "--discovery",
        default="LOCALHOST",
        choices=("LOCALHOST", "SUBNET", "OFF", "SYSTEM_DEFAULT"),
        help="DDS discovery range (default: %(default)s, this machine only; SUBNET: several machines); "
        "the environment variable ROS_AUTOMATIC_DISCOVERY_RANGE takes precedence",
    )
    parser.add_argument("--use-sim-time", action="store_true", help="take time from /clock")
    parser.add_argument("--config", default="", help="YAML file with node parameters; other options override it")
    parser.add_argument(
        "-p", "--parameter", action="append", default=[], metavar="NODE.NAME=VALUE",
        help="set a node parameter, for example motion_matcher.engine=learned, in the unit that docs/graph.md names "
        "(as usual in ROS, most angles are in radians); may be repeated",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from mm_ros.base.renamed import refuse_renamed_in
    from mm_ros.ros.reach import settle_reach

    if args.config:
        refuse_renamed_in(read_yaml(args.config))
    settle_reach(args.discovery)
    if args.avatars is not None or args.users is not None:
        return _run_several(args)
    from mm_ros.ros.node import keep_running

    nodes = _nodes(args)
    for node, _ in nodes:
        node.node_class().preload()
    if args.trackers in ("", "synthetic"):
        from mm_ros.tracking.sources.synthetic import first_segment

        first_segment()
    return keep_running([_makers(nodes)], ros_arguments(args))


def _run_several(args: argparse.Namespace) -> int:
    from mm_ros.ros.node import keep_running
    from mm_ros.ros.several import in_processes, most_per_process

    users = _users(args)
    _load_once(args.database)
    most = args.per_process or most_per_process(args.database)
    groups = in_processes(users, most, len(os.sched_getaffinity(0)))
    makers = [[m for one in group for m in _makers(_nodes(one), namespace=f"/{one.avatar}")] for group in groups]
    print(f"mm_ros: {len(users)} avatars, processes: {len(groups)}", flush=True)
    return keep_running(makers, ["--ros-args", *_config(args)])


def _nodes(args: argparse.Namespace) -> list[tuple[graph.Node, list[Any]]]:
    """Return the nodes that one avatar needs, each with the parameters from the command line."""
    extra = ["visualizer"] * args.visualizer + ["pose_estimator"] * bool(args.camera)
    extra += ["robot_follower"] * bool(args.urdf)
    nodes = [n for n in graph.nodes_for(args.control, extra) if n.name != "tracker_bridge" or args.trackers != "none"]
    return [(n, overrides(n.name, args)) for n in nodes]


def _makers(nodes: list[tuple[graph.Node, list[Any]]], **more: str) -> list[Callable[..., Any]]:
    return [partial(n.node_class(), parameter_overrides=given, **more) for n, given in nodes]


def _users(args: argparse.Namespace) -> list[argparse.Namespace]:
    from mm_ros.ros.several import users_of

    if args.trackers not in ("", "synthetic") or args.place or args.camera:
        raise MmRosError("several avatars cannot be combined with --trackers, --place or --camera; use --users FILE")
    out = []
    for user in users_of(str(args.users or args.avatars), args.avatar, args.seed or 0):
        given = {name: value for name, value in vars(user).items() if value != ""}
        out.append(argparse.Namespace(**{**vars(args), **given}))
    return out


def _load_once(database: Path | None) -> None:
    """Load compiled functions, libraries and motion before the fork, so that the forked processes share the memory."""
    from mm_ros.cli.warm import load_kernels
    from mm_ros.tracking.sources.synthetic import first_segment

    load_kernels(database)
    first_segment()


def ros_arguments(args: argparse.Namespace) -> list[str]:
    return ["--ros-args", "-r", f"__ns:=/{args.avatar}", *_config(args)]


def _config(args: argparse.Namespace) -> list[str]:
    return ["--params-file", args.config] if args.config else []


def overrides(node: str, args: argparse.Namespace) -> list[Any]:
    """Return the parameters of one node that the command line sets.

    The ROS argument `-p node:name:=value` is not used, because ROS ignores it for nodes in a namespace.
    """
    from rclpy.parameter import Parameter

    from mm_ros.motion.feature_files import STEERED
    from mm_ros.ros.parameters import world_frame

    steered = args.control != "vr"
    page = {"page": args.page or args.control == "keyboard" or None, "page_wifi": args.headset_wifi or None}
    given = {
        "tracker_bridge": {
            "source": args.trackers, "path": args.path, "seed": args.seed, "place": _place(args.place),
            "headset_wifi": args.headset_wifi or None, "tracker_tf": args.tf == "joints" if args.tf else None,
        },
        "joystick_control": page, "path_control": page,
        "pose_estimator": {"camera": "" if args.camera == "topic" else args.camera},
        "motion_matcher": {"database": str(args.database or ""), "control": args.control if steered else ""},
        "visualizer": {"database": str(args.database or ""), "features": STEERED if steered else ""},
        "pose_postprocessor": {"tf": args.tf},
        "robot_follower": {
            "urdf": args.urdf, "urdf_t_pose": t_pose_in_radians("--urdf-t-pose", args.urdf_t_pose)
        },
    }.get(node, {})  # fmt: skip
    given = {**given, "world_frame": world_frame(args.world_frame, args.config)}
    chosen = {name: value for name, value in given.items() if value not in (None, "", [])}
    if args.use_sim_time:
        chosen["use_sim_time"] = True
    chosen |= parameters(node, args.parameter)
    return [Parameter(name, value=value) for name, value in chosen.items()]


def parameters(node: str, pairs: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of `node` from texts of the form NODE.NAME=VALUE; raise MmRosError for unknown names."""
    from mm_ros.base.renamed import refuse_renamed

    out = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        owner, dot, name = path.partition(".")
        if not equals or not dot:
            raise MmRosError(f"-p: expected NODE.NAME=VALUE, came '{pair}'")
        defaults = {k: v for kind in graph.node(owner).settings_types() for k, v in kind.defaults().items()}
        refuse_renamed(owner, name, text)
        if name in graph.FrameSettings.specs():
            raise MmRosError(f"-p: '{name}' is the same for all nodes: use --{name.replace('_', '-')}")
        if name not in defaults:
            raise MmRosError(f"{owner} has no parameter '{name}'. Parameters: {', '.join(defaults)}")
        if owner == node:
            out[name] = _as(defaults[name], text)
    return out


def _as(default: Any, text: str) -> Any:
    """Convert the text of a parameter value to the type of the parameter's default; if this fails, return the text."""
    if isinstance(default, str):
        return text
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return text
    kinds = {type(v) for v in value} if isinstance(value, list) else set()
    if kinds == {int, float}:
        return [float(v) for v in value]
    mixed = len(kinds) > 1 or kinds & {list, dict, type(None)}
    if mixed or isinstance(value, dict) or (isinstance(value, int) and value.bit_length() > BITS):
        return text  # A parameter of ROS cannot hold maps, lists of mixed types or integers of more than 63 bits.
    return float(value) if isinstance(default, float) and isinstance(value, int) else value


def _place(text: str) -> list[float]:
    if not text:
        return []
    try:
        place = [float(v) for v in text.split(",")]
    except ValueError:
        place = []
    if len(place) != 2 or any(not abs(v) <= LIMITS["position"].high for v in place):
        raise MmRosError(f"--place: expected x,y in metres, at most 10 km from 0,0, came '{text}'")
    return place
