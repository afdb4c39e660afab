"""Measures the calibration of a user from trackers, and computes the scale of the avatar from it."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.proportions import HEAD_OVER_LEG, proportions_of
from mm_ros.body.skeleton import HEAD, HIPS, LEFT_UPPER_ARM, RIGHT_UPPER_ARM, Segments, Skeleton
from mm_ros.body.timeline import ADVANCE, DROP, Timeline
from mm_ros.body.types import (
    F64,
    HEAD_ROLE,
    LEFT_HAND_ROLE,
    RIGHT_HAND_ROLE,
    TRACKED,
    Calibration,
    TrackerFrame,
)
from mm_ros.maths import quat
from mm_ros.tracking.reach import ArmReach
from mm_ros.tracking.standing import HeightDistribution

# position of the headset relative to the head joint, in the axes of the head (x forward, z up) [m]
HEADSET_IN_HEAD: tuple[float, float, float] = (0.10, 0.0, 0.08)
CONTROLLER_ALONG_HAND = 0.08  # m, wrist to grip
LEGS_RANGE = 0.8, 1.25  # limits of the factor that corrects the legs of a skeleton with unusual proportions
ARMS_RANGE = 0.8, 1.3  # limits of the ratio of the arms of a user to the arms of a skeleton


def head_joint_height(calibration: Calibration) -> float:
    """Return the height of the user's head joint when standing [m]: below the headset by the calibrated offset."""
    return float(calibration.head_height - calibration.headset_in_head[2])


def avatar_scale(calibration: Calibration, skeleton: Skeleton) -> float:
    """Return the length of the user's legs divided by the length of the skeleton's legs."""
    return head_joint_height(calibration) / skeleton.head_height * _legs_of(skeleton)


def _legs_of(skeleton: Skeleton) -> float:
    """Return the usual leg length of a person as tall as the skeleton, divided by the skeleton's leg length.

    The returned ratio is 1 for a skeleton with the proportions of a person, but not for old skeletons of mm_ros.
    """
    now = proportions_of(skeleton)
    if not now.adult or HEAD_OVER_LEG.holds(now.head):
        return 1.0
    return float(np.clip(now.head / HEAD_OVER_LEG.usual, *LEGS_RANGE))


def avatar_segments(calibration: Calibration, skeleton: Skeleton) -> Segments:
    """Return the factors on the lengths of trunk and arms of a skeleton that has been scaled to the user's legs.

    The factor of the trunk brings the head joint to the height of the user's head joint. If the arm span has not been
    measured, the length of the arms follows from the height of the head.
    """
    legs, scale = _legs_of(skeleton), avatar_scale(calibration, skeleton)
    hips = float(skeleton.offsets[HIPS, 2])
    above = skeleton.head_height - hips
    segments = Segments(1.0 if legs == 1.0 else (skeleton.head_height / legs - hips) / above, 1.0 / legs)
    if calibration.arm_span <= 0.0:
        return segments
    scaled = skeleton.scaled(scale, segments)
    shoulder = float(np.abs(scaled.rest_positions()[[LEFT_UPPER_ARM, RIGHT_UPPER_ARM], 1]).mean())
    arm = calibration.arm_span / 2 - CONTROLLER_ALONG_HAND - shoulder
    return segments._replace(arms=float(np.clip(arm / scaled.arm_length, *ARMS_RANGE)) / legs)


def standing_headset_height(skeleton: Skeleton) -> float:
    """Return the height of the headset [m] on a standing person with the given skeleton."""
    return float(skeleton.rest_positions()[HEAD, 2]) + HEADSET_IN_HEAD[2]


def from_standing_height(
    head_height: float, user: str = "default", calibrated: bool = True, arm_span: float = 0.0
) -> Calibration:
    """Return a calibration for a user whose headset is `head_height` above the floor [m] when the user stands."""
    if not 0.8 <= head_height <= 2.3:
        raise MmRosError(
            f"standing height of the headset: came {head_height:.2f} m, expected 0.8 to 2.3 m. "
            "Is the floor of the play space correct, and did the user stand upright?"
        )
    return Calibration(user=user, calibrated=calibrated, head_height=float(head_height), arm_span=float(arm_span))


