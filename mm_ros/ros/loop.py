"""Main loop of a process that runs nodes: topics and timers in one thread, services and parameters in another.

The main loop uses no executor of rclpy and waits only for topics and for the next timer: the nodes have about 60
services, timers and subscriptions, and an executor would list all 60 in Python before each callback, which takes longer
than the callback. An executor in a second thread handles services, parameters and QoS events, which are rare. Main loop
and executor hold the lock of the hub while they run a callback.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, ShutdownException, SingleThreadedExecutor
from rclpy.guard_condition import GuardCondition
from rclpy.node import Node
from rclpy.timer import Timer

from mm_ros.base import ending
from mm_ros.ros.hub import Hub, Inlet
from mm_ros.ros.internals import Unattended, WaitSet, is_running

LONGEST_NS = 500_000_000  # The main loop checks every 0.5 s whether Ctrl-C was pressed.
NEVER = 1 << 62
OUTSIDE_NS = 400_000_000  # time between two searches for publishers in other processes [ns]


class Ticker:
    """Periodic timer of the main loop. In simulated time, or without a main loop, `Ticker` uses a timer of rclpy."""

    def __init__(self, loop: Loop, node: Any, period_ns: int, callback: Callable[[], None]) -> None:
        self._loop, self._node, self._callback = loop, node, callback
        self._period_ns = period_ns
        self._simulated: Timer | None = None
        self.due_ns = self.queued_ns = NEVER
        self._begin()

    @property
    def simulated(self) -> bool:
        return self._simulated is not None

    def _begin(self) -> None:
        if self._loop.by_executor or self._node.is_simulated():
            self._simulated = self._node.create_timer(self._period_ns * 1e-9, self._callback)
        else:
            self.due_ns = self.queued_ns = time.monotonic_ns() + self._period_ns
            self._loop.schedule(self)

    @property
    def timer_period_ns(self) -> int:
        return self._period_ns

    @timer_period_ns.setter
    def timer_period_ns(self, period_ns: int) -> None:
        """Change the period [ns] of the timer; the new period begins at the next tick or call of `reset`."""
        self._period_ns = period_ns
        if self._simulated is not None:
            self._simulated.timer_period_ns = period_ns

    def reset(self) -> None:
        """Let the timer tick next when its period has passed from now."""
        if self._simulated is not None:
            self._simulated.reset()
        else:
            self._due(time.monotonic_ns() + self._period_ns)

    def aim(self, seconds_ns: int) -> None:
        """Move the next tick of the timer to `seconds_ns` nanoseconds from now; do nothing in simulated time."""
        if self._simulated is None:
            self._due(time.monotonic_ns() + max(seconds_ns, 0))

    def _due(self, due_ns: int) -> None:
        self.due_ns = due_ns
        if due_ns < self.queued_ns:
            self.queued_ns = due_ns
            self._loop.schedule(self)

    def fire(self, now_ns: int) -> None:
        if self._node.is_simulated():
            self._begin()
            return
        self.due_ns += self._period_ns
        if self.due_ns <= now_ns:  # If the timer is late by more than a period, the missed ticks are skipped.
            self.due_ns = now_ns + self._period_ns
        self._callback()


class _Services(SingleThreadedExecutor):
    """Executor of rclpy that handles services, parameters and QoS events in its own thread."""

    def __init__(self, lock: threading.RLock) -> None:
        super().__init__()
        self._lock = lock
        self.failed: BaseException | None = None

    def serve(self, wake_loop: Callable[[], None]) -> None:
        try:
            while is_running(self):
                handler, _, _ = self.wait_for_ready_callbacks()
                with self._lock:
                    handler()
                if handler.exception() is not None:
                    raise handler.exception()
        except (ShutdownException, ExternalShutdownException):
            pass
        except BaseException as error:
            if is_running(self):
                self.failed = error
        wake_loop()


class Loop:
    """Main loop that runs the nodes of a process until a call of `stop`, a Ctrl-C or the end of rclpy."""

    current: Loop | None = None  # the main loop of this process, while `run_all` is running
    by_executor = False

    def __init__(self) -> None:
        self.hub = Hub()
        self._nodes: list[Node] = []
        self._tickers: list[tuple[int, int, Ticker]] = []
        self._count = 0
        self._posted: deque[Callable[[], None]] = deque()
        self._guard: GuardCondition | None = None
        self._ended = False
        self._look_ns = 0
        self._attended: list[Inlet] = []
        self._by_pointer: dict[int, Inlet] = {}
        self._waiting: Any = None
        self._services: _Services | None = None
        self._thread: threading.Thread | None = None

    def add_node(self, node: Node) -> None:
        self._nodes.append(node)

    def attend(self, inlet: Inlet) -> None:
        """Let the main loop read the subscription of `inlet` from now on, and pass the last data of latched topics of
        this process to it."""
        for part in (inlet.subscription, *inlet.subscription.event_handlers):
            part.callback_group = Unattended()
        self._look_ns = 0
        self.wake()
        for outlet in self.hub.outlets.get(inlet.name, ()):
            if outlet.latched is not None:
                self.post(lambda value=outlet.latched: inlet.receive(value))  # type: ignore[misc]

    def leave(self, inlet: Inlet, destroy: Callable[[], None]) -> None:
        """Stop reading the subscription of `inlet`, and call `destroy` once the loop no longer uses it."""

        def destroyed() -> None:
            self._waiting, self._attended = None, []
            destroy()

        with self.hub.lock:
            self.hub.remove(inlet)
        self._look_ns = 0
        self.post(destroyed)

    def schedule(self, ticker: Ticker) -> None:
        self._count += 1
        heapq.heappush(self._tickers, (ticker.queued_ns, self._count, ticker))

    def post(self, call: Callable[[], None]) -> None:
        """Run the function `call` soon in the thread of the loop; any thread may call this method."""
        self._posted.append(call)
        self.wake()

    def wake(self) -> None:
        guard = self._guard
        if guard is not None:
            guard.trigger()

    def stop(self) -> None:
        self._ended = True
        self.wake()

    def spin(self) -> None:
        context = self._nodes[0].context
        self._guard = GuardCondition(None, None, context=context)
        services = self._services = _Services(self.hub.lock)
        for node in self._nodes:
            services.add_node(node)
        self._thread = threading.Thread(target=services.serve, args=(self.wake,), name="services", daemon=True)
        self._thread.start()
        try:
            while context.ok() and not self._ended and not ending.asked() and services.failed is None:
                ready = self._wait(context)
                with self.hub.lock:
                    self._run(ready)
        except (RuntimeError, InvalidHandle):  # raised if ROS was shut down while the loop waited
            if context.ok() and not self._ended:
                raise
        finally:
            if ending.asked():  # ignores a second Ctrl-C while the thread of the services ends
                ending.ignore_more()
            self.end()
        if services.failed is not None:
            raise services.failed

    def end(self) -> None:
        """End the thread of the services: a thread inside the C++ code of rclpy would abort the process when Python
        exits."""
        services, thread = self._services, self._thread
        if services is not None and thread is not None:
            services.shutdown(0)
            thread.join(2.0)
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.destroy()
        self._services = self._thread = None

    def _wait(self, context: Any) -> list[Inlet]:
        now_ns = time.monotonic_ns()
        if now_ns >= self._look_ns or self._waiting is None:
            self._look_outside(context, now_ns)
        until_ns = min(self._look_ns, now_ns + LONGEST_NS)
        if self._tickers:
            until_ns = min(until_ns, self._tickers[0][0])
        if self._posted:
            until_ns = now_ns
        waiting = self._waiting
        waiting.clear_entities()
        for inlet in self._attended:
            waiting.add_subscription(inlet.handle)
        waiting.add_guard_condition(self._guard.handle)  # type: ignore[union-attr]
        waiting.wait(max(until_ns - now_ns, 0))
        if not self._attended:
            return []
        ready = waiting.get_ready_entities("subscription")
        return [self._by_pointer[p] for p in ready if p in self._by_pointer]

    def _look_outside(self, context: Any, now_ns: int) -> None:
        """Choose the topics to read from DDS: all except those that only nodes of this process publish."""
        self._look_ns = now_ns + OUTSIDE_NS
        wanted = []
        with self.hub.lock:
            topics = [(name, list(inlets)) for name, inlets in self.hub.inlets.items()]
        for name, inlets in topics:
            own = len(self.hub.outlets.get(name, ()))
            if not own or self._nodes[0].count_publishers(name) > own:
                wanted.append(inlets[0])  # of each topic, only one of this process's subscriptions is read
            for inlet in inlets:
                inlet.report_events()
        if self._waiting is not None and wanted == self._attended:
            return
        self._attended = wanted
        self._by_pointer = {inlet.handle.pointer: inlet for inlet in wanted}
        with context.handle:
            self._waiting = WaitSet(len(wanted), 1, 0, 0, 0, 0, context.handle)

    def _run(self, ready: list[Inlet]) -> None:
        for inlet in ready:
            if inlet in self._attended:
                inlet.take()
        while self._posted:
            self._posted.popleft()()
        now_ns = time.monotonic_ns()
        while self._tickers and self._tickers[0][0] <= now_ns:
            queued_ns, _, ticker = heapq.heappop(self._tickers)
            if queued_ns != ticker.queued_ns:
                continue  # The queue entry of the timer is outdated, because the timer was moved to an earlier time.
            if ticker.due_ns > now_ns:
                ticker.queued_ns = ticker.due_ns
                self.schedule(ticker)
                continue
            ticker.queued_ns = NEVER
            ticker.fire(now_ns)
            if ticker.queued_ns == NEVER and not ticker.simulated:
                ticker.queued_ns = ticker.due_ns
                self.schedule(ticker)


class ByExecutor(Loop):
    """Replacement for `Loop` in a node that an executor of rclpy runs, for example in a test."""

    by_executor = True

    def add_node(self, node: Node) -> None:
        super().add_node(node)
        self._guard = node.create_guard_condition(lambda: self._run([]))

    def attend(self, inlet: Inlet) -> None:
        """Do nothing, because the executor of rclpy reads the subscription and calls its callback."""

    def leave(self, inlet: Inlet, destroy: Callable[[], None]) -> None:
        with self.hub.lock:
            self.hub.remove(inlet)
        self.post(destroy)
