"""Launch the whole graph for one avatar: `ros2 launch mm_ros avatar.launch.py`. mm_ros/ros/graph.py describes nodes and
topics.
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
