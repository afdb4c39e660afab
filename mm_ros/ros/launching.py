"""Arguments and actions of the launch files, made from the description in `mm_ros/ros/graph.py`."""

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
from mm_ros.motion.feature_files import STEERED
from mm_ros.robot.angles import t_pose_in_radians
from mm_ros.robot.figure import state_publisher_suffices
from mm_ros.robot.load import robot_text
from mm_ros.ros import graph
from mm_ros.ros.parameters import world_frame
from mm_ros.ros.rviz import rviz_config
from mm_ros.ros.several import User, users_of
from mm_ros.tracking.sources import SOURCES
from mm_ros.trajectory import CONTROLS


@dataclass(frozen=True)
class Argument:
    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


# A crashed node is started again after this time [s], which limits the CPU load of a node that crashes at each start.
RESPAWN_S = 0.3
YES_NO = ("true", "false")
STATE_PUBLISHER = "robot_state_publisher"

ARGUMENTS: tuple[Argument, ...] = (
    Argument("avatar", "avatar", "Namespace and TF prefix of the avatar."),
    Argument(
        "trackers",
        "",
        "Source of the trackers. none: another machine or a replay publishes the trackers. Empty: as in config "
        "(synthetic).",
        ("", *SOURCES, "none"),
    ),
    Argument("path", "", "Input of the source. mocap: BVH file or folder of them; session: session folder."),
    Argument(
        "headset_wifi", "false",
        "Serve the page (trackers:=webxr, control:=keyboard, page:=true) to the Wi-Fi, encrypted.", YES_NO,
    ),
    Argument("seed", "", "Random seed of the synthetic user. Empty: as in config (0)."),
    Argument("database", "", "Pose database. Empty: the procedural database, which is generated once and cached."),
    Argument("control", "vr", "Input that steers the avatar. vr: the trackers.", CONTROLS),
    Argument("page", "false", "Serve the page for steering also with control:=joystick or path.", YES_NO),
    Argument("config", "", "YAML file of parameters. Empty: config/avatar.yaml of the package."),
    Argument("rviz", "false", "Start RViz and publish markers for it.", YES_NO),
    Argument("viewer", "false", "Serve the inspector page to the browser.", YES_NO),
    Argument("pose_estimator", "false", "Run pose_estimator: camera landmarks correct the facing.", YES_NO),
    Argument(
        "camera", "", "Input of pose_estimator: webcam number, video file or folder of pictures. Empty: topic image.",
    ),
    Argument("record", "", "Record the inputs as a session into this folder. Empty: no recording."),
    Argument(
        "tf", "", "Frames on TF: joints, root (only the avatar's root), off. Empty: as in config (joints).",
        ("", "joints", "root", "off"),
    ),
    Argument("composed", "false", "Run all nodes in one process instead of one process per node.", YES_NO),
    Argument("urdf", "", "Robot file (URDF, xacro, MJCF) of a humanoid that follows the avatar on joint_targets."),
    Argument("urdf_t_pose", "", "For method decompose: joint angles in T-pose, in degrees: 'joint=90'."),
    Argument(
        "world_frame",
        "",
        "Name of the world frame: parent of <avatar>/root on TF, frame_id of messages, fixed frame of RViz. "
        "Empty: as in config (map).",
    ),
    Argument("use_sim_time", "false", "Use the time of /clock.", YES_NO),
    Argument(
        "discovery",
        "LOCALHOST",
        "Discovery range of DDS: LOCALHOST (this machine), SUBNET (several machines), OFF, SYSTEM_DEFAULT. "
        "The environment variable ROS_AUTOMATIC_DISCOVERY_RANGE overrides it.",
        ("LOCALHOST", "SUBNET", "OFF", "SYSTEM_DEFAULT"),
    ),
)


def declared(without: Collection[str] = ()) -> list[Any]:
    """Declare the launch arguments, except the arguments in `without`, which the launch file sets itself."""
    from launch.actions import DeclareLaunchArgument

    return [
        DeclareLaunchArgument(
            a.name, default_value=a.default, description=a.description, choices=a.choices or None
        )
        for a in ARGUMENTS
        if a.name not in without
    ]


def avatar_actions(extra: Sequence[Any] = (), **given: str) -> list[Any]:
    """Return the launch actions of one avatar: prepare compiled functions and database, then start the nodes and the
    actions `extra`."""
    check(given)
    given = {**_framed(given), "avatar": _avatar_name(given["avatar"])}
    others = [*_robot(given), *_others(given, [given["avatar"]])]
    return [*_environment(given), *_after(_warm(given), [*_nodes(given), *others, *extra])]


