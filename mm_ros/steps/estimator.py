"""Stage that estimates contact, touchdown and position of the user's feet, and predicts the path of the hips.

A network computes the estimate from headset and controllers, and a camera and foot trackers correct it (`fusion.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mm_ros.base.settings import Settings, setting
from mm_ros.body.landmarks import Landmarks
from mm_ros.body.timeline import ADVANCE, CARRY, DROP, Timeline, is_identity
from mm_ros.body.types import (
    F32,
    F64,
    HEAD_ROLE,
    LEFT_HAND_ROLE,
    LOST,
    RIGHT_HAND_ROLE,
    BodyOrientation,
    Calibration,
    FeetEstimate,
    TrackerFrame,
)
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit
from mm_ros.maths.springs import decay
from mm_ros.steps import inputs as si
from mm_ros.steps import outputs as so
from mm_ros.steps.fusion import CameraFeet, FootTrackers
from mm_ros.tracking.check import check_trackers

GAP_S = 0.2  # The step network's state is reset after a gap of more than `GAP_S` in the tracker frames.
REFRACTORY_S = 0.25  # Minimum time between two reported touchdowns of the same foot.
# A foot counts as lifted when its probability of standing is below `RELEASED` times `touchdown_threshold`.
RELEASED = 0.6
# Half-lives of the smoothing of the ankle positions, for a foot that moves or has just landed, and for a standing foot.
FOLLOW_HALFLIFE_S, STANDING_HALFLIFE_S = 0.025, 0.25
HALFLIFE_GROWTH = 0.5  # rate [s/s] at which the half-life of the smoothing of an ankle grows after the foot has landed
TRACKED_CONTACT = 0.5  # A foot with a tracker touches down when its probability of contact exceeds `TRACKED_CONTACT`.


class StepModel(Protocol):
    """Step network (recurrent), which is run 60 times per second.

    The network maps inputs (1, INPUTS) float32 and its state to outputs (1, OUTPUTS) float32 and its new state.
    """

    @property
    def layout(self) -> str: ...

    def nothing(self) -> F32 | None: ...

    def step(self, inputs: F32, remembered: F32 | None, tick: bool) -> tuple[F32, F32 | None]: ...


@dataclass(frozen=True)
class StepSettings(Settings):
    steps: bool = setting(True, "If true, the user's feet are estimated from headset and controllers.", live=False)
    steps_model: str = setting(
        "", "ONNX file of the step network, by default the network that comes with mm_ros.", live=False
    )
    touchdown_threshold: float = setting(
        0.5, "Probability of standing above which the touchdown of a lifted foot is reported; with larger values "
        "touchdowns are reported later, and more touchdowns are missed.", "", 0.05, 0.95
    )


@dataclass
class StepEstimate:
    """Feet of the user, and the predicted motion of the hips after 0.33, 0.67 and 1 s (`AHEAD_S`)."""

    feet: FeetEstimate
    shifts: F64  # (3, 2) predicted displacements of the hips from now on, in room axes [m]
    shift_sigma: F64  # (3,) expected errors of `shifts` [m]
    yaws: F64  # (3,) predicted facings in room axes [rad]
    yaw_sigma: F64  # (3,) expected errors of `yaws` [rad]


def standing_probability(out: F64, foot: int) -> float:
    """Compute the probability that a foot stands from the outputs `out` (OUTPUTS,) of the step network.

    The log odds of the returned probability are the mean of two network outputs: that the foot stands, and that it does
    not move. Touchdowns detected from the returned probability have an F1 score of 0.72 on people who were left out of
    the training; the network's own touchdown output has 0.54 (benchmarks/2026-11-steps.md).
    """
    odds = 0.5 * float(out[foot * so.FEET + so.CONTACT] - out[foot * so.FEET + so.MOVES])
    return 1.0 / (1.0 + math.exp(-min(max(odds, -50.0), 50.0)))


class Touchdowns:
    """Detect the touchdowns of both feet from the probability that each foot stands."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self._lifted = [False, False]
        self._landed_ns = [-(10**12), -(10**12)]

    def lands(self, foot: int, p: float, now_ns: int) -> bool:
        """Return whether the foot touches down now, judged by the probability `p` that the foot stands."""
        if p < RELEASED * self.threshold:
            self._lifted[foot] = True
        if p < self.threshold or not self._lifted[foot]:
            return False
        self._lifted[foot] = False
        if now_ns - self._landed_ns[foot] < REFRACTORY_S * 1e9:
            return False
        self._landed_ns[foot] = now_ns
        return True


