"""Returns the user's true feet, to measure the avatar as if the feet were estimated without error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mm_ros.body.skeleton import LEFT_FOOT, RIGHT_FOOT
from mm_ros.body.types import BodyOrientation, FeetEstimate, TrackerFrame
from mm_ros.evaluation.footfalls import feet_of
from mm_ros.evaluation.measure import DT, Truth
from mm_ros.motion.contacts import central_difference
from mm_ros.steps.estimator import StepEstimate, StepStage

SIGMA_M = 0.01  # standard deviation that is stated for the true ankle positions [m]


class TrueFeetStage(StepStage):
    """Stage that returns the user's true feet instead of estimated ones, but still predicts the path of the hips."""

    def __init__(self, stage: StepStage, truth: Truth, first_ns: int) -> None:
        super().__init__(stage.settings, stage.calibration, stage.model)
        self._began_ns = first_ns
        ankles = truth.positions[:, [LEFT_FOOT, RIGHT_FOOT]]
        velocities = central_difference(ankles, 1 / DT)
        feet = feet_of(ankles, DT)
        moves = 1.0 - feet.still if feet.still is not None else np.zeros(ankles.shape[:2])
        touchdown = np.zeros((len(ankles), 2))
        for side, times in enumerate(feet.landings or ()):
            touchdown[np.clip(np.round(times / DT).astype(int), 0, len(ankles) - 1), side] = 1.0
        columns = (1.0 - moves)[..., None], touchdown[..., None], moves[..., None], ankles, velocities
        self._numbers = np.concatenate([*columns, np.full((len(ankles), 2, 1), SIGMA_M)], axis=2)
        self._shown = -1  # index of the last used frame with true poses

    def step(self, frame: TrackerFrame, facing: BodyOrientation | None = None) -> StepEstimate | None:
        estimate = super().step(frame, facing)
        if estimate is None:
            return None
        at = min(max(round((frame.stamp_ns - self._began_ns) * 1e-9 / DT), 0), len(self._numbers) - 1)
        numbers = self._numbers[at].copy()
        numbers[:, 1] = self._numbers[min(self._shown + 1, at) : at + 1, :, 1].max(axis=0) if at > self._shown else 0.0
        self._shown = at
        return replace(estimate, feet=FeetEstimate(numbers))
