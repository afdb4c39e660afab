"""rclpy's internal names that mm_ros uses (mm_ros/ros/internals.py) exist and behave as expected."""

import pytest

rclpy = pytest.importorskip("rclpy")

import inspect
import time
from collections.abc import Iterator
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.parameter_service import ParameterService
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from mm_ros.ros import internals


@pytest.fixture
def node() -> Iterator[Node]:
    context = rclpy.Context()
    rclpy.init(context=context, args=[])
    made = Node("internals", context=context, parameter_overrides=[Parameter("number", value=3)])
    try:
        yield made
    finally:
        made.destroy_node()
        rclpy.try_shutdown(context=context)


def test_a_changed_override_is_what_the_node_declares(node: Node) -> None:
    assert {name: p.value for name, p in internals.overrides(node).items()} == {"number": 3}
    internals.overrides(node)["number"] = Parameter("number", value=3.0)
    assert node.declare_parameter("number", 1.5).value == 3.0


def test_simulated_time_is_seen(node: Node) -> None:
    assert internals.is_simulated(node) is node.get_clock().ros_time_is_active is False
    node.set_parameters([Parameter("use_sim_time", value=True)])
    assert internals.is_simulated(node) is node.get_clock().ros_time_is_active is True


def test_what_is_made_gets_the_default_group(node: Node) -> None:
    group = ReentrantCallbackGroup()
    with internals.default_group(node, group):
        inside = node.create_timer(1.0, lambda: None)
    assert inside.callback_group is group and node.create_timer(1.0, lambda: None).callback_group is not group


def test_an_event_is_taken_without_a_wait_set(node: Node) -> None:
    """A subscription that wants kept messages does not fit a publisher that keeps none: an event of both."""
    kept = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    subscription = node.create_subscription(String, "text", lambda _: None, kept)
    node.create_publisher(String, "text", QoSProfile(depth=1, durability=DurabilityPolicy.VOLATILE))
    end, taken = time.monotonic() + 30.0, []
    while not any(getattr(e, "total_count_change", 0) for e in taken) and time.monotonic() < end:
        taken = [internals.taken_event(handler) for handler in subscription.event_handlers]
        time.sleep(0.02)
    assert any(getattr(e, "total_count", 0) == 1 for e in taken)


@pytest.mark.parametrize(("kind", "wakes"), [(SingleThreadedExecutor, True), (internals.LeanExecutor, False)])
def test_the_lean_executor_does_not_wake_itself_for_a_callback(node: Node, kind: Any, wakes: bool) -> None:
    executor, calls, woken = kind(context=node.context), list[int](), list[int]()
    executor.add_node(node)
    node.create_timer(0.001, lambda: calls.append(1))
    try:
        assert internals.is_running(executor)
        executor.spin_once(timeout_sec=1.0)  # the wait sets of the new node and its timer
        executor._guard.trigger = lambda: woken.append(1)
        end = time.monotonic() + 30.0
        while len(calls) < 3 and time.monotonic() < end:
            executor.spin_once(timeout_sec=1.0)
        assert len(calls) >= 3 and bool(woken) is wakes
    finally:
        executor.shutdown()
    assert not internals.is_running(executor)


def test_overridden_methods_exist_with_the_same_arguments() -> None:
    """An override of a method that rclpy no longer calls would have no effect."""

    def arguments(method: Any) -> list[str]:
        return list(inspect.signature(method).parameters)

    for name in ("_set_parameters_callback", "_set_parameters_atomically_callback", "_get_node"):
        assert callable(getattr(ParameterService, name))
    for name in ("_set_parameters_callback", "_set_parameters_atomically_callback"):
        assert arguments(getattr(ParameterService, name)) == ["self", "request", "response"]
        assert arguments(getattr(internals.LoadingParameterService, name)) == ["self", "request", "response"]
