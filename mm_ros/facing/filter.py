"""Kalman filter that estimates the error of the predicted facing from measured facings.

The filter has two states, which are angles and are modelled as Ornstein–Uhlenbeck processes. The state `error` is the
slow error of the predicted facing. The state `bias` is the faster error of the facing that the camera shows. A
measurement of the camera observes the sum of `error` and `bias`. The variances and correlation times of `error` and
`bias` decide how the filter divides a measured error between them. Between measurements, both states decay to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mm_ros.facing import fitted
from mm_ros.maths.rotations import wrap_angle


@dataclass
class FacingFilter:
    error: float = 0.0  # estimated correction, which is added to the predicted facing [rad]
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
        """Return the expected variance [rad²] of `difference()` for measurements with standard deviation `sigma`."""
        return self.p_ee + sigma**2 + (2 * self.p_eb + self.p_bb if biased else 0.0)

    def difference(self, measured: float, predicted: float, biased: bool = True) -> float:
        return float(wrap_angle(measured - predicted - self.error - (self.bias if biased else 0.0)))

    def correct(self, measured: float, predicted: float, sigma: float, biased: bool = True) -> None:
        """Correct `error` and `bias` by a facing that the camera (`biased` is true) or a body tracker measured."""
        s = self.variance(sigma, biased)
        limit = fitted.OUTLIER * math.sqrt(s)
        d = min(max(self.difference(measured, predicted, biased), -limit), limit)
        to_e = self.p_ee + (self.p_eb if biased else 0.0)
        to_b = self.p_eb + (self.p_bb if biased else 0.0)
        self.error += to_e / s * d
        self.bias += to_b / s * d
        self.p_ee -= to_e * to_e / s
        self.p_eb -= to_e * to_b / s
        self.p_bb -= to_b * to_b / s
