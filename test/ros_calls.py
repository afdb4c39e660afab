"""Calls of ROS services, which are repeated until the service answers."""

from collections.abc import Callable
from typing import Any

AGAIN_S, TIMES = 4.0, 30


def answer_of(client: Any, request: Any, spin_until: Callable[[Callable[[], bool], float], bool]) -> Any:
    """Repeat the call of a service until it answers, because DDS drops the answer to a client not yet discovered."""
    for _ in range(TIMES):
        future = client.call_async(request)
        if spin_until(future.done, AGAIN_S):
            return future.result()
    raise AssertionError(f"{client.srv_name} did not answer in {TIMES * AGAIN_S:g} s, asked {TIMES} times")
