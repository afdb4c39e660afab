"""Nodes of one process hand values to each other; other processes can listen and publish as before."""

import threading

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

import rclpy
from processes import PATIENCE_S, wait_until
from rclpy.executors import SingleThreadedExecutor

from mm_ros.base.errors import MmRosError
from mm_ros.body.rounding import rounded_pose
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import BodyOrientation, Calibration, rest_pose
from mm_ros.body.warm_up import sample_trackers
from mm_ros.ros import graph
from mm_ros.ros.conversions import calibration_to_ros, orientation_to_ros, stamp_from_ros
from mm_ros.ros.loop import Loop
from mm_ros.ros.node import AvatarNode
from mm_ros.ros.nodes.trajectory_predictor import TrajectoryPredictor
from mm_ros.ros.qos import listener_qos, message_class, publisher_qos


class Part(AvatarNode):
    """Node that publishes what the test gives it, and keeps what arrives in `came`, shared by all nodes."""

    NAME = "visualizer"

    def __init__(self, came, topics=(), **kwargs):
        super().__init__(**kwargs)
        self.came = came
        for topic in topics:
            self.listen(topic, lambda value, topic=topic: self.take(topic, value))

    def take(self, topic, value):
        self.came.append((self.get_namespace(), topic, value))


class Process:
    """Nodes and their loop in a thread of this process; `client` stands for another process."""

    def __init__(self):
        rclpy.init()
        self.loop, self.came, self.nodes = Loop(), [], []
        self.client = rclpy.create_node("outside")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.client)

    def part(self, topics=(), kind=Part, namespace="hub"):
        self.nodes.append(kind(self.came, topics, loop=self.loop, namespace=namespace))
        return self.nodes[-1]

    def run(self):
        self.thread = threading.Thread(target=self.loop.spin, daemon=True)
        self.thread.start()

    def publisher(self, topic):
        t = graph.TOPICS[topic]
        return self.client.create_publisher(message_class(t.type), f"/hub/{t.name}", publisher_qos(t.qos))

    def listener(self, topic):
        t, heard = graph.TOPICS[topic], []
        self.client.create_subscription(message_class(t.type), f"/hub/{t.name}", heard.append, listener_qos(t.qos))
        return heard

    def until(self, done):
        def turned():
            self._executor.spin_once(0.01)
            return done()

        wait_until(turned, PATIENCE_S)

    def close(self):
        self.loop.stop()
        self.thread.join(10.0)
        for node in (*self.nodes, self.client):
            node.destroy_node()
        rclpy.try_shutdown()


@pytest.fixture
def process():
    made = Process()
    try:
        yield made
    finally:
        made.close()


def facing(stamp_ns, yaw=0.5):
    return BodyOrientation(stamp_ns, 0, yaw, 0.0, 0.1, "network")


def yaws(came):
    return [value.yaw for _, topic, value in came if topic == "body_orientation"]


def test_values_arrive_in_the_order_of_topics_although_handlers_publish(process):
    """The first listener publishes at once; the second one has to get the first value before."""

    class First(Part):
        def take(self, topic, value):
            super().take(topic, value)
            if topic == "body_orientation" and value.yaw < 0.9:
                self.out.publish(facing(value.stamp_ns + 1, value.yaw + 0.2))

    source = process.part()
    first, _ = process.part(("body_orientation",), First), process.part(("body_orientation",))
    first.out = first.publisher("body_orientation")
    out = source.publisher("body_orientation")
    process.run()
    out.publish(facing(1, 0.6))
    assert [round(yaw, 1) for yaw in yaws(process.came)] == [0.6, 0.6, 0.8, 0.8, 1.0, 1.0]


def test_a_listener_gets_what_the_message_holds_and_cannot_change_what_the_producer_keeps(process):
    class Careless(Part):
        def take(self, topic, value):
            super().take(topic, value)
            value.epoch = 99
            value.positions[:] = 7.0

    out = process.part().publisher("matched_pose")
    careless, _ = process.part(("matched_pose",), Careless), process.part(("matched_pose",))
    process.run()
    pose = rest_pose(default_skeleton(), 5)
    pose.root[:3] = 0.1, 0.2, 0.3
    kept = rounded_pose(pose)
    out.publish(pose)
    values = [value for _, _, value in process.came]
    assert len(values) == 2 and careless.health.refused == 1  # writing raised
    for name in ("root", "positions", "rotations", "velocities"):
        for value in (pose, *values):
            np.testing.assert_array_equal(getattr(value, name), getattr(kept, name))
    assert pose.epoch == 0


def test_a_refused_value_reaches_the_other_listeners(process):
    class Strict(Part):
        def take(self, topic, value):
            raise MmRosError("too far")

    out = process.part().publisher("body_orientation")
    strict, _ = process.part(("body_orientation",), Strict), process.part(("body_orientation",))
    process.run()
    out.publish(facing(1))
    assert yaws(process.came) == [0.5]
    assert "body_orientation: too far" in strict.health.errors["refused"]