class StepStage:
    """Stage that estimates the user's feet frame by frame, and gives no estimate without a step network `model`."""

    def __init__(self, settings: StepSettings, calibration: Calibration, model: StepModel | None) -> None:
        self.settings, self.calibration, self.model = settings, calibration, model
        self._timeline = Timeline(gap_s=GAP_S)
        self._last, self._now, self._at = np.zeros(si.CHANNELS), np.zeros(si.CHANNELS), np.zeros(si.CHANNELS)
        self._inputs = np.zeros(si.INPUTS)
        self._row = np.zeros((1, si.INPUTS), np.float32)
        self._camera, self._trackers = CameraFeet(), FootTrackers()
        self.reset()

    def reset(self) -> None:
        self._timeline.reset()
        self._clear()

    def _clear(self) -> None:
        self._memory = si.new_memory()
        self._state = self.model.nothing() if self.model else None
        self._first_ns = self._ticks = 0
        self._stamp_ns: int | None = None
        self._out: F64 | None = None
        self._touchdowns = Touchdowns(self.settings.touchdown_threshold)
        # (2, 3) smoothed positions of both ankles at the last frame, before foot trackers corrected them
        self._places: F64 | None = None
        self._rates, self._halflives = np.zeros((2, 3)), np.full(2, FOLLOW_HALFLIFE_S)  # arguments of `settle`
        self._camera.clear()
        self._trackers.clear()
        self._tracked_touchdowns = Touchdowns(TRACKED_CONTACT)

    def watch(self, landmarks: Landmarks) -> None:
        """Add the landmarks of one camera image, by which the next call of `step` corrects the feet."""
        self._camera.watch(landmarks)

    def step(self, frame: TrackerFrame, facing: BodyOrientation | None = None) -> StepEstimate | None:
        """Return the estimate of the user's feet for one tracker frame.

        Without a network, while the headset is lost, and for a late or duplicate frame, `step` returns None. The
        landmarks of a camera correct the feet only if the user's `facing` is given.
        """
        if self.model is None or frame.state[HEAD_ROLE] == LOST:
            return None
        check_trackers(frame, (HEAD_ROLE, LEFT_HAND_ROLE, RIGHT_HAND_ROLE))
        verdict, dt = self._timeline.judge(frame.stamp_ns, frame.epoch, frame.new_from_old)
        if verdict == DROP:
            return None
        if verdict not in (ADVANCE, CARRY):
            self._clear()
        elif not is_identity(frame.new_from_old):
            self._carry(frame.new_from_old)
        si.channels_of(frame.positions, frame.rotations, frame.state, self._last, self._now)
        landed = self._advance(frame.stamp_ns)
        self._last[:] = self._now
        self._stamp_ns = frame.stamp_ns
        return self._made(frame, facing, landed, dt)

    def _carry(self, new_from_old: F64) -> None:
        yaw = float(rot.yaw_of(new_from_old[3:]))
        x, y, z = (float(v) for v in new_from_old[:3])
        si.carry_channels(self._last, x, y, z, yaw)
        si.carry_channels(self._at, x, y, z, yaw)
        if self._places is not None:
            self._places = rot.rotate(new_from_old[3:], self._places) + new_from_old[:3]
            self._rates[:] = rot.rotate(new_from_old[3:], self._rates)
        self._trackers.carry(new_from_old[3:])
        si.carry_memory(self._memory, x, y, z, yaw, self.calibration.head_height)

    def _advance(self, stamp_ns: int) -> list[bool]:
        """Run the step network up to `stamp_ns`, and return whether each foot touched down since the last call."""
        assert self.model is not None
        landed = [False, False]
        if self._stamp_ns is None:
            self._first_ns, self._last[:] = stamp_ns, self._now
            self._stamp_ns = stamp_ns
        self._touchdowns.threshold = self.settings.touchdown_threshold
        while (due := self._first_ns + round(self._ticks * 1e9 * si.TICK_S)) <= stamp_ns:
            span = stamp_ns - self._stamp_ns
            share = (due - self._stamp_ns) / span if span > 0 else 1.0
            self._at[:] = self._last + share * (self._now - self._last)
            si.inputs_step(self._at, self.calibration.head_height, self._memory, self._inputs)
            self._row[0] = self._inputs
            out, self._state = self.model.step(self._row, self._state, True)
            self._out = out[0].astype(np.float64)
            self._tick_ns = due
            self._ticks += 1
            for foot in range(2):
                landed[foot] |= self._touchdowns.lands(foot, standing_probability(self._out, foot), due)
        return landed

    def _made(self, frame: TrackerFrame, facing: BodyOrientation | None, landed: list[bool], dt: float) -> StepEstimate:
        assert self._out is not None
        age = (frame.stamp_ns - self._tick_ns) * 1e-9
        numbers, ahead = np.empty((2, 10)), np.empty((len(so.AHEAD_S), 5))
        in_room(self._out, self._at, self.calibration.head_height, age, numbers, ahead)
        if facing is not None:
            self._camera.correct(frame.stamp_ns, numbers, float(facing.yaw))
        if self._places is None:
            self._places = numbers[:, 3:6].copy()
        settle(self._places, self._rates, self._halflives, numbers, dt)
        numbers[:, 1] = landed
        feet = FeetEstimate(numbers)
        self._trackers.correct(frame, self.calibration, feet, dt)
        for foot in range(2):
            touches = self._tracked_touchdowns.lands(foot, float(feet.contact[foot]), frame.stamp_ns)
            if self._trackers.shares[foot] > 0.5:
                numbers[foot, 1] = touches
        return StepEstimate(feet, ahead[:, :2], ahead[:, 2], ahead[:, 3], ahead[:, 4])

    def warm_up(self, frame: TrackerFrame) -> None:
        self.step(frame)
        self.reset()


