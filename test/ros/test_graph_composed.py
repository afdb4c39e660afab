"""The whole graph in one process, as `mm_ros up` runs it: the same poses, and the same topics for other programs."""

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

import rclpy
from graph_harness import CHAIN, World
from processes import PATIENCE_S
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters

from mm_ros.avatar import Avatar
from mm_ros.body.landmarks import COUNT, Landmarks
from mm_ros.body.types import still_trajectory
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.features import HORIZON_S
from mm_ros.motion.files import read_database
from mm_ros.ros import graph
from mm_ros.ros.conversions import (
    avatar_pose_from_ros,
    landmarks_to_ros,
    stamp_from_ros,
    stamp_to_ros,
    trajectory_to_ros,
)

TOPICS = ("pose", "/tf", "/diagnostics", "trajectory", "matched_pose", "body_orientation")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    rclpy.init()
    patient = {"trajectory_predictor.silent_s": 60.0}  # the avatar must not stop when the machine is busy
    made = World("composed", tmp_path_factory.mktemp("composed"), TOPICS, one_process=True, mm_ros_up=patient)
    yield made
    codes = made.close()
    assert set(codes.values()) == {0}, made.nodes["mm_ros_up"].said()
    rclpy.try_shutdown()


def said_by(world, node):
    statuses = [s for m in world.client.received["/diagnostics"] for s in m.status]
    return [s.message for s in statuses if s.name == f"{world.avatar}/{node}"]


def test_the_poses_are_those_of_the_chain_bit_for_bit(world):
    frames, poses = world.walk_without_loss(2.0, epoch=3)
    avatar = Avatar.load(read_database(default_database_path()), world.calibration)
    for frame, pose in zip(frames, map(avatar_pose_from_ros, poses), strict=True):
        expected = avatar.step(frame)
        for name in ("root", "positions", "rotations", "velocities", "angular_velocities", "contacts", "locked"):
            np.testing.assert_array_equal(getattr(pose, name), getattr(expected, name), err_msg=name)


def test_the_inner_topics_are_published_for_a_listener(world):
    frames, _ = world.walk_without_loss(0.5, epoch=20)
    sent = {frame.stamp_ns for frame in frames}
    for topic in ("trajectory", "matched_pose", "body_orientation"):
        assert world.client.spin_until(lambda t=topic: sent <= stamps(world, t), PATIENCE_S), topic


def stamps(world, topic):
    return {stamp_from_ros(m.header.stamp) for m in world.client.received[topic]}


def test_an_outside_trajectory_is_heard(world):
    publisher = world.client.publisher("trajectory")
    wish = trajectory_to_ros(still_trajectory(HORIZON_S))
    wish.source, wish.yaw = "vr", float("nan")

    def heard():
        wish.header.stamp = stamp_to_ros(world.client.now_ns())
        publisher.publish(wish)
        return any("trajectory: " in m and "NaN" in m for m in said_by(world, "motion_matcher"))

    try:
        assert world.client.spin_until(heard, PATIENCE_S)
    finally:
        world.client.node.destroy_publisher(publisher)
    assert world.walks_on()


def test_landmarks_from_outside_reach_both_nodes_that_use_them(world):
    publisher = world.client.publisher("landmarks")
    seen = landmarks_to_ros(Landmarks(0, np.zeros((COUNT, 3)), np.ones(COUNT)))
    seen.positions = np.full(3 * COUNT, np.nan, np.float32)

    def refused():
        seen.header.stamp = stamp_to_ros(world.client.now_ns())
        publisher.publish(seen)
        nodes = ("orientation_predictor", "trajectory_predictor")
        return all(any("landmarks: " in m and "NaN" in m for m in said_by(world, node)) for node in nodes)

    try:
        assert world.client.spin_until(refused, PATIENCE_S)
    finally:
        world.client.node.destroy_publisher(publisher)
    assert world.walks_on()


def test_other_programs_see_every_subscription_and_publisher(world):
    space = f"/{world.avatar}"
    expected = {
        node: (
            {full(space, t) for t in graph.node(node).inputs},
            {full(space, t) for t in graph.node(node).outputs if t != "joint_states"},
        )
        for node in CHAIN
    }

    def missing():
        """The nodes, then the inputs and outputs, that DDS has not discovered."""
        seen = world.client.node
        if found := set(CHAIN) - {n for n, where in seen.get_node_names_and_namespaces() if where == space}:
            return found
        return {
            topic
            for node, (inputs, outputs) in expected.items()
            for topic in (
                inputs - {n for n, _ in seen.get_subscriber_names_and_types_by_node(node, space)}
                | outputs - {n for n, _ in seen.get_publisher_names_and_types_by_node(node, space)}
            )
        }

    assert world.client.spin_until(lambda: not missing(), PATIENCE_S), missing()


def full(space, topic):
    return topic if topic.startswith("/") else f"{space}/{topic}"


def test_a_parameter_changes_while_the_avatar_walks(world):
    value = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=2.0)
    request = SetParameters.Request(parameters=[Parameter(name="responsiveness", value=value)])
    for given in (2.0, 1.0):
        value.double_value = given
        answer = world.client.call(SetParameters, f"/{world.avatar}/motion_matcher/set_parameters", request)
        assert answer.results[0].successful
        assert world.walks_on()
