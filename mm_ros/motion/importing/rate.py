"""Check the frame rate in the header of a motion file, by means of falls and walks.

If the header states k times the true rate, the acceleration of falling bodies appears k² times too large, and the ratio
of step length to cadence (steps per second) in walks appears k times too small.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from mm_ros.motion.bvh.reader import USUAL_RATES

Array = Any
SLOWEST, FASTEST = 5.0, 1000.0  # range of plausible frame rates [Hz]
GRAVITY = 9.81  # m/s²
WALK_RATIO = 0.38  # ratio of step length to cadence [m/Hz] when adults walk at a comfortable speed
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # possible ratios of the frame rate in the header to the true frame rate
# Cost that is added to the misfit of each factor in FACTORS; a factor with a larger cost needs more evidence.
_DOUBT = (5.0, 2.5, 0.0, 2.5, 5.0)
_USUAL = (24.0, 250.0)  # range of common frame rates of recordings [Hz]
_LEAST = 3  # minimum number of falls, or of walks, that count as evidence about the frame rate
_CLEARLY = 0.5  # a rate fits clearly better than another if its misfit is smaller by more than this
# Standard deviations of two logarithms: of the acceleration of falls, and of the ratio of step length to cadence
_FALL_SPREAD, _WALK_SPREAD = 0.25, 0.28


class Rhythm(NamedTuple):
    """Measurements of the falls and walks in one file, computed with the frame rate in the header."""

    falls: tuple[float, ...]  # downward acceleration of each fall [m/s²]
    walk_ratios: tuple[float, ...]  # ratio of step length to cadence [m/Hz] of every four steps


def rhythm(body: Array, ahead: Array, ankles: Array, toes: Array, upright: Array, rate: float) -> Rhythm:
    """Measure the falls and walks in a file, from positions in metres in the axes of the room.

    `body` (F, 3) approximates the centre of mass, and `ahead` (F, 2) is the facing of the hips. `ankles` and `toes`
    have the shape (F, 2, 3). Only walks in frames with an upright trunk (`upright` (F,)) are measured, because people
    with a bent back take shorter steps.
    """
    if len(body) < 12:
        return Rhythm((), ())
    return Rhythm(tuple(_falls(body, toes, rate)), tuple(_walks(body, ahead, ankles, upright, rate)))


def _falls(body: Array, toes: Array, rate: float) -> list[float]:
    floor = np.percentile(toes[..., 2], 5)
    up = np.concatenate([[False], (toes[..., 2].min(axis=1) - floor > 0.05), [False]])
    edges = np.flatnonzero(np.diff(up.astype(np.int8)))
    still = np.linalg.norm(np.gradient(toes, axis=0), axis=-1).min(axis=1) * rate < 0.15
    out = []
    for first, stop in zip(edges[::2], edges[1::2], strict=True):
        # A person whose foot does not move is not in the air, but stands on tiptoe or on a stair.
        if 6 <= stop - first <= 1.5 * rate and still[first:stop].mean() < 0.3:
            t = np.arange(stop - first) / rate
            curve, residual, *_ = np.polyfit(t - t.mean(), body[first:stop, 2], 2, full=True)
            # A smaller acceleration than 2 m/s² is no free fall, even if the header states half the true rate.
            if curve[0] < -1.0 and (not len(residual) or residual[0] / len(t) < 0.01**2):
                out.append(float(-2 * curve[0]))
    return out


def _walks(body: Array, ahead: Array, ankles: Array, upright: Array, rate: float) -> list[float]:
    """Return the ratio of step length to cadence of each group of four regular steps forward."""
    apart = ((ankles[:, 0] - ankles[:, 1])[:, :2] * ahead).sum(axis=1)
    passing = np.flatnonzero(np.diff(np.sign(apart)))
    steps = 4
    out = []
    for k in range(0, len(passing) - steps, 2):
        at = passing[k : k + steps + 1]
        gaps = np.diff(at)
        wide = [np.abs(apart[a:b]).max() for a, b in itertools.pairwise(at)]
        way = body[at[-1], :2] - body[at[0], :2]
        far = float(np.linalg.norm(way))
        # Very short steps at a normal cadence also occur in shuffling, so they are no evidence about the frame rate.
        usual = 0.45 < far / steps < 1.6
        even = gaps.max() < 1.5 * gaps.min() and min(wide) > 0.15 and upright[at[0] : at[-1]].mean() > 0.9
        if even and usual and (ahead[at[0] : at[-1]] @ (way / far)).mean() > 0.85:
            out.append(far / steps / (steps * rate / float(at[-1] - at[0])))
    return out


def judge(rhythms: list[Rhythm], header_rate: float, size: float = 1.0) -> tuple[float, str, bool]:
    """Return the frame rate in the header divided by the true rate, the reason, and whether this result is doubtful."""
    true = header_rate / np.array(FACTORS)
    cost = np.array(_DOUBT) + np.where((true < _USUAL[0]) | (true > _USUAL[1]), 4.0, 0.0) * (np.array(FACTORS) != 1)
    reasons = _reasons(rhythms)
    if not reasons:
        return 1.0, "from the header; there are no falls or even walks to check it", False
    cost = cost + misfit(rhythms, np.array(FACTORS), size)
    order = np.argsort(cost)
    best = FACTORS[int(order[0])]
    close = bool(cost[order[1]] - cost[order[0]] < 1.0)
    return best, "; ".join(reasons), best != 1.0 or close


def contradiction(rhythms: list[Rhythm], rate: float, others: list[float], size: float = 1.0) -> float | None:
    """Return the frame rate in `others` that fits falls and walks clearly better than `rate`, or None."""
    if not others or not _reasons(rhythms):
        return None
    cost = misfit(rhythms, rate / np.array([rate, *others]), size)
    best = int(np.argmin(cost))
    return others[best - 1] if cost[0] - cost[best] > _CLEARLY else None


def guesses(frame_time: float) -> list[float]:
    """Return possible frame rates of a file whose implausible frame time may be a frame rate or a time in ms."""
    written = [frame_time, 1000 / frame_time]
    usual = [60.0, 120.0, 30.0, 100.0, 240.0, 90.0, 50.0, 25.0]
    near = [float(u) for w in written for u in USUAL_RATES if abs(w / u - 1) < 0.01]
    return list(dict.fromkeys([*near, *usual]))


def estimate(rhythms: list[Rhythm], rate: float, candidates: list[float]) -> tuple[float, str] | None:
    """Return the rate in `candidates` that fits falls and walks best, and the reason, or None if there are none."""
    reasons = _reasons(rhythms, 1)  # One fall or walk is enough, because the report calls this rate doubtful.
    if not reasons:
        return None
    cost = misfit(rhythms, rate / np.array(candidates), least=1)
    good = np.flatnonzero(cost < cost.min() + _CLEARLY)  # candidates that fit well, the most common rate first
    return candidates[int(good[0])], f"{'; '.join(reasons)} at {rate:g} Hz"


def _pooled(rhythms: list[Rhythm], least: int) -> tuple[Array, Array]:
    falls = np.array([f for r in rhythms for f in r.falls])
    walks = np.array([w for r in rhythms for w in r.walk_ratios])
    return (falls if len(falls) >= least else falls[:0]), (walks if len(walks) >= least else walks[:0])


def _reasons(rhythms: list[Rhythm], least: int = _LEAST) -> list[str]:
    falls, walks = _pooled(rhythms, least)
    out = [f"falls at {np.median(falls):.1f} m/s²"] if len(falls) else []
    return out + ([f"step length over cadence {np.median(walks):.2f} m/Hz"] if len(walks) else [])


def misfit(rhythms: list[Rhythm], factors: Array, size: float = 1.0, least: int = _LEAST) -> Array:
    """Return how badly falls and walks fit each of `factors` (stated frame rate divided by true frame rate).

    `size` is the true leg length divided by the assumed leg length. The ratio of step length to cadence is proportional
    to size^1.25; it is 0.19 m/Hz in children of five years.
    """
    falls, walks = _pooled(rhythms, least)
    cost = np.zeros(len(factors))
    if len(falls):
        weight = min(len(falls) / 4, 1.0)
        off = np.log(np.median(falls) * size / GRAVITY) - 2 * np.log(factors)
        cost = cost + weight * off**2 / (2 * _FALL_SPREAD**2)
    if len(walks):
        weight = min(len(walks) / 6, 1.0)
        off = np.log(WALK_RATIO * size**0.25 / np.median(walks)) - np.log(factors)
        cost = cost + weight * off**2 / (2 * _WALK_SPREAD**2)
    return cost
