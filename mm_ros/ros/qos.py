"""QoS profiles and message classes of the topics in `mm_ros/ros/graph.py`."""

from __future__ import annotations

import importlib
from typing import Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy

from mm_ros.ros.graph import Qos


def publisher_qos(qos: Qos, depth: int = 0) -> QoSProfile:
    """`depth`: messages to keep, when more than the topic's own."""
    return _profile(qos, qos.reliable, max(depth, qos.depth))


def subscription_qos(qos: Qos) -> QoSProfile:
    """For nodes of the live chain: shallow, so that the newest sample wins after a stall."""
    return _profile(qos, qos.reliable if qos.live_reliable is None else qos.live_reliable, qos.live_depth)


def listener_qos(qos: Qos, depth: int = 0) -> QoSProfile:
    """For listeners that need each message: as reliable as the publisher, and as deep."""
    return publisher_qos(qos, depth)


def _profile(qos: Qos, reliable: bool, depth: int) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        liveliness=LivelinessPolicy.AUTOMATIC,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if qos.latched else DurabilityPolicy.VOLATILE,
    )


def message_class(type_name: str) -> Any:
    """ "pkg/msg/Name" → the class."""
    package, _, name = type_name.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)
