"""Pose trunk and legs of a user who bends, squats, sits, kneels or lies, even if the database has no such motion.

The position of the hips is computed from the head and the lean of the trunk (`tracking/bend.py`), so that a squat looks
like a squat even if all low postures of the database are bows. The hips stay above the floor. While the user sits,
kneels or lies, the legs get a procedural pose, which does not come from the database.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mm_ros.body.kinematics import LEG_STRIDE, turn_joint, update_room
from mm_ros.body.skeleton import HEAD, HIPS, LEFT_UPPER_LEG, NECK, SPINE, Skeleton
from mm_ros.body.types import F64, TrackerFrame
from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Quat, Vec
from mm_ros.maths.springs import damp
from mm_ros.pose.upper_body import TORSO_STOP, bend_spine
from mm_ros.tracking.bend import Bend

# Limits of the height of the hips in low postures, divided by the height of the hips while standing.
LOWEST_HIPS, HIGHEST_HIPS = 0.11, 1.0
# Minimum height of the hips in a squat or on the knees, as a share of their standing height.
LOWEST_SQUAT = 0.3
# Heights of the hips, divided by their standing height: a user begins to kneel below `KNEELS_BELOW` and stops above
# `KNEELS_UNTIL`, and begins to lie below `LIES_BELOW` and stops above `LIES_UNTIL`.
KNEELS_BELOW, KNEELS_UNTIL, LIES_BELOW, LIES_UNTIL = 0.36, 0.44, 0.17, 0.25
# If the hips are low and the trunk leans by more than `CRAWLING_LEAN` [rad], the user kneels, crawls or lies.
CRAWLING_LEAN = 1.0
KNEELS_S = 1.5  # A user kneels if the hips are low and calm for the time `KNEELS_S`, because a squat is shorter.
# If the head is lowered by `BEND_FULL` times its standing height, the avatar's trunk gets the whole estimated lean.
BEND_FULL = 0.05
LEGS_HALFLIFE_S = 0.15  # Half-life with which the avatar's legs change between standing, sitting, kneeling and lying.
# The feet of a sitting, kneeling or lying avatar stay in place within `FEET_SLACK_M` of their target.
FEET_HALFLIFE_S, FEET_SLACK_M = 0.2, 0.05
# The pelvis pitches by `HIPS_SHARE` of the trunk's lean until the body lies, and the spine bends by the rest.
HIPS_SHARE = 0.5
# Heights of the knee and of the ankle above the floor of a user who kneels or lies [m].
KNEE_ON_FLOOR, KNEELING_ANKLE, LYING_ANKLE = 0.06, 0.085, 0.10
KNEELING_PITCH, PRONE_PITCH, SUPINE_PITCH = 1.35, 1.2, -1.2  # Foot pitch in each posture [rad], above 0 with toes down.
LEG_M = 0.82  # Leg length [m] of a person whose knee and ankle have the heights `KNEE_ON_FLOOR` to `LYING_ANKLE`.
TURNED_OVER = 3.0  # Factor by which the legs of a lying user turn over faster than the trunk.

SIT, KNEEL, LIE = range(3)


class Low(NamedTuple):
    """Posture of a user who bends, sits, kneels or lies, and positions of the feet, estimated for one time step."""

    # (3,) lean of the trunk [rad], negative if the user lies on the back; weight of this lean; and the side on which
    # the user lies, from 1 (on the front) to −1 (on the back)
    lean: F64
    legs: F64  # (3,) weights of the postures SIT, KNEEL and LIE
    feet: F64  # (2, 5) for each foot: ankle in the room (x, y, z), pitch, and 1 if ankle and pitch are set


def make_low() -> Low:
    return Low(np.zeros(3), np.zeros(3), np.zeros((2, 5)))


class LowPosture:
    """Estimate the lean of the trunk and the posture of the legs from the trackers."""

    def __init__(self, skeleton: Skeleton) -> None:
        rest = skeleton.rest_positions().astype(np.float64)
        self._standing, self._hips = float(rest[HEAD, 2]), float(rest[HIPS, 2])
        self._length = float(np.linalg.norm(rest[HEAD] - rest[HIPS]))
        self._bend = Bend()
        self.reset()

    def set_height_sigma(self, height_sigma: float) -> None:
        """Set the uncertainty of the user's standing height [m]."""
        self._bend.unsure = height_sigma / self._standing

    def reset(self) -> None:
        self.low = make_low()
        self._bend.reset()
        self._kind = -1

    def forget_place(self) -> None:
        """Forget the places of the feet and of the last upright stand, because the room was re-centred."""
        self.low.feet[:, 4] = 0.0
        self._bend.forget_place()

    def step(self, dt: float, frame: TrackerFrame, head: Vec, yaw: float, ground: float, allowed: bool) -> Low:
        """Estimate whether the user bends, sits, kneels or lies, and by how much the trunk leans.

        `head` is the position of the head joint in the room, `yaw` the facing, and `ground` the height of the floor
        [m]. `allowed` is true if the head is tracked and no body tracker determines the hips.
        """
        if not allowed:
            self.low.lean[1] = 0.0
            self.low.legs[:] = 0.0
            self._kind = -1
            return self.low
        height = head[2] - ground
        self._bend.step(dt, frame, height, self._standing, yaw)
        # When the user lies down on the back, the lean changes from forward through 0 (upright trunk) to backward.
        cosine = math.cos(self._bend.on_back * math.acos(self._bend.cosine()))
        lying = self._lean(height, LOWEST_HIPS, cosine)
        hips = (height - self._length * math.cos(lying)) / self._hips
        lowest = LOWEST_SQUAT + float(self.low.legs[LIE]) * (LOWEST_HIPS - LOWEST_SQUAT)
        lean = self._lean(height, lowest, cosine)
        self.low.lean[:] = lean, min(self._bend.drop / BEND_FULL, 1.0), self._bend.on_back
        self._choose(hips, abs(lying), abs(lean))
        for kind, before in enumerate(self.low.legs.tolist()):
            if before != (kind == self._kind):
                weight = damp(before, float(kind == self._kind), LEGS_HALFLIFE_S, dt)
                self.low.legs[kind] = weight if weight > 0.01 else 0.0
        return self.low

    def _lean(self, height: float, lowest: float, cosine: float) -> float:
        """Return the lean that is nearest to the estimated lean and keeps the hips between the height `lowest` and
        their standing height. `cosine` is the cosine of the estimated lean."""
        most = (height - lowest * self._hips) / self._length
        least = (height - HIGHEST_HIPS * self._hips) / self._length
        lean = math.acos(max(-0.3, min(1.0, most, max(cosine, least))))
        return -lean if self._bend.on_back < 0.0 else lean

    def _choose(self, hips: float, lying: float, lean: float) -> None:
        """Choose whether the legs sit, kneel, lie, or follow the played motion.

        `hips` is the height of the hips divided by their standing height. `lying` is the lean of the trunk [rad] if the
        user lies, and `lean` is the lean of the trunk [rad] if the user does not lie.
        """
        bend = self._bend
        down = hips < (LIES_UNTIL if self._kind == LIE else LIES_BELOW) and lying > CRAWLING_LEAN
        low = hips < (KNEELS_UNTIL if self._kind == KNEEL else KNEELS_BELOW)
        settled = bend.calm_s > KNEELS_S or self._kind in (KNEEL, LIE) or lean > CRAWLING_LEAN
        if down or (low and bend.on_back < 0.0):
            self._kind = LIE
        elif low and settled:
            self._kind = KNEEL
        elif bend.sits:
            self._kind = SIT
        elif not low:
            self._kind = -1


