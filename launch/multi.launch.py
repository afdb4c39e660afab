"""Launch several avatars with synthetic users, for example by `ros2 launch mm_ros multi.launch.py avatars:=3`."""

from launch.actions import DeclareLaunchArgument, OpaqueFunction

from launch import LaunchDescription
from mm_ros.ros import launching

FIXED = ("avatar", "trackers", "path", "seed", "control", "record", "urdf", "urdf_t_pose")


def start(context):
    given = {
        a.name: context.launch_configurations[a.name] for a in launching.ARGUMENTS if a.name not in FIXED
    }
    return launching.many(context.launch_configurations["avatars"], given)


def generate_launch_description() -> LaunchDescription:
    own = DeclareLaunchArgument(
        "avatars",
        default_value="2",
        description="Number of synthetic users avatar1, avatar2, …, or a YAML file of users with their sources.",
    )
    return LaunchDescription([own, *launching.declared(without=FIXED), OpaqueFunction(function=start)])
