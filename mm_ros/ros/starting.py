"""Starts ROS in a process before the process makes its nodes, so that other processes can find it early.

Processes that use DDS need some tenths of a second, and sometimes seconds, to find each other. Once two processes have
found each other, their topics are connected within milliseconds. A spare process starts ROS in advance, so that it can
replace a killed process at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from mm_ros.base.errors import MmRosError
from mm_ros.ros.reach import settle_reach

_announcing: Node | None = None


def begin(args: Sequence[str] | None = None) -> None:
    """Initialize ROS with the arguments `args` and make a temporary node, by which other processes find this process.

    Further calls of `begin` do nothing. Raise MmRosError for an unreadable parameter file or an unknown argument.
    """
    global _announcing
    if _announcing is not None:
        return
    settle_reach()
    try:
        # With rclpy's own signal handlers, a Ctrl-C during imports would shut ROS down before the process can end.
        rclpy.init(args=None if args is None else list(args), signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:
        raise MmRosError(_sentence(error)) from None
    try:
        _announcing = rclpy.create_node(
            f"_mm_ros_{os.getpid()}", use_global_arguments=False, enable_rosout=False, start_parameter_services=False
        )  # `ros2 node list` hides nodes whose name begins with an underscore.
    except RuntimeError as error:  # rclpy raises RCLError if SROS2 is enabled but DDS was built without security.
        rclpy.try_shutdown()
        raise MmRosError(_sentence(error)) from None


def announced() -> None:
    """Remove the temporary node that `begin` has made; call `announced` after the nodes of the process were made."""
    global _announcing
    if _announcing is not None:
        node, _announcing = _announcing, None
        node.destroy_node()


@contextmanager
def begun(args: Sequence[str] | None = None) -> Iterator[None]:
    """Context that calls `begin` at its start and shuts ROS down at its end, even if an error occurs."""
    begin(args)
    try:
        yield
    finally:
        announced()
        rclpy.try_shutdown()


def _sentence(error: RuntimeError) -> str:
    return " ".join(str(error).split(", at /")[0].split())
