"""Kalman filter of the network's facing error, on the circle.

The filter has two states, each an Ornstein–Uhlenbeck process: `error` of the prediction, which changes slowly, and
`bias` of the camera's measurement, which changes faster. A camera measurement observes the sum of both states;
variances and correlation times decide how a difference is divided between them. Without measurements the estimated
error decays continuously to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mm_ros.facing import fitted
from mm_ros.maths.rotations import wrap_angle


@dataclass
class FacingFilter:
    error: float = 0.0  # rad; correction that is added to the prediction
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
        """Expected variance [rad²] of `difference` for a measurement with standard deviation `sigma` [rad]."""
        return self.p_ee + sigma**2 + (2 * self.p_eb + self.p_bb if biased else 0.0)

    def difference(self, measured: float, predicted: float, biased: bool = True) -> float:
        return float(wrap_angle(measured - predicted - self.error - (self.bias if biased else 0.0)))

    def correct(self, measured: float, predicted: float, sigma: float, biased: bool = True) -> None:
        """Correct both states by a measurement. `biased`: true for the camera, false for a body tracker."""
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