@njit
def settle(places: F64, rates: F64, halflives: F64, feet: F64, dt: float) -> None:
    """Smooth the ankles in `feet` (2, 10) in place.

    The position of a foot is integrated from its estimated velocity and corrected by a critically damped spring toward
    its estimated position. `places` (2, 3) are the smoothed ankles of the last frame [m], `rates` (2, 3) the velocities
    of the springs, and `halflives` (2,) their half-lives [s], which grow while a foot stands, as it does not move.
    """
    for foot in range(2):
        moves = feet[foot, 2]
        u = min(max((moves - 0.3) / 0.4, 0.0), 1.0)
        u = u * u * (3.0 - 2.0 * u)
        longest = STANDING_HALFLIFE_S + u * (FOLLOW_HALFLIFE_S - STANDING_HALFLIFE_S)
        halflives[foot] = min(halflives[foot] + HALFLIFE_GROWTH * dt, longest)
        for i in range(3):
            feet[foot, 6 + i] *= u
            behind = places[foot, i] + feet[foot, 6 + i] * dt - feet[foot, 3 + i]
            behind, rates[foot, i] = decay(behind, rates[foot, i], halflives[foot], dt)
            feet[foot, 3 + i] += behind
            places[foot, i] = feet[foot, 3 + i]


@njit
def in_room(out: F64, at: F64, height: float, age: float, feet: F64, ahead: F64) -> None:
    """Convert the outputs `out` (OUTPUTS,) of the step network to room coordinates, and write them to `feet` and
    `ahead`.

    The network computed `out` in its last run, `age` seconds ago, from the tracker data `at` (channels). `feet` (2, 10)
    has the layout of `FeetEstimate.numbers`. Each row of `ahead` (3, 5) contains the predicted shift of the hips (x,
    y), the expected error of this shift, the predicted yaw, and the expected error of the yaw.
    """
    c, s = math.cos(at[3]), math.sin(at[3])
    for foot in range(2):
        o = out[foot * 11 : foot * 11 + 11]
        moves = 1.0 / (1.0 + math.exp(-min(max(o[0], -50.0), 50.0)))
        feet[foot, 0] = 1.0 / (1.0 + math.exp(-min(max(o[1], -50.0), 50.0)))
        feet[foot, 1] = 0.0
        feet[foot, 2] = moves
        vx, vy, vz = o[6] * height, o[7] * height, o[8] * height
        feet[foot, 6], feet[foot, 7], feet[foot, 8] = c * vx - s * vy, s * vx + c * vy, vz
        x, y = o[3] * height, o[4] * height
        shift = moves * age
        feet[foot, 3] = at[0] + c * x - s * y + shift * feet[foot, 6]
        feet[foot, 4] = at[1] + s * x + c * y + shift * feet[foot, 7]
        feet[foot, 5] = max(o[5] * height + shift * vz, 0.0)
        feet[foot, 9] = math.exp(min(max(o[9], -4.6), 0.7)) * height
    for k in range(ahead.shape[0]):
        o = out[22 + 6 * k : 28 + 6 * k]
        ahead[k, 0], ahead[k, 1] = (c * o[0] - s * o[1]) * height, (s * o[0] + c * o[1]) * height
        ahead[k, 2] = math.exp(min(max(o[4], -4.6), 0.7)) * height
        ahead[k, 3] = at[3] + math.atan2(o[3], o[2])
        ahead[k, 4] = math.exp(min(max(o[5], -4.6), 0.7))
