"""What all nodes share: parameters from settings, topics from the graph, diagnostics, reset, a clean end."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.timer import Timer
from std_srvs.srv import Trigger

from mm_ros.base import ending
from mm_ros.base.errors import MmRosError
from mm_ros.base.process import settle
from mm_ros.base.settings import Settings
from mm_ros.body.plausible import ImplausibleOutput, Outputs
from mm_ros.body.types import Calibration
from mm_ros.ros import graph
from mm_ros.ros.conversions import calibration_from_ros, trajectory_times_from_ros
from mm_ros.ros.executor import ChainExecutor, Stream
from mm_ros.ros.health import Health
from mm_ros.ros.parameters import LiveSettings, LoadingParameterService, checked_frame
from mm_ros.ros.qos import message_class, publisher_qos, subscription_qos
from mm_ros.ros.reach import settle_reach

S = TypeVar("S", bound=Settings)

GUESS_AFTER_NS = 1_000_000_000
WAKE_S = 0.5  # Ctrl-C is noticed after this at the latest
GIL_SWITCH_S = 0.0002  # sources make what comes next in a thread: Python's 5 ms would be waited for at each sample


class WorldPublisher:
    """Names the world frame in the header of each message. Conversions leave it at `map`, the name by default."""

    def __init__(self, publisher: Publisher, frame: str) -> None:
        self._publisher, self._frame = publisher, frame
        self.get_subscription_count = publisher.get_subscription_count

    def publish(self, msg: Any) -> None:
        msg.header.frame_id = self._frame
        self._publisher.publish(msg)


class AvatarNode(Node):
    """Subclasses set `NAME`, build their core object in `__init__`, call `listen`, and end with `start()`."""

    NAME = ""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(self.NAME, **kwargs, start_parameter_services=False)
        self.described = graph.node(self.NAME)
        types = (*self.described.settings_types(), graph.FrameSettings)
        self._live = LiveSettings(self, types, self._settings_changed)
        self._parameter_service = LoadingParameterService(self, self._loading)
        self.world_frame = checked_frame(self.settings(graph.FrameSettings).world_frame)
        self.streams: list[Stream] = []  # what `listen` made, for the executor
        self._accepting = False
        self._calibrated = False
        self._first_input_ns = 0
        self.outputs = Outputs()  # what the stage makes goes through it before it is published
        self.health = Health(self, expects_input=bool(self.described.inputs))
        self._diagnostics = self.publisher("/diagnostics")
        self.create_service(Trigger, f"{self.NAME}/reset", self._on_reset)
        self._reports = self.create_timer(self.health.first_report_ns() * 1e-9, self._tell_health)

    def _tell_health(self) -> None:
        self._reports.timer_period_ns = self.health.next_report_ns()
        self._reports.reset()
        self._diagnostics.publish(self.health.report())

    @property
    def avatar(self) -> str:
        return self.get_namespace().strip("/") or "avatar"

    def settings(self, kind: type[S]) -> S:
        return of_kind(self._live.current, kind)

    def publisher(self, topic: str) -> Publisher | WorldPublisher:
        t = graph.TOPICS[topic]
        made = self.create_publisher(message_class(t.type), t.name, publisher_qos(t.qos))
        return WorldPublisher(made, self.world_frame) if t.in_world else made

    def listen(self, topic: str, callback: Callable[[Any], None], name: str = "") -> None:
        """What a callback refuses (MmRosError) is counted, logged now and then, and otherwise ignored.

        `name`: another name for the topic, given by a parameter.
        """
        t = graph.TOPICS[topic]
        heard = self.guarded(topic, callback)
        made = self.create_subscription(message_class(t.type), name or t.name, heard, subscription_qos(t.qos))
        self.streams.append((made, heard))

    def every(self, period_s: float, callback: Callable[[], None]) -> Timer:
        return self.create_timer(period_s, self.guarded("timer", callback))

    def guarded(self, what: str, callback: Callable[..., None]) -> Callable[..., None]:
        """Nothing that a callback raises ends the node."""

        def safe(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except ImplausibleOutput as error:
                self.health.refuse(f"{what}: {error}; the stage starts anew")
                self.reset()
            except MmRosError as error:
                self.health.refuse(f"{what}: {error}")
            except Exception as error:  # a fault of ours: told in full, and no reason for the avatar to vanish
                if ending.asked():
                    raise KeyboardInterrupt from None
                self.get_logger().error(traceback.format_exc(), throttle_duration_sec=2.0)
                self.health.refuse(f"{what}: internal fault, started anew: {error!r}")
                self.reset()

        return safe

    def listen_calibrated(self, topic: str, callback: Callable[[Any], None]) -> None:
        """As `listen`, for input that means nothing before the user's measures are known.

        When nobody publishes a calibration within a second of the first message, a sensible guess is taken.
        """

        def waiting(msg: Any) -> None:
            if self._calibrated or self._guess_calibration():
                callback(msg)
            else:
                self.health.dropped += 1

        self.listen(topic, waiting)

    def await_calibration(self, apply: Callable[[Calibration], None]) -> None:
        self._apply_calibration = apply
        self.listen("calibration", lambda msg: self._take_calibration(calibration_from_ros(msg)))

    def follow_layout(self, set_times: Callable[[tuple[float, ...]], None]) -> None:
        """Give `trajectory` at the times of the matcher's layout, from its start on and after each change.

        Until the layout comes, the stage keeps the default times: the matcher interpolates between them.
        """
        self.listen("feature_layout", lambda msg: set_times(trajectory_times_from_ros(msg)))

    def _take_calibration(self, calibration: Calibration) -> None:
        self._apply_calibration(calibration)
        self._calibrated = True

    def _guess_calibration(self) -> bool:
        now_ns = time.monotonic_ns()
        self._first_input_ns = self._first_input_ns or now_ns
        if now_ns - self._first_input_ns < GUESS_AFTER_NS:
            return False
        if self.count_publishers("trackers"):
            self.get_logger().warning(
                "no calibration came: the headset is taken to be 1.68 m high when standing. "
                f"Call the service /{self.avatar}/calibrate while standing upright."
            )
        else:  # a gamepad or a path: there is nobody to measure
            self.get_logger().info("no trackers are published: the avatar gets its usual size")
        self._take_calibration(Calibration())
        return True

    def start(self) -> None:
        """Models are loaded and kernels compiled: only now may input come."""
        self._accepting = True
        self.health.ready = True
        self.get_logger().info("ready")

    def reset(self) -> None:
        """Forget all state. Subclasses that hold some say how."""

    def apply_settings(self) -> None:
        """Settings have changed while running; MmRosError refuses them."""

    def loading(self, settings: list[Settings]) -> Callable[[], None] | None:
        """What has to be read from files before `apply_settings` can take these settings; it runs in another thread."""
        return None

    def _loading(self, parameters: list[Parameter]) -> Callable[[], None] | None:
        wanted = self._live.with_parameters(parameters) if self._accepting else None
        return None if wanted is None else self.loading(wanted)

    def _settings_changed(self) -> None:
        if self._accepting:
            self.apply_settings()

    def _on_reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.reset()
        response.success, response.message = True, f"{self.NAME} starts anew"
        return response


def of_kind(settings: list[Settings], kind: type[S]) -> S:
    for s in settings:
        if isinstance(s, kind):
            return s
    raise KeyError(kind)


def run(make_node: Callable[..., Node], args: list[str] | None = None) -> int:
    """Start one node, spin until Ctrl-C or SIGTERM, end cleanly. A user's mistake is a sentence and exit code 2."""
    return run_all([make_node], args)


