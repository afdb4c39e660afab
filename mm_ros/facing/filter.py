"""How far the network is off: a small filter on the circle that measurements of the facing correct.

Two states, each forgetting on its own (Ornstein–Uhlenbeck): `error` of the prediction, slow, and `bias` of the camera's
measurement, quicker. A measurement sees both together; which of the two a difference belongs to, their variances and
durations tell. Without measurements the error decays to nothing: the network alone again, without a jump.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mm_ros.maths.rotations import wrap_angle

OUTLIER = 1.5  # standard deviations; a difference counts as at most this much


@dataclass
class FacingFilter:
    error: float = 0.0  # rad, to be added to the prediction
    bias: float = 0.0
    p_ee: float = 0.1
    p_eb: float = 0.0
    p_bb: float = 0.01

    def predict(self, dt: float, sigma: float, lasts_s: float, bias_sigma: float, bias_lasts_s: float) -> None:
        a, b = math.exp(-dt / lasts_s), math.exp(-dt / bias_lasts_s)
        self.error *= a
        self.bias *= b
        self.p_ee = a * a * self.p_ee + (1 - a * a) * sigma**2
        self.p_eb *= a * b
        self.p_bb = b * b * self.p_bb + (1 - b * b) * bias_sigma**2

    def variance(self, sigma: float, biased: bool = True) -> float:
        """Of the difference that a measurement of this standard deviation may show."""
        return self.p_ee + sigma**2 + (2 * self.p_eb + self.p_bb if biased else 0.0)

    def difference(self, measured: float, predicted: float, biased: bool = True) -> float:
        return float(wrap_angle(measured - predicted - self.error - (self.bias if biased else 0.0)))

    def correct(self, measured: float, predicted: float, sigma: float, biased: bool = True) -> None:
        """`biased`: by the camera; else by a worn tracker, which has no such bias."""
        s = self.variance(sigma, biased)
        limit = OUTLIER * math.sqrt(s)
        d = min(max(self.difference(measured, predicted, biased), -limit), limit)
        to_e = self.p_ee + (self.p_eb if biased else 0.0)
        to_b = self.p_eb + (self.p_bb if biased else 0.0)
        self.error += to_e / s * d
        self.bias += to_b / s * d
        self.p_ee -= to_e * to_e / s
        self.p_eb -= to_e * to_b / s
        self.p_bb -= to_b * to_b / s
