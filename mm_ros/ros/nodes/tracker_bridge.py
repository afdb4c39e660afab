"""Node `tracker_bridge`: reads tracker poses from a source, and publishes `trackers`, the calibration, TF of the
trackers and, if available, the true poses of the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import Joy
from std_srvs.srv import Trigger

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import (
    EXTRAPOLATED,
    HEAD_ROLE,
    LEFT_HAND_ROLE,
    LOST,
    RIGHT_HAND_ROLE,
    ROLES,
    TRACKED,
    Calibration,
    TrackerFrame,
    role_index,
)
from mm_ros.ros.conversions import calibration_to_ros, header, landmarks_to_ros, skeleton_to_ros
from mm_ros.ros.foreign import pose_stamped_from_ros
from mm_ros.ros.loop import Ticker
from mm_ros.ros.node import AvatarNode
from mm_ros.ros.tf import TrackerTf
from mm_ros.tracking.calibration import (
    ANOTHER,
    CalibrationSettings,
    in_words,
)
from mm_ros.tracking.files import measured_file, read_calibration, read_hands, write_calibration, write_hands
from mm_ros.tracking.gate import GateSettings, warm_up
from mm_ros.tracking.hands import HandSettings
from mm_ros.tracking.live import TrackerStages
from mm_ros.tracking.mounting import MountingSettings
from mm_ros.tracking.room import compose
from mm_ros.tracking.simulation import Simulation
from mm_ros.tracking.sources import SOURCES, make_source
from mm_ros.tracking.sources.topics import AXES, TopicsSource

T = TypeVar("T")

STATES = {LOST: "lost", EXTRAPOLATED: "extrapolated", TRACKED: "tracked"}
POSE_TOPICS = {"head_topic": HEAD_ROLE, "left_topic": LEFT_HAND_ROLE, "right_topic": RIGHT_HAND_ROLE}


@dataclass(frozen=True)
class BridgeSettings(Settings):
    source: str = setting("synthetic", "Tracker source from which the poses are read.", choices=SOURCES, live=False)
    path: str = setting(
        "",
        "File or folder that the tracker source reads. Source `mocap`: a BVH file, or a folder or an archive of BVH "
        "files. Source `session`: a session folder or a .csv table.",
        live=False,
    )
    rate: float = setting(
        90.0, "Sample rate of the tracker source. The sources `session` and `topics` ignore `rate`.", "Hz", 1.0, 1000.0,
        live=False,
    )
    seed: int = setting(0, "Random seed of the synthetic user and of the simulated device errors.", live=False)
    place: tuple[float, ...] = setting(
        (0.0, 0.0), "Position (x, y) of the user's room in the world [m]. Different rooms keep several avatars apart.",
        live=False,
    )  # fmt: skip
    head_topic: str = setting("head_pose", "PoseStamped topic of the headset, for the source `topics`.", live=False)
    left_topic: str = setting(
        "left_pose", "PoseStamped topic of the left controller, for the source `topics`.", live=False
    )
    right_topic: str = setting(
        "right_pose", "PoseStamped topic of the right controller, for the source `topics`.", live=False
    )
    tracker_tf: bool = setting(True, "Publish the trackers on TF, too, below <avatar>/tracker/.")
    tracker_topics: tuple[str, ...] = setting(
        ("",), "Role and PoseStamped topic of each body tracker, for example waist=/waist_pose.", live=False
    )
    topics_axes: str = setting(
        "ros", "Axes of the poses on PoseStamped topics: ROS (x forward, z up) or OpenXR (−z forward, y up).",
        choices=AXES, live=False
    )
    steamvr_serials: tuple[str, ...] = setting(
        ("",), "Role and serial number of each SteamVR body tracker, for example waist=LHR-1.", live=False
    )
    headset_port: int = setting(
        8090, "Port of the headset page on this machine, for the source `webxr`. Devices on Wi-Fi open it at the port "
              "number plus 1.", "", 1, 65534, live=False,
    )  # fmt: skip
    headset_wifi: bool = setting(
        False, "Serve the headset page of the source `webxr` encrypted on all networks, for other devices.", live=False
    )
    noise_m: float = setting(
        0.0,
        "Standard deviation of the simulated position noise of the source `mocap`. The rotation noise [rad] is 3 times "
        "`noise_m`.",
        "m",
        0.0,
        0.1,
        live=False,
    )
    dropouts_per_minute: float = setting(
        0.0, "Mean number of tracking losses per minute of each simulated controller of the source `mocap`.", "1/min",
        0.0, 60.0,
        live=False,
    )
    look_around_rad: float = setting(
        0.0, "Amplitude of simulated turns of the head without the body, for the source `mocap`.", "rad", 0.0, 1.5,
        live=False,
    )


class TrackerBridge(AvatarNode):
    NAME = "tracker_bridge"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        s = self.settings(BridgeSettings)
        self._trackers = self.publisher("trackers")
        self._calibration = self.publisher("calibration")
        self._truth = self.publisher("truth")
        self._truth_skeleton = self.publisher("truth_skeleton")
        self._landmarks = self.publisher("landmarks")
        self._grips = self.publisher("grip_buttons")
        self._tf = self.publisher("/tf")
        self._frames = TrackerTf(self.avatar, self.world_frame)
        place = place_of(s)
        self._paused = False
        self._ticks: Ticker | None = None
        self._states: Any = []  # state (lost, extrapolated, tracked) of each tracker in the last frame
        self._source = make_source(
            s.source, s.path, s.rate, s.seed, simulation(s), pairs(s.steamvr_serials), s.topics_axes,
            s.headset_port, s.headset_wifi,
        )  # fmt: skip
        warm_up()
        self._source.open()
        self._hands_reported = ""
        self._skeleton: Skeleton | None = None  # skeleton of the user's true poses, as published last
        self._stages = self._build(place)
        self._publish_calibration(self._stages.calibrator.current)
        self.create_service(Trigger, "calibrate", self._on_calibrate)
        self.create_service(Trigger, "pause", lambda _, response: self._pause(True, response))
        self.create_service(Trigger, "resume", lambda _, response: self._pause(False, response))
        self.health.watch = self._watch
        self._listen_to_source(s)
        self.start()

    @classmethod
    def preload(cls) -> None:
        warm_up()

    def _gate_settings(self) -> GateSettings:
        given = self.settings(GateSettings)
        return given.with_values(frozen_s=0.0) if self._source.trusted else given

    def _build(self, place: tuple[float, ...]) -> TrackerStages:
        """Build the stages with the calibration of the source, or else with the calibration in the user's file, or else
        with default measurements."""
        s = self.settings(CalibrationSettings)
        given = self._source.calibration()
        self._given = given is not None
        known = given or read_calibration(s.user)
        kept = None if known else self._read(lambda: read_calibration(s.user, measured_file(s.user)))
        stages = TrackerStages(
            s, known or kept, self._gate_settings(), self.settings(HandSettings), self._source.hand_pose,
            self.settings(MountingSettings), place,
        )  # fmt: skip
        if kept is not None:
            stages.calibrator.refine()
            known = kept
            self.get_logger().info(f"user '{s.user}': headset at {kept.head_height:.2f} m, as measured before")
        hands = stages.hands
        fitted = self._read(lambda: read_hands(s.user, hands.convention)) if not hands.estimating else None
        if fitted is not None:
            hands.restore(fitted)
        if known is None:
            self.get_logger().warning(
                f"user '{s.user}' has no calibration: assuming a headset height of {Calibration().head_height} m. "
                f"It is measured while you stand and walk; or stand still for {s.still_s:g} s and call the service "
                f"{self.resolve_service_name('calibrate')}"
            )
        return stages

    def _read(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except MmRosError as error:
            self.get_logger().warning(f"ignored: {error}")
            return None

    def _keep_measures(self) -> None:
        user, hands = self._stages.calibrator.current.user, self._stages.hands
        if self._given:
            return
        try:
            if self._stages.calibrator.current.calibrated:
                write_calibration(self._stages.calibrator.current, measured_file(user))
            if hands.fits and not hands.estimating and any(hands.fitted().fingers):
                write_hands(user, hands.convention, hands.fitted())
        except MmRosError as error:
            self.get_logger().warning(f"not kept: {error}", throttle_duration_sec=600.0)

    def _publish_calibration(self, calibration: Calibration) -> None:
        self._calibration.publish(calibration_to_ros(self._stages.use(calibration), self.now_ns()))

    def _listen_to_source(self, s: BridgeSettings) -> None:
        if isinstance(self._source, TopicsSource):
            self._source.wake = self._poll
            for name, role in POSE_TOPICS.items():
                self.listen("head_pose", self._feeder(self._source, role), getattr(s, name))
            for role_name, topic in pairs(s.tracker_topics).items():
                self.listen("head_pose", self._feeder(self._source, role_index(role_name)), topic)
        elif self._source.own_clock:
            self._serve_page()
            poll = self.guarded("source", self._poll)
            self._source.wake = lambda: self.loop.post(poll)
        else:
            self._ticks = self.every(1.0 / self._source.rate, self._poll)

    def _serve_page(self) -> None:
        server = getattr(self._source, "server", None)
        if server is None:
            return
        from mm_ros.ros.headset_page import serve_page

        source: Any = self._source
        self._page = serve_page(
            self, server, actions={"calibrate": lambda _: self._measure()},
            map_from_source=lambda: self._stages.room.map_from_source, sequence=source.sequence,
            calibration=lambda: self._stages.calibrator.current, facts=self._tracking_facts,
            reported=self.publisher("reported_body"),
        )  # fmt: skip

    def _tracking_facts(self) -> dict[str, Any]:
        states = {role: STATES[int(state)] for role, state in list(zip(ROLES, self._states, strict=False))[:3]}
        hands: Any = getattr(self._source, "hands", (False, False))
        return {"tracking": states, "hands": list(hands), "trouble": self._source.status(), "paused": self._paused}

    def _feeder(self, source: TopicsSource, role: int) -> Any:
        def feed(msg: PoseStamped) -> None:
            source.feed(role, *pose_stamped_from_ros(msg), self.now_ns())

        return feed

    def _poll(self) -> None:
        while (raw := self._source.poll(self.now_ns())) is not None:
            self._publish_grips(raw)
            for seen in self._source.landmarks():  # only the source `session` yields landmarks
                self._landmarks.publish(landmarks_to_ros(seen))
            gated = self._stages.gate.step(raw)
            if gated is not None:
                self._stages.hands.step(gated)
                self._calibrate_from(gated)
                frame = self._mounted(self.outputs.trackers(self._stages.room.carry(gated)))
                if not self._paused:
                    self._publish(frame)
            self._aim(raw.stamp_ns)

    def _publish_grips(self, raw: TrackerFrame) -> None:
        grips = self._source.grips
        if grips is None or not self._grips.get_subscription_count():
            return
        seen = raw.state[[LEFT_HAND_ROLE, RIGHT_HAND_ROLE]] != LOST
        held = [int(grip) if hand and grip is not None else -1 for grip, hand in zip(grips, seen, strict=True)]
        self._grips.publish(Joy(header=header(raw.stamp_ns, ""), buttons=held))

    def _pause(self, paused: bool, response: Trigger.Response) -> Trigger.Response:
        """Pause or resume the topic `trackers`. During a pause the tracker source continues to run, and the avatar
        stands still."""
        self._paused = paused
        response.success, response.message = True, f"trackers are {'paused' if paused else 'resumed'}"
        return response

    def _aim(self, stamp_ns: int) -> None:
        """Let the timer tick when the next simulated tracker sample is due, because with a fixed period each sample
        would have to wait for the next tick."""
        if self._ticks is None or not self._source.trusted:
            return
        period_ns = round(1e9 / self._source.rate)
        ahead_ns = stamp_ns + period_ns - self.now_ns()
        if abs(ahead_ns) <= 2 * period_ns:
            self._ticks.aim(ahead_ns)

    def _calibrate_from(self, frame: TrackerFrame) -> None:
        before = self._stages.calibrator.current
        new = None if self._given else self._stages.calibrator.step(frame)
        if new is not None:
            another = before.calibrated and abs(new.head_height - before.head_height) > ANOTHER
            self.get_logger().info(f"measured{' (another person)' if another else ''}: {in_words(new)}")
            self._publish_calibration(new)
            self._keep_measures()

    def _mounted(self, frame: TrackerFrame) -> TrackerFrame:
        """Correct the roles of exchanged body trackers in a frame, and publish each change of how they are mounted."""
        frame, new = self._stages.mounting.step(frame)
        if new is not None:
            self._publish_calibration(self._stages.calibrator.current)
        return frame

    def _publish(self, frame: TrackerFrame) -> None:
        self._trackers.publish(frame)
        if self.settings(BridgeSettings).tracker_tf:
            self._tf.publish(self._frames.serialized(frame))
        self._tell_truth()
        self._states = frame.state
        self.health.step(frame.stamp_ns)

    def _tell_truth(self) -> None:
        skeleton = self._source.truth_skeleton()
        if skeleton is not self._skeleton:
            self._publish_skeleton(skeleton)
        truth = self._source.truth() if self._truth.get_subscription_count() else None
        if truth is None:
            return
        if any(self._stages.room.place[:2]):
            truth = replace(truth, root=compose(self._stages.room.place, truth.root))
        self._truth.publish(truth)

    def _publish_skeleton(self, skeleton: Skeleton | None) -> None:
        """Publish skeleton and calibration again for the next clip, which may show a person of another height."""
        before, self._skeleton = self._skeleton, skeleton
        if before is not None and skeleton is not None and before.hash == skeleton.hash:
            return
        given = self._source.calibration()
        if skeleton is not None:
            self._truth_skeleton.publish(skeleton_to_ros(skeleton, self.now_ns(), "truth"))
        if given is not None:
            self._publish_calibration(given)

    def _on_calibrate(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success, response.message = self._measure()
        return response

    def _measure(self) -> tuple[bool, str]:
        if self._given:
            return False, "this source provides the calibration; nothing to calibrate"
        success, message = self._stages.calibrator.measure()
        if success:
            self._publish_calibration(self._stages.calibrator.current)
            message += self._kept(self._stages.mounting.calibration) + self._mounting_report()
            message += f"\n{self._stages.hands.report()}"
        return success, message

    def _mounting_report(self) -> str:
        mounting = self._stages.mounting
        lines = [f"{role}: {place}" for role, place in mounting.places().items()]
        return "".join(f"\n{line}" for line in [*lines, *(f"warning: {text}" for text in mounting.doubts())])

    def _kept(self, calibration: Calibration) -> str:
        try:
            return f"; saved in {write_calibration(calibration)}"
        except MmRosError as error:
            return f"; in use now, but not saved: {error}"

    def _watch(self) -> None:
        trouble = "paused: call the service `resume` to continue" if self._paused else self._source.status()
        self.health.warnings.pop("source", None)
        if trouble:
            self.health.warnings["source"] = trouble
            self.get_logger().warning(trouble, throttle_duration_sec=10.0)
        self._watch_calibration(self._stages.calibrator.current)
        self._report_mounting()
        self._report_hands()
        for role, state in list(zip(ROLES, self._states, strict=False))[:3]:
            state_name = STATES[int(state)] if self.health.done else "silent"
            self.health.values[role] = state_name
            if state_name != STATES[TRACKED]:
                self.health.passing[role] = f"{role} is {state_name}"
        self.health.values.update({f"refused_{why}": str(n) for why, n in self._stages.gate.refused.items()})

    def _watch_calibration(self, now: Calibration) -> None:
        self.health.warnings.pop("calibration", None)
        if not now.calibrated or now.note:
            doubt = now.note or "not calibrated: stand upright for a moment, or call `calibrate`"
            self.health.warnings["calibration"] = doubt
        self.health.values["measures"] = in_words(now)

    def _report_hands(self) -> None:
        """Report in the log and on the page which convention the hand poses have, and whether the controllers are
        exchanged."""
        hands = self._stages.hands
        report = hands.report() if hands.known() else "the convention of the hand poses is not known yet"
        self.health.values["hands"] = report
        self.health.warnings.pop("hands", None)
        if hands.exchanged:
            self.health.warnings["hands"] = "the controllers are in the wrong hands: left and right are swapped"
        reported = f"{hands.convention} {hands.exchanged} {hands.known()}"
        if reported != self._hands_reported:
            self._hands_reported = reported
            if hands.exchanged:  # rclpy does not allow one call in the code to log with two severities
                self.get_logger().warning(report)
            else:
                self.get_logger().info(report)

    def _report_mounting(self) -> None:
        self.health.values.update({f"mounting_{role}": place for role, place in self._stages.mounting.places().items()})
        doubts = self._stages.mounting.doubts()
        self.health.warnings.pop("mounting", None)
        if doubts:
            self.health.warnings["mounting"] = "; ".join(doubts)
            self.get_logger().warning(self.health.warnings["mounting"], throttle_duration_sec=30.0)

    def apply_settings(self) -> None:
        self._stages.gate.settings = self._gate_settings()
        self._stages.calibrator.settings = self.settings(CalibrationSettings)
        self._stages.mounting.settings = self.settings(MountingSettings)
        self._stages.hands.settings = self.settings(HandSettings)

    def reset(self) -> None:
        self._stages.reset()

    def close(self) -> None:
        self._keep_measures()
        self._source.close()


def simulation(s: BridgeSettings) -> Simulation:
    return Simulation(
        rate=s.rate,
        noise_m=s.noise_m,
        noise_rad=s.noise_m * 3,
        dropouts_per_minute=s.dropouts_per_minute,
        look_around_rad=s.look_around_rad,
        seed=s.seed,
    )


def place_of(s: BridgeSettings) -> tuple[float, ...]:
    if len(s.place) != 2:
        raise MmRosError(f"place: expected x and y, came {len(s.place)} numbers")
    return s.place


def pairs(given: tuple[str, ...]) -> dict[str, str]:
    """Convert texts such as 'waist=LHR-1' to a dict from the role of a tracker to its serial number or topic."""
    return {role.strip(): value.strip() for role, _, value in (p.partition("=") for p in given if p)}