@njit
def bend_trunk(body: Any, low: Any) -> None:
    """Pitch pelvis and spine until the line from hips to head has the estimated lean. While the user lies, the avatar's
    spine stays straight."""
    lean, weight = low.lean[0], low.lean[1]
    share = HIPS_SHARE + (1.0 - HIPS_SHARE) * low.legs[2]
    root = quat.get4(body.room_rotations, 0)
    ahead, left = quat.rotate(root, (1.0, 0.0, 0.0)), quat.rotate(root, (0.0, 1.0, 0.0))
    goal = 0.0
    for step in range(4):
        line = quat.sub(quat.get3(body.room_positions, HEAD), quat.get3(body.room_positions, HIPS))
        now = math.atan2(quat.dot(line, ahead), line[2])
        if step == 0:
            goal = now + weight * quat.wrap(lean - now)
        lacking = quat.wrap(goal - now)
        if abs(lacking) < 1e-3:
            break
        turn_joint(
            body, HIPS,
            quat.normalize(quat.mul(quat.about(left, share * lacking), quat.get4(body.room_rotations, HIPS))),
        )  # fmt: skip
        update_room(body, SPINE, TORSO_STOP)
        bend_spine(body, quat.about(left, (1.0 - share) * lacking))
        update_room(body, NECK, TORSO_STOP)


