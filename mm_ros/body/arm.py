"""Model of the arm: estimates the elbow from the poses of the headset and one hand.

`pose/upper_body.py` uses the model to place the avatar's elbow, and `tracking/` compares the pose of controllers with
the estimated forearm.
"""

from __future__ import annotations

from mm_ros.maths import quat
from mm_ros.maths.ik import corner
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Quat, Row, Vec

# Positions of the shoulder and lengths of the arm, as shares of the height of the head joint above the floor (Winter's
# proportions of adults).
SHOULDER_BELOW, SHOULDER_ASIDE, SHOULDER_BEHIND = 0.11, 0.108, 0.015
UPPER_ARM, FOREARM = 0.185, 0.160
# Weight of the direction of the fingers when the direction of the elbow is estimated. A weight below 1 keeps the
# weighted sum of both directions from becoming zero. `tools/elbows.py` chose the weight of the fingers on CMU
# recordings whose wrists were bent at random by 0.3 rad (standard deviation per axis). Weights above 0.5 do not reduce
# the elbow's error in gestures, and they wrongly move the elbow in walks.
FINGER_SHARE = 0.5


@njit
def elbow_direction(toward_hand: Row, side: int) -> Vec:
    """Return the direction of the elbow in the axes of the chest. `toward_hand` is the unit vector from shoulder to
    hand; the result is a unit vector normal to `toward_hand`. For a hand in front of the body, the elbow points down,
    outward and back; for any other hand, the direction of the elbow turns with that of the hand, by the shortest
    rotation. The numbers in `elbow_direction` are fitted to the CMU recordings (`docs/pose.md`). The direction of the
    elbow is discontinuous only for hands above and behind the other shoulder, where no hand reaches."""
    s = 1.0 - 2.0 * side
    rest = quat.unit((0.837, 0.428 * s, -0.341), (1.0, 0.0, 0.0))
    elbow = quat.unit(quat.across((-0.521, 0.435 * s, -0.734), rest), (0.0, 0.0, -1.0))
    e = quat.rotate(quat.between(rest, toward_hand), elbow)
    return quat.unit(quat.across(e, toward_hand), e)


@njit
def elbow_for_fingers(elbow: Row, toward_hand: Row, fingers: Row) -> Vec:
    """Turn the direction of the elbow about the line from shoulder to hand, so that the wrist bends less. All arguments
    are unit vectors in the same axes, and `elbow` is normal to `toward_hand`. A hand points nearly along its forearm,
    so the elbow is opposite to the direction of the fingers."""
    return quat.unit(quat.sub(elbow, quat.scale(quat.across(fingers, toward_hand), FINGER_SHARE)), elbow)


@njit
def shoulder_of(head: Row, yaw: float, height: float, side: int) -> Vec:
    """Return the position of the left (`side` 0) or right (1) shoulder, below the head joint of an upright torso that
    faces `yaw` [rad]."""
    s = 1.0 - 2.0 * side
    out = (-SHOULDER_BEHIND * height, s * SHOULDER_ASIDE * height, -SHOULDER_BELOW * height)
    return quat.add(head, quat.rotate(quat.from_yaw(yaw), out))


@njit
def forearm_of(shoulder: Row, wrist: Row, yaw: float, arm: float, side: int) -> tuple[Quat, float]:
    """Return the room rotation of the forearm joint of the canonical skeleton without twist, and the extension of the
    arm (1 is straight). `arm` is the length of the arm from shoulder to wrist [m]."""
    chest = quat.from_yaw(yaw)
    first = arm * UPPER_ARM / (UPPER_ARM + FOREARM)
    second = arm - first
    line = quat.sub(wrist, shoulder)
    distance = quat.norm(line)
    u = quat.unit(line, quat.rotate(chest, (0.0, 1.0 - 2.0 * side, 0.0)))
    reached = max(min(distance, 0.999 * (first + second)), 0.3 * (first + second))
    end = quat.add(shoulder, quat.scale(u, reached))
    out = quat.rotate(chest, elbow_direction(quat.unrotate(chest, u), side))
    elbow = corner(shoulder, end, out, first, second)
    normal = quat.cross(out, u)
    hinge = (0.0, 0.0, 2.0 * side - 1.0)  # axis about which the elbow bends in the rest pose
    along = (0.0, 1.0 - 2.0 * side, 0.0)
    forearm = quat.aligning(along, hinge, quat.unit(quat.sub(end, elbow), u), normal)
    return quat.normalize(forearm), distance / (first + second)