def run_all(makers: list[Callable[..., Node]], args: list[str] | None = None) -> int:
    settle_reach()
    try:
        rclpy.init(args=args)
    except RuntimeError as error:  # RCLError: a file of parameters that cannot be read, an argument that is none
        print(f"mm_ros: {str(error).split(', at /')[0]}", file=sys.stderr)
        return 2
    sys.setswitchinterval(GIL_SWITCH_S)
    # Shells start what runs behind with Ctrl-C ignored; launch needs it.
    ending.remember(signal.SIGTERM, signal.SIGINT)
    nodes: list[Node] = []
    executor = ChainExecutor()
    try:
        for make in makers:
            nodes.append(make())
            executor.add_node(nodes[-1])
        # Simulated time may stand still, and a signal is noticed only when the executor's wait ends.
        nodes[0].create_timer(WAKE_S, lambda: None, clock=Clock(clock_type=ClockType.STEADY_TIME))
        settle()
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except MmRosError as error:
        print(f"mm_ros: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        if "error creating node" in str(error):  # RCLError: SROS2 where DDS was built without it
            print(f"mm_ros: {' '.join(str(error).split(', at /')[0].split())}", file=sys.stderr)
            return 2
        if not ending.asked():
            raise
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one must not tear the clean-up
            signal.signal(number, signal.SIG_IGN)
        for n in nodes:
            if hasattr(n, "close"):
                n.close()
            n.destroy_node()
        rclpy.try_shutdown()
        ending.forget()
    return 0
