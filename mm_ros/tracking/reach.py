"""Estimates the arm span of a user from the distances of the hands from the shoulders while the user moves.

The length of the arm is a weighted mean of three estimates: from the proportions of an adult, from the 95th percentile
of the distance between hand and shoulder, because people often stretch an arm almost fully, and from the distance
between the hands while the arms are spread, which is by far the most accurate.
"""

from __future__ import annotations

import math

import numpy as np

from mm_ros.body.arm import FOREARM, SHOULDER_ASIDE, UPPER_ARM, shoulder_of
from mm_ros.body.types import HEAD_ROLE, LEFT_HAND_ROLE, RIGHT_HAND_ROLE, TRACKED, TrackerFrame
from mm_ros.maths import quat
from mm_ros.maths.springs import damping_share
from mm_ros.tracking.hands import HEAD_JOINT, PALM, TORSO_HALFLIFE_S, headset_yaw

SAMPLE_S = 0.05  # time between two samples of the distance from shoulder to hand [s]
FEWEST = 40  # minimum number of samples of each hand from which the arm span is estimated
LONGEST_MEMORY = 2000
FEWEST_SPREAD = 8  # minimum number of samples with both arms spread before the span of spread arms is used
SPREAD = 0.85  # cosine of the maximum angle between a spread arm and the line through the shoulders
# usual length of an arm from shoulder to wrist, and its standard deviation in the CMU database, as shares of the height
# of the head joint
PRIOR, PRIOR_SIGMA = UPPER_ARM + FOREARM, 0.025
# errors of estimated arm lengths as shares of the head height: bias and standard deviation of the estimate from the
# distance between shoulder and hand, standard deviations of the estimates from a long and from a short arm span
REACH_BIAS, REACH_SIGMA, SPREAD_SIGMA, SHORT_SPREAD_SIGMA = 0.011, 0.03, 0.012, 0.05
LONGEST, SHORTEST = 0.42, 0.28  # limits of the length of an arm, as shares of the head joint's height


class ArmReach:
    """Collects the distances of both hands from the shoulders, whose position follows from the headset."""

    def __init__(self) -> None:
        self._yaw: float | None = None
        self._last_s = self._sampled_s = -math.inf
        self._reached: list[float] = []  # shoulder to palm, m
        self._spans: list[float] = []  # distances between the palms with spread arms [m]

    def step(self, frame: TrackerFrame, height: float) -> float | None:
        """Add a frame, and return the arm span between the palms [m], or None before there are enough samples.

        `height` is the height of the user's head joint when standing [m].
        """
        now_s = frame.stamp_ns * 1e-9
        hands = (LEFT_HAND_ROLE, RIGHT_HAND_ROLE)
        q = quat.get4(frame.rotations, HEAD_ROLE)
        yaw = headset_yaw(q)
        if yaw is None or any(frame.state[r] != TRACKED for r in (HEAD_ROLE, *hands)):
            return None
        dt = now_s - self._last_s
        if self._yaw is None or not 0.0 <= dt < 1.0:
            self._yaw, dt = yaw, 0.0
        self._last_s = now_s
        self._yaw += damping_share(TORSO_HALFLIFE_S, dt) * float(quat.wrap(yaw - self._yaw))
        if 0.0 <= now_s - self._sampled_s < SAMPLE_S:
            return None
        self._sampled_s = now_s
        head = quat.add(quat.get3(frame.positions, HEAD_ROLE), quat.rotate(q, HEAD_JOINT))
        left = (-math.sin(self._yaw), math.cos(self._yaw), 0.0)
        spread = True
        for side, role in enumerate(hands):
            line = quat.sub(quat.get3(frame.positions, role), shoulder_of(head, self._yaw, height, side))
            distance = quat.norm(line)
            self._reached.append(distance)
            spread = spread and quat.dot(line, left) * (1 - 2 * side) > SPREAD * distance
        if spread:
            self._spans.append(float(np.linalg.norm(frame.positions[hands[0]] - frame.positions[hands[1]])))
        del self._reached[:-LONGEST_MEMORY], self._spans[:-LONGEST_MEMORY]
        return self._span(height) if len(self._reached) >= 2 * FEWEST else None

    def _span(self, height: float) -> float:
        values, sigmas = [PRIOR], [PRIOR_SIGMA]
        # An arm length below the usual one is replaced by the usual one, because the arms were probably bent.
        values.append(max((float(np.percentile(self._reached, 95)) - PALM) / height - REACH_BIAS, PRIOR))
        sigmas.append(REACH_SIGMA)
        if len(self._spans) >= FEWEST_SPREAD:
            widest = float(np.percentile(self._spans, 90))
            values.append((widest / 2 - PALM) / height - SHOULDER_ASIDE)
            # A short arm span is less exact than a long one, because the arms may be slightly bent or not horizontal.
            sigmas.append(SPREAD_SIGMA if values[-1] > PRIOR else SHORT_SPREAD_SIGMA)
        weights = 1.0 / np.array(sigmas) ** 2
        arm = float(np.clip(weights @ np.array(values) / weights.sum(), SHORTEST, LONGEST))
        return 2.0 * (PALM + (arm + SHOULDER_ASIDE) * height)
