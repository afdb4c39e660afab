"""Starts ROS in a process that runs nodes, before the process makes the nodes.

DDS processes need some tenths of a second, and sometimes seconds, to find each other. This discovery runs in threads of
DDS. Topics that are created afterwards are matched within milliseconds. Therefore a spare process starts the discovery
and then waits, so that it joins the graph at once when it replaces a killed process.
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
    """Initialize ROS with these arguments and announce the process, unless `begin` was called before.

    Raise MmRosError for an unreadable parameter file or an unknown argument.
    """
    global _announcing
    if _announcing is not None:
        return
    settle_reach()
    try:
        # The handlers of rclpy would shut ROS down while modules are imported; `ending.remember` sets ours.
        rclpy.init(args=None if args is None else list(args), signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:  # RCLError
        raise MmRosError(_sentence(error)) from None
    try:
        _announcing = rclpy.create_node(
            f"_mm_ros_{os.getpid()}", use_global_arguments=False, enable_rosout=False, start_parameter_services=False
        )  # a leading underscore hides it from `ros2 node list`
    except RuntimeError as error:  # RCLError: SROS2 with a DDS built without security
        rclpy.try_shutdown()
        raise MmRosError(_sentence(error)) from None


def announced() -> None:
    """Remove the node of the announcement; the nodes of this process must exist now."""
    global _announcing
    if _announcing is not None:
        node, _announcing = _announcing, None
        node.destroy_node()


@contextmanager
def begun(args: Sequence[str] | None = None) -> Iterator[None]:
    """Context that calls `begin` and shuts ROS down at its end, even if an error occurs before a node was made."""
    begin(args)
    try:
        yield
    finally:
        announced()
        rclpy.try_shutdown()


def _sentence(error: RuntimeError) -> str:
    return " ".join(str(error).split(", at /")[0].split())
