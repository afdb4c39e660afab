"""QoS profiles and message classes of the topics in `mm_ros/graph.py`."""

from __future__ import annotations

import importlib
from typing import Any

from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy

from mm_ros.graph import Qos


def publisher_qos(qos: Qos) -> QoSProfile:
    return _profile(qos, qos.reliable)


def subscription_qos(qos: Qos) -> QoSProfile:
    return _profile(qos, qos.reliable if qos.subscriber_reliable is None else qos.subscriber_reliable)


def _profile(qos: Qos, reliable: bool) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=qos.depth,
        liveliness=LivelinessPolicy.AUTOMATIC,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if qos.latched else DurabilityPolicy.VOLATILE,
    )


def message_class(type_name: str) -> Any:
    """ "pkg/msg/Name" → the class."""
    package, _, name = type_name.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)
