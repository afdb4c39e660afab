"""Polled subscriptions, with real DDS in one process."""

import time

import pytest

rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")

from rclpy.executors import SingleThreadedExecutor

from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.ros import graph
from mm_ros.ros.conversions import avatar_pose_to_ros
from mm_ros.ros.inbox import DEPTH, Inbox
from mm_ros.ros.nodes.viewer import stamp_of
from mm_ros.ros.qos import message_class, publisher_qos

PATIENCE_S = 120.0


@pytest.fixture
def pair():
    """Publisher of poses and an inbox that is matched with it."""
    rclpy.init(args=[])
    node = rclpy.create_node("reader")
    topic = graph.TOPICS["pose"]
    publisher = node.create_publisher(message_class(topic.type), "/a/pose", publisher_qos(topic.qos))
    inbox = Inbox(node, "pose", "/a/pose")
    until = time.monotonic() + PATIENCE_S
    while not publisher.get_subscription_count() and time.monotonic() < until:
        time.sleep(0.01)
    yield node, publisher, inbox
    node.destroy_node()
    rclpy.try_shutdown()


def pose(stamp_ns: int):
    return avatar_pose_to_ros(rest_pose(default_skeleton(), stamp_ns))


def came(inbox, count):
    out, until = [], time.monotonic() + PATIENCE_S
    while len(out) < count and time.monotonic() < until:
        inbox.wait(0.1)
        out += inbox.take()
    return out


def test_letters_come_in_order_with_the_time_of_their_arrival(pair):
    _, publisher, inbox = pair
    began_ns = time.time_ns()
    for i in range(3):
        publisher.publish(pose(i))
    letters = came(inbox, 3)
    assert [stamp_of(x.raw) for x in letters] == [0, 1, 2]
    assert all(began_ns <= x.came_ns <= time.time_ns() for x in letters)


def test_of_too_many_the_newest_are_kept(pair):
    _, publisher, inbox = pair
    for i in range(4 * DEPTH):
        publisher.publish(pose(i))
    time.sleep(0.3)
    kept = [stamp_of(x.raw) for x in inbox.take()]
    assert len(kept) <= DEPTH
    assert kept[-1] == 4 * DEPTH - 1
    assert inbox.take() == []


def test_the_executor_leaves_an_inbox_alone(pair):
    node, publisher, inbox = pair
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    publisher.publish(pose(1))
    for _ in range(5):
        executor.spin_once(0.02)
    executor.shutdown()
    assert len(came(inbox, 1)) == 1


def test_waiting_ends_without_a_message(pair):
    _, _, inbox = pair
    inbox.wait(0.05)
    assert inbox.take() == []