def from_skeleton(skeleton: Skeleton, user: str = "default") -> Calibration:
    """Return the calibration of a user whose body has exactly the proportions of `skeleton`."""
    return from_standing_height(standing_headset_height(skeleton), user)


# ---- measurement from trackers

SEATED_TO_STANDING = 0.42  # height of the eyes of a standing person minus that of a sitting person [m]
LOWEST, HIGHEST = 0.8, 2.3  # minimum and maximum plausible height of a standing user's headset [m]
JUDGED_EVERY_NS = 200_000_000
# If a new arm span differs by less than SPAN_REFINED [m], the old one is kept, so that the skeleton rarely changes.
SPAN_REFINED = 0.04
CONTROLLER_RADIUS = 0.03  # height of the grip centre of a controller that lies on the floor [m]
HIGHEST_FLOOR = 0.15  # A controller that lies higher than this above the source's floor [m] is on a table or shelf.
UNDER_FLOOR = 0.04  # A controller that is lower than the measured floor by this [m] shows that the floor is too high.
UNDER_FLOOR_S = 0.3  # The floor is lowered after a controller has been below it for this time [s].
# A controller that is lower than the floor by this [m] shows that the origin of the source is not on the floor.
ORIGIN_UNDER = 0.15
# The origin of the source is moved only if the measured head height is also too low by at least ORIGIN_LACKS [m].
ORIGIN_LACKS = 0.5
# A headset that moves by less than NOT_WORN_M within NOT_WORN_S is not on a head.
NOT_WORN_S, NOT_WORN_M = 3.0, 0.0015
GAP_S = 3.0  # time without a tracked headset after which another person may wear the headset [s]

# Standard deviations, m
DOUBTFUL_SIGMA = 0.05  # A measured height with at least this standard deviation does not replace a more exact one.
UNKNOWN_SIGMA, SEATED_SIGMA, STILL_SIGMA = 0.10, 0.08, 0.01
SOURCE_FLOOR_SIGMA, MEASURED_FLOOR_SIGMA, SPAN_SIGMA, REACH_SPAN_SIGMA = 0.03, 0.01, 0.03, 0.08
# If a new height differs by less than REFINED [m], the old one is kept, so that the avatar's skeleton rarely changes.
REFINED = 0.02
ANOTHER = 0.05  # After the headset was lost, a height that differs by more than this [m] is another person's.
SEATED_S, LOWEST_SEATED = 4.0, 0.9  # minimum time [s] and headset height [m] for the guess that a user sits
ANOTHER_S = 4.0  # After a change of the user, the new height is used only after standing for this time [s].

SEATED = "seated, height unsure: stand up for a moment, or call `calibrate` while standing"
ORIGIN = (
    "the origin of the source is not on the floor; the floor is estimated from an assumed height. Lay a controller on "
    "the floor for two seconds to measure it"
)


@dataclass(frozen=True)
class CalibrationSettings(Settings):
    user: str = setting("default", "Name of the user, and of the file that stores the user's measures.")
    posture: str = setting("standing", "Whether the user stands or sits in normal use.", choices=("standing", "seated"))
    auto_calibrate: bool = setting(True, "If true, the height of the user is also measured during use.")
    still_s: float = setting(
        3.0, "Time for which the user must stand still after a call of the service `calibrate`.", "s", 0.5, 20.0
    )
    still_m: float = setting(
        0.03, "Radius within which the head must stay for the service `calibrate`; with a larger `still_m` the user "
        "may sway more.", "m", 0.001, 0.2
    )
    level_rad: float = setting(
        0.5, "Maximum pitch and roll of the headset at which the head counts as upright.", "rad", 0.05, 1.5
    )
    headset_place: tuple[float, ...] = setting(
        (0.0,), "Position of the headset in the axes of the head joint: forward, left, up. If `headset_place` is one "
        "number, the position is read from the user's file or, without it, 0.10, 0, 0.08.", "m", -0.3, 0.3, live=False,
    )  # fmt: skip
    grip_place: tuple[float, ...] = setting(
        (0.0,), "Position of the palm relative to the wrist: toward the thumb, along the fingers, out of the back of "
        "the hand. Three numbers other than 0, 0.08, 0 are not fitted to the user's hand. If `grip_place` is one "
        "number, the position is read from the user's file or, without a file, 0, 0.08, 0 plus a fitted offset.",
        "m", -0.3, 0.3, live=False,
    )  # fmt: skip
    face_forward: bool = setting(
        False, "The service `calibrate` also turns the x axis of the room to the direction in which the user looks."
    )


