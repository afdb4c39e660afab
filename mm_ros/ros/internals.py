"""All code that depends on undocumented parts of rclpy (checked with rclpy 7.1, ROS Jazzy).

`test/ros/test_internals.py` fails if a version of rclpy lacks an undocumented name or behaves in another way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.callback_groups import CallbackGroup, ReentrantCallbackGroup
from rclpy.executors import SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.parameter_service import ParameterService

from mm_ros.base.errors import MmRosError

WaitSet = rclpy_implementation.WaitSet


def overrides(node: Node) -> dict[str, Parameter]:
    """Return the parameter values that files and the command line give to a node; the dict may be changed before the
    parameters are declared."""
    return node._parameter_overrides


def is_simulated(node: Node) -> bool:
    """Return whether the node uses simulated time from the topic /clock. The public property `ros_time_is_active` of
    the clock is not used, because it takes a lock at each call."""
    return bool(node._time_source.ros_time_is_active)


def is_running(executor: SingleThreadedExecutor) -> bool:
    return bool(executor._context.ok() and not executor._is_shutdown)


def taken_event(handler: Any) -> Any:
    """Return the data of a QoS event, or None if the event has not happened. The public interface of rclpy returns the
    data only after an executor has waited for the event."""
    handler._ready_to_take_data = True
    return handler.take_data()


@contextmanager
def default_group(node: Node, group: CallbackGroup) -> Iterator[None]:
    """Context in which new subscriptions, timers and services of the node get the callback group `group`, unless they
    state another group."""
    before, node._default_callback_group = node._default_callback_group, group
    try:
        yield
    finally:
        node._default_callback_group = before


class _NoGuard:
    def trigger(self) -> None:
        """Do nothing: this method would wake up threads that wait for this executor, but there are none."""


class LeanExecutor(SingleThreadedExecutor):
    """Executor of rclpy without the two unnecessary wait sets that rclpy's own executors build after each callback."""

    _guard: Any

    def _make_handler(self, *arguments: Any, **more: Any) -> Any:
        guard, self._guard = self._guard, _NoGuard()
        try:
            return super()._make_handler(*arguments, **more)
        finally:
            self._guard = guard


class Unattended(CallbackGroup):
    """Callback group of subscriptions that the executor of rclpy must ignore, because the main loop reads them."""

    def can_execute(self, _entity: Any) -> bool:
        return False

    def beginning_execution(self, _entity: Any) -> bool:
        return False

    def ending_execution(self, _entity: Any) -> None:
        """Do nothing, because the executor of rclpy never executes subscriptions of an `Unattended` group."""


class Loading:
    """Awaitable object that runs the function `load` in a thread, while the executor runs other callbacks."""

    def __init__(self, load: Callable[[], None], wake: Callable[[], None]) -> None:
        self._load, self._wake = load, wake
        self._refusal: str | None = None
        threading.Thread(target=self._run, daemon=True).start()  # a daemon thread does not delay the end of the process

    def _run(self) -> None:
        refusal = ""
        try:
            self._load()
        except Exception as error:  # a parameter value whose files cannot be loaded is refused
            refusal = str(error) if isinstance(error, MmRosError) else repr(error)
        self._refusal = refusal
        self._wake()

    def __await__(self) -> Generator[None, None, str]:
        """Return "" after the files were loaded, or the reason why a file could not be loaded."""
        while self._refusal is None:
            yield
        return self._refusal


class LoadingParameterService(ParameterService):
    """Parameter services of a node that load the files of a new parameter value in a thread before they set the value.

    The function `loading` returns a function that loads the files of given parameters, or None if they name no file.
    """

    def __init__(self, node: Node, loading: Callable[[list[Parameter]], Callable[[], None] | None]) -> None:
        self._loading = loading
        # The service callback is asynchronous, so that other callbacks of the node run while files are loaded.
        with default_group(node, ReentrantCallbackGroup()):
            super().__init__(node)

    async def _set_parameters_callback(
        self, request: SetParameters.Request, response: SetParameters.Response
    ) -> SetParameters.Response:
        for given in request.parameters:
            one = SetParameters.Request(parameters=[given])
            refusal = await self._refusal([Parameter.from_parameter_msg(given)])
            if refusal:
                response.results.append(SetParametersResult(successful=False, reason=refusal))
            else:
                response.results.extend(super()._set_parameters_callback(one, SetParameters.Response()).results)
        return response

    async def _set_parameters_atomically_callback(
        self, request: SetParametersAtomically.Request, response: SetParametersAtomically.Response
    ) -> SetParametersAtomically.Response:
        refusal = await self._refusal([Parameter.from_parameter_msg(p) for p in request.parameters])
        if refusal:
            response.result = SetParametersResult(successful=False, reason=refusal)
            return response
        return super()._set_parameters_atomically_callback(request, response)

    async def _refusal(self, parameters: list[Parameter]) -> str:
        load = self._loading(parameters)
        if load is None:
            return ""
        executor = self._get_node().executor
        return await Loading(load, executor.wake if executor is not None else lambda: None)
