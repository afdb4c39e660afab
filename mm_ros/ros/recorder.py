"""Node that records the topics of one avatar to a session (rosbag2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from mm_ros.ros import graph
from mm_ros.ros.qos import listener_qos, message_class
from mm_ros.sessions.bag import FLUSH_S, BagWriter
from mm_ros.sessions.session import INPUTS, LATCHED, RECORDED

OUTPUTS = ("body_orientation", "trajectory", "matched_pose", "match", "pose", "skeleton")
# A queue of 2000 messages loses no message while the disk stalls for 2 s, even at the highest tracker rate of 1000 Hz.
DEPTH = 2000


class Recorder(Node):
    """Node that writes the messages of an avatar to a session without converting them."""

    def __init__(
        self,
        path: Path,
        avatar: str,
        outputs: bool = False,
        storage: str = "mcap",
        compression: str = "none",
        **kwargs: Any,
    ) -> None:
        super().__init__("recorder", namespace=avatar, **kwargs)
        self.bag = BagWriter(path, storage, compression)
        self.first_ns = self.last_ns = 0
        wanted = {name: name for name in INPUTS} | {name: f"{RECORDED}/{name}" for name in OUTPUTS if outputs}
        for name, inside in wanted.items():
            t = graph.TOPICS[name]
            topic = f"/{avatar}/{inside}"
            self.bag.add_topic(topic, t.type, latched=name in LATCHED)
            qos = listener_qos(t.qos, DEPTH)
            self.create_subscription(message_class(t.type), t.name, self._keeper(topic), qos, raw=True)

        # A timer flushes the bag, because `bag.write` flushes only with the next message, perhaps minutes later.
        self.create_timer(FLUSH_S, self.bag.flush, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _keeper(self, topic: str) -> Any:
        def keep(data: bytes) -> None:
            now_ns = self.get_clock().now().nanoseconds
            self.first_ns = self.first_ns or now_ns
            self.last_ns = now_ns
            self.bag.write(topic, now_ns, bytes(data))

        return keep

    @property
    def seconds(self) -> float:
        return (self.last_ns - self.first_ns) * 1e-9

    def close(self) -> None:
        self.bag.close()
