"""Metrics of the feet and of sudden movements. Other modules import these metrics from motion/metrics.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.skeleton import (
    HEAD,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_TOES,
    LEFT_UPPER_LEG,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_TOES,
    RIGHT_UPPER_LEG,
    ROOT,
)
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot

Array = Any

TOES = (LEFT_TOES, RIGHT_TOES)
FEET = (LEFT_FOOT, RIGHT_FOOT)
SHORTEST_STANCE_S = 0.15  # minimum duration [s] of a foot contact that counts as a stance
SKATE_HEIGHT, SKATE_SPEED = 0.04, 0.15  # maximum height [m] and minimum speed [m/s] of the toe of a foot that skates
# A pop is a joint acceleration above `POP_MARGIN` times the limit of the motion data; pops within 0.2 s count as one.
POP_MARGIN, POP_TOGETHER_S = 1.5, 0.2
# Joints whose pops are not counted, because trackers determine head and hands, and the root is not part of the body.
ON_TRACKERS = (ROOT, HEAD, LEFT_HAND, RIGHT_HAND)


def stances(contact: Array, dt: float = 1 / 60, shortest_s: float = SHORTEST_STANCE_S) -> NDArray[np.int64]:
    """Return the first frame, and the frame after the last, of each contact of one foot of at least `shortest_s`."""
    c = np.concatenate([[0], np.asarray(contact, np.int8), [0]])
    edges = np.flatnonzero(np.diff(c))
    runs = edges.reshape(-1, 2).astype(np.int64)
    return runs[(runs[:, 1] - runs[:, 0]) * dt >= shortest_s - 1e-9]


def stance_drift_m(positions: Array, contacts: Array, dt: float = 1 / 60) -> F64:
    """Return for each stance of a foot the maximum horizontal distance of its toe from the start of the stance."""
    out = []
    for side, toe in enumerate(TOES):
        for first, stop in stances(contacts[:, side], dt):
            path = np.asarray(positions[first:stop, toe, :2], np.float64)
            out.append(np.linalg.norm(path - path[0], axis=-1).max())
    return np.array(out)


def stance_twist_deg(positions: Array, contacts: Array, dt: float = 1 / 60) -> F64:
    """Return for each stance of a foot its maximum rotation about the vertical since the start of the stance."""
    out = []
    for side, toe in enumerate(TOES):
        d = np.asarray(positions[:, toe, :2], np.float64) - positions[:, FEET[side], :2]
        heading = np.arctan2(d[:, 1], d[:, 0])
        for first, stop in stances(contacts[:, side], dt):
            turn = rot.wrap_angle(heading[first:stop] - heading[first])
            out.append(np.rad2deg(np.abs(turn).max()))
    return np.array(out)


def locked_motion_m(positions: Array, locked: Array) -> F64:
    """Return for each lock of a foot to the floor the maximum horizontal distance of its toe from the lock's start."""
    out = []
    for side, toe in enumerate(TOES):
        for first, stop in stances(locked[:, side], 1.0, 0.0):
            path = np.asarray(positions[first:stop, toe, :2], np.float64)
            out.append(np.linalg.norm(path - path[0], axis=-1).max())
    return np.array(out)


def toe_speeds(positions: Array, dt: float = 1 / 60) -> F64:
    """Return the horizontal speeds of both toes (F, 2) in m/s; frame 0 has the same speed as frame 1."""
    p = np.asarray(positions, np.float64)[:, TOES, :2]
    if len(p) < 2:
        return np.zeros((len(p), 2))
    v = np.linalg.norm(np.diff(p, axis=0), axis=-1) / dt
    return np.asarray(np.concatenate([v[:1], v]))


