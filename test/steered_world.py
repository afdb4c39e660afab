"""The ROS nodes of a steered character in the test's process: control with web page, matcher, post-processor."""

from __future__ import annotations

import threading
import time

import numpy as np
import rclpy
from processes import PATIENCE_S
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter

from mm_ros.ros import graph
from mm_ros.ros.conversions import avatar_pose_from_ros, trajectory_from_ros
from mm_ros.ros.loop import Loop
from mm_ros.ros.qos import listener_qos, message_class


class SteeredWorld:
    """Stores x, y and yaw of each received trajectory (`desired`) and pose (`roots`), and the stamps of the poses."""

    def __init__(self, port: int, control: str, **parameters) -> None:
        self._began = not rclpy.ok()
        if self._began:
            rclpy.init()
        self.loop = Loop()
        Loop.current = self.loop
        given = {control: {"page": True, "page_port": port, **parameters}}
        self.nodes = {
            name: graph.node(name).node_class()(
                parameter_overrides=[Parameter(k, value=v) for k, v in given.get(name, {}).items()], namespace=control
            )
            for name in (control, "motion_matcher", "pose_postprocessor")
        }
        Loop.current = None
        self.page = self.nodes[control]._page
        self.url = self.page.server.url()
        self.desired, self.roots, self.stamps_s = [], [], []
        self.node = rclpy.create_node("ear", namespace=control)
        self._listen("trajectory", self._keep_desired)
        self._listen("pose", self._keep_root)
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._spin, self.loop.spin)]
        for thread in self._threads:
            thread.start()
        self.until(lambda: self.desired and self.roots, "the graph runs")

    def _listen(self, topic, take):
        t = graph.TOPICS[topic]
        self.node.create_subscription(message_class(t.type), t.name, take, listener_qos(t.qos))

    def _spin(self):
        self.spinning = True
        while self.spinning:
            self.executor.spin_once(timeout_sec=0.1)

    def _keep_desired(self, msg):
        desired = trajectory_from_ros(msg)
        self.desired.append([*desired.position, desired.yaw, float(np.linalg.norm(desired.velocity))])

    def _keep_root(self, msg):
        pose = avatar_pose_from_ros(msg)
        root = pose.root
        self.stamps_s.append(pose.stamp_ns / 1e9)
        self.roots.append([*root[:2], 2 * np.arctan2(root[6], root[3])])

    def until(self, condition, what, seconds=PATIENCE_S):
        end = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < end, f"{what}: not within {seconds:g} s; desired {self.desired[-1:]}"
            time.sleep(0.01)
        return value

    @property
    def speed(self) -> float:
        """Speed in the newest desired trajectory [m/s]."""
        return self.desired[-1][3] if self.desired else 0.0

    def stands(self) -> bool:
        return bool(self.desired) and self.speed < 0.05

    def close(self) -> None:
        self.spinning = False
        self.loop.stop()
        for thread in self._threads:
            thread.join(20)
        for node in self.nodes.values():
            if hasattr(node, "close"):
                node.close()
            node.destroy_node()
        self.node.destroy_node()
        self.executor.shutdown()
        if self._began:
            rclpy.try_shutdown()
