"""Is the frame rate of the header true? What falls, falls with g; and steps are as long as their rhythm lets them be.

With a header that says k times the true rate, falls look k² times as fast as they are, and step length over cadence
k times too small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = Any
GRAVITY = 9.81
WALK_RATIO = 0.38  # m/Hz, step length over cadence of a person who walks as they like
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # header over truth
_DOUBT = (6.0, 3.5, 0.0, 3.5, 6.0)  # how strong evidence has to be against the header
_FALL_SPREAD, _WALK_SPREAD = 0.25, 0.33  # of the logarithms, person to person


class Rhythm(NamedTuple):
    """Of one file, at the header's rate. Empty where nobody fell or walked."""

    falls: tuple[float, ...]  # m/s², downwards positive
    walk_ratios: tuple[float, ...]  # m/Hz, one a walk of two seconds


def rhythm(body: Array, ahead: Array, ankles: Array, toes: Array, rate: float) -> Rhythm:
    """Room axes, metres. `body` (F, 3) is about the centre of mass, `ahead` (F, 2) where the hips face; feet (F, 2, 3)."""
    if len(body) < 12:
        return Rhythm((), ())
    return Rhythm(tuple(_falls(body, toes, rate)), tuple(_walks(body, ahead, ankles, rate)))


def _falls(body: Array, toes: Array, rate: float) -> list[float]:
    floor = np.percentile(toes[..., 2], 5)
    up = np.concatenate([[False], (toes[..., 2].min(axis=1) - floor > 0.05), [False]])
    edges = np.flatnonzero(np.diff(up.astype(np.int8)))
    still = np.linalg.norm(np.gradient(toes, axis=0), axis=-1).min(axis=1) * rate < 0.15
    out = []
    for first, stop in zip(edges[::2], edges[1::2], strict=True):
        # a foot that stays where it is stands: on tip-toe, on a step
        if 6 <= stop - first <= 1.5 * rate and still[first:stop].mean() < 0.3:
            t = np.arange(stop - first) / rate
            curve, residual, *_ = np.polyfit(t - t.mean(), body[first:stop, 2], 2, full=True)
            # slower than 2 m/s² falls nobody, even at half the rate
            if curve[0] < -1.0 and (not len(residual) or residual[0] / len(t) < 0.01**2):
                out.append(float(-2 * curve[0]))
    return out


def _walks(body: Array, ahead: Array, ankles: Array, rate: float) -> list[float]:
    """Windows of two seconds of walking forward in which the ankles pass each other evenly."""
    window = round(2 * rate)
    out = []
    for first in range(0, len(body) - window + 1, window):
        part = slice(first, first + window)
        way = body[first + window - 1, :2] - body[first, :2]
        far = float(np.linalg.norm(way))
        speed = far / ((window - 1) / rate)
        if far < 0.5 or (ahead[part] @ (way / far)).mean() < 0.85:
            continue
        apart = (ankles[part, 0, :2] - ankles[part, 1, :2]) @ (way / far)
        if np.ptp(apart) < 0.5:
            continue
        crossings = np.flatnonzero(np.diff(np.sign(apart)))
        if len(crossings) < 3:
            continue
        gaps = np.diff(crossings)
        if gaps.max() > 1.6 * gaps.min():
            continue
        cadence = (len(crossings) - 1) / ((crossings[-1] - crossings[0]) / rate)
        out.append(speed / cadence**2)
    return out


def judge(rhythms: list[Rhythm]) -> tuple[float, str, bool]:
    """Header over truth, the reason, whether it is doubtful."""
    falls = np.array([f for r in rhythms for f in r.falls])
    walks = np.array([w for r in rhythms for w in r.walk_ratios])
    cost = np.array(_DOUBT)
    reasons = []
    if len(falls) >= 3:
        fall = float(np.median(falls))
        reasons.append(f"falls at {fall:.1f} m/s²")
        weight = min(len(falls) / 4, 1.0)
        cost = cost + weight * (np.log(fall / GRAVITY) - 2 * np.log(FACTORS)) ** 2 / (2 * _FALL_SPREAD**2)
    if len(walks) >= 2:
        ratio = float(np.median(walks))
        reasons.append(f"step length over cadence {ratio:.2f} m/Hz")
        weight = min(len(walks) / 4, 1.0)
        cost = cost + weight * (np.log(WALK_RATIO / ratio) - np.log(FACTORS)) ** 2 / (2 * _WALK_SPREAD**2)
    if not reasons:
        return 1.0, "the header's; nobody falls or walks evenly, by which to check it", False
    order = np.argsort(cost)
    best = FACTORS[int(order[0])]
    close = bool(cost[order[1]] - cost[order[0]] < 1.5)
    return best, "; ".join(reasons), best != 1.0 or close
