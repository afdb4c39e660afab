"""Launch all nodes of one avatar by `ros2 launch mm_ros avatar.launch.py`. The nodes are listed in mm_ros/ros/graph.py.
"""

from launch.actions import OpaqueFunction

from launch import LaunchDescription
from mm_ros.ros import launching


def start(context):
    return launching.avatar_actions(
        **{a.name: context.launch_configurations[a.name] for a in launching.ARGUMENTS}
    )


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription([*launching.declared(), OpaqueFunction(function=start)])
