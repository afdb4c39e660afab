"""Correction of the predicted facing by camera landmarks and by body trackers on waist and feet.

A filter estimates the error of the predicted facing from the measured facings (facing/filter.py). Without camera and
body trackers, the predicted facing is returned. docs/fusion.md explains the method.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from mm_ros.base.settings import Settings, setting
from mm_ros.body.landmarks import COUNT, Landmarks
from mm_ros.body.timeline import DROP, RESET, Timeline, is_identity
from mm_ros.body.types import (
    F64,
    LEFT_FOOT_ROLE,
    RIGHT_FOOT_ROLE,
    ROLES,
    TRACKED,
    WAIST_ROLE,
    BodyOrientation,
    Calibration,
    TrackerFrame,
)
from mm_ros.body.warm_up import sample_trackers
from mm_ros.facing import fitted
from mm_ros.facing.body_trackers import MountedTracker
from mm_ros.facing.camera import alignment as la
from mm_ros.facing.camera.camera import Camera, Expected, Measurement
from mm_ros.facing.camera.offsets import Offsets
from mm_ros.facing.camera.timing import FACING, SEEN, TURNS, LatencyEstimator, TrackerHistory
from mm_ros.facing.filter import FacingFilter
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit

NOSE_IN_HEAD = np.array([0.11, 0.0, 0.03])  # usual position of the nose in the axes of the avatar's head joint [m]
WAITING = 8  # maximum number of pictures that are kept until the next sample of the trackers
BODY_TRACKER_ROLES = (WAIST_ROLE, LEFT_FOOT_ROLE, RIGHT_FOOT_ROLE)
SILENT_S = 0.5  # time without pictures after which the field `source` does not list the landmarks any more


@dataclass(frozen=True)
class FusionSettings(Settings):
    use_landmarks: bool = setting(True, "If true, camera landmarks correct the predicted facing of the user.")
    use_body_trackers: bool = setting(True, "If true, body trackers on waist and feet correct the predicted facing.")
    learn_mounting: bool = setting(
        True, "If true, the rotation of each body tracker on the body is learned; if false, the x axis of each body "
              "tracker must point forward."
    )
    find_pitch: bool = setting(
        True, "If true, the pitch of the camera is estimated from the landmarks; if false, the parameter "
              "`camera_pitch` states the pitch."
    )
    camera_pitch: float = setting(0.0, "Downward pitch of the camera if `find_pitch` is false.", "rad", -1.5, 1.5)
    field_of_view: float = setting(
        1.05, "Horizontal field of view of the camera; 0 if the field of view is not known.", "rad", 0.0, 2.8
    )
    camera_halflife: float = setting(
        20.0, "Half-life of the weight of old pictures in the estimated pose of the camera. With a larger half-life "
              "the estimated pose is steadier, but follows a moved camera later.", "s", 1.0, 600.0
    )
    latency: float = setting(
        0.0, "Time from a picture to the stamp of its landmarks, used until `measure_latency` gives an estimate.",
        "s", -0.1, 0.5
    )
    measure_latency: bool = setting(
        True, "If true, the landmarks' latency is estimated by comparing nose and wrists in pictures with the trackers."
    )
    learn_offsets: bool = setting(
        True, "If true, the positions of nose and wrists relative to headset and controllers are learned; if false, "
              "the calibration states these positions."
    )
    min_confidence: float = setting(
        0.5, "Minimum confidence of landmarks; landmarks with a lower confidence are ignored.", "", 0.0, 1.0
    )
    error_lasts: float = setting(
        2.0, "Correlation time of the error of the predicted facing. The larger `error_lasts` is, the longer the "
             "facing stays corrected after the last measurement.", "s", 0.05, 60.0
    )
    network_sigma_factor: float = setting(
        0.8, "Factor on the standard deviation of the predicted facing. With a larger factor, landmarks "
             "and body trackers correct the facing more.", "", 0.1, 10.0
    )
    camera_bias: float = setting(
        0.08, "Standard deviation of the part of the landmarks' facing error that successive pictures have in common. "
              "With a larger `camera_bias` landmarks correct the facing less.", "rad", 0.0, 1.0
    )
    correction_rate: float = setting(3.0, "Maximum rate of change of the facing's correction.", "rad/s", 0.1, 20.0)




class FusionStage:
    """Corrects the predicted facing; call `watch` for each camera picture and `step` for each sample of the
    trackers."""

    def __init__(self, settings: FusionSettings | None = None, calibration: Calibration | None = None) -> None:
        self.settings = settings or FusionSettings()
        self.calibration = calibration or Calibration()
        self._offsets_of: Calibration | None = None
        self._offset_rows, self._points = np.zeros((3, 7)), np.zeros((3, 3))
        self.reset()

    def reset(self) -> None:
        s = self.settings
        self._timeline = Timeline()
        self._history = TrackerHistory()
        self._waiting: deque[Landmarks] = deque(maxlen=WAITING)
        self._body_trackers = [MountedTracker(role) for role in BODY_TRACKER_ROLES]
        self._filter = FacingFilter()
        self._offset = 0.0
        self._received_s = self._judged_s = -math.inf
        self._strain = 1.0
        self._sources: list[str] = []
        self._watched = False  # true after the first camera landmarks; tracker samples are stored only then
        self._bias_sigma = s.camera_bias
        self._camera_epoch = 0
        self.offsets = Offsets()
        self.camera = Camera(s.camera_halflife, s.field_of_view, None if s.find_pitch else s.camera_pitch)
        self.timing = LatencyEstimator(s.latency)

    def change(self, settings: FusionSettings) -> None:
        """Use new settings from now on, but keep the estimated pose of the camera."""
        self.settings = settings
        self.camera.halflife_s, self.camera.field_of_view = settings.camera_halflife, settings.field_of_view
        self.camera.fixed_pitch = None if settings.find_pitch else settings.camera_pitch
        self.timing.expected_s = settings.latency

    def diagnostics(self) -> dict[str, str]:
        """Return values for the diagnostics message by name, such as the correction of the facing."""
        if self._received_s < 0:
            return {}
        c = self.camera
        return {
            "correction_deg": f"{math.degrees(self._offset):.1f}",
            "camera_pitch_deg": f"{math.degrees(c.pitch):.1f}",
            "camera_sigma_deg": f"{math.degrees(min(c.sigma, math.pi)):.1f}",
            "camera_latency_ms": f"{self.timing.latency_s * 1e3:.0f}" + ("" if self.timing.known else " (assumed)"),
            "landmark_offsets_cm": " ".join(f"{100 * d:.0f}" for d in np.linalg.norm(self.offsets.value, axis=1)),
            "landmark_noise_cm": " ".join(f"{100 * n:.1f}" for n in c.noise),
            "landmarks_refused": str(c.rejected),
            "landmarks_flipped": str(c.flipped),
        }

    def warm_up(self) -> None:
        """Compile all functions of the correction, or load them from the cache, and clear all state."""
        la.warm_up()
        for frame in sample_trackers():
            self.watch(Landmarks(frame.stamp_ns - 10_000_000, np.eye(COUNT, 3), np.ones(COUNT, np.float32)))
            self.step(frame, BodyOrientation(frame.stamp_ns, 0, 0.0, 0.0, 0.1, ""))
        self.reset()

    def watch(self, landmarks: Landmarks) -> None:
        """Store the landmarks of a camera picture until the next call of `step`, which corrects the facing by them."""
        if self.settings.use_landmarks:
            self._watched = True
            self._waiting.append(landmarks)

    def step(self, frame: TrackerFrame, predicted: BodyOrientation) -> BodyOrientation:
        verdict, dt = self._timeline.judge(frame.stamp_ns, frame.epoch, frame.new_from_old)
        if verdict == RESET:
            waiting, watched = self._waiting, self._watched
            self.reset()
            self._waiting, self._watched = waiting, watched
            self._timeline.judge(frame.stamp_ns, frame.epoch)
        if verdict != DROP:
            self._advance(frame, predicted, dt)
        return self._corrected(predicted)

    def _advance(self, frame: TrackerFrame, predicted: BodyOrientation, dt: float) -> None:
        s, t = self.settings, frame.stamp_ns * 1e-9
        if not is_identity(frame.new_from_old):
            yaw = float(rot.yaw_of(frame.new_from_old[3:]))
            self._history.carry(yaw, frame.new_from_old[:3])
            self.camera.carry(yaw, frame.new_from_old[:3])
        if self._watched:
            carried_points(frame.positions, frame.rotations, self._offsets(), self._points)
            tracked = (frame.state[:3] == TRACKED).astype(np.float64)
            self._history.push(t, self._points, tracked, predicted.yaw, frame.rotations[:3])
        sigma = max(s.network_sigma_factor * predicted.sigma, fitted.SMALLEST_SIGMA)
        self._filter.predict(dt, sigma, s.error_lasts, self._bias_sigma, fitted.BIAS_LASTS_S)
        while self._waiting:
            self._use_picture(self._waiting.popleft(), t)
        if s.use_body_trackers:
            self._correct_by_body_trackers(frame, predicted.yaw, dt)
        names = [ROLES[b.role] for b in self._body_trackers if s.use_body_trackers and frame.state[b.role] == TRACKED]
        self._sources = ["landmarks"] * (t - self._received_s < SILENT_S) + names
        limit = min(s.correction_rate * dt, fitted.MAX_STEP)
        self._offset += min(max(self._filter.error - self._offset, -limit), limit)

    def _offsets(self) -> F64:
        """Return an array (3, 7) with one row per device: the offset of nose or wrist in the axes of its joint [m], and
        the rotation of this joint in the axes of the device."""
        c = self.calibration
        if self._offsets_of is not c:
            grips, before = (c.left_grip_in_hand, c.right_grip_in_hand), self._offset_rows.copy()
            self._offset_rows[0] = [*(NOSE_IN_HEAD - c.headset_in_head[:3]), *rot.inverse(c.headset_in_head[3:])]
            self._offset_rows[1:] = [[*-grip[:3], *rot.inverse(grip[3:])] for grip in grips]
            self._offsets_of = c
            if not np.allclose(self._offset_rows, before, atol=1e-3):
                self.offsets.reset()  # the learned offsets were valid only for the old calibration
        return self._offset_rows

    def _use_picture(self, seen: Landmarks, now: float) -> None:
        s, stamp = self.settings, seen.stamp_ns * 1e-9
        if seen.epoch != self._camera_epoch:
            self._camera_epoch = seen.epoch
            self.camera.reset()
            self.timing.reset()
        if seen.confidence < s.min_confidence or not np.isfinite(seen.positions).all():
            return
        self._received_s = now
        if s.measure_latency:
            self.timing.step(stamp, self.camera.levelled(seen.positions), la.visible(seen.visibility), self._history)
        t = stamp - self.timing.latency_s
        then = self._history.at(t)
        if then is None:
            return
        facing = float(then[FACING])
        expected = Expected(facing + self._filter.error, math.sqrt(self._filter.variance(s.camera_bias + 0.2)))
        carried, rotations = then[:SEEN].reshape(3, 3), rot.normalize(then[TURNS:].reshape(3, 4))
        points = carried + rot.rotate(rotations, self.offsets.value) if s.learn_offsets else carried
        measured = self.camera.see(t, seen, points, then[SEEN:FACING], expected)
        if self.camera.taken is not None and s.learn_offsets:
            found, w, dt = self.camera.taken
            self.offsets.learn(rotations, carried, found, w, self.camera.point_variance, dt)
        if measured is None:
            return
        sigma = measured.sigma * self._disagreement_factor(measured, facing, t)
        self._bias_sigma = math.hypot(math.hypot(fitted.CORRELATED * sigma, self.camera.sigma), s.camera_bias)
        self._filter.correct(measured.yaw, facing, math.sqrt(1 - fitted.CORRELATED**2) * sigma)

    def _disagreement_factor(self, measured: Measurement, facing: float, t: float) -> float:
        """Return a factor of at least 1 for the standard deviation of the facing that a picture measures.

        The factor is above 1 while the facings of pictures differ from the filtered facing by more than expected. A
        difference that lasts is taken as an error of the camera, not of the predicted facing.
        """
        d = self._filter.difference(measured.yaw, facing) ** 2 / self._filter.variance(measured.sigma)
        dt = min(max(t - self._judged_s, 0.0), 0.2)
        self._judged_s = t
        self._strain += (1 - 0.5 ** (dt / fitted.STRAIN_HALFLIFE_S)) * (min(d, fitted.WORST_STRAIN) - self._strain)
        return math.sqrt(max(self._strain, 1.0))

    def _correct_by_body_trackers(self, frame: TrackerFrame, predicted: float, dt: float) -> None:
        for tracker in self._body_trackers:
            if frame.state[tracker.role] == TRACKED:
                facing = self._facing_of(tracker, frame.rotations[tracker.role], predicted, dt)
                sigma = tracker.sigma * math.sqrt(max(tracker.lasts_s / max(dt, 1e-3), 1.0))
                self._filter.correct(facing, predicted, sigma, biased=False)

    def _facing_of(self, tracker: MountedTracker, rotation: F64, predicted: float, dt: float) -> float:
        """Return the facing of the user [rad] that a body tracker measures. If the calibration does not state how this
        tracker is rotated on the body, its yaw on the body is learned.
        """
        mounting = self.calibration.mountings.get(ROLES[tracker.role])
        if mounting is None:
            return tracker.facing(rotation, predicted, dt, self.settings.learn_mounting)
        return float(rot.yaw_of(rot.multiply(rotation, rot.inverse(mounting[3:]))))

    def _corrected(self, predicted: BodyOrientation) -> BodyOrientation:
        if self._offset == 0.0:
            return predicted
        sigma = math.sqrt(max(self._filter.p_ee, 1e-6))
        source = "+".join([predicted.source, *self._sources])
        yaw = float(rot.wrap_angle(predicted.yaw + self._offset))
        return replace(predicted, yaw=yaw, sigma=sigma, source=source)


@njit
def carried_points(positions: F64, rotations: F64, offsets: F64, out: F64) -> None:
    """Write the room positions of nose and wrists to `out` (3, 3), from poses of the trackers and `offsets` (3, 7)."""
    for i in range(3):
        joint = quat.mul(quat.get4(rotations, i), (offsets[i, 3], offsets[i, 4], offsets[i, 5], offsets[i, 6]))
        moved = quat.rotate(joint, (offsets[i, 0], offsets[i, 1], offsets[i, 2]))
        quat.put3(out, i, quat.add(quat.get3(positions, i), moved))
