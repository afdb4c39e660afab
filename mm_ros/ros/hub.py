"""Passes data between the ROS nodes of one process directly, without messages.

An `Outlet` replaces a publisher: it passes data to each `Inlet` of its topic in its process, and publishes a message if
another process subscribes. Each `Inlet` also has an ordinary subscription, so other processes see the usual ROS graph.
The subscription of an `Inlet` is read only while another process publishes the topic.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from rclpy.publisher import Publisher
from rclpy.subscription import Subscription

from mm_ros.ros.cdr import deserialized, stamp_of
from mm_ros.ros.internals import taken_event
from mm_ros.ros.wire import KINDS, Wire

LISTENERS_NS = 50_000_000  # time between two counts of a topic's subscribers in other processes [ns]
STAMPS = 512  # A process recognizes its own messages by the time stamps of its last 512 messages.


class Hub:
    """Passes data between the nodes of one process, in the order in which ROS would deliver them as messages."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # lock that a thread holds while it runs a callback of a node
        self.inlets: dict[str, list[Inlet]] = {}
        self.outlets: dict[str, list[Outlet]] = {}
        self._queue: deque[tuple[Inlet, Callable[[Any], None], Any]] = deque()
        self._later: deque[tuple[Outlet, Any]] = deque()
        self._draining = False
        self._wires: dict[str, Wire] = {}

    def hand(self, outlet: Outlet, value: Any) -> None:
        """Deliver `value` to all subscriptions in this process of the topic of `outlet`. While the hub delivers other
        data, no matter of which topic, new data are queued."""
        self._later.append((outlet, value))
        inlets = self.inlets.get(outlet.name, ())
        if outlet.wire is None:
            self._deliver((inlet, inlet.receive, value) for inlet in inlets)
        else:
            self._deliver((inlet, inlet.given, value) for inlet in inlets)

    def arrive(self, name: str, message: Any) -> None:
        """Deliver a message from another process to all subscriptions (inlets) of the topic `name`.

        Of a process's subscriptions of a topic, only one is read. If each subscription were read separately, the
        callback of one could publish results before the others get the message.
        """
        own = self.outlets.get(name)
        if not (own and _is_own(own, message)):
            self._deliver((inlet, inlet.receive, message) for inlet in self.inlets.get(name, ()))

    def remove(self, inlet: Inlet) -> None:
        left = [other for other in self.inlets[inlet.name] if other is not inlet]
        if left:
            self.inlets[inlet.name] = left
        else:
            del self.inlets[inlet.name]
        self._queue = deque(call for call in self._queue if call[0] is not inlet)

    def wire(self, topic: str, name: str, world: str) -> Wire | None:
        """Return the fast message conversions of the topic, which all nodes of the process share, or None."""
        if topic in KINDS and name not in self._wires:
            self._wires[name] = Wire(topic, world)
        return self._wires.get(name)

    def _deliver(self, calls: Iterable[tuple[Inlet, Callable[[Any], None], Any]]) -> None:
        self._queue.extend(calls)
        if self._draining:
            return
        self._draining = True
        try:
            while self._queue:
                _, take, given = self._queue.popleft()
                take(given)
            while self._later:  # other processes get the data after the nodes of this process
                late, given = self._later.popleft()
                late.send(given)
        finally:
            self._draining = False
            self._queue.clear()
            self._later.clear()


