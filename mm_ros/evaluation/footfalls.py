"""Times at which the feet touch down or stand still, and how well the avatar's feet agree with the user's feet.

A touchdown is the moment when the speed of a foot falls below LANDED_SPEED, after the foot was faster than SWING_SPEED
and moved by LIFTED_M or more from its last stance. The speed of a foot is measured over SMOOTHED_S seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.body.types import F64

SMOOTHED_S = 0.1
SWING_SPEED, LANDED_SPEED, LIFTED_M = 0.25, 0.12, 0.06  # m/s, m/s, m
STILL_SPEED = 0.1  # A foot that is slower than 0.1 m/s counts as still.
SAME_EVENT_S = 0.2  # Touchdowns of avatar and user within 0.2 s count as the same step.
NEAR_S = 0.3  # A touchdown of the avatar is a phantom step if the user has no touchdown within 0.3 s.
# To compute how well feet agree by chance, the user's feet are shifted in time by these shares of the clip's duration.
SHIFTS = tuple(0.1 + 0.8 * ((k * 0.618034) % 1.0) for k in range(1, 9))

Landings = tuple[F64, F64]  # the sorted times [s] of the touchdowns of the left and of the right foot


@dataclass(frozen=True)
class Feet:
    """Motion of both feet. `still` (F, 2) is 1 for a still foot, 0 for a moving foot and NaN if its motion is unknown.
    `landings` holds the times of the touchdowns, or None if the touchdowns are unknown."""

    still: F64 | None
    landings: Landings | None


def feet_of(points: F64, dt: float) -> Feet:
    """Compute the motion of two feet from their positions (F, 2, 3) every `dt` seconds; unknown positions are NaN."""
    speeds = np.stack([smoothed_speed(points[:, side], dt) for side in range(2)], axis=1)
    still = np.where(np.isfinite(speeds), (speeds < STILL_SPEED).astype(np.float64), np.nan)
    known = np.isfinite(speeds).any(0)
    left, right = (touchdowns(points[:, side], speeds[:, side], dt) for side in range(2))
    return Feet(still if known.any() else None, (left, right) if known.all() else None)


def smoothed_speed(points: F64, dt: float) -> F64:
    """Return the speed (F,) of a foot with the positions `points` (F, 3), averaged over SMOOTHED_S seconds."""
    half = max(round(SMOOTHED_S / 2 / dt), 1)
    frames = np.arange(len(points))
    first, last = np.maximum(frames - half, 0), np.minimum(frames + half, len(points) - 1)
    return np.asarray(np.linalg.norm(points[last] - points[first], axis=-1) / np.maximum((last - first) * dt, 1e-9))


def touchdowns(points: F64, speeds: F64, dt: float) -> F64:
    """Return the times [s] at which a foot touches down, interpolated between the frames."""
    out: list[float] = []
    stood: F64 | None = None  # position of the foot when it last stood
    swings, farthest = False, 0.0
    for i, speed in enumerate(speeds.tolist()):
        if not np.isfinite(speed) or not np.isfinite(points[i]).all():
            stood, swings = None, False
            continue
        if stood is None or (not swings and speed < LANDED_SPEED):
            stood = points[i]
        if not swings and speed > SWING_SPEED:
            swings, farthest = True, 0.0
        if not swings:
            continue
        farthest = max(farthest, float(np.linalg.norm(points[i] - stood)))
        if speed < LANDED_SPEED:
            if farthest >= LIFTED_M:
                before = float(speeds[i - 1])
                out.append((i - (LANDED_SPEED - speed) / max(before - speed, 1e-9)) * dt)
            stood, swings = points[i], False
    return np.array(out)


def agreement(user: Feet, other: Feet, seconds: float) -> tuple[dict[str, float], F64]:
    """Compare the avatar's feet (`other`) with the user's feet. Return counts of frames and touchdowns, and the delays
    [s] of the avatar's touchdowns after the user's touchdowns."""
    out: dict[str, float] = {}
    if user.still is not None and other.still is not None:
        n = min(len(user.still), len(other.still))
        a, b = user.still[:n], other.still[:n]
        known = np.isfinite(a) & np.isfinite(b)
        for name, flag in (("still", 1.0), ("moving", 0.0)):
            out[name] = float(((a == flag) & known).sum())
            out[f"{name}_too"] = float(((a == flag) & (b == flag) & known).sum())
    if user.landings is None or other.landings is None:
        return out, np.zeros(0)
    matched = np.concatenate([_delays(u, o) for u, o in zip(user.landings, other.landings, strict=True)])
    (all_user, user_feet), (all_other, other_feet) = _merged(user.landings), _merged(other.landings)
    near = pairs(all_user, all_other, NEAR_S)
    out |= {
        "user_steps": float(len(all_user)),
        "steps": float(len(all_other)),
        "hits": float(len(matched)),
        "pairs": float(len(near)),
        "same": float((user_feet[near[:, 0]] == other_feet[near[:, 1]]).sum()),
        "phantoms": float((_distance_to(all_other, all_user) > NEAR_S).sum()),
        "step_minutes": seconds / 60,
    }
    return out, matched


def chance(user: Feet, other: Feet, seconds: float, dt: float) -> dict[str, float]:
    """Return the counts of `agreement()` that arise by chance: the mean over cyclic time shifts of the user's feet."""
    total: dict[str, float] = {}
    for share in SHIFTS:
        still = None if user.still is None else np.roll(user.still, round(share * len(user.still)), axis=0)
        landings: Any = None
        if user.landings is not None:
            landings = tuple(np.sort((t + share * seconds) % max(seconds, dt)) for t in user.landings)
        for name, value in agreement(Feet(still, landings), other, seconds)[0].items():
            total[name] = total.get(name, 0.0) + value / len(SHIFTS)
    return total


