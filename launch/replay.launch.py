"""Replay a recorded session in simulated time by `ros2 launch mm_ros replay.launch.py session:=FOLDER`."""

from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction

from launch import LaunchDescription
from mm_ros.base.errors import MmRosError
from mm_ros.base.own_python import module_command
from mm_ros.ros import graph, launching

FIXED = {"use_sim_time": "true", "trackers": "none"}


def start(context):
    given = {
        a.name: context.launch_configurations[a.name] for a in launching.ARGUMENTS if a.name not in FIXED
    }
    given["world_frame"] = launching.world_frame_of(given)
    session = context.launch_configurations["session"]
    if not session:
        raise MmRosError(
            "replay.launch.py needs session:=FOLDER, a rosbag2 written by `mm_ros record` or `mm_ros session`"
        )
    command = module_command("mm_ros", "replay", session, "--clock", "--avatar", given["avatar"])
    command += ["--speed", context.launch_configurations["rate"]]
    command += [f"--world-frame={given['world_frame']}"] if given["world_frame"] else []
    command += ["--wait-for", str(sum("trackers" in node.inputs for node in graph.nodes_for(given["control"])))]
    command += ["--loop"] if context.launch_configurations["loop"] == "true" else []
    player = ExecuteProcess(cmd=command, output="screen", name="mm_ros_replay")
    return launching.avatar_actions(**given, **FIXED, extra=[player])


def generate_launch_description() -> LaunchDescription:
    own = [
        DeclareLaunchArgument(
            "session", default_value="", description="Session to replay: a rosbag2 folder or file with tracker poses."
        ),
        DeclareLaunchArgument(
            "rate", default_value="1.0", description="Playback speed. 2.0 is twice the speed of the recording."
        ),
        DeclareLaunchArgument(
            "loop", default_value="false", description="Repeat the session without end.", choices=["true", "false"]
        ),
    ]
    return LaunchDescription([*own, *launching.declared(without=FIXED), OpaqueFunction(function=start)])
