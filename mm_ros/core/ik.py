"""Two bones to a target: the triangle, its plane, and the two rotations. For legs and arms."""

from __future__ import annotations

import math

from mm_ros.core import quat
from mm_ros.core.jit import njit
from mm_ros.core.quat import Quat, Row, Vec


@njit
def soft_reach(distance: float, longest: float, zone: float) -> float:
    """`distance` where it is well in reach; beyond `longest` − `zone` it nears `longest` ever more slowly.

    Value and slope are continuous, so a limb neither pops straight nor snaps back. Costs zone/e at full reach.
    """
    start = longest - zone
    if distance <= start:
        return distance
    return start + zone * (1.0 - math.exp(-(distance - start) / zone))


@njit
def corner(root: Row, end: Row, side: Row, first: float, second: float) -> Vec:
    """The middle joint of a limb from `root` to `end`, bent toward unit vector `side` (normal to root–end)."""
    line = quat.sub(end, root)
    d = max(quat.norm(line), 1e-9)
    along = (first * first - second * second + d * d) / (2.0 * d)
    along = min(max(along, -first), first)
    out = math.sqrt(max(first * first - along * along, 0.0))
    u = quat.unit(line, (0.0, 0.0, -1.0))
    return quat.add(root, quat.add(quat.scale(u, along), quat.scale(side, out)))


@njit
def bend_limits(first: float, second: float, sharpest: float) -> float:
    """Distance root–end when the middle joint is bent by `sharpest` (rad; 0 is straight)."""
    return math.sqrt(first * first + second * second + 2.0 * first * second * math.cos(sharpest))


@njit
def bend_normal(root: Row, middle: Row, end: Row, hinge: Row) -> Vec:
    """Unit normal of the limb's plane, on the side of the unit vector `hinge`, which decides for a straight limb."""
    a = quat.unit(quat.sub(middle, root), (0.0, 0.0, -1.0))
    b = quat.unit(quat.sub(end, middle), a)
    raw = quat.cross(a, b)  # length: sine of the bend
    raw = quat.sub(raw, quat.scale(hinge, min(quat.dot(raw, hinge), 0.0)))  # no joint bends the wrong way
    n = quat.add(raw, quat.scale(hinge, 0.15))
    line = quat.unit(quat.sub(end, root), a)
    return quat.unit(quat.across(n, line), quat.unit(quat.across(hinge, line), hinge))


@njit
def bend_two(
    root: Row, middle: Row, end: Row, target: Row, normal: Row, q_first: Row, q_second: Row
) -> tuple[Quat, Quat, Vec]:
    """New global rotations of the two bones, and the middle joint, so that `end` comes to `target`.

    `normal` is the unit normal of the present plane; the plane swings along with the limb by the shortest way, so the
    knee (or elbow) keeps its direction. `target` must be within reach.
    """
    first = quat.norm(quat.sub(middle, root))
    second = quat.norm(quat.sub(end, middle))
    line = quat.unit(quat.sub(end, root), (0.0, 0.0, -1.0))
    new_line = quat.unit(quat.sub(target, root), line)
    n = quat.rotate(quat.between(line, new_line), normal)
    n = quat.unit(quat.across(n, new_line), n)
    new_middle = corner(root, target, quat.cross(new_line, n), first, second)
    new_end = target
    a = quat.aligning(
        quat.unit(quat.sub(middle, root), line), normal, quat.unit(quat.sub(new_middle, root), new_line), n
    )
    b = quat.aligning(
        quat.unit(quat.sub(end, middle), line), normal, quat.unit(quat.sub(new_end, new_middle), new_line), n
    )
    return quat.normalize(quat.mul(a, q_first)), quat.normalize(quat.mul(b, q_second)), new_middle
