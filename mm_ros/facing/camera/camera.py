"""Estimates the camera's yaw and pitch from landmarks and trackers, and the facing of the body from landmarks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mm_ros.body.landmarks import LEFT_HIP, LEFT_SHOULDER, NOSE, RIGHT_HIP, RIGHT_SHOULDER, SWAPPED, Landmarks
from mm_ros.body.types import F32, F64
from mm_ros.facing import fitted
from mm_ros.facing.camera import alignment as la
from mm_ros.facing.camera.place import Place
from mm_ros.maths.rotations import wrap_angle

LINES = np.array([LEFT_HIP, RIGHT_HIP, LEFT_SHOULDER, RIGHT_SHOULDER])
USUAL_STEP_S = 1 / 30


class Measurement(NamedTuple):
    yaw: float
    sigma: float  # standard deviation of the facing that one picture shows [rad], if the camera's yaw were exact


class Expected(NamedTuple):
    """Facing that the filter predicts. A picture counts as flipped if its flipped landmarks fit this facing clearly
    better than the landmarks as received."""

    yaw: float
    sigma: float


class Picture(NamedTuple):
    """Landmarks in camera axes: as received, or `flipped` to undo a confusion of left and right or front and back."""

    points: F64  # (33, 3)
    w: F64  # weights (3,) of nose, left wrist and right wrist in the alignment with the trackers
    flipped: bool


class Fit(NamedTuple):
    """Result of the alignment of nose and wrists in a picture with the trackers."""

    turn: float  # camera yaw that fits this picture alone, minus the camera yaw estimated before [rad]
    variance: float  # variance of `turn` that the noise of nose and wrists causes [rad²]
    miss2: F64  # mean squared distances (3,) of nose and wrists from the trackers: depth, lateral, height [m²]


NO_FIT = Fit(0.0, math.inf, np.zeros(3))  # alignment if fewer than two of nose and wrists are visible in a picture


class Camera:
    """Estimates the pitch, the yaw and the noise of the camera, and measures the facing of the body in its pictures."""

    def __init__(self, halflife_s: float, field_of_view: float, pitch: float | None = None) -> None:
        self.halflife_s, self.field_of_view, self.fixed_pitch = halflife_s, field_of_view, pitch
        self.reset()

    def reset(self) -> None:
        self.yaw, self.pitch = 0.0, self.fixed_pitch or 0.0
        self.noise = np.array(fitted.NOISE_START)
        self.rejected = self.flipped = 0
        self.turn, self._noise_observed_s = fitted.TURN_START, 0.0
        self._h, self._spread, self._missed, self._rejected_s = np.zeros((3, 3)), 0.0, 0.0, 0.0
        self._watched_s = 0.0
        self._last: float | None = None
        self.place = Place()
        self._placed_variance = math.inf
        # Nose and wrists of the last picture in room axes (3, 3), their weights (3,) and the time since the picture
        # before [s]; None if the last picture was rejected or flipped.
        self.taken: tuple[F64, F64, float] | None = None

    @property
    def sigma(self) -> float:
        """Standard deviation of the estimated camera yaw [rad]."""
        variance = 1 / (1 / self._aligned_variance + 1 / self._placed_variance)
        return min(math.sqrt(variance), math.pi)

    @property
    def _aligned_variance(self) -> float:
        """Variance [rad²] of the camera yaw that nose and wrists show; it depends on their noise and spread, and on the
        error that turns all landmarks together.
        """
        if self._spread <= 1e-9:
            return 1e6
        noise2 = float(self.noise[0] ** 2 + self.noise[1] ** 2) / 2
        turned = self.turn**2 * fitted.TURN_LASTS_S / max(self._watched_s, 0.1)
        return noise2 * fitted.NOISE_LASTS_S / self._spread + turned

    @property
    def point_variance(self) -> float:
        """Variance of the mean position of the nose or a wrist in one second of pictures [m² s]."""
        return float((self.noise**2).mean()) * fitted.NOISE_LASTS_S

    @property
    def known(self) -> bool:
        """True if the camera yaw is accurate enough to measure facings, and if the person is certainly the user.

        The person is the user if nose and wrists agree with the trackers, or by the resection (facing/camera/place.py).
        """
        placed = self._placed_variance < fitted.SURELY_PLACED**2
        fits = self._missed < fitted.UNEXPLAINED * self._spread or placed
        return self.sigma < fitted.UNSURE and fits and not self.place.scattered(self.yaw)

    def carry(self, yaw: float, shift: F64) -> None:
        """Rotate the camera by `yaw` [rad] and move it by `shift` (3,) [m], because the axes of the room changed."""
        c, s = math.cos(yaw), math.sin(yaw)
        self._h = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ self._h
        self.yaw += yaw
        self.place.carry(yaw, shift)

    def levelled(self, positions: F64) -> F64:
        out = np.empty((3, 3))
        la.turned(la.three(positions), 0.0, self.pitch, out)
        return out

    def see(self, t: float, seen: Landmarks, room: F64, tracked: F64, expected: Expected) -> Measurement | None:
        """Return the user's facing in one picture, and update the estimated camera pose and noise by the picture.

        The returned facing is None while the pose of the camera is not known, and for a rejected picture. `room` (3, 3)
        holds the positions of nose and wrists by the trackers at the time of the picture. `tracked` (3,) is 1 for each
        of nose and wrists whose device is tracked, and else 0.
        """
        dt = USUAL_STEP_S if self._last is None else min(max(t - self._last, 0.0), 0.2)
        self._last, self.taken = t, None
        ray = self._ray(seen)
        w = la.visible(seen.visibility) * tracked
        readings = self._readings(seen, ray, w)
        slope = self._slope(seen) if w[0] > 0 else None
        if not self.known:
            self._learn_place(slope, room, dt)
            self._learn(readings[0], self._fit(readings[0], room, ray), room, dt)
            return None
        if slope is not None and self.place.elsewhere(room[0], slope, self.yaw):
            self.rejected += 1
            self._count_rejected(dt)
            return None
        fits = [self._fit(reading, room, ray) for reading in readings]
        k = self._judge(readings, fits, expected)
        if k is None:
            self.rejected += 1
            self._count_rejected(dt)
            return None
        if readings[k].flipped:
            self.flipped += 1
            if self._count_rejected(dt):
                return None
        else:
            self._rejected_s = max(self._rejected_s - 2 * dt, 0.0)
            self._learn_place(slope, room, dt)
            self._learn(readings[k], fits[k], room, dt)
            self.taken = self._in_room(readings[k].points), readings[k].w, dt
        return self._facing(readings[k].points, seen.visibility, ray, fits[k])

    def _ray(self, seen: Landmarks) -> float:
        if self.field_of_view <= 0:
            return 0.0
        return la.ray_yaw(float(seen.image[LINES, 0].mean()), self.field_of_view)

    def _slope(self, seen: Landmarks) -> float | None:
        """Return the slope y/x of the ray to the nose in camera axes, or None if the field of view is not known."""
        if self.field_of_view <= 0:
            return None
        return (1 - 2 * float(seen.image[NOSE, 0])) * math.tan(self.field_of_view / 2)

    def _learn_place(self, slope: float | None, room: F64, dt: float) -> None:
        if slope is not None:
            self.place.learn(room[0], slope, dt, self.halflife_s)

    def _readings(self, seen: Landmarks, ray: float, w: F64) -> tuple[Picture, Picture, Picture]:
        """Return three versions of the landmarks: as received, left and right swapped, and front and back swapped.

        To swap front and back, left and right are swapped and the depth is negated.
        """
        points, mirrored = np.empty((2, len(seen.positions), 3))
        plain = np.ascontiguousarray(seen.positions, np.float64)
        la.turned(plain, ray, 0.0, points)
        la.turned(plain * np.array([-1.0, 1.0, 1.0]), ray, 0.0, mirrored)
        other = w[[0, 2, 1]]
        return (
            Picture(points, w, False), Picture(points[SWAPPED], other, True), Picture(mirrored[SWAPPED], other, True),
        )  # fmt: skip

    def _fit(self, picture: Picture, room: F64, ray: float) -> Fit:
        if (picture.w > 0).sum() < 2:
            return NO_FIT
        points = la.three(picture.points)
        yaw, *_ = la.align(room, points, picture.w, self.pitch)
        *miss2, spread = la.residuals(room, points, picture.w, yaw, self.pitch, self.yaw + ray)
        noise2 = float(self.noise[0] ** 2 + self.noise[1] ** 2) / 2
        variance = noise2 / max(spread * float(picture.w.sum()), 1e-4)
        return Fit(float(wrap_angle(yaw - self.yaw)), variance, np.array(miss2) * fitted.LOST_TO_FIT)

    def _judge(self, readings: tuple[Picture, ...], fits: list[Fit], expected: Expected) -> int | None:
        """Return the index of the most likely version of the landmarks: as received or flipped. Return None if this
        version does not fit the trackers, or if it is flipped and hardly more likely than the landmarks as received.
        """
        misfits = [float((f.miss2 / self.noise**2).mean()) for f in fits]
        turns = [f.turn**2 / (f.variance + self.turn**2 + self.sigma**2) for f in fits]
        costs = []
        for picture, misfit, turn in zip(readings, misfits, turns, strict=True):
            apart = wrap_angle(self._yaw_of(picture.points) - expected.yaw) / expected.sigma
            points = float((picture.w > 0).sum())
            costs.append(points * misfit + turn + min(apart**2, fitted.FAR_OFF) + fitted.FLIP_PENALTY * picture.flipped)
        k = int(np.argmin(costs))
        if misfits[k] > fitted.MISFIT or turns[k] > fitted.TURNED or (k > 0 and costs[0] - costs[k] < fitted.CLEAR):
            return None
        return k

    def _count_rejected(self, dt: float) -> bool:
        """Add `dt` to the time for which pictures have been rejected or flipped. Return true if this time is so long
        that the present picture must not be used. The estimated pose of the camera is reset after `LOST_AFTER_S`,
        because the pictures of a moved camera can also look flipped.
        """
        self._rejected_s += dt
        if self._rejected_s > fitted.LOST_AFTER_S:
            counts = self.rejected, self.flipped
            self.reset()
            self.rejected, self.flipped = counts
            return True
        return self._rejected_s > fitted.FLIP_AT_MOST_S

    def _learn(self, picture: Picture, fit: Fit, room: F64, dt: float) -> None:
        w = picture.w
        if not math.isfinite(fit.variance):
            return
        keep = 0.5 ** (dt / self.halflife_s)
        r, q = np.empty((2, 3, 3))
        points = la.three(picture.points)
        la.centred(room, w, r)
        la.centred(points, w, q)
        self._h *= keep
        spread = la.add_products(self._h, r, q, w * dt)
        self._spread = keep * self._spread + spread
        if self.fixed_pitch is None:
            self.pitch = la.best_pitch(self._h, -fitted.STEEPEST, fitted.STEEPEST)
        self._watched_s = keep * self._watched_s + dt
        self._combine_yaws(la.best_yaw(self._h, self.pitch))
        deep, across, *_ = la.residuals(room, points, w, self.yaw, self.pitch, 0.0)
        self._missed = keep * self._missed + (deep + across) * float(w.sum()) * dt
        self._learn_noise(fit, dt)

    def _combine_yaws(self, aligned: float) -> None:
        """Set the camera yaw to the weighted mean of two estimates: by nose and wrists, and by resection (place.py)."""
        placed, self._placed_variance = self.place.yaw(aligned)
        share = self._aligned_variance / (self._aligned_variance + self._placed_variance)
        self.yaw = aligned + share * (placed - aligned)

    def _learn_noise(self, fit: Fit, dt: float) -> None:
        self._noise_observed_s += dt
        share = max(1 - 0.5 ** (dt / fitted.NOISE_HALFLIFE_S), dt / (self._noise_observed_s + fitted.NOISE_PRIOR_S))
        noise2 = self.noise**2 + share * (fit.miss2 - self.noise**2)
        self.noise = np.clip(np.sqrt(noise2), fitted.NOISE_FLOOR, fitted.NOISE_CEILING)
        certain = fitted.TURN_START**2 / (fitted.TURN_START**2 + fit.variance)
        turn2 = self.turn**2 + share * certain * (min(fit.turn**2, 1.0) - fit.variance - self.turn**2)
        self.turn = math.sqrt(min(max(turn2, fitted.TURN_FLOOR**2), fitted.TURN_CEILING**2))

    def _in_room(self, points: F64) -> F64:
        out = np.empty((3, 3))
        la.turned(la.three(points), self.yaw, self.pitch, out)
        return out

    def _lines(self, points: F64) -> F64:
        out = np.empty((4, 3))
        la.turned(points[LINES], self.yaw, self.pitch, out)
        return out[[0, 2], :2] - out[[1, 3], :2]

    def _yaw_of(self, points: F64) -> float:
        lines = self._lines(points)
        left = (lines / np.maximum(np.linalg.norm(lines, axis=1, keepdims=True), 1e-6)).sum(0)
        return math.atan2(-left[0], left[1])

    def _facing(self, points: F64, visibility: F32, ray: float, fit: Fit) -> Measurement | None:
        """Return the mean facing of hips and shoulders, weighted by the length, visibility and noise of their lines.

        The turn of nose and wrists against the trackers shows part of an error that turns all landmarks together; this
        part is removed from the facing.
        """
        lines = self._lines(points)
        length = np.linalg.norm(lines, axis=1)
        seen = visibility[LINES].reshape(2, 2).min(1)
        sight = self.yaw + ray
        across = np.array([-math.sin(sight), math.cos(sight)])
        # Only errors of the depth change the direction of a line through hips or shoulders across the line of sight.
        depth_share = (lines @ across / np.maximum(length, 1e-6)) ** 2
        noise2 = depth_share * self.noise[0] ** 2 + (1 - depth_share) * self.noise[1] ** 2
        across2 = 2 * fitted.TRUNK_NOISE**2 * noise2 / np.maximum(length, 0.05) ** 2
        variance = across2 / np.maximum(seen, 0.05) ** 2 + fitted.TWIST**2
        w = np.where((seen > fitted.HIDDEN) & (length > 0.05), 1 / variance, 0.0)
        if w.sum() <= 0:
            return None
        left = (w[:, None] * lines / np.maximum(length, 1e-6)[:, None]).sum(0)
        explained = self.turn**2 / (self.turn**2 + fit.variance)
        yaw = math.atan2(-left[0], left[1]) + explained * fit.turn
        return Measurement(yaw, math.sqrt(1 / w.sum() + (1 - explained) * self.turn**2))
