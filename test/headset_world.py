"""In the test's process: a `tracker_bridge` with the source webxr, and a node that answers with a standing avatar."""

from __future__ import annotations

import threading
import time

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter

from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.ros import graph
from mm_ros.ros.conversions import avatar_pose_to_ros, skeleton_to_ros, trackers_from_ros
from mm_ros.ros.loop import Loop
from mm_ros.ros.nodes.tracker_bridge import TrackerBridge
from mm_ros.ros.qos import listener_qos, message_class, publisher_qos


class World:
    """Stores the bridge's messages (`frames`). ROS runs in a thread, because playwright needs the main thread."""

    def __init__(self, port: int, **parameters) -> None:
        given = {"source": "webxr", "headset_port": port, "auto_calibrate": False, "hand_pose": "wrist", **parameters}
        rclpy.init()
        self.port, self.loop = port, Loop()
        self.bridge = TrackerBridge(
            parameter_overrides=[Parameter(name, value=value) for name, value in given.items()],
            namespace="anna", loop=self.loop,
        )  # fmt: skip
        self.server = self.bridge._source.server
        self.url = self.server.url()
        self.node = rclpy.create_node("graph", namespace="anna")
        self.frames = []
        self.skeleton = default_skeleton()
        self._pose, self._shape = (self._publisher(name) for name in ("pose", "skeleton"))
        t = graph.TOPICS["trackers"]
        self.node.create_subscription(message_class(t.type), t.name, self._answer, listener_qos(t.qos))
        self.bodies = []
        t = graph.TOPICS["reported_body"]
        self.node.create_subscription(message_class(t.type), t.name, self.bodies.append, listener_qos(t.qos))
        self.grips = []
        t = graph.TOPICS["grip_buttons"]
        self.node.create_subscription(
            message_class(t.type), t.name, lambda m: self.grips.append(list(m.buttons)), listener_qos(t.qos)
        )
        self._shape.publish(skeleton_to_ros(self.skeleton, self.node.get_clock().now().nanoseconds))
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._spin, self.loop.spin)]
        for thread in self._threads:
            thread.start()

    def _publisher(self, name):
        t = graph.TOPICS[name]
        return self.node.create_publisher(message_class(t.type), t.name, publisher_qos(t.qos))

    def _spin(self) -> None:
        self.spinning = True
        while self.spinning:
            self.executor.spin_once(timeout_sec=0.1)

    def _answer(self, msg) -> None:
        frame = trackers_from_ros(msg)
        self.frames.append(frame)
        self._pose.publish(avatar_pose_to_ros(rest_pose(self.skeleton, frame.stamp_ns)))

    def until(self, condition, what="", seconds=180.0, meanwhile=lambda: None):
        end = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < end, f"{what or condition}: not within {seconds:g} s ({len(self.frames)} frames)"
            meanwhile()
            time.sleep(0.01)
        return value

    def newest(self):
        """Return the next tracker frame that the bridge publishes."""
        count = len(self.frames)
        self.until(lambda: len(self.frames) > count, "a frame arrives")
        return self.frames[-1]

    def close(self) -> None:
        self.spinning = False
        self.loop.stop()
        for thread in self._threads:
            thread.join(20)
        self.bridge.close()
        self.bridge.destroy_node()
        self.node.destroy_node()
        self.executor.shutdown()
        rclpy.try_shutdown()
