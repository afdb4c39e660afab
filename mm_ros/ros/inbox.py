"""Subscriptions that a node reads at regular times, so that the process does not wake up for each message."""

from __future__ import annotations

from dataclasses import dataclass

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from mm_ros.ros import graph
from mm_ros.ros.internals import Unattended, WaitSet
from mm_ros.ros.qos import message_class

DEPTH = 12  # The subscription stores at most 12 messages between two reads, that is, the messages of 33 ms at 360 Hz.


@dataclass(frozen=True)
class Letter:
    raw: bytes  # the serialized message
    came_ns: int  # time at which the message arrived, on the system clock [ns]


class Inbox:
    """Subscription that queues the newest messages of a topic without deserializing them. The subscription is best
    effort, so the publisher does not wait for acknowledgements, and old messages can be lost."""

    def __init__(self, node: Node, topic: str, name: str) -> None:
        self._node, self._kind = node, message_class(graph.TOPICS[topic].type)
        qos = QoSProfile(
            history=HistoryPolicy.KEEP_LAST, depth=DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.VOLATILE,
        )  # fmt: skip
        self._subscription = node.create_subscription(
            self._kind, name, lambda _: None, qos, callback_group=Unattended(), raw=True
        )

    def take(self) -> list[Letter]:
        """Return the messages of the topic that were received since the last call, oldest first."""
        out: list[Letter] = []
        with (handle := self._subscription.handle):
            while len(out) < DEPTH and (found := handle.take_message(self._kind, True)) is not None:
                raw, info = found
                out.append(Letter(raw, int(info["received_timestamp"])))
        return out

    def wait(self, seconds: float) -> None:
        """Wait until a message of the topic has arrived, at most for `seconds` seconds."""
        with (handle := self._subscription.handle), (context := self._node.context.handle):
            waiting = WaitSet(1, 0, 0, 0, 0, 0, context)
            waiting.clear_entities()
            waiting.add_subscription(handle)
            waiting.wait(int(seconds * 1e9))

    def close(self) -> None:
        self._node.destroy_subscription(self._subscription)
