"""Converts the poses of any controller into hand poses of the convention `wrist` (`hand_poses.py`), fitted to the user.

Each sample compares the controller with the forearm of a model of the arm (`body/arm.py`), which follows from the
positions of head and hand. If the source does not state its convention, the comparison selects the convention with
which the wrists bend least. People hold controllers differently, so the comparison also refines the rotation between
controller and hand. The refined direction of the fingers is a weighted mean of the direction that the convention
assumes and of the mean direction of the forearm in device axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mm_ros.base.settings import Settings, setting
from mm_ros.body.arm import FOREARM, SHOULDER_ASIDE, UPPER_ARM, forearm_of, shoulder_of
from mm_ros.body.timeline import ADVANCE, DROP, Timeline
from mm_ros.body.types import F64, HEAD_ROLE, LEFT_HAND_ROLE, LOST, TRACKED, TrackerFrame
from mm_ros.maths import quat
from mm_ros.maths.quat import Quat, Vec
from mm_ros.maths.springs import damping_share
from mm_ros.tracking.grip import GripOffset
from mm_ros.tracking.hand_poses import ESTIMATED, HAND_POSES, hand_in_device, hand_pose

HEAD_JOINT: Vec = (-0.10, 0.0, -0.08)  # m, in headset axes
PALM = 0.08  # distance of the middle of the palm from the wrist [m]
TORSO_HALFLIFE_S = 0.3  # half-life with which the assumed yaw of the torso follows the yaw of the headset
SAMPLE_S = 0.03  # minimum time between two samples to which the rotation of a hand is fitted
TURNED_RAD, WAITED_S = 0.15, 0.5  # turn of the controller [rad], or time [s], after which the next sample is taken
NEUTRAL_TWIST = 0.27  # mean twist of the hand relative to the forearm of the arm model in the CMU database [rad]
PLAUSIBLE_RAD = 0.8  # angle between hand and forearm [rad] above which the cost of a hand convention grows only slowly
# maximum arm length as a share of the head joint's height; the cost of a hand that is BEYOND_M [m] farther is 0.5
LONGEST_ARM, BEYOND_M = 0.365, 0.08
# additional cost per sample of the conventions of hand poses that are rare in recordings
RARE = {"openxr_palm": 0.1, "openxr_aim": 0.04, "wrist": 0.08}
UNSURE = 0.1  # the estimated hand convention is sure if its cost per sample is lower than all others by this
FEW = 6.0  # an estimated hand convention is reported only after this number of samples
LOST_DECISION = 1.5  # A reported convention is replaced if another one's total cost is lower by this.
LONG = 400.0  # number of samples over which the direction of the fingers is averaged
PRIOR, PRIOR_OF_FIT = 8.0, 60.0  # weights of the assumed and of the stored finger direction, as numbers of samples
FEWEST_OFFSET = 20.0  # minimum number of samples before the fitted position of the palm is reported and stored
FURTHEST = math.radians(60.0)  # maximum angle between the fitted finger direction and that of the convention
TURN_HALFLIFE_S = 0.5  # half-life with which the applied rotation of a hand follows the fitted one [s]
OFFSET_HALFLIFE_S = 1.0  # half-life with which the applied position of the palm follows the fitted one [s]
# The user holds the controllers in the wrong hands if the left one is to the right of the right one by EXCHANGED_M [m]
# for EXCHANGED_S [s], which is detected only in the first WATCHED_S [s] after a start.
EXCHANGED_M, EXCHANGED_S, WATCHED_S = 0.10, 0.25, 1.0


@dataclass(frozen=True)
class HandSettings(Settings):
    hand_pose: str = setting(
        "declared", "Convention of hand poses in which the source states the poses of controllers. If `hand_pose` is "
        "`declared` and the source does not state its convention, the convention is estimated.",
        choices=("declared", ESTIMATED, *HAND_POSES), live=False,
    )  # fmt: skip
    fit_hands: bool = setting(
        True, "If true, the rotation between each controller and the hand is fitted to the motion of the user."
    )


Vectors = list[list[float] | None]  # vectors for the left and for the right controller; None: the vector is not known


@dataclass(frozen=True)
class FittedHands:
    """Directions of the fingers and positions of the palms of a user, in the axes of the left and the right controller.

    `fingers` are the directions of the fingers of the left and the right hand. `offsets` are the vectors from the palm
    that the convention assumes to the palm of the user [m].
    """

    fingers: Vectors
    offsets: Vectors = field(default_factory=lambda: [None, None])


@dataclass(frozen=True)
class HandFit:
    """How the user holds one controller, fitted to the motion of the user; all angles are in degrees."""

    fingers: Vec  # direction of the fingers in the controller's axes
    samples: float
    offset: Vec  # vector from the palm that the convention assumes to the palm of the user, in device axes [m]
    offset_samples: float
    bend_before: float  # median angle between hand and forearm before the fit [deg]
    bend_after: float


def headset_yaw(q: Quat) -> float | None:
    """Return the yaw of a headset [rad], or None if its yaw is not defined. If the headset looks steeply down, the yaw
    is computed from its up axis."""
    ahead, up = quat.rotate(q, (1.0, 0.0, 0.0)), quat.rotate(q, (0.0, 0.0, 1.0))
    x, y = ahead[0] - ahead[2] * up[0], ahead[1] - ahead[2] * up[1]
    return None if math.hypot(x, y) < 1e-3 else math.atan2(y, x)


class _Hand:
    def __init__(self, side: int) -> None:
        self.side = side
        self.forearms: list[Vec] = []
        self.weights: list[float] = []
        self.last: Quat | None = None
        self.last_s = -math.inf
        self.costs = dict.fromkeys(HAND_POSES, 0.0)
        self.stored: Vec | None = None
        self.fingers: Vec | None = None  # fitted direction of the fingers in the controller's axes
        self.turn: Quat | None = None  # applied rotation from the controller to the hand
        self.grip = GripOffset()
        # vector from the palm that the convention assumes to the fitted palm, in device axes [m]
        self.offset: Vec = (0.0, 0.0, 0.0)
        self.applied: Vec = (0.0, 0.0, 0.0)  # applied vector from the palm of the convention to the user's palm [m]

    def due(self, q: Quat, now_s: float) -> bool:
        waited = now_s - self.last_s
        if self.last is None or waited > WAITED_S:
            return True
        return waited > SAMPLE_S and quat.angle_of(quat.mul_inv(q, self.last)) > TURNED_RAD


class HandStage:
    """Converts the poses of the controllers in filtered frames to hand poses, in place."""

    def __init__(self, settings: HandSettings = HandSettings(), declared: str = "wrist") -> None:
        self.settings = settings
        name = settings.hand_pose if settings.hand_pose != "declared" else declared
        self.estimating = name in ("", ESTIMATED)
        self.convention = "steamvr_raw" if self.estimating else hand_pose(name).name
        self.exchanged = False
        self.height = 1.6  # height of the user's head joint when standing [m]
        self.arm_span = 0.0  # arm span of the user [m]; 0 if the arm span has not been measured
        self.grips_given = False
        self._begin()

    def _begin(self) -> None:
        self._hands = (_Hand(0), _Hand(1))
        self._yaw: float | None = None
        self._timeline = Timeline()
        self._wrong_s = self._both_s = 0.0

    def start_from(self, trial: HandStage) -> None:
        """Copy the convention of hand poses and the fitted directions of the fingers from another `HandStage`."""
        self.convention = trial.convention
        for hand, known in zip(self._hands, trial._hands, strict=True):
            hand.costs, hand.forearms, hand.weights = dict(known.costs), known.forearms, known.weights
            hand.fingers = known.fingers

    def forget_motion(self) -> None:
        """Forget the controllers' motion, so that a swap between the hands is detected again; keep the hands' fit."""
        self._yaw, self._wrong_s, self._both_s = None, 0.0, 0.0
        for hand in self._hands:
            hand.grip.forget_motion()

    @property
    def samples(self) -> float:
        return float(sum(sum(h.weights) for h in self._hands))

    def known(self) -> bool:
        """Return true if the convention is declared, or has been estimated from enough samples."""
        return not self.estimating or self.samples >= FEW

    def step(self, frame: TrackerFrame) -> TrackerFrame:
        verdict, dt = self._timeline.judge(frame.stamp_ns, frame.epoch, frame.new_from_old)
        if verdict not in (ADVANCE, DROP):
            self.forget_motion()
        if frame.state[HEAD_ROLE] != LOST:
            self._follow_head(frame, dt)
            self._watch_sides(frame, dt)
        if self.exchanged:
            _exchange(frame)
        if self.convention == "wrist" and not self.estimating and not self.fits:
            return frame
        for hand in self._hands:
            role = LEFT_HAND_ROLE + hand.side
            if frame.state[role] == TRACKED and frame.state[HEAD_ROLE] == TRACKED and self._yaw is not None:
                self._sample(frame, hand)
                self._find_axis(frame, hand)
            self._apply(frame, hand, dt)
        return frame

    @property
    def fits(self) -> bool:
        """True if the rotation between controller and hand is fitted to the user (`fit_hands`). Simulated hands
        (convention `wrist`) hold no controller, so no rotation is fitted to them.
        """
        return self.settings.fit_hands and self.convention != "wrist"

    def _follow_head(self, frame: TrackerFrame, dt: float) -> None:
        q = quat.get4(frame.rotations, HEAD_ROLE)
        yaw = headset_yaw(q)
        if yaw is None:
            return
        if self._yaw is None:
            self._yaw = yaw
        self._yaw += damping_share(TORSO_HALFLIFE_S, dt) * float(quat.wrap(yaw - self._yaw))
        self._head = quat.add(quat.get3(frame.positions, HEAD_ROLE), quat.rotate(q, HEAD_JOINT))

    # ---- exchanged controllers

    def _watch_sides(self, frame: TrackerFrame, dt: float) -> None:
        """Detect in the first second whether the user holds the controllers in the wrong hands.

        While the controllers seem to be in the wrong hands, both hands are LOST, so that no later stage uses hands on
        the wrong sides.
        """
        hands = [LEFT_HAND_ROLE, LEFT_HAND_ROLE + 1]
        if self._both_s > WATCHED_S or self._yaw is None or (frame.state[hands] != TRACKED).any():
            return
        self._both_s += dt
        apart = (frame.positions[hands[0]] - frame.positions[hands[1]])[:2]
        left = float(apart @ (-math.sin(self._yaw), math.cos(self._yaw)))
        wrong = left > EXCHANGED_M if self.exchanged else left < -EXCHANGED_M
        self._wrong_s = self._wrong_s + dt if wrong else 0.0
        if not wrong:
            return
        if self._wrong_s < EXCHANGED_S:
            frame.state[hands] = LOST
        else:
            self.exchanged, self._wrong_s = not self.exchanged, 0.0

    # ---- fit

    def _sample(self, frame: TrackerFrame, hand: _Hand) -> None:
        role, now_s = LEFT_HAND_ROLE + hand.side, frame.stamp_ns * 1e-9
        q = quat.get4(frame.rotations, role)
        if not (self.estimating or self.fits) or not hand.due(q, now_s):
            return
        hand.last, hand.last_s = q, now_s
        assert self._yaw is not None
        shoulder = shoulder_of(self._head, self._yaw, self.height, hand.side)
        palm = quat.add(
            quat.get3(frame.positions, role), quat.rotate(q, hand_in_device(self.convention, hand.side)[:3])
        )
        wrist = quat.add(palm, quat.scale(quat.unit(quat.sub(shoulder, palm), (0.0, 0.0, 1.0)), PALM))
        forearm, extension = forearm_of(shoulder, wrist, self._yaw, self._arm(), hand.side)
        # A sample with a strongly bent arm has a small weight, because its forearm direction is inexact.
        weight = min(max((extension - 0.5) / 0.4, 0.05), 1.0)
        along = quat.rotate(forearm, (0.0, 1.0 - 2.0 * hand.side, 0.0))
        hand.forearms.append(quat.unrotate(q, along))
        hand.weights.append(weight)
        if len(hand.weights) > LONG:
            del hand.forearms[0], hand.weights[0]
        if self.estimating:
            self._compare(hand, frame, shoulder, forearm, weight)
        hand.fingers = self._fitted(hand)

    def _find_axis(self, frame: TrackerFrame, hand: _Hand) -> None:
        if self.grips_given:
            hand.offset = (0.0, 0.0, 0.0)
        if not self.fits or self.grips_given or hand.fingers is None or not self.known():
            return
        role = LEFT_HAND_ROLE + hand.side
        q = quat.get4(frame.rotations, role)
        given = hand_in_device(self.convention, hand.side)
        palm = quat.add(quat.get3(frame.positions, role), quat.rotate(q, (given[0], given[1], given[2])))
        turn = quat.get3(frame.angular_velocities, role)
        if hand.grip.add(frame.stamp_ns * 1e-9, palm, q, turn, hand.fingers, PALM):
            hand.offset = hand.grip.offset(hand.fingers, PALM)

    def _arm(self) -> float:
        if self.arm_span <= 0.0:
            return (UPPER_ARM + FOREARM) * self.height
        return max(self.arm_span / 2 - PALM - SHOULDER_ASIDE * self.height, 0.2 * self.height)

    def measure(self, height: float, arm_span: float, grips_given: bool = False) -> None:
        """Set the height of the head joint of the standing user, and the arm span between the palms [m].

        If `grips_given` is true, the user has set the place of the palm in the hand, so no offset is fitted.
        """
        self.height, self.arm_span, self.grips_given = height, arm_span, grips_given

    def _compare(self, hand: _Hand, frame: TrackerFrame, shoulder: Vec, forearm: Quat, weight: float) -> None:
        """Add the costs of one sample to the totals of all conventions. A cost is larger if the hand is not aligned
        with the forearm, and if the palm is out of reach of the arm."""
        role = LEFT_HAND_ROLE + hand.side
        p, q = quat.get3(frame.positions, role), quat.get4(frame.rotations, role)
        neutral = quat.mul(forearm, quat.about((0.0, 1.0, 0.0), NEUTRAL_TWIST))
        for name in hand.costs:
            given = hand_in_device(name, hand.side)
            turned = quat.mul(q, (given[3], given[4], given[5], given[6]))
            palm = quat.add(p, quat.rotate(q, (given[0], given[1], given[2])))
            beyond = quat.norm(quat.sub(palm, shoulder)) - PALM - LONGEST_ARM * self.height
            a = (quat.angle_of(quat.inv_mul(neutral, turned)) / PLAUSIBLE_RAD) ** 2
            a += (max(beyond, 0.0) / BEYOND_M) ** 2
            hand.costs[name] = 0.998 * hand.costs[name] + weight * (a / (1.0 + a) + RARE.get(name, 0.0))
        costs = self.costs()
        best = min(costs, key=lambda name: costs[name])
        if costs[best] < costs[self.convention] - (LOST_DECISION if self.known() else 0.0):
            self.convention = best

    def costs(self) -> dict[str, float]:
        """Return the total cost of each convention of hand poses, summed over both hands."""
        return {name: self._hands[0].costs[name] + self._hands[1].costs[name] for name in HAND_POSES}

    def _fitted(self, hand: _Hand) -> Vec:
        assumed = self._assumed(hand)
        d, w = np.array(hand.forearms), np.array(hand.weights)
        prior = PRIOR * np.array(assumed) if hand.stored is None else PRIOR_OF_FIT * np.array(hand.stored)
        mean = prior + w @ d
        for _ in range(2):  # Samples whose forearm direction is far from the mean get less weight.
            unit = mean / max(float(np.linalg.norm(mean)), 1e-9)
            off = 1.0 - d @ unit
            mean = prior + (w / (1.0 + (off / 0.2) ** 2)) @ d
        unit = mean / max(float(np.linalg.norm(mean)), 1e-9)
        swing = quat.between(assumed, tuple(unit.tolist()))
        angle = quat.angle_of(swing)
        if angle > FURTHEST:
            swing = quat.share(swing, FURTHEST / angle)
        fitted: Vec = quat.rotate(swing, assumed)
        return fitted

    def _assumed(self, hand: _Hand) -> Vec:
        turn = tuple(hand_in_device(self.convention, hand.side)[3:].tolist())
        fingers: Vec = quat.rotate(turn, (0.0, 1.0 - 2.0 * hand.side, 0.0))
        return fingers

    def _apply(self, frame: TrackerFrame, hand: _Hand, dt: float) -> None:
        role = LEFT_HAND_ROLE + hand.side
        if frame.state[role] == LOST and hand.turn is None:
            return
        given = hand_in_device(self.convention, hand.side)
        goal: Quat = tuple(given[3:].tolist())
        if self.fits and hand.fingers is not None:
            goal = quat.mul(quat.between(self._assumed(hand), hand.fingers), goal)
        if hand.turn is None or (self.estimating and not self.known()):
            hand.turn = goal
        hand.turn = quat.normalize(quat.slerp(hand.turn, goal, damping_share(TURN_HALFLIFE_S, dt)))
        q = quat.get4(frame.rotations, role)
        share = damping_share(OFFSET_HALFLIFE_S, dt)
        hand.applied = quat.mix(hand.applied, hand.offset, share)
        palm = quat.rotate(q, quat.add((given[0], given[1], given[2]), hand.applied))
        spin = quat.cross(quat.get3(frame.angular_velocities, role), palm)
        quat.put3(frame.positions, role, quat.add(quat.get3(frame.positions, role), palm))
        quat.put3(frame.velocities, role, quat.add(quat.get3(frame.velocities, role), spin))
        quat.put4(frame.rotations, role, quat.normalize(quat.mul(q, hand.turn)))

    # ---- report

    def fit(self, side: int) -> HandFit | None:
        """Return how the user holds the controller of one hand, or None if the hand has no samples."""
        hand = self._hands[side]
        if not hand.weights or hand.fingers is None:
            return None
        d, before, after = np.array(hand.forearms), np.array(self._assumed(hand)), np.array(hand.fingers)
        bends = [float(np.degrees(np.median(np.arccos(np.clip(d @ f, -1, 1))))) for f in (before, after)]
        return HandFit(hand.fingers, float(sum(hand.weights)), hand.offset, hand.grip.samples, bends[0], bends[1])

    def report(self) -> str:
        """Return a sentence for the user about the convention of the hand poses and the fit of the hands."""
        parts = []
        if self.estimating:
            costs = self.costs()
            mine = hand_in_device(self.convention, 0)[3:]
            others = [n for n in costs if _degrees(hand_in_device(n, 0)[3:], mine) > 40.0]
            second = min(others, key=lambda n: costs[n])
            n = max(self.samples, 1e-9)
            unsure = costs[second] - costs[self.convention] < UNSURE * n
            parts.append(
                f"hand poses look like {self.convention}{', unsure' if unsure else ''} "
                f"(misfit {costs[self.convention] / n:.2f}, "
                f"{second} {costs[second] / n:.2f}, from {len(self._hands[0].weights) + len(self._hands[1].weights)} "
                "samples)"
            )
        else:
            parts.append(f"hand poses are {self.convention}")
        for side, name in enumerate(("left", "right")):
            fit = self.fit(side)
            if self.fits and fit is not None:
                parts.append(
                    f"{name} wrist bends {fit.bend_before:.0f}° before the fit and {fit.bend_after:.0f}° after"
                    + _offset_in_words(fit)
                )
        if self.grips_given and self.fits:
            parts.append("the position of the palm in the hand is the one that was set")
        if self.exchanged:
            parts.append("the controllers are exchanged: left and right are swapped back")
        return "; ".join(parts)

    def fitted(self) -> FittedHands:
        """Return the fitted directions of the fingers and offsets of the palms, to be stored."""

        def numbers(v: Vec | None) -> list[float] | None:
            return None if v is None else [round(float(x), 4) for x in v]

        sure = [h.offset if h.grip.samples >= FEWEST_OFFSET or h.grip.stored else None for h in self._hands]
        return FittedHands([numbers(h.fingers) for h in self._hands], [numbers(v) for v in sure])

    def restore(self, fitted: FittedHands) -> None:
        """Start from a fit of the hands that was stored in an earlier session."""
        for hand, fingers, offset in zip(self._hands, fitted.fingers, fitted.offsets, strict=True):
            if fingers is not None:
                hand.stored = hand.fingers = (fingers[0], fingers[1], fingers[2])
            if offset is not None:
                hand.grip.stored = hand.offset = hand.applied = (offset[0], offset[1], offset[2])


def _offset_in_words(fit: HandFit) -> str:
    if fit.offset_samples < FEWEST_OFFSET and not any(fit.offset):
        return ""
    return f", palm {100 * quat.norm(fit.offset):.1f} cm beside that of the convention"


def _degrees(a: F64, b: F64) -> float:
    return math.degrees(quat.angle_of(quat.inv_mul(tuple(a.tolist()), tuple(b.tolist()))))


def _exchange(frame: TrackerFrame) -> None:
    rows, other = [LEFT_HAND_ROLE, LEFT_HAND_ROLE + 1], [LEFT_HAND_ROLE + 1, LEFT_HAND_ROLE]
    for a in (
        frame.positions,
        frame.rotations,
        frame.velocities,
        frame.angular_velocities,
        frame.state,
        frame.sampled_ns,
    ):
        a[rows] = a[other]


def converted(frames: list[TrackerFrame], stage: HandStage) -> list[TrackerFrame]:
    """Convert recorded frames. If the hand convention is not declared, it is estimated from the first seconds and
    applied to all frames."""
    if stage.estimating and frames:
        trial = HandStage(stage.settings.with_values(hand_pose=ESTIMATED))
        trial.height = stage.height
        for frame in frames:
            if frame.stamp_ns - frames[0].stamp_ns > FIRST_NS:
                break
            trial.step(_copy(frame))
        stage.start_from(trial)
    return [stage.step(frame) for frame in frames]


FIRST_NS = 3_000_000_000


def _copy(frame: TrackerFrame) -> TrackerFrame:
    return TrackerFrame(
        frame.stamp_ns, frame.epoch, frame.positions.copy(), frame.rotations.copy(), frame.velocities.copy(),
        frame.angular_velocities.copy(), frame.state.copy(), frame.sampled_ns.copy(), frame.new_from_old.copy(),
    )  # fmt: skip


__all__ = ["HandFit", "HandSettings", "HandStage", "converted"]
