"""The demo's observer pairs each pose with the truth of its stamp, whichever arrives first."""

import math
import time

import pytest

rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")

from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.ros import graph
from mm_ros.ros.conversions import avatar_pose_to_ros
from mm_ros.ros.observer import Observer
from mm_ros.ros.qos import message_class, publisher_qos

PATIENCE_S = 120.0


@pytest.fixture
def observer():
    rclpy.init(args=[])
    node = Observer("a", film_rate=10.0)
    try:
        yield node
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def spin(node, condition) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < until:
        rclpy.spin_once(node, timeout_sec=0.1)
    assert condition()


@pytest.mark.parametrize("order", [("truth", "pose"), ("pose", "truth")])
def test_a_pose_is_paired_with_its_truth_in_either_order(observer, order):
    pose = rest_pose(default_skeleton(), 10**9)
    moved = rest_pose(default_skeleton(), 10**9)
    moved.root[:2] = 3.0, 4.0
    messages = {"pose": avatar_pose_to_ros(pose), "truth": avatar_pose_to_ros(moved)}
    publishers = {}
    for name in order:
        topic = graph.TOPICS[name]
        publishers[name] = observer.create_publisher(message_class(topic.type), topic.name, publisher_qos(topic.qos))
    seen = observer.seen
    for name in order:
        spin(observer, lambda name=name: publishers[name].get_subscription_count() == 1)
        publishers[name].publish(messages[name])
        if name == "pose":
            spin(observer, lambda: len(seen.root_errors) == 1)
        elif order[0] == "truth":
            spin(observer, lambda: observer._truths)
    spin(observer, lambda: not math.isnan(seen.root_errors[0]))
    assert seen.root_errors == [pytest.approx(5.0)]
    assert seen.film[0].truth.root[:2] == pytest.approx([3.0, 4.0])
