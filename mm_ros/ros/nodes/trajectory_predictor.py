"""Node `trajectory_predictor`: computes `trajectory` from `trackers`, `body_orientation` and `landmarks`. While no
trackers arrive, the node publishes trajectories marked `stale` at 60 Hz, which stop the avatar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mm_ros.base.settings import Settings, setting
from mm_ros.body.joining import Pairs
from mm_ros.body.types import HEAD_ROLE, LOST, BodyOrientation, Calibration, TrackerFrame
from mm_ros.body.warm_up import sample_trackers
from mm_ros.facing.orientation import OrientationStage
from mm_ros.motion.features import default_layout
from mm_ros.msg import Landmarks
from mm_ros.ros.conversions import landmarks_from_ros
from mm_ros.ros.node import AvatarNode
from mm_ros.stages import TrajectoryStages, headset_facing
from mm_ros.steps.estimator import StepSettings
from mm_ros.trajectory.from_trackers import TrajectorySettings

LATE_NS = 50_000_000
STALE_PERIOD_S = 1 / 60
# After this number of timer ticks without a tracker message, the avatar is stopped by `stale` trajectories. A single
# tick is not enough, because after a stall of the process the timer ticks before waiting tracker messages are read.
STALE_TICKS = 3
NS = 1e9


@dataclass(frozen=True)
class StaleSettings(Settings):
    silent_s: float = setting(
        0.2,
        "The node stops the avatar after this time without tracker messages, by trajectories marked `stale`. With a "
        "larger value the avatar stops later.",
        "s",
        0.05,
        60.0,
    )


class TrajectoryPredictor(AvatarNode):
    NAME = "trajectory_predictor"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._trajectory = self.publisher("trajectory")
        self._pairs: Pairs[TrackerFrame] = Pairs()
        times = default_layout().trajectory_times
        self._stages = TrajectoryStages.load(self.settings(StepSettings), self.settings(TrajectorySettings), times)
        self._fallback = headset_facing()
        self._silent_ns = self.settings(StaleSettings).silent_s * NS
        self._received_ns: int | None = None
        self._ticks = 0  # number of timer ticks since the last tracker message
        warm_up(self._stages, self._fallback)
        self.reset()
        self.await_calibration(self._calibrate)
        self.follow_layout(self._stages.trajectory.set_times)
        self.listen_calibrated("trackers", self._on_trackers)
        self.listen("body_orientation", self._on_orientation)
        self.listen("landmarks", self._on_landmarks)
        self._watchdog = self.every(self._silent_ns / NS, self._watch)  # timer, which each tracker message restarts
        self.start()

    @classmethod
    def preload(cls) -> None:
        times = default_layout().trajectory_times
        warm_up(TrajectoryStages.load(StepSettings(), TrajectorySettings(), times), headset_facing())

    def _on_trackers(self, frame: TrackerFrame) -> None:
        if frame.state[HEAD_ROLE] != LOST:  # while the headset is lost, the avatar stops as without trackers
            self._received_ns = self.now_ns()
            self._restart_watchdog()
        for late in self._pairs.overdue(frame.stamp_ns, LATE_NS):
            self._step(late, self._headset_facing(late))
        pair = self._pairs.put_first(frame.stamp_ns, frame)
        if pair:
            self._step(pair[0], pair[1])

    def _on_orientation(self, facing: BodyOrientation) -> None:
        # No facing arrives for tracker messages that `orientation_predictor` has lost: the topic is best effort.
        for lost in self._pairs.overdue(facing.stamp_ns):
            self._step(lost, self._headset_facing(lost))
        pair = self._pairs.put_second(facing.stamp_ns, facing)
        if pair:
            self._step(pair[0], pair[1])

    def _on_landmarks(self, msg: Landmarks) -> None:
        self._stages.steps.watch(landmarks_from_ros(msg))

    def _step(self, frame: TrackerFrame, facing: Any) -> None:
        trajectory = self._stages.step(frame, facing)
        if trajectory is None:
            self.health.dropped += 1
            return
        self._trajectory.publish(self.outputs.trajectory(trajectory))
        self.health.step(frame.stamp_ns)
        self.health.warnings.pop("stale", None)

    def _headset_facing(self, frame: TrackerFrame) -> BodyOrientation:
        """Return the yaw of the headset, with a large standard deviation, as a replacement for a predicted facing that
        is late."""
        self.health.unpaired += 1
        return self._fallback.step(frame)

    def _restart_watchdog(self) -> None:
        if self._ticks:
            self._watchdog.timer_period_ns = round(self._silent_ns)
        self._ticks = 0
        self._watchdog.reset()

    def _watch(self) -> None:
        """Publish a stale trajectory. The timer calls `_watch` if no trackers arrive for `silent_s`, and again every
        STALE_PERIOD_S seconds."""
        now_ns = self.now_ns()
        if not self._ticks:
            self._watchdog.timer_period_ns = round(STALE_PERIOD_S * NS)
            self._watchdog.reset()
        self._ticks += 1
        if self._received_ns is None or now_ns - self._received_ns < self._silent_ns or self._ticks < STALE_TICKS:
            return
        self.health.warnings["stale"] = "no trackers, or the headset is lost: the avatar stands still"
        trajectory = self._stages.trajectory.stale(now_ns)
        if trajectory is not None:
            self._trajectory.publish(self.outputs.trajectory(trajectory))

    def _calibrate(self, calibration: Calibration) -> None:
        self._stages.set_calibration(calibration)
        self._fallback.calibration = calibration

    def reset(self) -> None:
        self._stages.reset()
        self._fallback.reset()
        self._pairs.clear()
        self._received_ns = None  # after a reset, no stale trajectory is published before the next tracker message

    def apply_settings(self) -> None:
        self._stages.trajectory.settings = self.settings(TrajectorySettings)
        self._stages.steps.settings = self.settings(StepSettings)
        self._silent_ns = self.settings(StaleSettings).silent_s * NS
        self._ticks = max(self._ticks, 1)  # lets the next tracker message start the timer with the new `silent_s`


def warm_up(stages: TrajectoryStages, fallback: OrientationStage) -> None:
    for frame in sample_trackers():
        stages.step(frame, fallback.step(frame))
