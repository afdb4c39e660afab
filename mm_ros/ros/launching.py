"""What the launch files start, from the one list in `mm_ros/graph.py`. Imported by launch files only."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm_ros import graph
from mm_ros.core.errors import MmRosError
from mm_ros.ending import PARENT
from mm_ros.ros.several import side_by_side
from mm_ros.share import share_folder
from mm_ros.trackers import SOURCES


@dataclass(frozen=True)
class Argument:
    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


YES_NO = ("true", "false")

ARGUMENTS: tuple[Argument, ...] = (
    Argument("avatar", "avatar", "namespace and TF prefix of the avatar"),
    Argument(
        "trackers",
        "",
        "where trackers come from; none: another machine or a replay publishes them; empty: as config says, synthetic",
        ("", *SOURCES, "none"),
    ),
    Argument("path", "", "file of the tracker source: BVH for trackers:=mocap, folder for trackers:=session"),
    Argument("seed", "", "of the synthetic user; empty: as config says, 0"),
    Argument("database", "", "pose database; empty is the procedural one, made once into the cache"),
    Argument("control", "vr", "who says where to go", ("vr", "joystick", "path")),
    Argument("config", "", "YAML of parameters; empty is config/avatar.yaml of the package"),
    Argument("rviz", "false", "open RViz, and publish markers for it", YES_NO),
    Argument("viewer", "false", "serve the avatar to the browser", YES_NO),
    Argument("pose_estimator", "false", "landmarks of the user from a camera correct the facing", YES_NO),
    Argument("camera", "", "for it: number of a webcam, video file, folder of pictures; empty: the topic image"),
    Argument("record", "", "record the inputs as a session into this folder"),
    Argument("composed", "false", "all nodes in one process instead of one each", YES_NO),
    Argument("urdf", "", "URDF of a humanoid robot that follows the avatar on joint_states"),
    Argument("urdf_t_pose", "", "angles at which that robot stands in T-pose: 'joint=1.57, joint=-1.57'"),
    Argument("world_frame", "", "parent of <avatar>/root on TF; empty: as config says, map"),
    Argument("use_sim_time", "false", "take time from /clock", YES_NO),
    Argument(
        "discovery",
        "LOCALHOST",
        "how far DDS looks for others: LOCALHOST (this machine), SUBNET (several machines), OFF, "
        "SYSTEM_DEFAULT; ROS_AUTOMATIC_DISCOVERY_RANGE, where set, wins",
        ("LOCALHOST", "SUBNET", "OFF", "SYSTEM_DEFAULT"),
    ),
)


def declared(without: Collection[str] = ()) -> list[Any]:
    """The launch arguments, but those that a launch file fixes itself."""
    from launch.actions import DeclareLaunchArgument

    return [
        DeclareLaunchArgument(
            a.name, default_value=a.default, description=a.description, choices=a.choices or None
        )
        for a in ARGUMENTS
        if a.name not in without
    ]


def avatar_actions(extra: Sequence[Any] = (), **given: str) -> list[Any]:
    """One avatar: kernels and database first, then its nodes, then `extra`."""
    check(given)
    return [*_surroundings(given), *_after(_warm(given["database"]), [*_nodes(given), *_others(given), *extra])]


def many(avatars: str, given: dict[str, str]) -> list[Any]:
    """Synthetic users side by side; one viewer and one RViz for all."""
    names = ("path", "record", "urdf", "urdf_t_pose")
    fixed = {**given, **dict.fromkeys(names, ""), "control": "vr", "trackers": "synthetic", "viewer": "false"}
    fixed["pose_estimator"] = "false"  # invented users stand before no camera
    each = [
        {**fixed, "avatar": user.avatar, "seed": str(user.seed), "place": user.place}
        for user in side_by_side("avatar", _whole("avatars", avatars))
    ]
    check(each[0])
    if given["composed"] == "true":
        together = {**fixed, "avatar": "avatar", "seed": "0"}
        nodes = _one_process(together, ["--avatars", str(len(each))])
    else:
        nodes = [n for one in each for n in _processes(one)]
    others = _others({**each[0], "viewer": given["viewer"], "avatar": "/"})
    return [*_surroundings(given), *_after(_warm(given["database"]), [*nodes, *others])]


def _surroundings(given: dict[str, str]) -> list[Any]:
    """Closed by default: discovery stays on this machine unless the user says otherwise. And who ends with us."""
    from launch.actions import SetEnvironmentVariable

    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", given["discovery"])
    values = {
        "ROS_AUTOMATIC_DISCOVERY_RANGE": os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"],
        PARENT: str(os.getpid()),
    }
    return [SetEnvironmentVariable(name, value) for name, value in values.items()]


def _nodes(given: dict[str, str]) -> list[Any]:
    return _one_process(given) if given["composed"] == "true" else _processes(given)


def check(given: dict[str, str]) -> None:
    """A user's mistake is a sentence before anything starts."""
    for name in ("database", "config", "path", "urdf"):
        if given[name] and not Path(given[name]).exists():
            hint = " Make one with `mm_ros import PATH… -o DB`." if name == "database" else ""
            raise MmRosError(f"{name}:={given[name]} does not exist.{hint}")


