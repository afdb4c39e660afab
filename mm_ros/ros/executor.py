"""Executor for chains of nodes in one process: it takes messages directly, without a wait set between two hops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.executors import SingleThreadedExecutor
from rclpy.subscription import Subscription

from mm_ros.base import ending

Stream = tuple[Subscription, Callable[[Any], None]]

MAX_MESSAGES_IN_A_ROW = 64  # messages, after which timers and services run even if more messages are waiting


class _NoGuard:
    def trigger(self) -> None:
        """Do nothing: no other thread waits for this executor."""


_NO_GUARD = _NoGuard()


class ChainExecutor(SingleThreadedExecutor):
    """Executor that takes messages of the nodes' `streams` before it builds a wait set.

    rclpy builds a wait set over all services, timers and subscriptions of all nodes (about 60) before each callback,
    which takes longer than the callback.
    """

    _guard: Any

    def __init__(self) -> None:
        super().__init__()
        self._streams: list[list[Stream]] = []

    def add_node(self, node: Any) -> bool:
        self._streams.append(getattr(node, "streams", []))
        return super().add_node(node)

    def _make_handler(self, *arguments: Any, **more: Any) -> Any:
        """Make a handler that does not wake the executor; rclpy's would cause two useless wait sets."""
        guard = self._guard
        self._guard = _NO_GUARD
        try:
            return super()._make_handler(*arguments, **more)
        finally:
            self._guard = guard

    def spin(self) -> None:
        while self._context.ok() and not self._is_shutdown and not ending.asked():
            self.spin_once()
            taken = MAX_MESSAGES_IN_A_ROW
            while taken and (now := self._take_each()):
                taken = max(taken - now, 0)

    def _take_each(self) -> int:
        """Take one message of each stream that has one; return their number."""
        count = 0
        for subscription, callback in (stream for streams in self._streams for stream in streams):
            try:
                with subscription.handle:
                    message = subscription.handle.take_message(subscription.msg_type, subscription.raw)
            except InvalidHandle:  # the subscription was destroyed
                continue
            if message is not None:
                callback(message[0])
                count += 1
        return count