def skating(positions: Array, dt: float = 1 / 60, floor: float = 0.0) -> NDArray[np.bool_]:
    """Return for each frame (F,) whether a foot slides: the slower toe is below 4 cm and faster than 0.15 m/s."""
    speeds = toe_speeds(positions, dt)
    slower, frames = speeds.argmin(1), np.arange(len(speeds))
    height = np.asarray(positions)[:, TOES, 2][frames, slower] - floor
    return np.asarray((height < SKATE_HEIGHT) & (speeds[frames, slower] > SKATE_SPEED))


def skate_ratio(positions: Array, dt: float = 1 / 60, floor: float = 0.0) -> float:
    """Return the share of frames in which a foot slides; see `skating`."""
    return float(skating(positions, dt, floor).mean()) if len(positions) else float("nan")


def floor_penetration_m(positions: Array, floor: float = 0.0) -> F64:
    """Return how far the lowest ankle or toe joint is below the floor (F,), or 0 if all joints are above it."""
    z = np.asarray(positions, np.float64)[:, TOES + FEET, 2] - floor
    return np.asarray(np.maximum(-z.min(1), 0.0))


def knee_beyond_straight_deg(positions: Array, rotations: Array) -> F64:
    """Return the angle [°] (F,) by which a knee is bent forward beyond a straight leg, for the worse of both knees."""
    p = np.asarray(positions, np.float64)
    worst = np.zeros(len(p))
    for leg in (LEFT_UPPER_LEG, RIGHT_UPPER_LEG):
        a, b = p[:, leg + 1] - p[:, leg], p[:, leg + 2] - p[:, leg + 1]
        hinge = rot.rotate(np.asarray(rotations, np.float64)[:, leg], np.array([0.0, 1.0, 0.0]))
        bend = np.arctan2((np.cross(a, b) * hinge).sum(-1), (a * b).sum(-1))
        worst = np.maximum(worst, -bend)
    return np.rad2deg(worst)


def jitter(positions: Array, dt: float = 1 / 60) -> float:
    """Return the mean magnitude of the jerk [m/s³] of all joints except the root, over all frames."""
    p = np.asarray(positions, np.float64)[:, 1:]
    if len(p) < 4:
        return float("nan")
    return float(np.linalg.norm(np.diff(p, n=3, axis=0), axis=-1).mean() / dt**3)


def _accelerations(positions: Array, dt: float) -> F64:
    p = np.delete(np.asarray(positions, np.float64), ON_TRACKERS, axis=1)
    return np.asarray(np.linalg.norm(np.diff(p, n=2, axis=0), axis=-1) / dt**2)


def acceleration_limit(clips: Any, dt: float = 1 / 60) -> float:
    """Return the 99.9th percentile of the joint accelerations in all clips, given as joint positions (F, J, 3).

    A pop is a joint acceleration above 1.5 times the returned limit.
    """
    every = [_accelerations(p, dt).ravel() for p in clips if len(p) > 2]
    return float(np.percentile(np.concatenate(every), 99.9)) if every else float("nan")


def pop_frames(positions: Array, limit: float, dt: float = 1 / 60) -> NDArray[np.intp]:
    """Return the frame of each pop: a joint acceleration above 1.5 times `limit`; pops within 0.2 s count as one."""
    if len(positions) < 3:
        return np.zeros(0, np.intp)
    hits = np.flatnonzero((_accelerations(positions, dt) > POP_MARGIN * limit).any(1))
    return hits[np.diff(hits, prepend=-np.inf) * dt > POP_TOGETHER_S]


def pops_per_min(positions: Array, limit: float, dt: float = 1 / 60) -> float:
    """Return the number of pops per minute; a pop is a joint acceleration above 1.5 times `limit`."""
    return len(pop_frames(positions, limit, dt)) / (len(positions) * dt / 60)


def jumps_per_s(segments: Array, dt: float = 1 / 60) -> float:
    """Return the number of jumps per second, from the published counter of jumps (F,)."""
    s = np.asarray(segments, np.int64)
    return float((s[-1] - s[0]) / ((len(s) - 1) * dt)) if len(s) > 1 else 0.0