def with_places(calibration: Calibration, settings: CalibrationSettings) -> Calibration:
    """Return the calibration with those places of headset and controllers that the user has set in `settings`."""
    for name in ("headset_place", "grip_place"):
        if len(getattr(settings, name)) not in (1, 3):
            raise MmRosError(f"{name}: expected three numbers [m], came {list(getattr(settings, name))}")
    given: dict[str, Any] = {}
    if len(settings.headset_place) == 3:
        given["headset_in_head"] = np.array([*settings.headset_place, *calibration.headset_in_head[3:]])
    if len(settings.grip_place) == 3:
        thumb, along, back = settings.grip_place
        given["left_grip_in_hand"] = np.array([thumb, along, back, *calibration.left_grip_in_hand[3:]])
        given["right_grip_in_hand"] = np.array([thumb, -along, back, *calibration.right_grip_in_hand[3:]])
    return replace(calibration, **given) if given else calibration


def grips_given(calibration: Calibration) -> bool:
    """Return true if the place of the palm in the hand (`grip_place`) differs from the default."""
    assumed = Calibration()
    pairs = (
        (calibration.left_grip_in_hand, assumed.left_grip_in_hand),
        (calibration.right_grip_in_hand, assumed.right_grip_in_hand),
    )
    return any(not np.allclose(a, b, atol=1e-6) for a, b in pairs)


@dataclass(frozen=True)
class Stand:
    """Summary of the samples of the headset in the last `still_s` seconds."""

    height: float  # median height of the headset in the last `still_s`, in the room of the source [m]
    strayed: float  # diagonal of the bounding box of the headset's positions in the last `still_s` [m]
    pitch: float  # largest absolute pitch of the headset in the last `still_s` [rad]
    yaw: float
    seconds: float


DEFAULTS = CalibrationSettings()


