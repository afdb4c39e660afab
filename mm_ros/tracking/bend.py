"""Estimate how far the user bends the back, from the height and pitch of the head and from the hands.

The height of the head alone does not distinguish bent knees from a bent back. The bent back causes a share of the drop
of the head: L (1 − cos lean), where L is the length from hips to head and the lean is the angle of the line from hips
to head. The bent knees cause the rest of the drop of the head. A person who looks down and whose hands are low usually
bends the back, and a person who looks ahead the knees. The share of the bent back is a logistic function of pitch, drop
and hands, fitted to motion captures of the CMU database (docs/pose.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mm_ros.body.types import HEAD_ROLE, LEFT_HAND_ROLE, LOST, RIGHT_HAND_ROLE, TrackerFrame
from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Vec
from mm_ros.maths.springs import damp

# Lengths and heights in this module are shares of the standing height: the height of a standing user's head joint.
HIPS_TO_HEAD = 0.40  # length from the hips to the head joint, as a share of the standing height
BENT_FROM = 0.035  # A smaller drop of the head is not bending, because the head also drops by this share in a walk.
SOFT = 0.04  # If the head drops by `SOFT`, half of the drop counts as bending; of a deeper drop, a larger share counts.
LARGEST_DROP = 0.9  # maximum drop of the head that the estimate uses, as a share of the standing height
# Weights of the eight inputs of the logistic function for the share of the bent back: 1, the downward pitch of the head
# [rad], the drop of the head, the product of pitch and drop, the distances of the hands forward of and above the head,
# and both distances times the drop. The weights were fitted to skeletons with corrected proportions, because the head
# joint in CMU's files is 11 cm too low. The CMU database contains hardly any squats or lunges, so synthetic users have
# half of the weight in the fit (benchmarks/2026-11-pose.md). People nod and hold things, so the fit adds noise with a
# standard deviation of 0.2 rad to the pitch, and of 0.08 of the standing height to the positions of the hands.
WEIGHTS = (-0.25, 3.87, -5.91, -2.63, -8.21, 1.62, 8.77, -4.38)
# The inputs of the logistic function are limited to these ranges: head pitch [rad], hands forward and above, drop.
PITCH, FORWARD, ABOVE, DROP = (-1.0, 1.3), (-0.3, 0.6), (-0.7, 0.3), (0.0, 0.6)
# usual position of the hands of a bent person, forward of and above the head, as shares of the standing height
NEUTRAL = (0.0, -0.32)
# half-lives [s] of the averages of head pitch and of hand position, and of the return to NEUTRAL without tracked hands
PITCH_HALFLIFE_S, HANDS_HALFLIFE_S, UNSEEN_HALFLIFE_S = 0.12, 0.2, 1.0
# A user whose head pitch [rad] and head height are below these limits lies on the back: the head looks up and is low.
ON_THE_BACK_PITCH, ON_THE_BACK_RATIO = -0.35, 0.55
ON_THE_BACK_HALFLIFE_S = 0.1

# The user sits if the head stays at the height of a chair, behind the place where the head was last upright. In a squat
# the head stays above the feet, so a squat does not count as sitting. The heights from `LOWEST_SEAT` to `UPRIGHT` are
# shares of the standing height.
LOWEST_SEAT, HIGHEST_SEAT, STOOD_UP = 0.55, 0.78, 0.86
UPRIGHT, SEAT_BEHIND_M = 0.93, 0.08
CALM_SPEED, CALM_S, SPEED_HALFLIFE_S, SEATED_HALFLIFE_S = 0.2, 1.5, 0.15, 0.2  # m/s, s
SEATED_PITCH = 0.7  # maximum downward pitch of the head of a seated person [rad]
LEFT_SEAT_M = 0.45  # A user whose head is farther than this from the seat [m] is not seated.
SEATED_COSINE = 0.985  # cosine of the usual angle between a seated person's trunk and the vertical


# Indices of values in the memory of `Bend`; `PLACE` and `SEAT` are the first index of x, y, and `LAST` that of x, y, z.
DROP_NOW, SHARE, ON_BACK, RATIO, PITCH_NOW, HANDS_FORWARD, HANDS_ABOVE, READY, SEATED, SITS, CALM, SPEED = range(12)
LAST, SEAT, PLACE, PLACED, UNSURE, MEMORY = 12, 15, 17, 19, 20, 21


class Bend:
    """Estimates how far the user bends the back, and whether the user sits or lies.

    `drop` is the distance of the head below its height in a walk, as a share of the standing height. `on_back` is 1
    while the user is upright, and changes gradually to −1 when the user lies down on the back.
    """

    def __init__(self) -> None:
        self.memory = np.zeros(MEMORY)
        self.reset()

    @property
    def unsure(self) -> float:
        """Relative error of the standing height; a drop of the head by a smaller share does not count as bending."""
        return float(self.memory[UNSURE])

    @unsure.setter
    def unsure(self, value: float) -> None:
        self.memory[UNSURE] = value

    def reset(self) -> None:
        self.memory[:UNSURE] = 0.0
        self.memory[SHARE], self.memory[ON_BACK], self.memory[RATIO] = 0.5, 1.0, 1.0
        self.memory[HANDS_FORWARD], self.memory[HANDS_ABOVE] = NEUTRAL

    def forget_place(self) -> None:
        """Clear the stored place in the room at which the user was last upright."""
        self.memory[PLACED] = 0.0

    def step(self, dt: float, frame: TrackerFrame, head_height: float, standing: float, yaw: float) -> None:
        """Update the user's estimated bend by one tracker frame, `dt` seconds after the frame before.

        `head_height` is the present height of the head joint and `standing` its height when the user stands [m]. `yaw`
        is the facing of the user's body [rad].
        """
        bend_step(self.memory, dt, frame.positions, frame.rotations, frame.state, head_height, standing, yaw)

    @property
    def drop(self) -> float:
        return float(self.memory[DROP_NOW])

    @property
    def on_back(self) -> float:
        return float(self.memory[ON_BACK])

    @property
    def calm_s(self) -> float:
        return float(self.memory[CALM])

    @property
    def sits(self) -> bool:
        return bool(self.memory[SITS])

    def cosine(self) -> float:
        """Return the cosine of the angle between the line from hips to head and the vertical."""
        return float(cosine_of(self.memory))


@njit
def _within(x: float, limits: tuple[float, float]) -> float:
    return max(limits[0], min(limits[1], x))


@njit
def bent_share(pitch: float, drop: float, forward: float, above: float) -> float:
    """Return the share of the drop of the head that the bent back causes, from 0 to 1."""
    p, d = _within(pitch, PITCH), _within(drop, DROP)
    f, a = _within(forward, FORWARD), _within(above, ABOVE)
    values = (1.0, p, d, p * d, f, a, f * d, a * d)
    u = 0.0
    for k in range(len(WEIGHTS)):
        u += WEIGHTS[k] * values[k]
    return 1.0 / (1.0 + math.exp(-_within(u, (-6.0, 6.0))))


@njit
def bend_step(
    b: Any, dt: float, positions: Any, rotations: Any, state: Any, head_height: float, standing: float, yaw: float
) -> None:
    """Update the memory `b` of the class `Bend` by the arrays of a `TrackerFrame`."""
    ahead = quat.rotate(quat.get4(rotations, HEAD_ROLE), (1.0, 0.0, 0.0))
    pitch = -math.asin(_within(ahead[2], (-1.0, 1.0)))
    fresh = b[READY] == 0.0
    b[READY] = 1.0
    b[PITCH_NOW] = pitch if fresh else damp(b[PITCH_NOW], pitch, PITCH_HALFLIFE_S, dt)
    b[RATIO] = head_height / standing
    b[DROP_NOW] = _within(1.0 - b[RATIO] - max(BENT_FROM, b[UNSURE]), (0.0, LARGEST_DROP))
    forward, above, halflife = _hands(positions, state, standing, yaw)
    b[HANDS_FORWARD] = forward if fresh else damp(b[HANDS_FORWARD], forward, halflife, dt)
    b[HANDS_ABOVE] = above if fresh else damp(b[HANDS_ABOVE], above, halflife, dt)
    b[SHARE] = bent_share(b[PITCH_NOW], b[DROP_NOW], b[HANDS_FORWARD], b[HANDS_ABOVE])
    supine = b[PITCH_NOW] < ON_THE_BACK_PITCH and b[RATIO] < ON_THE_BACK_RATIO
    goal = -1.0 if supine else 1.0
    b[ON_BACK] = goal if fresh else damp(b[ON_BACK], goal, ON_THE_BACK_HALFLIFE_S, dt)
    _sit(b, dt, quat.get3(positions, HEAD_ROLE), fresh, yaw)


@njit
def _sit(b: Any, dt: float, head: Vec, fresh: bool, yaw: float) -> None:
    x, y = head[0], head[1]
    if not fresh and dt > 0.0:
        moved = quat.norm(quat.sub(head, (b[LAST], b[LAST + 1], b[LAST + 2])))
        b[SPEED] = damp(b[SPEED], min(moved / dt, 5.0), SPEED_HALFLIFE_S, dt)
        b[CALM] = b[CALM] + dt if b[SPEED] < CALM_SPEED else 0.0
    b[LAST], b[LAST + 1], b[LAST + 2] = head
    if b[RATIO] > UPRIGHT:
        b[PLACE], b[PLACE + 1], b[PLACED] = x, y, 1.0
    behind = SEAT_BEHIND_M  # before the user has stood upright once, the place of a low head does not exclude sitting
    if b[PLACED] > 0.0:
        behind = (b[PLACE] - x) * math.cos(yaw) + (b[PLACE + 1] - y) * math.sin(yaw)
    if b[SITS] > 0.0:
        near = math.hypot(x - b[SEAT], y - b[SEAT + 1]) < LEFT_SEAT_M
        b[SITS] = b[RATIO] < STOOD_UP and near and b[ON_BACK] > 0.0
    elif b[CALM] > CALM_S and LOWEST_SEAT < b[RATIO] < HIGHEST_SEAT and b[PITCH_NOW] < SEATED_PITCH:
        b[SITS], b[SEAT], b[SEAT + 1] = behind >= SEAT_BEHIND_M, x, y
    b[SEATED] = damp(b[SEATED], b[SITS], SEATED_HALFLIFE_S, dt)


@njit
def _hands(positions: Any, state: Any, standing: float, yaw: float) -> Vec:
    """Return how far the tracked hands are forward of and above the head, as shares of the standing height, and the
    half-life [s] of their average."""
    mean, seen = (0.0, 0.0, 0.0), 0
    for r in (LEFT_HAND_ROLE, RIGHT_HAND_ROLE):
        if state[r] != LOST:
            mean = quat.add(mean, quat.sub(quat.get3(positions, r), quat.get3(positions, HEAD_ROLE)))
            seen += 1
    x, y, z = quat.scale(mean, 1.0 / (max(seen, 1) * standing))
    laid_down = math.hypot(x, y) > 0.6 or z < -0.9  # The controllers are too far from the head to be in the hands.
    if seen == 0 or laid_down:
        return NEUTRAL[0], NEUTRAL[1], UNSEEN_HALFLIFE_S
    return x * math.cos(yaw) + y * math.sin(yaw), z, HANDS_HALFLIFE_S


@njit
def cosine_of(b: Any) -> float:
    drop = b[DROP_NOW]
    bent = max(1.0 - b[SHARE] * drop * drop / (drop + SOFT) / HIPS_TO_HEAD, -0.2)
    upright = SEATED_COSINE - 0.5 * max(b[PITCH_NOW] - 0.2, 0.0) ** 2
    return float(bent + b[SEATED] * (max(upright, bent) - bent))


@njit
def behind_of(b: Any) -> float:
    """Return how far the hips are behind the head because the user bends, as a share of the standing height.

    For a user who lies on the back, the returned distance is negative.
    """
    return float(b[ON_BACK] * HIPS_TO_HEAD * math.sqrt(max(1.0 - cosine_of(b) ** 2, 0.0)))
