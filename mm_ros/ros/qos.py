"""QoS profiles of the topics in `mm_ros/graph.py`."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from mm_ros.graph import Qos


def publisher_qos(qos: Qos) -> QoSProfile:
    return _profile(qos, qos.reliable)


def subscription_qos(qos: Qos) -> QoSProfile:
    return _profile(qos, qos.reliable if qos.subscriber_reliable is None else qos.subscriber_reliable)


def _profile(qos: Qos, reliable: bool) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=qos.depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if qos.latched else DurabilityPolicy.VOLATILE,
    )
