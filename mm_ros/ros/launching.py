"""What the launch files start, from the one list in `mm_ros/ros/graph.py`. Imported by launch files only."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm_ros.base.ending import PARENT
from mm_ros.base.errors import MmRosError
from mm_ros.base.files import read_yaml
from mm_ros.base.own_python import module_command
from mm_ros.base.renamed import refuse_renamed_in
from mm_ros.base.share import share_folder
from mm_ros.ros import graph
from mm_ros.ros.parameters import world_frame
from mm_ros.ros.rviz import rviz_config
from mm_ros.ros.several import side_by_side
from mm_ros.tracking.sources import SOURCES


@dataclass(frozen=True)
class Argument:
    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


YES_NO = ("true", "false")
STATE_PUBLISHER = "robot_state_publisher"

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
    Argument(
        "world_frame",
        "",
        "the room's frame: parent of <avatar>/root on TF, in every header, RViz's fixed frame; "
        "empty: as config says, map",
    ),
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
    given = _framed(given)
    others = [*_robot(given), *_others(given, [given["avatar"]])]
    return [*_surroundings(given), *_after(_warm(given["database"]), [*_nodes(given), *others, *extra])]


def many(avatars: str, given: dict[str, str]) -> list[Any]:
    """Synthetic users side by side; one viewer and one RViz for all."""
    names = ("path", "record", "urdf", "urdf_t_pose")
    fixed = {**_framed(given), **dict.fromkeys(names, ""), "control": "vr", "trackers": "synthetic", "viewer": "false"}
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
    others = _others({**each[0], "viewer": given["viewer"], "avatar": "/"}, [one["avatar"] for one in each])
    return [*_surroundings(given), *_after(_warm(given["database"]), [*nodes, *others])]


def _framed(given: dict[str, str]) -> dict[str, str]:
    """One world frame for all nodes and RViz, also when the file of parameters names it."""
    return {**given, "world_frame": world_frame_of(given)}


def world_frame_of(given: dict[str, str]) -> str:
    return world_frame(given["world_frame"], _parameters(given)[0])


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
    if given["config"]:
        refuse_renamed_in(read_yaml(Path(given["config"])))


def _parameters(given: dict[str, str]) -> list[Any]:
    return [given["config"] or str(share_folder() / "config" / "avatar.yaml")]


def overrides(node: str, given: dict[str, str]) -> dict[str, Any]:
    """Launch arguments that are parameters of this node; those that are empty are left to the file of parameters."""
    out: dict[str, Any] = {"use_sim_time": given["use_sim_time"] == "true", "world_frame": given["world_frame"]}
    if node == "tracker_bridge":
        out |= {"source": given["trackers"], "path": given["path"]}
        if given["seed"]:
            out["seed"] = _whole("seed", given["seed"])
        if "place" in given:
            out["place"] = [float(v) for v in given["place"].split(",")]
    if node == "pose_estimator":
        number = given["camera"].isdigit()  # which launch would hand on as a number
        out["camera"] = f"webcam {given['camera']}" if number else given["camera"]
    if node in ("motion_matcher", "visualizer"):
        out["database"] = given["database"]
    if node == "pose_postprocessor":
        out |= {"urdf": given["urdf"], "urdf_t_pose": given["urdf_t_pose"]}
        if given["urdf"]:
            out["link_tf"] = not _has_state_publisher()
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

    command = module_command("mm_ros", "up", "--avatar", given["avatar"], "--control", given["control"])
    command += ["--config", _parameters(given)[0]]
    for name in ("trackers", "path", "seed", "database", "place", "urdf", "world_frame"):
        command += [f"--{name.replace('_', '-')}={given[name]}"] if given.get(name) else []
    t_pose = given.get("urdf_t_pose")  # in radians, as the parameter; the command's option has degrees
    command += ["-p", f"pose_postprocessor.urdf_t_pose={t_pose}"] if t_pose else []
    if given.get("urdf") and _has_state_publisher():
        command += ["-p", "pose_postprocessor.link_tf=false"]
    command += ["--visualizer"] if given["rviz"] == "true" else []
    command += [f"--camera={given['camera'] or 'topic'}"] if given["pose_estimator"] == "true" else []
    command += more
    command += ["--use-sim-time"] if given["use_sim_time"] == "true" else []
    return [ExecuteProcess(cmd=command, output="screen", respawn=True, respawn_delay=1.0, name="mm_ros_up")]


def _others(given: dict[str, str], avatars: Sequence[str]) -> list[Any]:
    """`avatars`: those that RViz shows."""
    from launch.actions import ExecuteProcess
    from launch_ros.actions import Node

    out: list[Any] = []
    time = [{"use_sim_time": given["use_sim_time"] == "true"}]
    if given["rviz"] == "true":
        view = _write_view(rviz_config(avatars, given["world_frame"] or "map", bool(given["urdf"])))
        out.append(Node(package="rviz2", executable="rviz2", arguments=["-d", view], parameters=time))
    if given["viewer"] == "true":
        out.append(
            Node(
                package="mm_ros",
                executable="viewer",
                namespace=given["avatar"],
                parameters=[*_parameters(given), *time],
                output="screen",
            )
        )
    if given["record"]:
        command = module_command("mm_ros", "record", "-o", given["record"], "--avatar", given["avatar"])
        out.append(ExecuteProcess(cmd=command, output="screen", name="mm_ros_record"))
    return out


def _write_view(text: str) -> str:
    """Beside the logs of this launch, where ROS keeps what belongs to one start."""
    from launch.logging import launch_config

    path = Path(launch_config.log_dir) / "avatar.rviz"
    path.write_text(text, encoding="utf-8")
    return str(path)


def _robot(given: dict[str, str]) -> list[Any]:
    """Moves the links of the user's robot, where it is installed; else `pose_postprocessor` does."""
    from launch_ros.actions import Node
    from launch_ros.parameter_descriptions import ParameterValue

    if not given["urdf"] or not _has_state_publisher():
        return []
    return [
        Node(
            package=STATE_PUBLISHER,
            executable=STATE_PUBLISHER,
            namespace=given["avatar"],
            parameters=[
                {
                    "robot_description": ParameterValue(Path(given["urdf"]).read_text("utf-8"), value_type=str),
                    "frame_prefix": f"{given['avatar']}/robot/",
                    "use_sim_time": given["use_sim_time"] == "true",
                }
            ],
            # `pose_postprocessor` publishes the same text there.
            remappings=[("robot_description", f"{STATE_PUBLISHER}/robot_description")],
            output="screen",
            respawn=True,
            respawn_delay=1.0,
        )
    ]


def _has_state_publisher() -> bool:
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix

    try:
        get_package_prefix(STATE_PUBLISHER)
    except PackageNotFoundError:
        return False
    return True


def _warm(database: str) -> Any:
    """Compiles the kernels and makes the default database once, so that the nodes do not each do it."""
    from launch.actions import ExecuteProcess

    command = module_command("mm_ros", "warm", *(["--database", database] if database else []))
    return ExecuteProcess(cmd=command, output="screen", name="mm_ros_warm")


def _after(first: Any, then: list[Any]) -> list[Any]:
    from launch.actions import RegisterEventHandler, Shutdown
    from launch.event_handlers import OnProcessExit

    def started(event: Any, _context: Any) -> list[Any]:
        if event.returncode == 0:
            return then
        return [Shutdown(reason="mm_ros warm failed; its message stands above")]

    return [first, RegisterEventHandler(OnProcessExit(target_action=first, on_exit=started))]
