"""Stage that predicts the yaw of the pelvis, its rate and its standard deviation from headset and two controllers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import Settings, setting
from mm_ros.body.timeline import ADVANCE, CARRY, DROP, HOLD, RESET, Timeline, is_identity
from mm_ros.body.types import (
    F32,
    F64,
    HEAD_ROLE,
    LEFT_HAND_ROLE,
    LOST,
    RIGHT_HAND_ROLE,
    BodyOrientation,
    Calibration,
    TrackerFrame,
)
from mm_ros.facing import fitted
from mm_ros.facing import inputs as oi
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit
from mm_ros.tracking.check import check_trackers

PREDICTORS = ("network", "paper", "hmd_forward")


class FacingModel(Protocol):
    """Facing network: `step` computes outputs (1, K) from inputs (1, D); `layout` is a hash of the list of inputs.

    The method `nothing` returns the state with which a recurrent network starts. A recurrent network updates its state
    only at ticks, which are at least `tick_s` seconds apart.
    """

    @property
    def layout(self) -> str: ...

    @property
    def tick_s(self) -> float: ...

    def nothing(self) -> F32 | None: ...

    def step(self, inputs: F32, remembered: F32 | None, tick: bool) -> tuple[F32, F32 | None]: ...


@dataclass(frozen=True)
class OrientationSettings(Settings):
    predictor: str = setting(
        "network",
        "Predictor of the facing: the network of mm_ros, the network of the paper (Ponton 2022), or the direction of "
        "the headset.",
        choices=PREDICTORS, live=False,
    )
    model: str = setting(
        "", "ONNX file of the facing network; if empty, the network of the package is used.", live=False
    )
    paper_r: int = setting(
        50, "Number of unrolled steps in the training of the paper's network: 1 or 50.", low=1, high=50, live=False
    )
    halflife: float = setting(
        0.2, "Half-life of the difference between published and predicted facing. With a larger half-life the facing "
             "is smoother, but errors are corrected later.", "s", 0.0, 1.0
    )
    max_rate: float = setting(11.0, "Maximum turn rate of the published facing.", "rad/s", 1.0, 100.0)
    max_step: float = setting(0.16, "Maximum change of the published facing between two frames.", "rad", 0.01, 3.2)
    one_hand_limit: float = setting(
        0.12,
        "Maximum angle between facing and headset after one controller has been lost for some seconds.",
        "rad", 0.0, 3.2,
    )
    no_hand_limit: float = setting(
        0.04,
        "Maximum angle between facing and headset after both controllers have been lost for some seconds.",
        "rad", 0.0, 3.2,
    )
    hmd_sigma: float = setting(
        0.35, "Standard deviation of the facing that the predictors `paper` and `hmd_forward` report.", "rad", 0.01, 3.2
    )


UNKNOWN_SIGMA = 1.8  # standard deviation of the facing before the first prediction, and its maximum later [rad]


class OrientationStage:
    """Predicts the facing of the user from the trackers of each frame.

    The predictor `hmd_forward` needs no `model`. The predictors `network` and `paper` need a network that was trained
    for their input layout.
    """

    def __init__(
        self,
        settings: OrientationSettings | None = None,
        calibration: Calibration | None = None,
        model: FacingModel | None = None,
    ) -> None:
        self.settings = settings or OrientationSettings()
        self.calibration = calibration or Calibration()
        self.model = model
        _check_model(self.settings.predictor, model)
        self._inputs = np.zeros(oi.INPUTS)
        self._row = np.zeros((1, oi.INPUTS), np.float32)
        self._paper_inputs = np.zeros(oi.PAPER_INPUTS)
        self._paper_row = np.zeros((1, oi.PAPER_INPUTS), np.float32)
        self._timeline = Timeline()
        self._yaw: float | None = None
        self.reset()

    def reset(self, yaw: float | None = None) -> None:
        """Clear all state. If `yaw` [rad] is given, the facing in room axes starts at this value."""
        self._timeline.reset()
        self._clear()
        self._yaw = yaw

    def _clear(self) -> None:
        self._memory = oi.new_memory()
        # Snap turns do not clear `_state`, because the state of the network is in axes that turn with the headset.
        self._state = self.model.nothing() if self.model else None
        self._since_tick = math.inf
        self._lost = np.full(2, math.inf)  # time [s] since each hand was last tracked or extrapolated
        self._yaw = None
        self._rate = 0.0
        self._sigma = UNKNOWN_SIGMA

    def step(self, frame: TrackerFrame) -> BodyOrientation:
        check_trackers(frame, (HEAD_ROLE, LEFT_HAND_ROLE, RIGHT_HAND_ROLE))
        started = self._timeline.stamp_ns is not None
        verdict, dt = self._timeline.judge(frame.stamp_ns, frame.epoch, frame.new_from_old)
        if verdict == DROP:
            return self._result(frame)
        if verdict == RESET and started:
            self._clear()
        elif verdict in (ADVANCE, CARRY, HOLD) and not is_identity(frame.new_from_old):
            self._carry(frame.new_from_old)
        if frame.state[HEAD_ROLE] == LOST:
            return self._hold(frame, dt)
        target, rate, self._sigma = self._predict(frame, dt)
        self._follow(target, rate, dt)
        return self._result(frame)

    def _carry(self, new_from_old: F64) -> None:
        yaw = float(rot.yaw_of(new_from_old[3:]))
        oi.carry_memory(self._memory, yaw, float(new_from_old[2]) / self.calibration.head_height)
        if self._yaw is not None:
            self._yaw = float(rot.wrap_angle(self._yaw + yaw))

    def _predict(self, frame: TrackerFrame, dt: float) -> tuple[float, float, float]:
        c, s = oi.inputs_step(
            frame.positions, frame.rotations, frame.velocities, frame.angular_velocities, frame.state,
            self.calibration.head_height, dt, self._memory, self._inputs,
        )  # fmt: skip
        yaw = math.atan2(s, c)
        if self.settings.predictor == "network":
            lost_step(self._lost, frame.state, dt)
            return self._network(yaw, dt)
        if self.settings.predictor == "paper":
            return self._paper(frame, yaw), 0.0, self.settings.hmd_sigma
        return yaw, float(frame.angular_velocities[HEAD_ROLE, 2]), self.settings.hmd_sigma

    def _network(self, heading: float, dt: float) -> tuple[float, float, float]:
        assert self.model is not None
        self._row[0] = self._inputs
        self._since_tick += dt
        tick = self._since_tick >= self.model.tick_s
        out, self._state = self.model.step(self._row, self._state, tick)
        if tick:
            self._since_tick = 0.0
        sine, cosine, log_scale, rate = out[0].tolist()
        # The network predicts the scale b of a Laplace distribution, whose standard deviation is √2 b.
        sigma = min(math.sqrt(2) * math.exp(log_scale), UNKNOWN_SIGMA)
        limits = self.settings.one_hand_limit, self.settings.no_hand_limit
        relative = float(limited_belief(math.atan2(sine, cosine), self._lost, *limits))
        return heading + relative, rate, sigma

    def _paper(self, frame: TrackerFrame, heading: float) -> float:
        assert self.model is not None
        previous = 0.0 if self._yaw is None else self._yaw - heading
        oi.paper_inputs_step(
            frame.rotations, frame.velocities, frame.angular_velocities, frame.state,
            math.cos(heading), math.sin(heading), previous, self._paper_inputs,
        )  # fmt: skip
        self._paper_row[0] = self._paper_inputs
        out, _ = self.model.step(self._paper_row, None, True)
        x, y, *_ = out[0].tolist()
        return heading + math.atan2(y, x)

    def _follow(self, target: float, rate: float, dt: float) -> None:
        if self._yaw is None or self.settings.predictor != "network":
            before, self._yaw = self._yaw, float(rot.wrap_angle(target))
            self._rate = rate
            if self.settings.predictor == "paper":  # the network of the paper does not predict the turn rate
                self._rate = 0.0 if before is None or dt <= 0 else float(rot.wrap_angle(target - before)) / dt
            return
        if dt <= 0:  # the first frame after a gap keeps the facing from before the gap
            return
        s = self.settings
        step = follow_step(self._yaw, target, rate, dt, s.halflife, s.max_rate, s.max_step)
        self._yaw = float(rot.wrap_angle(self._yaw + step))
        self._rate = step / dt

    def _hold(self, frame: TrackerFrame, dt: float) -> BodyOrientation:
        self._rate = 0.0
        self._sigma = min(self._sigma + fitted.SIGMA_GROWTH_RATE * dt, UNKNOWN_SIGMA)
        return self._result(frame)

    def _result(self, frame: TrackerFrame) -> BodyOrientation:
        yaw = self.calibration.forward_yaw if self._yaw is None else self._yaw
        return BodyOrientation(frame.stamp_ns, frame.epoch, yaw, self._rate, self._sigma, self.settings.predictor)


@njit
def lost_step(lost: F64, state: NDArray[np.uint8], dt: float) -> None:
    for hand in range(2):
        lost[hand] = 0.0 if state[1 + hand] != LOST else lost[hand] + dt


@njit
def limited_belief(relative: float, lost: F64, one: float, none: float) -> float:
    """Limit the angle `relative` [rad] between facing and headset while hands are lost.

    Without hands, the network is less accurate than the direction of the headset for some people, but its memory of the
    hands is useful for some seconds after they are lost. The limit of the angle therefore starts at π and decreases
    with a half-life of one second, to `one` [rad] if one hand is lost, and to `none` [rad] if both hands are lost.
    """
    limit = min(
        one + (math.pi - one) * 0.5 ** max(lost[0], lost[1]), none + (math.pi - none) * 0.5 ** min(lost[0], lost[1])
    )
    inside: float = min(max(relative, -limit), limit)
    return inside


@njit
def believed_sequence(relative: F64, state: NDArray[np.uint8], dt: F64, one: float, none: float) -> F64:
    out, lost = np.empty(len(relative)), np.full(2, np.inf)
    for f in range(len(relative)):
        lost_step(lost, state[f], dt[f])
        out[f] = limited_belief(relative[f], lost, one, none)
    return out


@njit
def follow_step(
    yaw: float, target: float, rate: float, dt: float, halflife: float, max_rate: float, max_step: float
) -> float:
    """Return the change of the smoothed yaw in one frame [rad]: `rate` times `dt`, plus a share of the remaining error.

    Because of the predicted rate, the smoothed yaw does not lag behind turns as a plain low-pass filter would.
    """
    lead = rate * dt
    error = (target - yaw - lead + math.pi) % (2 * math.pi) - math.pi
    # A large error of the smoothed facing is corrected with a shorter half-life, because it is not noise.
    pull = dt * (1 + (error / fitted.QUICK_ERROR) ** 2)
    share = 1.0 - 0.5 ** (pull / halflife) if halflife > 0 else 1.0
    limit = min(max_rate * dt, max_step)
    return min(max(lead + share * error, -limit), limit)


@njit
def follow_sequence(targets: F64, rates: F64, dt: F64, halflife: float, max_rate: float, max_step: float) -> F64:
    """Smooth the predicted yaws `targets` (F,) of a whole clip by `follow_step`, beginning with the first target."""
    out = np.empty(len(targets))
    yaw = targets[0]
    out[0] = yaw
    for f in range(1, len(targets)):
        yaw += follow_step(yaw, targets[f], rates[f], dt[f], halflife, max_rate, max_step)
        out[f] = yaw
    return out


def _check_model(predictor: str, model: FacingModel | None) -> None:
    wanted = {"network": oi.layout_hash(), "paper": oi.paper_layout_hash()}.get(predictor)
    if wanted is None:
        return
    if model is None:
        raise MmRosError(
            f"predictor '{predictor}' needs a network, and none was given. "
            "mm_ros.facing.model_file.load_facing_model loads one; predictor 'hmd_forward' needs none."
        )
    if model.layout != wanted:
        raise MmRosError(
            f"predictor '{predictor}' expects a network of input layout {wanted}, but this network has layout "
            f"{model.layout}. Train it again with `mm_ros train orientation`."
        )


def heading(rotation: F64) -> float:
    """Return the yaw [rad] of a headset with the rotation (w, x, y, z), also if the headset points straight down."""
    c, s = oi.heading_of(np.asarray(rotation, np.float64), 1.0, 0.0)
    return math.atan2(s, c)


def warm_up() -> None:
    oi.warm_up()
    follow_step(0.0, 0.1, 0.0, 0.01, 0.04, 11.0, 0.16)
    lost = np.zeros(2)
    lost_step(lost, np.ones(6, np.uint8), 0.01)
    limited_belief(0.1, lost, 0.25, 0.17)
