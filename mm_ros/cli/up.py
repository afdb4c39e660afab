"""`mm_ros up`: run the whole graph in one process, without ros2 launch."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from mm_ros.base.errors import MmRosError
from mm_ros.cli.arguments import Number, add_database, add_number, avatar

BITS = 63  # of a whole number that is a parameter of ROS
DEGREES_OF_JOINTS = Number(-360.0, 360.0, "DEG")

HELP = "start the graph (trackers → pose → TF) in one process"

EXAMPLE = """examples:
  mm_ros up --trackers synthetic            a synthetic user walks around
  mm_ros up --trackers openxr --avatar anna a headset, in the namespace /anna
  mm_ros up --avatars 4                     four synthetic users side by side, one process each
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
    parser.add_argument("--path", default="", help="file for the tracker source: BVH or session")
    add_database(parser)
    parser.add_argument("--avatar", type=avatar, default="avatar", help="avatar namespace (default: %(default)s)")
    add_number(
        parser,
        "--avatars",
        help="start N synthetic users named avatar1, avatar2, …, each in its own process; the processes share memory",
    )
    parser.add_argument(
        "--control", default="vr", choices=("vr", "joystick", "path"), help="source of the desired trajectory"
    )
    parser.add_argument("--visualizer", action="store_true", help="publish markers for RViz")
    parser.add_argument(
        "--camera",
        default="",
        metavar="SOURCE",
        help="camera that corrects the facing: webcam number, video file, image folder, or 'topic' for an image topic",
    )
    parser.add_argument("--place", default="", help="position x,y of the user's room in the world [m] (default: 0,0)")
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
        help="set a node parameter, for example motion_matcher.engine=learned; may be repeated",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from mm_ros.ros.reach import settle_reach

    settle_reach(args.discovery)
    from mm_ros.ros import graph
    from mm_ros.ros.node import run_all

    extra = ["visualizer"] * args.visualizer + ["pose_estimator"] * bool(args.camera)
    extra += ["robot_follower"] * bool(args.urdf)
    nodes = [n for n in graph.nodes_for(args.control, extra) if n.name != "tracker_bridge" or args.trackers != "none"]
    classes = {n.name: n.node_class() for n in nodes}

    def start(one: argparse.Namespace) -> int:
        makers: list[Callable[..., Any]] = [
            partial(kind, parameter_overrides=overrides(name, one)) for name, kind in classes.items()
        ]
        return run_all(makers, ros_arguments(one))

    if args.avatars is None:
        return start(args)
    from mm_ros.base.process import run_each

    each = _each(args)
    _load_once(args.database)
    return run_each([partial(start, one) for one in each])


def _each(args: argparse.Namespace) -> list[argparse.Namespace]:
    """The arguments of each avatar of `--avatars`."""
    from mm_ros.ros.several import side_by_side

    if args.trackers not in ("", "synthetic") or args.place or args.camera:
        raise MmRosError("--avatars starts synthetic users; it cannot be combined with --trackers, --place or --camera")
    users = side_by_side(args.avatar, args.avatars, args.seed or 0)
    return [argparse.Namespace(**{**vars(args), **vars(user)}) for user in users]


def _load_once(database: Path | None) -> None:
    """Load kernels, libraries and the synthetic user's motion before the fork, so that the processes share memory."""
    from mm_ros.cli.warm import load_kernels
    from mm_ros.tracking.sources.synthetic import first_segment

    load_kernels(database)
    first_segment()


def ros_arguments(args: argparse.Namespace) -> list[str]:
    config = ["--params-file", args.config] if args.config else []
    return ["--ros-args", "-r", f"__ns:=/{args.avatar}", *config]


def overrides(node: str, args: argparse.Namespace) -> list[Any]:
    """Parameters of one node from the command line; all others come from --config or the defaults.

    The ROS argument `-p node:name:=value` is not used because it silently ignores nodes in a namespace.
    """
    from rclpy.parameter import Parameter

    from mm_ros.ros.parameters import world_frame

    given = {
        "tracker_bridge": {"source": args.trackers, "path": args.path, "seed": args.seed, "place": _place(args.place)},
        "pose_estimator": {"camera": "" if args.camera == "topic" else args.camera},
        "motion_matcher": {"database": str(args.database or "")},
        "visualizer": {"database": str(args.database or "")},
        "robot_follower": {
            "urdf": args.urdf, "urdf_t_pose": _in_radians(args.urdf_t_pose)
        },
    }.get(node, {})  # fmt: skip
    given = {**given, "world_frame": world_frame(args.world_frame, args.config)}
    chosen = {name: value for name, value in given.items() if value not in (None, "", [])}
    if args.use_sim_time:
        chosen["use_sim_time"] = True
    chosen |= parameters(node, args.parameter)
    return [Parameter(name, value=value) for name, value in chosen.items()]


def parameters(node: str, pairs: Sequence[str]) -> dict[str, Any]:
    """Parameters of `node` among all `NODE.NAME=VALUE` pairs; raise MmRosError for an unknown node or parameter."""
    from mm_ros.base.renamed import refuse_renamed
    from mm_ros.ros import graph

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
    """Parse a value to the type of its default; the node itself refuses a value of another type."""
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
        return text  # nothing that a parameter of ROS can hold
    return float(value) if isinstance(default, float) and isinstance(value, int) else value


def _in_radians(text: str) -> str:
    """Convert `JOINT=DEG,…` to radians for the node's parameter."""
    out = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = part.partition("=")
        try:
            out.append(f"{name.strip()}={math.radians(DEGREES_OF_JOINTS(value))}")
        except argparse.ArgumentTypeError:
            raise MmRosError(f"--urdf-t-pose: expected 'joint=degrees', -360 to 360, came '{part}'") from None
    return ", ".join(out)


def _place(text: str) -> list[float]:
    if not text:
        return []
    try:
        place = [float(v) for v in text.split(",")]
    except ValueError:
        place = []
    if len(place) != 2 or not all(math.isfinite(v) for v in place):
        raise MmRosError(f"--place: expected x,y, came '{text}'")
    return place
