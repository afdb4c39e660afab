"""Two-bone inverse kinematics for legs and arms: position of the middle joint, and rotations of both bones."""

from __future__ import annotations

import math

from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Quat, Row, Vec


@njit
def soft_reach(distance: float, longest: float, zone: float) -> float:
    """Limit the distance from the root to the end of a limb softly, so that it stays below `longest`.

    Distances up to `longest` − `zone` do not change; larger distances approach `longest` asymptotically. The slope of
    `soft_reach` is continuous, so that a limb does not become straight abruptly.
    """
    start = longest - zone
    if distance <= start:
        return distance
    return start + zone * (1.0 - math.exp(-(distance - start) / zone))


@njit
def corner(root: Row, end: Row, side: Row, first: float, second: float) -> Vec:
    """Return the position of the middle joint of a limb from `root` to `end` with bones of length `first` and `second`.

    The unit vector `side` is the direction in which the middle joint bends; it is normal to the line root–end.
    """
    line = quat.sub(end, root)
    d = max(quat.norm(line), 1e-9)
    along = (first * first - second * second + d * d) / (2.0 * d)
    along = min(max(along, -first), first)
    out = math.sqrt(max(first * first - along * along, 0.0))
    u = quat.unit(line, (0.0, 0.0, -1.0))
    return quat.add(root, quat.add(quat.scale(u, along), quat.scale(side, out)))


@njit
def lifted_corner(
    root: Row, end: Row, normal: Row, first: float, second: float, lowest: float, outward: Row
) -> Vec:
    """Return the normal of the plane of a limb whose middle joint must not be lower than `lowest` [m].

    The limb rotates about the line root–end as little as possible, and towards `outward` if its plane is vertical.
    """
    line = quat.unit(quat.sub(end, root), (0.0, 0.0, -1.0))
    centre = corner(root, end, (0.0, 0.0, 0.0), first, second)
    out = math.sqrt(max(first * first - quat.dot(quat.sub(centre, root), quat.sub(centre, root)), 0.0))
    side = quat.cross(line, normal)
    up = quat.across((0.0, 0.0, 1.0), line)
    steepest = quat.norm(up)
    if centre[2] + out * side[2] >= lowest or out < 1e-6 or steepest < 1e-6:
        return (normal[0], normal[1], normal[2])
    up = quat.scale(up, 1.0 / steepest)
    rise = min((lowest - centre[2]) / (out * steepest), 1.0)
    level = quat.across(quat.across(quat.add(side, quat.scale(outward, rise - quat.dot(side, up))), line), up)
    level = quat.unit(level, (0.0, 0.0, 0.0))
    side = quat.add(quat.scale(up, rise), quat.scale(level, math.sqrt(1.0 - rise * rise)))
    return quat.unit(quat.cross(side, line), normal)


@njit
def bend_limits(first: float, second: float, sharpest: float) -> float:
    """Return the distance from root to end of a limb whose middle joint is bent by `sharpest` (rad; 0 is straight)."""
    return math.sqrt(first * first + second * second + 2.0 * first * second * math.cos(sharpest))


@njit
def swung_normal(root: Row, end: Row, hinge: Row, target: Row) -> Vec:
    """Return the unit normal of a limb's plane after the shortest rotation of the limb that points it to `target`.

    The vector `hinge`, the present rotation axis of the middle joint, is used instead of the joint positions, because
    the joints of a straight limb define no plane, and a blend may have bent the middle joint sideways.
    """
    line = quat.unit(quat.sub(end, root), (0.0, 0.0, -1.0))
    new_line = quat.unit(quat.sub(target, root), line)
    n = quat.across(quat.rotate(quat.between(line, new_line), quat.across(hinge, line)), new_line)
    return quat.unit(n, quat.unit(quat.across((0.0, 1.0, 0.0), new_line), (1.0, 0.0, 0.0)))


@njit
def bend_two(
    root: Row, target: Row, normal: Row, first_bone: Row, second_bone: Row, axis: Row
) -> tuple[Quat, Quat, Vec]:
    """Bend a limb so that its end is at `target`, which must be in reach.

    Return the rotations of both bones and the position of the middle joint, in the room. The vectors `first_bone`,
    `second_bone` and `axis` (of the hinge) are in the axes of their joints. The unit vector `normal` is the direction
    of the hinge in the room, normal to the line root–target. The limb bends about `normal` by a positive angle.
    """
    first, second = quat.norm(first_bone), quat.norm(second_bone)
    line = quat.unit(quat.sub(target, root), (0.0, 0.0, -1.0))
    middle = corner(root, target, quat.cross(line, normal), first, second)
    a = quat.aligning(quat.scale(first_bone, 1.0 / first), axis, quat.unit(quat.sub(middle, root), line), normal)
    b = quat.aligning(quat.scale(second_bone, 1.0 / second), axis, quat.unit(quat.sub(target, middle), line), normal)
    return a, b, middle
