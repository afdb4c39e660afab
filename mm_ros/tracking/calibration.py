"""Calibration of a user: measured from trackers, and converted to head height and avatar scale."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.skeleton import HEAD, LEFT_UPPER_ARM, RIGHT_UPPER_ARM, Skeleton
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

HEADSET_IN_HEAD: tuple[float, float, float] = (0.10, 0.0, 0.08)  # m, head axes: x forward, z up
CONTROLLER_ALONG_HAND = 0.08  # m, wrist to grip
ARMS_RANGE = 0.8, 1.3  # plausible factors between the arms of a user and of a database


def head_joint_height(calibration: Calibration) -> float:
    """Height of the head joint of the standing user, m."""
    return float(calibration.head_height - calibration.headset_in_head[2])


def avatar_scale(calibration: Calibration, skeleton: Skeleton) -> float:
    """Size of the user divided by the size of the skeleton."""
    return head_joint_height(calibration) / skeleton.head_height


def avatar_arms(calibration: Calibration, skeleton: Skeleton) -> float:
    """Length of the user's arms divided by that of the skeleton's at the user's size; 1 without a measured span."""
    if calibration.arm_span <= 0.0:
        return 1.0
    scaled = skeleton.scaled(avatar_scale(calibration, skeleton))
    shoulder = float(np.abs(scaled.rest_positions()[[LEFT_UPPER_ARM, RIGHT_UPPER_ARM], 1]).mean())
    arm = calibration.arm_span / 2 - CONTROLLER_ALONG_HAND - shoulder
    return float(np.clip(arm / scaled.arm_length, *ARMS_RANGE))


def standing_headset_height(skeleton: Skeleton) -> float:
    """Height of the headset on a standing person with this skeleton, m."""
    return float(skeleton.rest_positions()[HEAD, 2]) + HEADSET_IN_HEAD[2]


def from_standing_height(
    head_height: float, user: str = "default", calibrated: bool = True, arm_span: float = 0.0
) -> Calibration:
    """Calibration from `head_height`: height of the headset above the floor [m] when the user stands upright."""
    if not 0.8 <= head_height <= 2.3:
        raise MmRosError(
            f"standing height of the headset: came {head_height:.2f} m, expected 0.8 to 2.3 m. "
            "Is the floor of the play space correct, and did the user stand upright?"
        )
    return Calibration(user=user, calibrated=calibrated, head_height=float(head_height), arm_span=float(arm_span))


def from_skeleton(skeleton: Skeleton, user: str = "default") -> Calibration:
    """Calibration of a user with exactly this skeleton."""
    return from_standing_height(standing_headset_height(skeleton), user)


# ---- measurement from trackers

SEATED_TO_STANDING = 0.42  # m; difference of eye height between standing and sitting, about the length of a thigh
LOWEST, HIGHEST = 0.8, 2.3  # m; plausible heights of a standing user's headset
JUDGED_EVERY_NS = 200_000_000
SPAN_REFINED = 0.04  # m; smaller corrections are not published, because each changes the avatar's skeleton
CONTROLLER_RADIUS = 0.03  # m; height of the grip of a controller that lies on the floor


@dataclass(frozen=True)
class CalibrationSettings(Settings):
    user: str = setting("default", "Name of the user, and of the file with the user's measures.")
    posture: str = setting("standing", "Posture of the user while playing.", choices=("standing", "seated"))
    auto_calibrate: bool = setting(True, "Measure the height automatically when the user stands upright and still.")
    still_s: float = setting(3.0, "Time for which the user must stand still.", "s", 0.5, 20.0)
    still_m: float = setting(
        0.03, "Maximum movement of the head that counts as still. Larger measures sooner, but less accurately.",
        "m", 0.001, 0.2,
    )
    level_rad: float = setting(0.35, "Maximum pitch of the head that counts as upright.", "rad", 0.05, 1.5)
    face_forward: bool = setting(False, "The calibrate service also turns x of the room to where the user looks.")


@dataclass(frozen=True)
class Stand:
    """Summary of the headset's samples in the last `still_s` seconds."""

    height: float  # median height of the headset in the source's room, m
    strayed: float  # diagonal of the bounding box of the positions, m
    pitch: float  # largest absolute pitch, rad
    yaw: float
    seconds: float


DEFAULTS = CalibrationSettings()


