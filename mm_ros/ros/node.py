"""Base class of the nodes, and functions that run nodes in one or more processes."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from mm_ros.base import ending
from mm_ros.base.errors import MmRosError
from mm_ros.base.process import run_each, settle
from mm_ros.base.settings import Settings
from mm_ros.body.plausible import ImplausibleOutput, Outputs
from mm_ros.body.types import Calibration
from mm_ros.ros import graph
from mm_ros.ros.conversions import calibration_from_ros, trajectory_times_from_ros
from mm_ros.ros.health import Health
from mm_ros.ros.hub import Inlet, Outlet
from mm_ros.ros.internals import LoadingParameterService, is_simulated
from mm_ros.ros.loop import ByExecutor, Loop, Ticker
from mm_ros.ros.parameters import LiveSettings, checked_frame
from mm_ros.ros.qos import message_class, publisher_qos, subscription_qos
from mm_ros.ros.starting import announced, begin, begun

S = TypeVar("S", bound=Settings)

DEFAULT_AFTER_NS = 1_000_000_000
# A running thread of Python lets another thread run after this time [s]. With Python's default of 5 ms, another
# thread could delay a tracker sample by 5 ms.
GIL_SWITCH_S = 0.0002


class AvatarNode(Node):
    """Base class of all nodes of mm_ros.

    The `__init__` of a subclass builds the stage, subscribes to topics by `listen`, and calls `start` last.
    """

    NAME = ""

    def __init__(self, loop: Loop | None = None, **kwargs: Any) -> None:
        """Make the node; the main loop `loop` of the process will run its callbacks. If `loop` is None, the loop of
        `run_all` is used. If `run_all` is not running, the node can be added to an executor of rclpy."""
        super().__init__(self.NAME, **kwargs, start_parameter_services=False)
        self.loop = loop or Loop.current or ByExecutor()
        self.loop.add_node(self)
        self.described = graph.node(self.NAME)
        types = (*self.described.settings_types(), graph.FrameSettings)
        self._live = LiveSettings(self, types, self._settings_changed)
        self._parameter_service = LoadingParameterService(self, self._loading)
        self.world_frame = checked_frame(self.settings(graph.FrameSettings).world_frame)
        self.inlets: list[Inlet] = []  # subscriptions that `listen` has made
        self._accepting = False
        self._calibrated = False
        self._first_input_ns = 0
        self.outputs = Outputs()  # checks that data are plausible before they are published
        self.health = Health(self, expects_input=bool(self.described.inputs))
        self._diagnostics = self.publisher("/diagnostics")
        self.create_service(Trigger, f"{self.NAME}/reset", self._on_reset)
        self._reports = Ticker(self.loop, self, self.health.first_report_ns(), self._publish_health)

    def _publish_health(self) -> None:
        self._reports.timer_period_ns = self.health.next_report_ns()
        self._reports.reset()
        self._diagnostics.publish(self.health.report())

    @classmethod
    def preload(cls) -> None:
        """Load the compiled functions that the node needs, before processes are forked."""

    @property
    def avatar(self) -> str:
        return self.get_namespace().strip("/") or "avatar"

    def settings(self, kind: type[S]) -> S:
        return of_kind(self._live.current, kind)

    def now_ns(self) -> int:
        """Return the present time [ns] on the clock of the node, which shows system time or simulated time."""
        return int(self.get_clock().now().nanoseconds) if self.is_simulated() else time.time_ns()

    def is_simulated(self) -> bool:
        """Return whether the node uses simulated time from the topic /clock."""
        return is_simulated(self)

    def publisher(self, topic: str) -> Outlet:
        """Make a publisher (`Outlet`) of the topic `topic` for this node. If `wire.KINDS` contains the topic, the
        publisher takes dataclasses of mm_ros, otherwise ROS messages."""
        t = graph.TOPICS[topic]
        made = self.create_publisher(message_class(t.type), t.name, publisher_qos(t.qos))
        wire = self.loop.hub.wire(topic, made.topic_name, self.world_frame)
        return Outlet(self.loop.hub, made, wire, self.world_frame if t.in_world else "")

    def listen(self, topic: str, callback: Callable[[Any], None], name: str = "") -> Inlet:
        """Subscribe to a topic. If `wire.KINDS` contains the topic, the callback gets dataclasses of mm_ros, otherwise
        ROS messages.

        An MmRosError that the callback raises is counted and logged. If `name` is given, it replaces the topic's name.
        """
        t = graph.TOPICS[topic]
        kind = message_class(t.type)
        ours = t.type.startswith("mm_ros/")
        hub, full_name = self.loop.hub, self.resolve_topic_name(name or t.name)
        made = self.create_subscription(
            kind, full_name, lambda message: hub.arrive(full_name, message), subscription_qos(t.qos), raw=ours
        )
        wire = hub.wire(topic, full_name, self.world_frame)
        inlet = Inlet(hub, made, wire, lambda call: self.guarded(topic, call), callback)
        self.inlets.append(inlet)
        self.loop.attend(inlet)
        return inlet

    def unlisten(self, inlet: Inlet) -> None:
        """End the subscription `inlet`, which `listen` has made for this node."""
        self.inlets.remove(inlet)
        self.loop.leave(inlet, lambda: self.destroy_subscription(inlet.subscription))

    def every(self, period_s: float, callback: Callable[[], None]) -> Ticker:
        return Ticker(self.loop, self, round(period_s * 1e9), self.guarded("timer", callback))

    def guarded(self, what: str, callback: Callable[..., None]) -> Callable[..., None]:
        """Return a function that calls `callback` and logs its exceptions, so that no exception ends the node."""

        def safe(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except ImplausibleOutput as error:
                self.health.refuse(f"{what}: {error}; the stage was reset")
                self.reset()
            except MmRosError as error:
                self.health.refuse(f"{what}: {error}")
            except Exception as error:  # errors in the code of mm_ros do not end the node
                if ending.asked():
                    raise KeyboardInterrupt from None
                self.get_logger().error(traceback.format_exc(), throttle_duration_sec=2.0)
                self.health.refuse(f"{what}: internal error, the stage was reset: {error!r}")
                self.reset()

        return safe

    def listen_calibrated(self, topic: str, callback: Callable[[Any], None]) -> None:
        """Subscribe to a topic, but ignore its messages until a calibration of the user was received.

        If no calibration arrives within 1 s after the first message, default measurements of the user are used.
        """

        def waiting(msg: Any) -> None:
            if self._calibrated or self._use_default_calibration():
                callback(msg)
            else:
                self.health.dropped += 1

        self.listen(topic, waiting)

    def await_calibration(self, apply: Callable[[Calibration], None]) -> None:
        self._apply_calibration = apply
        self.listen("calibration", lambda msg: self._take_calibration(calibration_from_ros(msg)))

    def follow_layout(self, set_times: Callable[[tuple[float, ...]], None]) -> None:
        """Call `set_times` with the trajectory times of the matcher's feature layout, whenever the layout changes.

        Before a feature layout is received, the trajectory has default times; the matcher converts it by interpolation.
        """
        self.listen("feature_layout", lambda msg: set_times(trajectory_times_from_ros(msg)))

    def _take_calibration(self, calibration: Calibration) -> None:
        self._apply_calibration(calibration)
        self._calibrated = True

    def _use_default_calibration(self) -> bool:
        now_ns = time.monotonic_ns()
        self._first_input_ns = self._first_input_ns or now_ns
        if now_ns - self._first_input_ns < DEFAULT_AFTER_NS:
            return False
        if self.count_publishers("trackers"):
            self.get_logger().warning(
                "no calibration was received: assuming a standing headset height of 1.68 m. "
                f"Call the service /{self.avatar}/calibrate while standing upright."
            )
        else:  # If a gamepad or a path controls the avatar, no user is measured, and default measurements are used.
            self.get_logger().info("no trackers are published: the avatar gets its usual size")
        self._take_calibration(Calibration())
        return True

    def start(self) -> None:
        """Let the node accept messages, and report that it is ready. Call `start` after all models are loaded."""
        self._accepting = True
        self.health.ready = True
        self.get_logger().info("ready")

    def reset(self) -> None:
        """Clear the state of the node; each node class that has state overrides `reset`."""

    def apply_settings(self) -> None:
        """Apply changed parameters to the stage of the node; an MmRosError that this method raises refuses the
        values."""

    def loading(self, settings: list[Settings]) -> Callable[[], None] | None:
        """Return a function that reads the files to which changed settings refer, or None if no file must be read."""
        return None

    def _loading(self, parameters: list[Parameter]) -> Callable[[], None] | None:
        wanted = self._live.with_parameters(parameters) if self._accepting else None
        return None if wanted is None else self.loading(wanted)

    def _settings_changed(self) -> None:
        if self._accepting:
            self.apply_settings()

    def _on_reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.reset()
        response.success, response.message = True, f"{self.NAME} was reset"
        return response


def of_kind(settings: list[Settings], kind: type[S]) -> S:
    for s in settings:
        if isinstance(s, kind):
            return s
    raise KeyError(kind)


def keep_running(groups: Sequence[Sequence[Callable[..., Node]]], args: list[str]) -> int:
    """Run each group of nodes in a process of its own, by `run_all`.

    A process that a signal has killed is replaced by a spare process, which was started in advance. DDS has already
    connected the spare process with the other processes, so that its topics work within milliseconds.
    """
    return run_each([partial(run_all, makers, args) for makers in groups], partial(begun, args))


def run_all(makers: Sequence[Callable[..., Node]], args: list[str] | None = None, executor: Any = None) -> int:
    """Run nodes in one process until Ctrl-C or SIGTERM, and return the exit code of the process: 2 after a mistake of
    the user.

    The function `executor` makes an executor of rclpy for nodes that are not an AvatarNode.
    """
    try:
        begin(args)
    except MmRosError as error:
        print(f"mm_ros: {error}", file=sys.stderr)
        return 2
    sys.setswitchinterval(GIL_SWITCH_S)
    # A shell makes background processes ignore SIGINT, but `ros2 launch` stops its nodes by SIGINT.
    ending.remember(signal.SIGTERM, signal.SIGINT)
    nodes: list[Node] = []
    loop = executor() if executor else Loop()
    try:
        Loop.current = None if executor else loop
        for make in makers:
            nodes.append(make())
            if executor:
                loop.add_node(nodes[-1])
        announced()
        settle()
        loop.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except MmRosError as error:
        print(f"mm_ros: {error}", file=sys.stderr)
        return 2
    except RuntimeError:
        if not ending.asked():
            raise
    finally:
        Loop.current = None
        ending.ignore_more()
        if isinstance(loop, Loop):
            loop.end()  # `spin` also calls `end`, but a second Ctrl-C can interrupt that call.
        for n in nodes:
            if hasattr(n, "close"):
                n.close()
            n.destroy_node()
        announced()
        rclpy.try_shutdown()
        ending.forget()
    return 0
