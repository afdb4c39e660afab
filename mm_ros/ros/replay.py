"""Node that publishes the messages of a recorded session in real time, with a pause service and optionally /clock."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.duration import Duration
from rclpy.exceptions import InvalidNamespaceException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool

from mm_ros.base.errors import MmRosError
from mm_ros.ros import graph
from mm_ros.ros.qos import message_class, publisher_qos
from mm_ros.sessions.bag import Bag, BagMessage
from mm_ros.sessions.player import Due, Player, Rewriter
from mm_ros.sessions.session import LATCHED, choose_avatar, input_topics

CLOCK_PERIOD_S = 0.01
KEPT_S = 2.0  # The replay's publishers keep the messages of the last 2 s for subscribers that stall.
ACKNOWLEDGED_S = 5.0  # maximum wait [s] at the end of a session until subscribers acknowledge the last messages
# The replay begins when the number of subscribers has been constant for QUIET_S, at the latest after SETTLE_S.
SETTLE_S, QUIET_S = 2.0, 0.3


class Replay(Node):
    """Node that plays a recorded session. The service `replay/pause` (std_srvs/SetBool) stops and resumes the session,
    and setting the parameter `position` [s] jumps to another time of the session."""

    def __init__(
        self,
        bag: Bag,
        avatar: str = "",
        rate: float = 1.0,
        start_s: float = 0.0,
        loop: bool = False,
        clock: bool = False,
        source_avatar: str = "",
        world_frame: str = "",
        **kwargs: Any,
    ) -> None:
        inside = choose_avatar(bag, source_avatar)
        try:
            super().__init__("replay", namespace=avatar or inside or "avatar", **kwargs)
        except InvalidNamespaceException:
            raise MmRosError(
                f"{bag.path}: its namespace {inside!r} is not a valid ROS namespace; choose another with --avatar"
            ) from None
        self._names = input_topics(bag, inside)
        messages = sorted(bag.messages(set(self._names)), key=lambda m: m.logged_ns)
        self._latched = [m for m in messages if self._names[m.topic] in LATCHED]
        stream = [m for m in messages if self._names[m.topic] not in LATCHED]
        self.player = Player(stream, rate, start_s, loop)
        self._rewriter = Rewriter(stream, rate, world_frame)
        self._own_clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._last_tick = (-1, 0)  # of the last /clock message: number of the pass through the session, and time [ns]
        self.errors_s: list[float] = []
        self._anchored = (-1, 0.0)
        self._anchor_ns = 0
        self._publishers_of = {
            topic: self.create_publisher(
                message_class(t.type), t.name,
                publisher_qos(t.qos, most_within(KEPT_S * rate, [m for m in stream if m.topic == topic])),
            )
            for topic, t in ((topic, graph.TOPICS[name]) for topic, name in self._names.items())
        }
        t = graph.TOPICS["/clock"]
        ticks = publisher_qos(t.qos, ticks_kept(stream, rate))
        self._clock_publisher = self.create_publisher(Clock, t.name, ticks) if clock else None
        self.create_service(SetBool, "replay/pause", self._on_pause)
        described = ParameterDescriptor(
            description="Position in the session [s]. Setting this parameter jumps to that position."
        )
        self.declare_parameter("position", start_s, described)
        self.add_on_set_parameters_callback(self._on_parameters)

    def _on_pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        with self._lock:
            (self.player.pause if request.data else self.player.resume)(time.monotonic())
            at_s = (self.player.position_ns(time.monotonic()) - self.player.first_ns) * 1e-9
        self._changed.set()
        response.success = True
        response.message = f"{'paused' if request.data else 'playing'} at {at_s:.2f} s of {self.player.seconds:.2f} s"
        return response

    def _on_parameters(self, parameters: list[Parameter]) -> SetParametersResult:
        try:
            for p in parameters:
                if p.name == "position":
                    with self._lock:
                        self.player.seek(float(p.value), time.monotonic())
                    self._changed.set()
        except MmRosError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def wait_for(self, subscribers: int, seconds: float) -> None:
        """Wait until at least `subscribers` nodes subscribe to the trackers, so that nodes that are starting miss no
        message. After `seconds` seconds without enough subscribers, raise MmRosError."""
        publisher = next(self._publishers_of[t] for t, name in self._names.items() if name == "trackers")
        end = time.monotonic() + seconds
        while publisher.get_subscription_count() < subscribers and not self._stop.is_set():
            if time.monotonic() > end:
                raise MmRosError(
                    f"after {seconds:g} s, {self.resolve_topic_name('trackers')} has "
                    f"{publisher.get_subscription_count()} of the {subscribers} expected subscribers"
                )
            time.sleep(0.02)
        self._let_settle()

    def _let_settle(self) -> None:
        """Wait until DDS finds no new subscribers of any topic, because it finds a node's subscriptions one by one."""
        since = time.monotonic()
        end, before = since + SETTLE_S, [-1]
        while time.monotonic() < min(end, since + QUIET_S):
            now = [p.get_subscription_count() for p in self._publishers_of.values()]
            if now != before:
                before, since = now, time.monotonic()
            time.sleep(0.02)

    def play(self) -> None:
        """Publish the messages of the session until the session ends or `end()` is called."""
        self._publish_latched()
        with self._lock:
            self.player.begin(time.monotonic())
        next_tick = time.monotonic()
        while not self._stop.is_set():
            if self._clock_publisher is not None and time.monotonic() >= next_tick:
                with self._lock:
                    run, now_ns = self.player.run, self.player.position_ns(time.monotonic())
                self._tick(run, now_ns)
                next_tick = max(next_tick + CLOCK_PERIOD_S, time.monotonic())
            with self._lock:
                due = self.player.take(time.monotonic())
                ended = self.player.ended
                wait = self.player.wait_s(time.monotonic())
            if due is not None:
                self._publish(due)
            elif ended:
                self._wait_until_acknowledged()
                return
            else:
                longest = max(0.0, next_tick - time.monotonic()) if self._clock_publisher is not None else 0.5
                self._changed.wait(min(wait, longest))
                self._changed.clear()

    def end(self) -> None:
        self._stop.set()
        self._changed.set()

    def _publish_latched(self) -> None:
        latest = {m.topic: m for m in self._latched}
        for topic, message in latest.items():
            self._publishers_of[topic].publish(self._rewriter.rewritten(message, 0, None))

    def _publish(self, due: Due) -> None:
        if self._clock_publisher is not None:
            self._tick(due.run, due.message.logged_ns)
            present = None
        else:
            present = (due.from_ns, self._now_at(due))
        data = self._rewriter.rewritten(due.message, due.run, present)
        self._publishers_of[due.message.topic].publish(data)
        self.errors_s.append(time.monotonic() - due.at)

    def _now_at(self, due: Due) -> int:
        """Return the time [ns] at which a run (one pass through the session) began. The time is computed once per run,
        so that the stamps of all messages agree."""
        if (due.run, due.origin) != self._anchored:
            self._anchored = (due.run, due.origin)
            self._anchor_ns = self.get_clock().now().nanoseconds - round((time.monotonic() - due.origin) * 1e9)
        return self._anchor_ns

    def _tick(self, run: int, at_ns: int) -> None:
        """Publish the time `at_ns` on /clock, where time never goes back during one pass through the session."""
        assert self._clock_publisher is not None
        last_run, last_ns = self._last_tick
        ns = max(at_ns, last_ns) if run == last_run else at_ns
        self._last_tick = (run, ns)
        self._clock_publisher.publish(Clock(clock=Time(sec=ns // 1_000_000_000, nanosec=ns % 1_000_000_000)))

    def _wait_until_acknowledged(self) -> None:
        """Wait until all subscribers have acknowledged the last messages; an earlier end of the process would lose
        them."""
        until = time.monotonic() + ACKNOWLEDGED_S
        for publisher in self._publishers_of.values():
            publisher.wait_for_all_acked(Duration(seconds=max(0.0, until - time.monotonic())))


def ticks_kept(messages: list[BagMessage], rate: float) -> int:
    """Return the number of /clock messages in 2 s of a replay, which publishes one with each of `messages`, too."""
    return most_within(KEPT_S * rate, messages) + math.ceil(KEPT_S / CLOCK_PERIOD_S)


def most_within(seconds: float, messages: list[BagMessage]) -> int:
    """Return the largest number of messages, sorted by time, that were recorded within any `seconds` of the session."""
    logged_ns = np.array([m.logged_ns for m in messages], np.int64)
    after = np.searchsorted(logged_ns, logged_ns + round(seconds * 1e9), side="right")
    return int((after - np.arange(len(logged_ns))).max(initial=0))


def spin_in_background(node: Node) -> tuple[SingleThreadedExecutor, threading.Thread]:
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)

    def spin() -> None:
        try:
            executor.spin()
        except ExternalShutdownException:
            pass

    thread = threading.Thread(target=spin, name="services", daemon=True)
    thread.start()
    return executor, thread