def figures(counts: dict[str, float], delays: F64) -> dict[str, float]:
    """Compute the metrics of touchdowns and of contact agreement from the counts and delays that `agreement` returns
    for one or more clips. Metrics without samples are left out."""
    c, out = counts, dict[str, float]()
    if c.get("still") and c.get("moving"):
        out["contact_agreement"] = (c["still_too"] / c["still"] + c["moving_too"] / c["moving"]) / 2
    if c.get("step_minutes"):
        out["steps_per_minute"] = c["steps"] / c["step_minutes"]
        out["true_steps_per_minute"] = c["user_steps"] / c["step_minutes"]
        out["phantom_steps_per_minute"] = c["phantoms"] / c["step_minutes"]
        if c["user_steps"] + c["steps"]:
            out["footfall_f1"] = 2 * c["hits"] / (c["user_steps"] + c["steps"])
        if c["pairs"]:
            out["same_foot"], out["same_foot_matches"] = c["same"] / c["pairs"], c["pairs"]
    if len(delays):
        out["footfall_delay_s"] = float(np.median(delays))
    return out


def pairs(a: F64, b: F64, within: float) -> Any:
    """Match each time in `a` with at most one time in `b`, nearest pairs first, if they differ by at most `within`.
    Return the indices (P, 2) of the P matched pairs in `a` and `b`."""
    apart = np.abs(a[:, None] - b[None, :]) if len(a) and len(b) else np.zeros((0, 0))
    candidates = np.argwhere(apart <= within + 1e-9)
    used_a, used_b, out = set[int](), set[int](), []
    for i, j in candidates[np.argsort(apart[tuple(candidates.T)], kind="stable")] if len(candidates) else ():
        if int(i) not in used_a and int(j) not in used_b:
            used_a.add(int(i))
            used_b.add(int(j))
            out.append((int(i), int(j)))
    return np.array(out, int).reshape(-1, 2)


def _delays(user: F64, other: F64) -> F64:
    matched = pairs(user, other, SAME_EVENT_S)
    return np.asarray(other[matched[:, 1]] - user[matched[:, 0]])


def _merged(landings: Landings) -> tuple[F64, F64]:
    times = np.concatenate(landings)
    feet = np.repeat([0.0, 1.0], [len(t) for t in landings])
    order = np.argsort(times, kind="stable")
    return times[order], feet[order]


def _distance_to(times: F64, others: F64) -> F64:
    if not len(others) or not len(times):
        return np.full(len(times), np.inf)
    return np.asarray(np.abs(times[:, None] - others[None, :]).min(1))