def _parameters(given: dict[str, str]) -> list[Any]:
    return [given["config"] or str(share_folder() / "config" / "avatar.yaml")]


def overrides(node: str, given: dict[str, str]) -> dict[str, Any]:
    """Launch arguments that are parameters of this node; those that are empty are left to the file of parameters."""
    out: dict[str, Any] = {"use_sim_time": given["use_sim_time"] == "true"}
    if node == "tracker_bridge":
        out |= {"source": given["trackers"], "path": given["path"]}
        if given["seed"]:
            out["seed"] = _whole("seed", given["seed"])
        if "place" in given:
            out["place"] = [float(v) for v in given["place"].split(",")]
    if node == "pose_estimator":
        number = given["camera"].isdigit()  # which launch would hand on as a number
        out["camera"] = f"webcam {given['camera']}" if number else given["camera"]
    if node == "motion_matcher":
        out["database"] = given["database"]
    if node in ("pose_postprocessor", "visualizer"):
        out["world_frame"] = given["world_frame"]
    if node == "pose_postprocessor":
        out |= {"urdf": given["urdf"], "urdf_t_pose": given["urdf_t_pose"]}
    return {name: value for name, value in out.items() if value != ""}


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise MmRosError(f"{name}:={text} is not a whole number") from None


def _processes(given: dict[str, str]) -> list[Any]:
    from launch_ros.actions import Node

    return [
        Node(
            package="mm_ros",
            executable=n.name,
            name=n.name,
            namespace=given["avatar"],
            parameters=[*_parameters(given), overrides(n.name, given)],
            output="screen",
            respawn=True,
            respawn_delay=1.0,
        )
        for n in graph.nodes_for(given["control"], _optional(given))
        if given["trackers"] != "none" or n.name != "tracker_bridge"
    ]


def _optional(given: dict[str, str]) -> list[str]:
    """Optional nodes of the chain that were asked for."""
    asked = {"visualizer": given["rviz"], "pose_estimator": given["pose_estimator"]}
    return [name for name, wanted in asked.items() if wanted == "true"]


def _one_process(given: dict[str, str], more: Sequence[str] = ()) -> list[Any]:
    from launch.actions import ExecuteProcess

    command = [sys.executable, "-m", "mm_ros", "up", "--avatar", given["avatar"], "--control", given["control"]]
    command += ["--config", _parameters(given)[0]]
    for name in ("trackers", "path", "seed", "database", "place", "urdf", "world_frame"):
        command += [f"--{name.replace('_', '-')}={given[name]}"] if given.get(name) else []
    t_pose = given.get("urdf_t_pose")  # in radians, as the parameter; the command's option has degrees
    command += ["-p", f"pose_postprocessor.urdf_t_pose={t_pose}"] if t_pose else []
    command += ["--visualizer"] if given["rviz"] == "true" else []
    command += [f"--camera={given['camera'] or 'topic'}"] if given["pose_estimator"] == "true" else []
    command += more
    command += ["--use-sim-time"] if given["use_sim_time"] == "true" else []
    return [ExecuteProcess(cmd=command, output="screen", respawn=True, respawn_delay=1.0, name="mm_ros_up")]


def _others(given: dict[str, str]) -> list[Any]:
    from launch.actions import ExecuteProcess
    from launch_ros.actions import Node

    out: list[Any] = []
    if given["rviz"] == "true":
        view = ["-d", str(share_folder() / "rviz" / "avatar.rviz")]
        out.append(Node(package="rviz2", executable="rviz2", namespace=given["avatar"], arguments=view))
    if given["viewer"] == "true":
        out.append(Node(package="mm_ros", executable="viewer", namespace=given["avatar"], output="screen"))
    if given["record"]:
        command = [
            sys.executable,
            "-m",
            "mm_ros",
            "record",
            "-o",
            given["record"],
            "--avatar",
            given["avatar"],
        ]
        out.append(ExecuteProcess(cmd=command, output="screen", name="mm_ros_record"))
    return out


def _warm(database: str) -> Any:
    """Compiles the kernels and makes the default database once, so that the nodes do not each do it."""
    from launch.actions import ExecuteProcess

    command = [sys.executable, "-m", "mm_ros", "warm", *(["--database", database] if database else [])]
    return ExecuteProcess(cmd=command, output="screen", name="mm_ros_warm")


def _after(first: Any, then: list[Any]) -> list[Any]:
    from launch.actions import RegisterEventHandler, Shutdown
    from launch.event_handlers import OnProcessExit

    def started(event: Any, _context: Any) -> list[Any]:
        if event.returncode == 0:
            return then
        return [Shutdown(reason="mm_ros warm failed; its message stands above")]

    return [first, RegisterEventHandler(OnProcessExit(target_action=first, on_exit=started))]