def many(avatars: str, given: dict[str, str]) -> list[Any]:
    """Return the launch actions of several avatars, with one viewer and one RViz for all. `avatars` is the number of
    synthetic users, or a YAML file that lists users."""
    names = ("path", "record", "urdf", "urdf_t_pose")
    fixed = {**_framed(given), **dict.fromkeys(names, ""), "control": "vr", "trackers": "synthetic", "viewer": "false"}
    fixed["pose_estimator"] = "false"  # synthetic users have no camera
    users = users_of(avatars, "avatar")
    each = [{**fixed, **_given(user)} for user in users]
    for one in each:
        check(one)
    if given["composed"] == "true":
        together = {**fixed, "avatar": "avatar", "trackers": ""}
        nodes = _one_process(together, ["--avatars" if avatars.isdigit() else "--users", avatars])
    else:
        nodes = [n for one in each for n in _processes(one)]
    places = [tuple(float(v) for v in user.place.split(",")) for user in users]
    shared = {**each[0], "viewer": given["viewer"], "avatar": "/"}
    others = _others(shared, [user.avatar for user in users], places)
    return [*_environment(given), *_after(_warm(fixed), [*nodes, *others])]


def _avatar_name(text: str) -> str:
    """Return the name without slashes around it, as nodes use it in TF frames. RViz needs it in names of topics."""
    name = text.strip("/")
    if not name:
        raise MmRosError(f"avatar:={text}: expected a name, for example avatar:=anna")
    return name


def _given(user: User) -> dict[str, str]:
    return {name: str(value) for name, value in vars(user).items() if value != ""}


def _framed(given: dict[str, str]) -> dict[str, str]:
    """Add the name of the world frame from the parameter file, so that all nodes and RViz use one world frame."""
    return {**given, "world_frame": world_frame_of(given)}


def world_frame_of(given: dict[str, str]) -> str:
    return world_frame(given["world_frame"], _parameters(given)[0])


def _environment(given: dict[str, str]) -> list[Any]:
    """Return actions that set the discovery range of ROS and make the started processes end with the launch process."""
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
    """Raise MmRosError for wrong launch arguments before any process is started."""
    for name in ("database", "config", "path", "urdf"):
        if given[name] and not Path(given[name]).exists():
            hint = " Make one with `mm_ros import PATH… -o DB`." if name == "database" else ""
            raise MmRosError(f"{name}:={given[name]} does not exist.{hint}")
    t_pose_in_radians("urdf_t_pose", given["urdf_t_pose"])
    if given["config"]:
        refuse_renamed_in(read_yaml(Path(given["config"])))


def _parameters(given: dict[str, str]) -> list[Any]:
    return [given["config"] or str(share_folder() / "config" / "avatar.yaml")]


def overrides(node: str, given: dict[str, str]) -> dict[str, Any]:
    """Return the values of launch arguments that are parameters of the node `node`. An empty launch argument is left
    out, so that the value of the parameter file is used."""
    out: dict[str, Any] = {"use_sim_time": given["use_sim_time"] == "true", "world_frame": given["world_frame"]}
    if node == "tracker_bridge":
        out |= {"source": given["trackers"], "path": given["path"]}
        if given.get("headset_wifi") == "true":
            out["headset_wifi"] = True
        if given["seed"]:
            out["seed"] = _whole("seed", given["seed"])
        if given["tf"]:
            out["tracker_tf"] = given["tf"] == "joints"
        if "place" in given:
            out["place"] = [float(v) for v in given["place"].split(",")]
    if node in ("joystick_control", "path_control"):
        if given["control"] == "keyboard" or given.get("page") == "true":
            out["page"] = True
        if given.get("headset_wifi") == "true":
            out["page_wifi"] = True
    if node == "pose_estimator":
        number = given["camera"].isdigit()  # without a prefix, ROS launch would make "0" an integer
        out["camera"] = f"webcam {given['camera']}" if number else given["camera"]
    if node in ("motion_matcher", "visualizer"):
        out["database"] = given["database"]
    if given["control"] != "vr":
        out |= {"motion_matcher": {"control": given["control"]}, "visualizer": {"features": STEERED}}.get(node, {})
    if node == "pose_postprocessor":
        out["tf"] = given["tf"]
    if node == "robot_follower":
        out |= {"urdf": given["urdf"], "urdf_t_pose": t_pose_in_radians("urdf_t_pose", given["urdf_t_pose"])}
        if given["urdf"]:
            out["link_tf"] = not _has_state_publisher(given["urdf"])
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
            respawn_delay=RESPAWN_S,
        )
        for n in graph.nodes_for(given["control"], _optional(given))
        if given["trackers"] != "none" or n.name != "tracker_bridge"
    ]


def _optional(given: dict[str, str]) -> list[str]:
    asked = {"visualizer": given["rviz"], "pose_estimator": given["pose_estimator"]}
    asked["robot_follower"] = "true" if given["urdf"] else "false"
    return [name for name, wanted in asked.items() if wanted == "true"]