class Calibrator:
    """Measure a user from filtered trackers in the source's room."""

    def __init__(self, settings: CalibrationSettings = DEFAULTS, known: Calibration | None = None) -> None:
        self.settings = settings
        self.current = known or Calibration(user=settings.user, posture=settings.posture)
        self._from_person = known is not None and known.calibrated  # measured by request, or read from a file
        self._samples: deque[tuple[float, float, float, float, float, float]] = deque()
        self._highest = 0.0
        self._judged_ns = 0
        self._resting: dict[int, tuple[float, float, F64]] = {}
        self._timeline = Timeline()
        self._reach = ArmReach()
        self._stood: float | None = None  # measured standing height in the source's room

    def refine(self) -> None:
        """Let automatic measurements replace the known calibration: it was not measured by request."""
        self._from_person = False

    def forget_motion(self) -> None:
        """Clear the samples after a gap or in a new epoch."""
        self._samples.clear()
        self._resting.clear()
        self._judged_ns = 0

    def step(self, frame: TrackerFrame) -> Calibration | None:
        """Return a new calibration if this frame changes it, else None."""
        if self._timeline.judge(frame.stamp_ns, frame.epoch, frame.new_from_old).verdict not in (ADVANCE, DROP):
            self.forget_motion()  # the room moved, or the clock jumped
        if frame.state[HEAD_ROLE] != TRACKED:
            self._samples.clear()
            return None
        self._add_sample(frame)
        changed = self._floor(frame)
        changed = self._arms(frame) or changed
        due = frame.stamp_ns - self._judged_ns >= JUDGED_EVERY_NS
        if self.settings.auto_calibrate and not self._from_person and due:
            self._judged_ns = frame.stamp_ns
            changed = self._measure_automatically() or changed
        return self.current if changed else None

    def _add_sample(self, frame: TrackerFrame) -> None:
        t = frame.stamp_ns * 1e-9
        q = frame.rotations[HEAD_ROLE]
        ahead = quat.rotate(tuple(q.tolist()), (1.0, 0.0, 0.0))
        x, y, z = frame.positions[HEAD_ROLE].tolist()
        pitch = math.asin(max(-1.0, min(1.0, float(ahead[2]))))
        self._samples.append((t, x, y, z, pitch, math.atan2(float(ahead[1]), float(ahead[0]))))
        while self._samples and t - self._samples[0][0] > self.settings.still_s:
            self._samples.popleft()

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
        """Measure from the last seconds on request; return success and a message for the user."""
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
        yaw = stand.yaw if s.face_forward else self.current.forward_yaw
        self.current = replace(
            self.current, user=s.user, calibrated=True, posture=s.posture, head_height=height, forward_yaw=yaw
        )
        spread = f", arm span {self.current.arm_span:.2f} m" if self.current.arm_span else ""
        return True, f"{s.user}: headset at {height:.2f} m when standing{spread}"

    def _standing(self, stand: Stand) -> float:
        height = stand.height - self.current.floor_height
        return height + SEATED_TO_STANDING if self.settings.posture == "seated" else height

    def _measure_automatically(self) -> bool:
        """Measure the largest height at which the user stands still, so that a more upright stand corrects it."""
        s, stand = self.settings, self.stand()
        if stand is None or stand.seconds < 0.95 * s.still_s or stand.strayed > s.still_m or stand.pitch > s.level_rad:
            return False
        height = self._standing(stand)
        # The lower limit excludes users that sit or kneel, and a headset on a table.
        if not 1.3 <= height <= HIGHEST or height < self._highest + 0.02:
            return False
        self._highest, self._stood = height, height + self.current.floor_height
        self.current = replace(self.current, user=s.user, calibrated=True, posture=s.posture, head_height=height)
        return True

    def _arms(self, frame: TrackerFrame) -> bool:
        """Estimate the arm span from the reach of the hands."""
        span = self._reach.step(frame, head_joint_height(self.current))
        if span is None or abs(span - self.current.arm_span) < (SPAN_REFINED if self.current.arm_span else 0.0):
            return False
        self.current = replace(self.current, arm_span=span)
        return True

    def _floor(self, frame: TrackerFrame) -> bool:
        """Measure the floor height from a controller that lies still far below the head, near the expected floor."""
        changed = False
        t = frame.stamp_ns * 1e-9
        for role in (LEFT_HAND_ROLE, RIGHT_HAND_ROLE):
            p = frame.positions[role]
            seen = frame.state[role] == TRACKED and frame.positions[HEAD_ROLE, 2] - p[2] > 1.0
            since, measured_at, place = self._resting.get(role, (t, 0.0, p))
            if not seen or abs(p[2] - self.current.floor_height) > 0.5 or np.linalg.norm(p - place) > 0.01:
                self._resting[role] = (t, 0.0, p.copy())
                continue
            self._resting[role] = (since, measured_at, place)
            lies_low = abs(p[2] - CONTROLLER_RADIUS) < 0.3
            if lies_low and t - since > 2.0 and not measured_at:
                self._resting[role] = (since, t, place)
                floor = float(p[2]) - CONTROLLER_RADIUS
                if abs(floor - self.current.floor_height) > 0.01:
                    self._lay_floor(floor)
                    changed = True
        return changed

    def _lay_floor(self, floor: float) -> None:
        """Set the floor height, and correct a measured head height, which was relative to the old floor."""
        self.current = replace(self.current, floor_height=floor)
        if self._stood is not None and LOWEST <= self._stood - floor <= HIGHEST:
            self.current = replace(self.current, head_height=self._stood - floor)
            self._highest = min(self._highest, self._stood - floor)
