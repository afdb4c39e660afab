"""The network's facing, corrected by what others see: a camera's landmarks, trackers on waist and feet.

Everything enters as a measurement of how far the network is off (core/facing_filter.py), when it was taken. Without
any the network's answer passes through untouched. docs/fusion.md.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from mm_ros.core import landmark_alignment as la
from mm_ros.core import rotations as rot
from mm_ros.core.facing_filter import FacingFilter
from mm_ros.core.landmark_camera import NOISE_LASTS_S, Camera, Expected
from mm_ros.core.landmark_timing import FACING, SEEN, LatencyEstimator, TrackerHistory
from mm_ros.core.landmarks import Landmarks
from mm_ros.core.settings import Settings, setting
from mm_ros.core.timeline import DROP, RESET, Timeline, is_identity
from mm_ros.core.types import (
    F64,
    HEAD_ROLE,
    LEFT_FOOT_ROLE,
    LEFT_HAND_ROLE,
    RIGHT_FOOT_ROLE,
    RIGHT_HAND_ROLE,
    ROLES,
    TRACKED,
    WAIST_ROLE,
    BodyOrientation,
    Calibration,
    TrackerFrame,
)
from mm_ros.core.worn import Worn

NOSE_IN_HEAD = np.array([0.11, 0.0, 0.03])  # m, from the head joint
WAITING = 8  # pictures between two samples of the trackers
WORN = (WAIST_ROLE, LEFT_FOOT_ROLE, RIGHT_FOOT_ROLE)
SILENT_S = 0.5  # without pictures for so long: the camera is gone


@dataclass(frozen=True)
class FusionSettings(Settings):
    use_landmarks: bool = setting(True, "a camera's landmarks correct the facing")
    use_worn: bool = setting(True, "trackers on waist and feet correct the facing")
    learn_worn: bool = setting(True, "how these are turned on the body is learned; else their x axis points forward")
    find_pitch: bool = setting(True, "the camera's pitch is found from the heights of head and hands")
    camera_pitch: float = setting(0.0, "the camera looks down by this, where it is not found", "rad", -1.5, 1.5)
    field_of_view: float = setting(1.05, "of the camera, from left to right; 0: unknown", "rad", 0.0, 2.8)
    camera_halflife: float = setting(20.0, "what was seen of where the camera stands fades", "s", 1.0, 600.0)
    latency: float = setting(0.0, "landmarks are older than their stamps, until it is measured", "s", -0.1, 0.5)
    measure_latency: bool = setting(True, "latency from the motion of the hands")
    min_confidence: float = setting(0.5, "pictures less sure to show a person do not count", "", 0.0, 1.0)
    error_lasts: float = setting(2.0, "how long the network stays wrong in the same way", "s", 0.05, 60.0)
    network_doubt: float = setting(1.3, "the network's sigma is taken for this times as large", "", 0.1, 10.0)
    camera_bias: float = setting(0.07, "estimator's error of the facing that no averaging removes", "rad", 0.0, 1.0)
    max_rate: float = setting(3.0, "the correction never changes faster", "rad/s", 0.1, 20.0)


SMALLEST_SIGMA = 0.09  # rad; networks are surer of themselves than they should be
MAX_STEP = 0.06  # rad a frame, whatever the gap
CORRELATED = 0.8  # share of a picture's error that the next pictures share


class FusionStage:
    """`watch(landmarks)` when some arrive, `step(trackers, predicted facing)` at each sample of the trackers."""

    def __init__(self, settings: FusionSettings | None = None, calibration: Calibration | None = None) -> None:
        self.settings = settings or FusionSettings()
        self.calibration = calibration or Calibration()
        self.reset()

    def reset(self) -> None:
        s = self.settings
        self._timeline = Timeline()
        self._history = TrackerHistory()
        self._waiting: deque[Landmarks] = deque(maxlen=WAITING)
        self._worn = [Worn(role) for role in WORN]
        self._filter = FacingFilter()
        self._offset = 0.0
        self._heard_s = -math.inf
        self._by: list[str] = []
        self._bias_sigma = s.camera_bias
        self._camera_epoch = 0
        self.camera = Camera(s.camera_halflife, s.field_of_view, None if s.find_pitch else s.camera_pitch)
        self.timing = LatencyEstimator(s.latency)

    def watch(self, landmarks: Landmarks) -> None:
        """Taken at the next step: before it nobody asks."""
        if self.settings.use_landmarks:
            self._waiting.append(landmarks)

    def step(self, frame: TrackerFrame, predicted: BodyOrientation) -> BodyOrientation:
        verdict, dt = self._timeline.judge(frame.stamp_ns, frame.epoch, frame.new_from_old)
        if verdict == RESET:
            waiting = self._waiting
            self.reset()
            self._waiting = waiting
            self._timeline.judge(frame.stamp_ns, frame.epoch)
        if verdict != DROP:
            self._advance(frame, predicted, dt)
        return self._answer(predicted)

    def _advance(self, frame: TrackerFrame, predicted: BodyOrientation, dt: float) -> None:
        s, t = self.settings, frame.stamp_ns * 1e-9
        if not is_identity(frame.new_from_old):
            yaw = float(rot.yaw_of(frame.new_from_old[3:]))
            self._history.carry(yaw, frame.new_from_old[:3])
            self.camera.carry(yaw)
        self._history.push(t, *self._points(frame), predicted.yaw)
        doubt = max(s.network_doubt * predicted.sigma, SMALLEST_SIGMA)
        self._filter.predict(dt, doubt, s.error_lasts, self._bias_sigma, NOISE_LASTS_S)
        while self._waiting:
            self._take(self._waiting.popleft(), t)
        if s.use_worn:
            self._wear(frame, predicted.yaw, dt)
        worn = [ROLES[w.role] for w in self._worn if s.use_worn and frame.state[w.role] == TRACKED]
        self._by = ["landmarks"] * (t - self._heard_s < SILENT_S) + worn
        limit = min(s.max_rate * dt, MAX_STEP)
        self._offset += min(max(self._filter.error - self._offset, -limit), limit)

    def _points(self, frame: TrackerFrame) -> tuple[F64, F64]:
        """Nose and wrists as the trackers carry them, and whether each is tracked."""
        c = self.calibration
        points = frame.positions[:3].copy()
        points[0] += rot.rotate(frame.rotations[HEAD_ROLE], NOSE_IN_HEAD - c.headset_in_head[:3])
        for role, grip in ((LEFT_HAND_ROLE, c.left_grip_in_hand), (RIGHT_HAND_ROLE, c.right_grip_in_hand)):
            hand = rot.multiply(frame.rotations[role], rot.inverse(grip[3:]))
            points[role] -= rot.rotate(hand, grip[:3])
        return points, (frame.state[:3] == TRACKED).astype(np.float64)

    def _take(self, seen: Landmarks, now: float) -> None:
        s, stamp = self.settings, seen.stamp_ns * 1e-9
        if seen.epoch != self._camera_epoch:
            self._camera_epoch = seen.epoch
            self.camera.reset()
            self.timing.reset()
        if seen.confidence < s.min_confidence or not np.isfinite(seen.positions).all():
            return
        self._heard_s = now
        if s.measure_latency:
            self.timing.step(stamp, self.camera.levelled(seen.positions), la.visible(seen.visibility), self._history)
        t = stamp - self.timing.latency_s
        then = self._history.at(t)
        if then is None:
            return
        facing = float(then[FACING])
        expected = Expected(facing + self._filter.error, math.sqrt(self._filter.variance(s.camera_bias + 0.2)))
        told = self.camera.see(t, seen, then[:SEEN].reshape(3, 3), then[SEEN:FACING], expected)
        if told is None:
            return
        self._bias_sigma = math.hypot(math.hypot(CORRELATED * told.sigma, self.camera.sigma), s.camera_bias)
        self._filter.correct(told.yaw, facing, math.sqrt(1 - CORRELATED**2) * told.sigma)

    def _wear(self, frame: TrackerFrame, predicted: float, dt: float) -> None:
        for worn in self._worn:
            if frame.state[worn.role] == TRACKED:
                told = worn.facing(frame.rotations[worn.role], predicted, dt, self.settings.learn_worn)
                sigma = worn.sigma * math.sqrt(max(worn.lasts_s / max(dt, 1e-3), 1.0))
                self._filter.correct(told, predicted, sigma, biased=False)

    def _answer(self, predicted: BodyOrientation) -> BodyOrientation:
        if self._offset == 0.0:
            return predicted
        sigma = math.sqrt(max(self._filter.p_ee, 1e-6))
        source = "+".join([predicted.source, *self._by])
        yaw = float(rot.wrap_angle(predicted.yaw + self._offset))
        return replace(predicted, yaw=yaw, sigma=sigma, source=source)