def test_an_outside_publisher_of_an_inner_topic_is_heard_and_its_end_noticed(process):
    out = process.part().publisher("body_orientation")
    inner = process.part(("body_orientation",)).inlets[0]
    process.run()
    wait_until(lambda: process.loop._waiting is not None, PATIENCE_S)
    assert inner not in process.loop._attended
    stranger = process.publisher("body_orientation")
    wait_until(lambda: inner in process.loop._attended, PATIENCE_S)
    process.until(lambda: stranger.publish(orientation_to_ros(facing(1, 0.7))) or 0.7 in yaws(process.came))
    process.client.destroy_publisher(stranger)
    wait_until(lambda: inner not in process.loop._attended, PATIENCE_S)
    out.publish(facing(2, 0.8))
    assert yaws(process.came)[-1] == 0.8


def test_own_messages_do_not_come_back_from_the_topic(process):
    """With a listener outside, values are published too; with a publisher outside, the subscription is read."""
    out = process.part().publisher("body_orientation")
    process.part(("body_orientation",))
    stranger, heard = process.publisher("body_orientation"), process.listener("body_orientation")
    process.run()
    process.until(lambda: len(process.loop._attended) == 1)
    process.until(lambda: out.publish(facing(len(process.came) + 1)) or heard)
    before = len(process.came)
    for i in range(20):
        out.publish(facing(1000 + i))
    stranger.publish(orientation_to_ros(facing(5000, 0.9)))
    process.until(lambda: 0.9 in yaws(process.came))
    assert len(process.came) == before + 21
    process.until(lambda: sum(stamp_from_ros(m.header.stamp) in range(1000, 1020) for m in heard) == 20)


def test_a_latched_value_reaches_a_node_that_is_made_later(process):
    out = process.part().publisher("calibration")
    out.publish(calibration_to_ros(Calibration(user="anna"), 7))
    process.part(("calibration",))
    process.run()
    process.until(lambda: process.came)
    assert [value.user for _, _, value in process.came] == ["anna"]


def test_a_node_can_stop_listening_while_the_loop_runs(process):
    out = process.part().publisher("body_orientation")
    part = process.part(("body_orientation",))
    process.run()
    stranger = process.publisher("body_orientation")
    wait_until(lambda: process.loop._attended, PATIENCE_S)
    out.publish(facing(1))
    part.unlisten(part.inlets[0])
    out.publish(facing(2))
    process.until(lambda: process.client.count_subscribers("/hub/body_orientation") == 0)
    stranger.publish(orientation_to_ros(facing(3)))
    again = part.listen("body_orientation", lambda value: part.take("body_orientation", value))
    process.until(lambda: stranger.publish(orientation_to_ros(facing(4, 0.7))) or len(process.came) > 1)
    assert yaws(process.came)[:2] == [0.5, 0.7] and part.inlets == [again]


def test_the_graph_shows_the_inner_subscriptions(process):
    process.part().publisher("body_orientation")
    process.part(("body_orientation",))
    process.run()
    process.until(lambda: process.client.count_subscribers("/hub/body_orientation") == 1)
    assert process.client.count_publishers("/hub/body_orientation") == 1


def test_avatars_of_one_process_do_not_hear_each_other(process):
    outs = [process.part(namespace=name).publisher("body_orientation") for name in ("one", "two")]
    for name in ("one", "two"):
        process.part(("body_orientation",), namespace=name)
    process.run()
    outs[0].publish(facing(1, 0.1))
    outs[1].publish(facing(1, 0.2))
    assert [(space, value.yaw) for space, _, value in process.came] == [("/one", 0.1), ("/two", 0.2)]


def test_a_ticker_ticks_is_put_off_by_reset_and_brought_forward_by_aim(process):
    node, ticks = process.part(), []
    often = node.every(0.01, lambda: ticks.append("often"))
    seldom = node.every(1000.0, lambda: ticks.append("seldom"))
    process.run()
    wait_until(lambda: ticks.count("often") > 3, PATIENCE_S)
    often.timer_period_ns = 1_000_000_000_000
    process.loop.post(often.reset)  # in the loop's thread, in which it may tick at this moment
    process.loop.post(lambda: seldom.aim(0))
    wait_until(lambda: "seldom" in ticks, PATIENCE_S)
    assert ticks[-1] == "seldom"


def test_a_call_from_another_thread_runs_in_the_loops_thread(process):
    process.part()
    process.run()
    where = []
    process.loop.post(lambda: where.append(threading.current_thread()))
    wait_until(lambda: where, PATIENCE_S)
    assert where == [process.thread]


def test_trackers_whose_orientation_was_lost_wait_only_for_the_next_one(process):
    """Trackers are best effort: the predictor of the orientation can lose a sample, whose orientation never comes."""
    node, part = TrajectoryPredictor(loop=process.loop, namespace="hub"), process.part(("trajectory",))
    process.nodes.append(node)
    process.run()
    part.publisher("calibration").publish(calibration_to_ros(Calibration(), 1))
    trackers, orientation = part.publisher("trackers"), part.publisher("body_orientation")
    for frame in sample_trackers(3):
        trackers.publish(frame)
    stamps = [frame.stamp_ns for frame in sample_trackers(3)]
    orientation.publish(facing(stamps[1]))
    assert [value.stamp_ns for *_, value in process.came] == stamps[:2]
    assert (process.came[0][2].yaw_sigma > 0.3, process.came[1][2].yaw_sigma) == (True, 0.1)
    assert node.health.unpaired == 1
