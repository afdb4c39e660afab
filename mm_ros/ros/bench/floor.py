"""Baseline for the latency of the graph: nodes that pass on messages of the same sizes without any computation.

Run `python -m mm_ros.ros.bench.floor AVATAR RATE [HOP …]`. Each HOP is the index of a topic in the table `HOPS`; for
each HOP, this process runs the node that publishes the topic. If no HOP is given, the nodes of all topics run in one
process. If HOP is `one_hop`, a single node publishes the /tf messages of the trackers and of the pose.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from tf2_msgs.msg import TFMessage

from mm_ros.base import ending
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import BodyOrientation, rest_pose, still_trajectory
from mm_ros.body.warm_up import sample_trackers
from mm_ros.motion.features import default_layout
from mm_ros.ros import graph
from mm_ros.ros.conversions import avatar_pose_to_ros, orientation_to_ros, trackers_to_ros, trajectory_to_ros
from mm_ros.ros.internals import LeanExecutor, is_running
from mm_ros.ros.node import run_all
from mm_ros.ros.qos import message_class, publisher_qos, subscription_qos
from mm_ros.ros.tf import PoseTf, TrackerTf

WAKE_S = 0.5  # The process of the baseline checks every 0.5 s whether Ctrl-C was pressed.
HOPS = ("trackers", "body_orientation", "trajectory", "matched_pose", "/tf")


def _stamp(msg: Any) -> Any:
    return msg.transforms[0].header.stamp if isinstance(msg, TFMessage) else msg.header.stamp


def _restamp(msg: Any, stamp: Any) -> None:
    if isinstance(msg, TFMessage):
        for t in msg.transforms:
            t.header.stamp = stamp
    else:
        msg.header.stamp = stamp


def _sample(topic: str, avatar: str) -> Any:
    pose = rest_pose(default_skeleton())
    return {
        "trackers": lambda: trackers_to_ros(next(iter(sample_trackers(1)))),
        "body_orientation": lambda: orientation_to_ros(BodyOrientation(0, 0, 0.0, 0.0, 0.1, "network")),
        "trajectory": lambda: trajectory_to_ros(still_trajectory(default_layout().trajectory_times)),
        "matched_pose": lambda: avatar_pose_to_ros(pose),
        "/tf": lambda: PoseTf(avatar).message(pose),
    }[topic]()


class Executor(LeanExecutor):
    def spin(self) -> None:
        node = next(iter(self.get_nodes()))
        node.create_timer(WAKE_S, lambda: None, clock=Clock(clock_type=ClockType.STEADY_TIME))
        while is_running(self) and not ending.asked():
            self.spin_once()


class Samples:
    """Computes the time stamps of simulated tracker samples, which a timer publishes at a fixed rate.

    Multiples of the sample period are counted from the tick of the timer that was least late. If they were counted from
    a later tick, some stamps would lie after the tick that publishes them.
    """

    def __init__(self, rate: float) -> None:
        self._period_ns, self._start_ns, self._done = 1e9 / rate, 0, -1

    def due(self, now_ns: int) -> list[int]:
        """Return the time stamps to publish at a tick of the timer: one, or up to six after missed ticks."""
        self._start_ns = self._start_ns or now_ns
        newest = max(round((now_ns - self._start_ns) / self._period_ns), self._done + 1)
        self._start_ns = min(self._start_ns, now_ns - round(newest * self._period_ns))
        first, self._done = max(self._done + 1, newest - 5), newest
        return [self._start_ns + round(i * self._period_ns) for i in range(first, newest + 1)]


class Source(Node):
    def __init__(self, avatar: str, rate: float) -> None:
        super().__init__("floor_source", namespace=avatar)
        self._samples = Samples(rate)
        self._settling = 50  # The first ticks of the timer are late, so the first sample is sent at this tick.
        self._frame = next(iter(sample_trackers(1)))
        self._frames = TrackerTf(avatar)
        self._out, self._tf = _publisher(self, "trackers"), _publisher(self, "/tf")
        self.create_timer(1 / rate, self._poll)

    def _poll(self) -> None:
        now_ns = self.get_clock().now().nanoseconds
        self._settling -= 1
        if self._settling > 0:
            return
        for stamp_ns in self._samples.due(now_ns):
            self._frame.stamp_ns = stamp_ns
            self._out.publish(trackers_to_ros(self._frame))
            self._tf.publish(self._frames.message(self._frame))


class Relay(Node):
    def __init__(self, avatar: str, hop: int) -> None:
        super().__init__(f"floor_{hop}", namespace=avatar)
        given, made = HOPS[hop - 1], HOPS[hop]
        self._msg, self._out = _sample(made, avatar), _publisher(self, made)
        t = graph.TOPICS[given]
        self.create_subscription(message_class(t.type), t.name, self._pass, subscription_qos(t.qos))

    def _pass(self, msg: Any) -> None:
        _restamp(self._msg, _stamp(msg))
        self._out.publish(self._msg)


class OneHop:
    """Loop that sleeps until a tracker sample is due and then publishes the two /tf messages of the sample, without an
    executor of rclpy."""

    def __init__(self, avatar: str, rate: float) -> None:
        self._avatar, self._rate = avatar, rate

    def add_node(self, node: Node) -> None:
        self._tf, self._context = _publisher(node, "/tf"), node.context

    def spin(self) -> None:
        frame, pose = next(iter(sample_trackers(1))), rest_pose(default_skeleton())
        trackers, joints = TrackerTf(self._avatar), PoseTf(self._avatar)
        due_ns, period_ns = time.time_ns(), round(1e9 / self._rate)
        while self._context.ok() and not ending.asked():
            due_ns += period_ns
            time.sleep(max(due_ns - time.time_ns(), 0) * 1e-9)
            frame.stamp_ns = pose.stamp_ns = due_ns
            self._tf.publish(trackers.serialized(frame))
            self._tf.publish(joints.serialized(pose))


def _publisher(node: Node, topic: str) -> Any:
    t = graph.TOPICS[topic]
    return node.create_publisher(message_class(t.type), t.name, publisher_qos(t.qos))


def main(words: list[str]) -> int:
    avatar, rate = words[1], float(words[2])
    if words[3:] == ["one_hop"]:
        return run_all([lambda: Node("floor_source", namespace=avatar)], [], lambda: OneHop(avatar, rate))
    hops = [int(w) for w in words[3:]] or list(range(len(HOPS)))
    makers: list[Callable[..., Node]] = [
        (lambda: Source(avatar, rate)) if hop == 0 else (lambda hop=hop: Relay(avatar, hop)) for hop in hops
    ]
    return run_all(makers, [], Executor)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