class Calibrator:
    """Measures height, arm span and floor from filtered trackers in the axes of the source."""

    def __init__(self, settings: CalibrationSettings = DEFAULTS, known: Calibration | None = None) -> None:
        self.settings = settings
        self.current = known or Calibration(
            user=settings.user, posture=settings.posture, head_height_sigma=UNKNOWN_SIGMA,
            floor_sigma=SOURCE_FLOOR_SIGMA,
        )  # fmt: skip
        self.current = with_places(self.current, settings)
        # true if the calibration was measured by request or read from a file
        self._from_person = known is not None and known.calibrated
        self._samples: deque[tuple[float, float, float, float, float, float]] = deque()
        self._heights = HeightDistribution()
        self._after_gap = False  # true if the headset was lost, so that another person may wear it
        self._span_known = True  # false if the measured arm span may be that of another person
        self._judged_ns = 0
        self._seen_s: float | None = None  # time of the last frame in which the headset was tracked [s]
        self._resting: dict[int, tuple[float, float, F64]] = {}
        self._under: dict[int, float] = {}  # by role, the time [s] at which a controller went below the floor
        self._floor_assumed = False  # true if the height of the floor follows from an assumed height of the user
        self._timeline = Timeline()
        self._reach = ArmReach()
        self._stood: float | None = None  # height of the headset of the standing user, in the axes of the source [m]

    def refine(self) -> None:
        """Allow automatic measurements to replace a known calibration that was not measured by request."""
        self._from_person = False

    def forget_motion(self) -> None:
        """Clear the stored samples of headset and controllers after a gap or a jump of the tracking."""
        self._samples.clear()
        self._resting.clear()
        self._under.clear()
        self._heights.pause()
        self._judged_ns = 0

    def step(self, frame: TrackerFrame) -> Calibration | None:
        """Return the new calibration of the user if the tracker frame `frame` changes the calibration, or else None."""
        if self._timeline.judge(frame.stamp_ns, frame.epoch, frame.new_from_old).verdict not in (ADVANCE, DROP):
            # After a move of the room or a jump of the clock, the old samples of the height are wrong.
            self.forget_motion()
        if frame.state[HEAD_ROLE] != TRACKED:
            self._samples.clear()
            return None
        t = frame.stamp_ns * 1e-9
        if self._seen_s is not None and abs(t - self._seen_s) > GAP_S:
            self._gap()
        self._seen_s = t
        before = self.current
        self._add_sample(frame)
        self._floor(frame)
        self._arms(frame)
        if frame.stamp_ns - self._judged_ns >= JUDGED_EVERY_NS:
            self._judged_ns = frame.stamp_ns
            if self._laid_down():
                self._gap()
            if self.settings.auto_calibrate:
                self._measure_automatically()
        self._fit_arms(frame)
        return self.current if self.current is not before else None

    def _gap(self) -> None:
        """Clear the samples after the headset was taken off or lost, because another person may put it on."""
        if self._stood is not None or self._from_person:
            self._after_gap, self._span_known = True, False
        self._heights.clear()

    def _laid_down(self) -> bool:
        """Return true if the headset lies still, because a headset on a head always moves a little."""
        stand = self.stand()
        return stand is not None and stand.seconds >= 0.95 * NOT_WORN_S and stand.strayed < NOT_WORN_M

    def _add_sample(self, frame: TrackerFrame) -> None:
        t = frame.stamp_ns * 1e-9
        q = quat.get4(frame.rotations, HEAD_ROLE)
        ahead, left = quat.rotate(q, (1.0, 0.0, 0.0)), quat.rotate(q, (0.0, 1.0, 0.0))
        x, y, z = frame.positions[HEAD_ROLE].tolist()
        pitch = math.asin(max(-1.0, min(1.0, float(ahead[2]))))
        roll = math.asin(max(-1.0, min(1.0, float(left[2]))))
        self._samples.append((t, x, y, z, pitch, math.atan2(float(ahead[1]), float(ahead[0]))))
        while self._samples and t - self._samples[0][0] > self.settings.still_s:
            self._samples.popleft()
        headset = self.current.headset_in_head
        above_joint = quat.rotate(q, quat.get3(headset.reshape(1, -1), 0))[2]
        level = z - above_joint + float(headset[2])
        self._heights.add(t, frame, level, max(abs(pitch), abs(roll)) < self.settings.level_rad)

    def stand(self) -> Stand | None:
        if len(self._samples) < 5:
            return None
        a = np.array(self._samples)
        spread = a[:, 1:4].max(0) - a[:, 1:4].min(0)
        yaw = math.atan2(float(np.sin(a[:, 5]).mean()), float(np.cos(a[:, 5]).mean()))
        return Stand(
            float(np.median(a[:, 3])), float(np.linalg.norm(spread)), float(np.abs(a[:, 4]).max()), yaw,
            float(a[-1, 0] - a[0, 0]),
        )  # fmt: skip

    def measure(self) -> tuple[bool, str]:
        """Measure the user by the samples of the last `still_s`; return whether this succeeded and a message for the
        user."""
        s, stand = self.settings, self.stand()
        if stand is None or stand.seconds < 0.8 * s.still_s:
            return False, f"the headset has not been tracked for {s.still_s:g} s yet; put it on and call again"
        if stand.strayed > 2 * s.still_m:
            return False, (
                f"you moved by {stand.strayed * 100:.0f} cm in the last {s.still_s:g} s: stand straight and still, "
                "look ahead, and call again"
            )
        height = self._standing(stand)
        if not LOWEST <= height <= HIGHEST:
            return False, (
                f"the headset is {height:.2f} m above the floor, expected {LOWEST} to {HIGHEST} m. Is the floor of the "
                "play space correct? Lay a controller on the floor for two seconds to measure the floor"
            )
        self._from_person, self._stood = True, height + self.current.floor_height
        self._after_gap, self._floor_assumed = False, False
        yaw = stand.yaw if s.face_forward else self.current.forward_yaw
        self.current = replace(
            self.current, user=s.user, calibrated=True, posture=s.posture, head_height=height, forward_yaw=yaw,
            head_height_sigma=SEATED_SIGMA if s.posture == "seated" else STILL_SIGMA, note="",
        )  # fmt: skip
        return True, f"{s.user}: {in_words(self.current)}"

    def _standing(self, stand: Stand) -> float:
        height = stand.height - self.current.floor_height
        return height + SEATED_TO_STANDING if self.settings.posture == "seated" else height

    def _measure_automatically(self) -> None:
        """Measure the height of the user from the distribution of head heights. A height that was measured by
        request, or was read from a file, is kept until a gap after which another person may wear the headset."""
        highest = math.inf if self._floor_assumed else self.current.floor_height + HIGHEST
        found = self._heights.estimate(highest)
        if found is None:
            return
        if self._floor_assumed:
            self._assume_floor(found.height)
            return
        if self._from_person and not self._after_gap:
            return
        height = found.height - self.current.floor_height
        if self.settings.posture == "seated":
            standing = height + SEATED_TO_STANDING
            if 1.3 <= standing <= HIGHEST:
                self._take(found.height, standing, math.hypot(found.sigma, SEATED_SIGMA), found.seconds)
        elif not LOWEST <= height <= HIGHEST:
            return
        elif found.stands(self.current.floor_height):
            self._take(found.height, height, math.hypot(found.sigma, self._floor_doubt()), found.seconds)
        elif self._stood is None and not self._from_person and found.seconds > SEATED_S and height > LOWEST_SEATED:
            guess = height + SEATED_TO_STANDING
            if self.current.note != SEATED or guess > self.current.head_height + REFINED:
                self.current = replace(
                    self.current, user=self.settings.user, head_height=guess, head_height_sigma=UNKNOWN_SIGMA,
                    note=SEATED,
                )  # fmt: skip

    def _floor_doubt(self) -> float:
        return 0.0 if self.current.floor_sigma <= SOURCE_FLOOR_SIGMA else self.current.floor_sigma

    def _take(self, stood: float, height: float, sigma: float, seconds: float) -> None:
        """Use a measured height, unless it hardly differs from the known height, is doubtful, or differs much, but was
        measured only briefly."""
        now, s, note = self.current, self.settings, ""
        if now.calibrated:
            away = abs(height - now.head_height)
            if self._after_gap:
                if seconds < ANOTHER_S:
                    return
                self._after_gap = False
                if away <= ANOTHER:
                    return
                self._from_person = False  # The measured height is that of another person.
                now = replace(now, arm_span=0.0, arm_span_sigma=0.0)
                self._reach = ArmReach()
            elif sigma >= DOUBTFUL_SIGMA > now.head_height_sigma:
                # A doubtful measurement of the user's height only increases the standard deviation of the known height.
                self.current = replace(now, head_height_sigma=sigma)
                return
            elif (away < REFINED and now.head_height_sigma < 2 * sigma) or (away > ANOTHER and seconds < ANOTHER_S):
                return
            else:
                note = now.note
        self._stood = stood
        self.current = replace(
            now, user=s.user, calibrated=True, posture=s.posture, head_height=height, head_height_sigma=sigma, note=note
        )

    def _arms(self, frame: TrackerFrame) -> None:
        """Measure the arm span while the arms are spread at the height of the shoulders, and keep the largest."""
        hands = [LEFT_HAND_ROLE, RIGHT_HAND_ROLE]
        if (frame.state[hands] != TRACKED).any() or np.abs(frame.velocities[hands]).max() > 0.3:
            return
        left, right = frame.positions[hands]
        span = float(np.linalg.norm(left - right))
        below = frame.positions[HEAD_ROLE, 2] - np.array([left[2], right[2]])
        middle = (left + right)[:2] / 2 - frame.positions[HEAD_ROLE, :2]
        level = (below > 0.0).all() and (below < 0.5).all() and abs(left[2] - right[2]) < 0.2
        if not level or np.linalg.norm(middle) > 0.25 or not 0.75 < span / self.current.head_height < 1.25:
            return
        if self._span_known and self._spread_seen() and span < self.current.arm_span + 0.02:
            return
        self._span_known = True
        self.current = replace(self.current, arm_span=span, arm_span_sigma=SPAN_SIGMA)

    def _spread_seen(self) -> bool:
        return self.current.arm_span > 0.0 and self.current.arm_span_sigma <= SPAN_SIGMA

    def _fit_arms(self, frame: TrackerFrame) -> None:
        """Estimate the arm span from the reach of the hands, as long as the user has not spread the arms."""
        span = self._reach.step(frame, head_joint_height(self.current))
        now = self.current
        if span is None or not now.calibrated or self._from_person or self._spread_seen():
            return
        if not now.arm_span or abs(span - now.arm_span) >= SPAN_REFINED:
            self.current = replace(now, arm_span=span, arm_span_sigma=REACH_SPAN_SIGMA)

    def _floor(self, frame: TrackerFrame) -> None:
        """Measure the floor's height by a controller that lies on it; lower a floor that is above a controller."""
        t = frame.stamp_ns * 1e-9
        for role in (LEFT_HAND_ROLE, RIGHT_HAND_ROLE):
            p = frame.positions[role]
            tracked = frame.state[role] == TRACKED
            self._look_under(role, float(p[2]), tracked, t)
            seen = tracked and frame.positions[HEAD_ROLE, 2] - p[2] > 1.0
            since, measured_at, place = self._resting.get(role, (t, 0.0, p))
            if not seen or np.linalg.norm(p - place) > 0.01:
                self._resting[role] = (t, 0.0, p.copy())
                continue
            self._resting[role] = (since, measured_at, place)
            floor = float(p[2]) - CONTROLLER_RADIUS
            if floor < HIGHEST_FLOOR and t - since > 2.0 and not measured_at:
                self._resting[role] = (since, t, place)
                if abs(floor - self.current.floor_height) > 0.01 or self._floor_assumed:
                    self._lay_floor(floor)

    def _look_under(self, role: int, z: float, tracked: bool, t: float) -> None:
        under = self.current.floor_height - z
        if not tracked or under < UNDER_FLOOR:
            self._under.pop(role, None)
            return
        if t - self._under.setdefault(role, t) < UNDER_FLOOR_S:
            return
        found = self._heights.estimate()
        stood = found.height if found else self._samples[-1][3]
        lacking = self.current.floor_height - (stood - self.current.head_height)
        measured = self.current.floor_sigma <= MEASURED_FLOOR_SIGMA
        if under > ORIGIN_UNDER and lacking > ORIGIN_LACKS and not self._floor_assumed and not measured:
            self._floor_assumed = True
            self._assume_floor(stood)
        elif not self._floor_assumed and self.current.floor_height > 0:
            self._lay_floor(max(z - CONTROLLER_RADIUS, 0.0), SOURCE_FLOOR_SIGMA)

    def _assume_floor(self, stood: float) -> None:
        floor = stood - self.current.head_height
        if self.current.note != ORIGIN or abs(floor - self.current.floor_height) > REFINED:
            self.current = replace(self.current, floor_height=floor, floor_sigma=UNKNOWN_SIGMA, note=ORIGIN)

    def _lay_floor(self, floor: float, sigma: float = MEASURED_FLOOR_SIGMA) -> None:
        """Set the height of the floor, and correct a measured head height, which was relative to the old floor."""
        note = "" if self.current.note == ORIGIN else self.current.note
        self._floor_assumed = False
        self.current = replace(self.current, floor_height=floor, floor_sigma=sigma, note=note)
        if self._stood is not None and LOWEST <= self._stood - floor <= HIGHEST:
            self.current = replace(self.current, head_height=self._stood - floor)


def in_words(c: Calibration) -> str:
    """Return a text with the user's measures in the calibration `c` and their uncertainties."""

    def sure(sigma: float) -> str:
        return f" ± {max(round(100 * sigma), 1)} cm" if sigma else ""

    text = f"headset at {c.head_height:.2f} m{sure(c.head_height_sigma)} when standing"
    text += f", floor at {c.floor_height:.2f} m{sure(c.floor_sigma)}"
    if c.arm_span:
        text += f", arm span {c.arm_span:.2f} m{sure(c.arm_span_sigma)}"
    return text + (f" ({c.note})" if c.note else "")