def _one_process(given: dict[str, str], more: Sequence[str] = ()) -> list[Any]:
    from launch.actions import ExecuteProcess

    command = module_command("mm_ros", "up", "--avatar", given["avatar"], "--control", given["control"])
    command += ["--config", _parameters(given)[0]]
    for name in ("trackers", "path", "seed", "database", "place", "urdf", "urdf_t_pose", "world_frame", "tf"):
        command += [f"--{name.replace('_', '-')}={given[name]}"] if given.get(name) else []
    command += ["--page"] if given.get("page") == "true" else []
    command += ["--headset-wifi"] if given.get("headset_wifi") == "true" else []
    if given.get("urdf") and _has_state_publisher(given["urdf"]):
        command += ["-p", "robot_follower.link_tf=false"]
    command += ["--visualizer"] if given["rviz"] == "true" else []
    command += [f"--camera={given['camera'] or 'topic'}"] if given["pose_estimator"] == "true" else []
    command += more
    command += ["--use-sim-time"] if given["use_sim_time"] == "true" else []
    return [ExecuteProcess(cmd=command, output="screen", respawn=True, respawn_delay=RESPAWN_S, name="mm_ros_up")]


def _others(given: dict[str, str], avatars: Sequence[str], places: Any = ((0.0, 0.0),)) -> list[Any]:
    from launch.actions import ExecuteProcess
    from launch_ros.actions import Node

    out: list[Any] = []
    time = [{"use_sim_time": given["use_sim_time"] == "true"}]
    if given["rviz"] == "true":
        robot = bool(given["urdf"] and robot_text(given["urdf"]))  # no description of MJCF files is published
        view = _write_view(rviz_config(avatars, given["world_frame"] or "map", robot, places))
        out.append(Node(package="rviz2", executable="rviz2", arguments=["-d", view], parameters=time))
    if given["viewer"] == "true":
        out.append(
            Node(
                package="mm_ros",
                executable="viewer",
                namespace=given["avatar"],
                parameters=[*_parameters(given), *time, {"urdf": given["urdf"]}],
                output="screen",
            )
        )
    if given["record"]:
        command = module_command("mm_ros", "record", "-o", given["record"], "--avatar", given["avatar"])
        out.append(ExecuteProcess(cmd=command, output="screen", name="mm_ros_record"))
    return out


def _write_view(text: str) -> str:
    from launch.logging import launch_config

    path = Path(launch_config.log_dir) / "avatar.rviz"
    path.write_text(text, encoding="utf-8")
    return str(path)


def _robot(given: dict[str, str]) -> list[Any]:
    from launch_ros.actions import Node
    from launch_ros.parameter_descriptions import ParameterValue

    if not given["urdf"] or not _has_state_publisher(given["urdf"]):
        return []
    return [
        Node(
            package=STATE_PUBLISHER,
            executable=STATE_PUBLISHER,
            namespace=given["avatar"],
            parameters=[
                {
                    "robot_description": ParameterValue(robot_text(given["urdf"]), value_type=str),
                    "frame_prefix": f"{given['avatar']}/robot/",
                    # The maximum, at which links are published for each message. The default is 20 Hz.
                    "publish_frequency": 1000.0,
                    "use_sim_time": given["use_sim_time"] == "true",
                }
            ],
            # The robot's URDF gets its own topic, because `robot_description` already contains the URDF of the avatar.
            remappings=[("robot_description", f"{STATE_PUBLISHER}/robot_description")],
            output="screen",
            respawn=True,
            respawn_delay=RESPAWN_S,
        )
    ]


def _has_state_publisher(robot: str) -> bool:
    """Return whether robot_state_publisher publishes the robot's links on TF. Otherwise, `robot_follower` does."""
    if not state_publisher_suffices(robot):
        return False
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix

    try:
        get_package_prefix(STATE_PUBLISHER)
    except PackageNotFoundError:
        return False
    return True


def _warm(given: dict[str, str]) -> Any:
    """Return a launch action that compiles functions and generates the default database before the nodes start."""
    from launch.actions import ExecuteProcess

    database = ["--database", given["database"]] if given["database"] else []
    command = module_command("mm_ros", "warm", "--control", given["control"], *database)
    return ExecuteProcess(cmd=command, output="screen", name="mm_ros_warm")


def _after(first: Any, then: list[Any]) -> list[Any]:
    from launch.actions import RegisterEventHandler, Shutdown
    from launch.event_handlers import OnProcessExit

    def started(event: Any, _context: Any) -> list[Any]:
        if event.returncode == 0:
            return then
        return [Shutdown(reason="mm_ros warm failed; see its message above")]

    return [first, RegisterEventHandler(OnProcessExit(target_action=first, on_exit=started))]
