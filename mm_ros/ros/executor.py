"""An executor for chains of nodes in one process: what has come is taken at once, without a wait between two hops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.executors import SingleThreadedExecutor
from rclpy.subscription import Subscription

from mm_ros.base import ending

Stream = tuple[Subscription, Callable[[Any], None]]

AT_ONCE = 64  # then timers and services have their turn, however many messages are waiting


class _Nobody:
    def trigger(self) -> None:
        """No other thread waits for it."""


_NOBODY = _Nobody()


class ChainExecutor(SingleThreadedExecutor):
    """rclpy builds a wait set over all services, timers and subscriptions of all nodes (some sixty) before each
    callback, which costs more than the callback. Here the nodes' streams are asked first; the wait set is for the rest.
    """

    _guard: Any

    def __init__(self) -> None:
        super().__init__()
        self._streams: list[list[Stream]] = []

    def add_node(self, node: Any) -> bool:
        self._streams.append(getattr(node, "streams", []))
        return super().add_node(node)

    def _make_handler(self, *arguments: Any, **more: Any) -> Any:
        """rclpy's handlers wake the executor twice, for other threads' sake: here only a wait set built in vain."""
        guard = self._guard
        self._guard = _NOBODY
        try:
            return super()._make_handler(*arguments, **more)
        finally:
            self._guard = guard

    def spin(self) -> None:
        while self._context.ok() and not self._is_shutdown and not ending.asked():
            self.spin_once()
            taken = AT_ONCE
            while taken and (now := self._take_each()):
                taken = max(taken - now, 0)

    def _take_each(self) -> int:
        """One message of each stream that has one; how many there were."""
        count = 0
        for subscription, heard in (stream for streams in self._streams for stream in streams):
            try:
                with subscription.handle:
                    message = subscription.handle.take_message(subscription.msg_type, subscription.raw)
            except InvalidHandle:  # destroyed meanwhile
                continue
            if message is not None:
                heard(message[0])
                count += 1
        return count
