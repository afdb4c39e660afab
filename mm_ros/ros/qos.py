"""Quality of service (QoS) profiles and message classes of the topics in `mm_ros/ros/graph.py`."""

from __future__ import annotations

import importlib
from typing import Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy

from mm_ros.ros.graph import Qos


def publisher_qos(qos: Qos, depth: int = 0) -> QoSProfile:
    """Return the QoS profile of a publisher whose queue holds at least `depth` messages."""
    return _profile(qos, qos.reliable, max(depth, qos.depth))


def subscription_qos(qos: Qos) -> QoSProfile:
    """Return the QoS profile of a node's subscription, whose queue is short, so that the node processes only the newest
    messages after a stall."""
    return _profile(qos, qos.reliable if qos.live_reliable is None else qos.live_reliable, qos.live_depth)


def listener_qos(qos: Qos, depth: int = 0) -> QoSProfile:
    """Return the QoS profile of a subscription that must receive each message and keeps at least `depth` messages."""
    return publisher_qos(qos, max(depth, qos.listener_depth))


def _profile(qos: Qos, reliable: bool, depth: int) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        liveliness=LivelinessPolicy.AUTOMATIC,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if qos.latched else DurabilityPolicy.VOLATILE,
    )


def message_class(type_name: str) -> Any:
    """Return the Python class of a message type with a name such as "std_msgs/msg/String"."""
    package, _, name = type_name.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)
