"""A model of the arm without a body: the forearm that a headset and one hand imply.

`pose/upper_body.py` poses the avatar's elbow by the same function, and `tracking/` compares controllers with it.
"""

from __future__ import annotations

from mm_ros.maths import quat
from mm_ros.maths.ik import corner
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Quat, Row, Vec

# Lengths of an upright adult, relative to the height of the head joint above the floor (Winter's proportions).
SHOULDER_BELOW, SHOULDER_ASIDE, SHOULDER_BEHIND = 0.11, 0.108, 0.015
UPPER_ARM, FOREARM = 0.185, 0.160
# Share of the fingers' direction in that of the elbow. Below 1, no direction of the fingers makes the sum zero. Chosen
# on CMU people whose wrists were bent at random by 0.3 rad (standard deviation per axis; `tools/elbows.py`): larger
# shares do not bring the elbow nearer in gestures, and move it in walks.
FINGER_SHARE = 0.5


@njit
def elbow_direction(toward_hand: Row, side: int) -> Vec:
    """Direction of the elbow in chest axes: unit, normal to `toward_hand`, the unit vector from shoulder to hand.

    For a hand held out in front the elbow points down, out and back. For another direction of the hand, the shortest
    rotation between both directions turns the elbow as well. Fitted to CMU (`docs/pose.md`). No field of tangent
    directions on a sphere is smooth everywhere. The singularity of this field is above and behind the other shoulder,
    where no hand reaches.
    """
    s = 1.0 - 2.0 * side
    rest = quat.unit((0.837, 0.428 * s, -0.341), (1.0, 0.0, 0.0))
    elbow = quat.unit(quat.across((-0.521, 0.435 * s, -0.734), rest), (0.0, 0.0, -1.0))
    e = quat.rotate(quat.between(rest, toward_hand), elbow)
    return quat.unit(quat.across(e, toward_hand), e)


@njit
def elbow_for_fingers(elbow: Row, toward_hand: Row, fingers: Row) -> Vec:
    """Turn the direction of the elbow about the line from shoulder to hand, so that the wrist bends less.

    All are unit vectors in the same axes; `elbow` is normal to `toward_hand`. The forearm points away from the elbow's
    side, and a hand points nearly along its forearm.
    """
    return quat.unit(quat.sub(elbow, quat.scale(quat.across(fingers, toward_hand), FINGER_SHARE)), elbow)


@njit
def shoulder_of(head: Row, yaw: float, height: float, side: int) -> Vec:
    """Position of a shoulder (0 left, 1 right) below the head joint of an upright torso that faces `yaw`."""
    s = 1.0 - 2.0 * side
    out = (-SHOULDER_BEHIND * height, s * SHOULDER_ASIDE * height, -SHOULDER_BELOW * height)
    return quat.add(head, quat.rotate(quat.from_yaw(yaw), out))


@njit
def forearm_of(shoulder: Row, wrist: Row, yaw: float, arm: float, side: int) -> tuple[Quat, float]:
    """Rotation of the forearm without twist, as a joint of the canonical skeleton, and the extension of the arm (1 is
    straight). `arm`: length from shoulder to wrist [m]."""
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
    hinge = (0.0, 0.0, 2.0 * side - 1.0)  # the elbow's axis in the rest pose
    along = (0.0, 1.0 - 2.0 * side, 0.0)
    forearm = quat.aligning(along, hinge, quat.unit(quat.sub(end, elbow), u), normal)
    return quat.normalize(forearm), distance / (first + second)