class Outlet:
    """Publisher of a topic for the nodes of this process and for other processes. If `wire` is given, `send` takes
    dataclasses of mm_ros, otherwise ROS messages."""

    def __init__(self, hub: Hub, publisher: Publisher, wire: Wire | None, world: str) -> None:
        """Make an outlet. `world` is the frame name to write into the header of messages, or "" to keep the name."""
        self._hub, self._publisher, self.wire, self._world = hub, publisher, wire, world
        self.name = publisher.topic_name
        self.stamps: deque[int] = deque(maxlen=STAMPS)
        self.latched: Any = None  # last data of a latched topic, for later subscriptions
        self._keeps = publisher.qos_profile.durability.name == "TRANSIENT_LOCAL"
        self._listeners, self._counted_ns = 0, 0
        hub.outlets.setdefault(self.name, []).append(self)

    def publish(self, value: Any) -> None:
        with self._hub.lock:
            if self._world and self.wire is None:
                value.header.frame_id = self._world
            if self._keeps:
                self.latched = value
            if not self._hub.inlets.get(self.name):
                self.send(value)
                return
            self._hub.hand(self, value if self.wire is None else self.wire.handed(value))

    def send(self, value: Any) -> None:
        """Publish data to other processes if another process subscribes to the topic, or if the topic is latched."""
        if self.wire is not None:
            if not self._outside():
                return
            value = self.wire.serialized(value)
        if self._keeps or self._hub.inlets.get(self.name):
            self._remember(value)
        self._publisher.publish(value)

    def _remember(self, sent: Any) -> None:
        if isinstance(sent, bytes):
            self.stamps.append(stamp_of(sent) or 0)
        elif hasattr(sent, "header"):
            self.stamps.append(sent.header.stamp.sec * 1_000_000_000 + sent.header.stamp.nanosec)

    def _outside(self) -> int:
        now_ns = time.monotonic_ns()
        if now_ns - self._counted_ns > LISTENERS_NS:
            self._counted_ns = now_ns
            own = len(self._hub.inlets.get(self.name, ()))
            self._listeners = max(self._publisher.get_subscription_count() - own, 0)
        return self._listeners

    def get_subscription_count(self) -> int:
        """Return the number of the topic's subscribers in this process and in others, as publishers of rclpy do."""
        return self._outside() + len(self._hub.inlets.get(self.name, ()))


class Inlet:
    """Subscription of a topic. `receive` takes data of a node of this process, a message, or a serialized message."""

    def __init__(
        self, hub: Hub, subscription: Subscription, wire: Wire | None, guarded: Callable[[Callable[[Any], None]], Any],
        callback: Callable[[Any], None],
    ) -> None:  # fmt: skip
        self._hub, self._wire, self.subscription = hub, wire, subscription
        self.handle = subscription.handle
        self.name: str = subscription.topic_name
        self._type, self._raw = subscription.msg_type, subscription.raw
        self.given = guarded(callback)  # callback for data from a node of this process
        self._read = guarded(lambda message: callback(self._value(message)))
        self._core = wire is not None
        hub.inlets.setdefault(self.name, []).append(self)

    def report_events(self) -> None:
        """Call the callbacks of QoS events, for example of the event that a publisher has an incompatible QoS.

        No thread waits for QoS events: such a thread would wake up for each message, because the condition of a QoS
        event is also set while the subscription holds an unread message.
        """
        for handler in self.subscription.event_handlers:
            event = taken_event(handler)
            if event is not None and event.total_count_change:
                handler.callback(event)

    def receive(self, value: Any) -> None:
        """Call the callback with data from a node of this process, or with the data of a message."""
        if isinstance(value, bytes) or (self._core and hasattr(value, "get_fields_and_field_types")):
            self._read(value)
        else:
            self.given(value)

    def take(self) -> None:
        """Take one message from another process and deliver it to all subscriptions of the topic."""
        found = self.handle.take_message(self._type, self._raw)
        if found is not None:
            self._hub.arrive(self.name, found[0])

    def _value(self, message: Any) -> Any:
        if self._wire is not None:
            return self._wire.value(message)
        return deserialized(message, self._type) if isinstance(message, bytes) else message


def _is_own(outlets: list[Outlet], message: Any) -> bool:
    """Return whether a received message was published by this process itself; its data were already passed on
    directly."""
    stamp = stamp_of(message) if isinstance(message, bytes) else None
    return stamp is not None and any(stamp in outlet.stamps for outlet in outlets)
