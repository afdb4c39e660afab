"""The one-euro filter (Casiez 2012) smooths slow motion, and follows fast motion with little delay."""

from __future__ import annotations

import math

import numpy as np

from mm_ros.body.types import F64


class OneEuro:
    """Smooths each value of an array over time by a one-euro filter, a low-pass filter.

    The cutoff frequency is `slowest` [Hz] at rest, and increases by `quickness` [Hz] per unit per second of motion. The
    measured rate of change is smoothed with the cutoff frequency `rate_cutoff` [Hz].
    """

    def __init__(self, slowest: float, quickness: float, rate_cutoff: float = 1.0) -> None:
        self.slowest, self.quickness, self.rate_cutoff = slowest, quickness, rate_cutoff
        self.reset()

    def reset(self) -> None:
        self._value: F64 | None = None
        self._rate: F64 | None = None

    def step(self, value: F64, dt: float) -> F64:
        if self._value is None or self._rate is None or dt <= 0:
            self._value, self._rate = value.copy(), np.zeros_like(value)
            return self._value.copy()
        rate = (value - self._value) / dt
        self._rate = self._rate + share(self.rate_cutoff, dt) * (rate - self._rate)
        cutoff = self.slowest + self.quickness * np.abs(self._rate)
        self._value = self._value + share(cutoff, dt) * (value - self._value)
        return self._value.copy()


def share(cutoff: float | F64, dt: float) -> float | F64:
    """Return the share of a new value that a low-pass filter with the frequency `cutoff` [Hz] takes in `dt` [s]."""
    return 1 / (1 + 1 / (2 * math.pi * np.maximum(cutoff, 1e-9) * dt))
