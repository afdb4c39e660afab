"""Scripted input of `mm_ros demo`: a simulated gamepad that changes direction and gait, or a path to walk."""

from __future__ import annotations

import math

import numpy as np
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Path
from rclpy.node import Node
from sensor_msgs.msg import Joy

from mm_ros.ros import graph
from mm_ros.ros.qos import message_class, publisher_qos

STICK_S, PATH_S = 1 / 30, 0.5
CHANGES_S = (1.2, 3.0)  # minimum and maximum time [s] between two random movements of the simulated stick
# The script leads an avatar that is farther than 3 m from the middle of the room back to the middle.
FARTHEST_M = 3.0
GAITS = ((5, 0.25), (4, 0.15))  # index of the gamepad button for jog and for strafe, and probability that it is pressed
ROUND = ((0.0, 0.0), (2.5, 0.0), (3.5, 1.5), (2.0, 2.5), (1.0, 4.0), (-1.0, 3.0), (-0.5, 1.5))


def steer(node: Node, control: str, seed: int = 0) -> None:
    """Publish scripted input for the kind of control `control` while no other node publishes such input."""
    if control in ("joystick", "keyboard"):
        _Stick(node, seed)
    elif control == "path":
        _Walk(node)


class _Stick:
    def __init__(self, node: Node, seed: int) -> None:
        t = graph.TOPICS["joy"]
        self._node, self._rng = node, np.random.default_rng(seed)
        self._joy = node.create_publisher(message_class(t.type), t.name, publisher_qos(t.qos))
        self._place, self._left_s, self._yaw, self._msg = np.zeros(2), 0.0, 0.0, Joy()
        node.create_timer(STICK_S, self._tick)

    def _tick(self) -> None:
        if self._node.count_publishers(self._joy.topic_name) > 1:
            return  # the script pauses while another node publishes the input of a real gamepad
        self._left_s -= STICK_S
        if self._left_s <= 0:
            self._change()
        self._place += np.array([self._msg.axes[1], self._msg.axes[0]]) * 1.3 * STICK_S
        self._joy.publish(self._msg)

    def _change(self) -> None:
        rng, far = self._rng, float(np.hypot(*self._place)) > FARTHEST_M
        self._left_s = float(rng.uniform(*CHANGES_S))
        back = math.atan2(-self._place[1], -self._place[0])
        self._yaw = back if far else self._yaw + math.radians(float(rng.choice([-90, -45, 45, 90, 180])))
        size = 0.0 if rng.random() < 0.2 and not far else 1.0
        buttons = [0] * 6
        for button, chance in GAITS:
            buttons[button] = int(rng.random() < chance)
        self._msg = Joy(axes=[size * math.sin(self._yaw), size * math.cos(self._yaw)], buttons=buttons)


class _Walk:
    def __init__(self, node: Node) -> None:
        t = graph.TOPICS["path"]
        self._path = node.create_publisher(message_class(t.type), t.name, publisher_qos(t.qos))
        self._timer = node.create_timer(PATH_S, self._tick)

    def _tick(self) -> None:
        if not self._path.get_subscription_count():
            return
        msg = Path()
        for x, y in ROUND:
            pose = PoseStamped()
            pose.pose.position.x, pose.pose.position.y = x, y
            msg.poses.append(pose)
        self._path.publish(msg)
        self._timer.cancel()
