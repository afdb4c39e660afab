"""Asking a service as often as it takes."""

from collections.abc import Callable
from typing import Any

AGAIN_S, TIMES = 4.0, 30


def answer_of(client: Any, request: Any, spin_until: Callable[[Callable[[], bool], float], bool]) -> Any:
    """DDS drops an answer whose asker the service has not met yet, though the asker has met the service."""
    for _ in range(TIMES):
        future = client.call_async(request)
        if spin_until(future.done, AGAIN_S):
            return future.result()
    raise AssertionError(f"{client.srv_name} did not answer in {TIMES * AGAIN_S:g} s, asked {TIMES} times")
