"""Smooth curves over time: transitions, filters without delay, and polynomials of degree 5. Axis 0 is time."""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.maths.signals import smoothstep

Array = Any


def minimum_jerk(s: Array) -> Array:
    """Return a smooth transition from 0 to 1 for `s` from 0 to 1, with zero velocity and acceleration at both ends."""
    s = np.clip(s, 0.0, 1.0)
    return s * s * s * (10 - 15 * s + 6 * s * s)


def ramp(x: Array, low: float, high: float) -> Array:
    """Return a smooth function of `x` that is 0 below `low`, and 1 above `high`."""
    s = np.clip((np.asarray(x) - low) / (high - low), 0.0, 1.0)
    return smoothstep(s)


def _convolve(x: Array, kernel: Array) -> Array:
    half = len(kernel) // 2
    flat = x.reshape(len(x), -1)
    padded = np.concatenate([np.repeat(flat[:1], half, 0), flat, np.repeat(flat[-1:], half, 0)])
    n = len(padded) + len(kernel) - 1
    size = 1 << (n - 1).bit_length()
    spectrum = np.fft.rfft(padded, size, axis=0) * np.fft.rfft(kernel, size)[:, None]
    out = np.fft.irfft(spectrum, size, axis=0)[len(kernel) - 1 : len(kernel) - 1 + len(x)]
    return out.reshape(x.shape)


def gaussian(x: Array, sigma_s: float, rate: float) -> Array:
    half = max(1, int(np.ceil(3.5 * sigma_s * rate)))
    t = np.arange(-half, half + 1) / rate
    kernel = np.exp(-0.5 * (t / sigma_s) ** 2)
    return _convolve(np.asarray(x, float), kernel / kernel.sum())


def bounded_pendulum(support: Array, frequency: float, rate: float) -> Array:
    """Return the motion of an inverted pendulum that does not fall over, for a moving support point.

    The motion c is the bounded solution of c'' = ω² (c − p) for the support point p, which is p convolved with
    ω/2 exp(−ω|t|). The pendulum begins to move before its support point begins to move.
    """
    half = int(np.ceil(4.5 / frequency * rate))
    t = np.arange(-half, half + 1) / rate
    kernel = np.exp(-frequency * np.abs(t)) * np.cos(np.pi / 2 * t / t[-1]) ** 2  # taper the tails
    return _convolve(support, kernel / kernel.sum())


def lower_envelope(x: Array, half_s: float, rate: float) -> Array:
    """Return a smooth curve that is nowhere above the values `x`: the smoothed moving minimum of `x`."""
    half = max(1, round(half_s * rate))
    padded = np.pad(x, half, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    kernel = np.cos(np.linspace(-np.pi / 2, np.pi / 2, 2 * half + 3)[1:-1]) ** 2
    return _convolve(windows.min(axis=1), kernel / kernel.sum())


def quintic(s: Array, duration: Array, start: tuple[Array, Array, Array], end: tuple[Array, Array, Array]) -> Array:
    """Return the polynomial of degree 5 over `s` (0 to 1) with the given value, velocity and acceleration at both ends.

    The velocities and accelerations are per second, and the polynomial lasts `duration` seconds.
    """
    p0, v0, a0 = start[0], start[1] * duration, start[2] * duration**2
    p1, v1, a1 = end[0], end[1] * duration, end[2] * duration**2
    d = p1 - p0 - v0 - a0 / 2
    dv = v1 - v0 - a0
    da = a1 - a0
    c3 = 10 * d - 4 * dv + da / 2
    c4 = -15 * d + 7 * dv - da
    c5 = 6 * d - 3 * dv + da / 2
    return p0 + s * (v0 + s * (a0 / 2 + s * (c3 + s * (c4 + s * c5))))


def noise(rng: np.random.Generator, frames: int, width: int, sigma_s: float, rate: float) -> Array:
    """Return smooth random noise (frames, width) with a variance of 1."""
    margin = int(4 * sigma_s * rate) + 1
    raw = rng.standard_normal((frames + 2 * margin, width))
    out = gaussian(raw, sigma_s, rate)[margin : margin + frames]
    return out * np.sqrt(2 * np.sqrt(np.pi) * sigma_s * rate)