@njit
def low_reach(low: Any) -> float:
    """Return the additional distance [m] that the hips may move horizontally toward the head, because the hips of a
    lying user are far from the point below the head."""
    return float(2.0 * low.lean[1] * min(max((abs(low.lean[0]) - 0.5) / 0.3, 0.0), 1.0))


@njit
def own_lean(low: Any) -> float:
    """Return the share of the lean toward the headset that is still applied to a trunk far from upright, whose
    additional lean would change the height of the head."""
    return float(1.0 - low.lean[1] * min(abs(low.lean[0]) / 0.6, 1.0))


@njit
def low_foot(
    body: Any, feet: Any, lengths: Any, low: Any, side: int, ground: float, dt: float
) -> tuple[Vec, Quat, float]:
    """Return the ankle position, the foot rotation and the weight of the sitting, kneeling or lying pose of one leg."""
    whole = low.legs[0] + low.legs[1] + low.legs[2]
    if whole <= 0.0:
        low.feet[side, 4] = 0.0
        return (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), 0.0
    root = quat.get4(body.room_rotations, 0)
    hip = quat.get3(body.room_positions, LEFT_UPPER_LEG + side * LEG_STRIDE)
    thigh, shin = lengths[side, 2], lengths[side, 3]
    size = (thigh + shin) / LEG_M
    z = hip[2] - ground
    front = max(-1.0, min(1.0, TURNED_OVER * low.lean[2]))
    rise = z - shin - feet.rest[side, 1]
    sit = math.sqrt(max(thigh * thigh - rise * rise, 0.36 * thigh * thigh)) + 0.02
    above = z - KNEE_ON_FLOOR * size
    kneel = math.sqrt(max(thigh * thigh - above * above, 0.0)) - 0.97 * shin
    lie = -front * math.sqrt(max((0.96 * (thigh + shin)) ** 2 - (z - LYING_ANKLE * size) ** 2, 0.0))
    lying_pitch = 0.5 * ((1.0 + front) * PRONE_PITCH + (1.0 - front) * SUPINE_PITCH)
    forward = (low.legs[0] * sit + low.legs[1] * kneel + low.legs[2] * lie) / whole
    height = low.legs[0] * feet.rest[side, 1] + size * (low.legs[1] * KNEELING_ANKLE + low.legs[2] * LYING_ANKLE)
    pitch = (low.legs[1] * KNEELING_PITCH + low.legs[2] * lying_pitch) / whole
    flat = quat.rotate(root, (forward, 0.03 * (1.0 - 2.0 * side), 0.0))
    ankle = (hip[0] + flat[0], hip[1] + flat[1], ground + height / whole)
    place = low.feet[side]
    if place[4] == 0.0:
        place[0], place[1], place[2], place[3], place[4] = ankle[0], ankle[1], ankle[2], pitch, 1.0
    away = quat.norm(quat.sub(ankle, (place[0], place[1], place[2])))
    if away > FEET_SLACK_M or whole < 0.95:
        share = 1.0 - 0.5 ** (dt / FEET_HALFLIFE_S)
        for k in range(3):
            place[k] += share * (ankle[k] - place[k])
    place[3] += (1.0 - 0.5 ** (dt / FEET_HALFLIFE_S)) * (pitch - place[3])
    foot = quat.mul(root, quat.about((0.0, 1.0, 0.0), place[3]))
    weight = min(whole, 1.0)
    return (place[0], place[1], place[2]), foot, weight * weight * (3.0 - 2.0 * weight)
