"""Read the links and joints of a robot from a URDF file."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64
from mm_ros.maths.transformations import quaternion_from_rpy
from mm_ros.robot.model import MOVING, Link, Mimic, Robot, RobotJoint, Shape
from mm_ros.robot.xml import MOST_LINKS, number, numbers, parse

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def parse_urdf(text: str, source: str = "URDF") -> Robot:
    root = parse(text, source)
    if root.tag != "robot":
        raise MmRosError(f"{source}: expected <robot>, came <{root.tag}>")
    if any("xacro" in str(e.tag) for e in root):
        raise MmRosError(f"{source}: contains xacro macros; name the file .xacro so that they are expanded")
    named = root.findall("link")
    if len(named) > MOST_LINKS:
        raise MmRosError(f"{source}: has {len(named)} links; expected at most {MOST_LINKS}")
    if not named:
        raise MmRosError(f"{source}: has no <link>")
    joints = [_joint(e, source) for e in root.findall("joint")]
    for what, names in (("links", [e.get("name", "") for e in named]), ("joints", [j.name for j in joints])):
        twice = [n for n, count in Counter(names).items() if count > 1]
        if twice:
            raise MmRosError(f"{source}: two {what} have the name '{twice[0]}'")
    links = [e.get("name", "") for e in named]
    children = Counter(j.child for j in joints)
    bases = [n for n in links if n not in children]
    shared = [n for n, count in children.items() if count > 1]
    if shared:
        raise MmRosError(f"{source}: link '{shared[0]}' has two parents; expected one tree of links")
    if len(bases) != 1:
        tops = ", ".join(bases[:10]) or "none (the joints form a loop)"
        raise MmRosError(f"{source}: expected one tree of links; links without a parent: {tops}")
    ordered = ordered_joints(joints, bases[0], source)
    unknown = [j.mimic.joint for j in joints if j.mimic and j.mimic.joint not in {k.name for k in joints}]
    if unknown:
        raise MmRosError(f"{source}: a joint mimics '{unknown[0]}', which does not exist")
    parts = {e.get("name", ""): _link(e, source) for e in named}
    notes = [] if any(p.mass > 0 for p in parts.values()) else ["no link has a mass, so the centre of mass is unknown"]
    odd = sorted({e.get("type", "") for e in root.findall("joint")} - {*MOVING, "fixed"})
    notes += [f"{kind or 'untyped'} joints are treated as fixed" for kind in odd]
    controlled = tuple(j.get("name", "") for c in root.findall("ros2_control") for j in c.findall("joint"))
    return Robot(root.get("name", "robot"), bases[0], ordered, parts, controlled, source, tuple(notes))


def ordered_joints(joints: list[RobotJoint], base: str, source: str) -> tuple[RobotJoint, ...]:
    """Sort the joints so that each joint comes after the joint that moves its parent link."""
    by_parent: dict[str, list[RobotJoint]] = {}
    for j in joints:
        by_parent.setdefault(j.parent, []).append(j)
    out, todo = [], [base]
    while todo:
        for j in by_parent.pop(todo.pop(0), []):
            out.append(j)
            todo.append(j.child)
    if by_parent:
        j = next(iter(by_parent.values()))[0]
        raise MmRosError(f"{source}: joint '{j.name}' has the parent '{j.parent}', which is not part of the tree")
    order = {j.name: i for i, j in enumerate(joints)}
    return _in_file_order(out, order, base)


def _in_file_order(joints: list[RobotJoint], order: dict[str, int], base: str) -> tuple[RobotJoint, ...]:
    """Return the joints in the order of the robot file, which robot controllers often use, unless a joint comes before
    its parent there."""
    by_file = sorted(joints, key=lambda j: order[j.name])
    known = {base}
    for j in by_file:
        if j.parent not in known:
            return tuple(joints)
        known.add(j.child)
    return tuple(by_file)


def _joint(e: Element, source: str) -> RobotJoint:
    name, kind = e.get("name", ""), e.get("type", "")
    where = f"{source}: joint '{name}'"
    parent, child = e.find("parent"), e.find("child")
    if parent is None or child is None:
        raise MmRosError(f"{where} lacks its <parent> or <child>")
    axis, limit, mimic = e.find("axis"), e.find("limit"), e.find("mimic")
    # Fixed joints need no axis, and CAD programs write the axis "0 0 0" for them.
    along = numbers(axis, "xyz", where) if axis is not None and kind in MOVING else np.array([1.0, 0.0, 0.0])
    length = float(np.linalg.norm(along))
    if not 1e-9 < length < math.inf:
        raise MmRosError(f"{where}: its axis has no length")
    lower, upper = -math.inf, math.inf
    if kind == "revolute":
        if limit is None:
            raise MmRosError(f"{where} is revolute and lacks its <limit>")
        lower, upper = number(limit, "lower", where), number(limit, "upper", where)
        if not lower <= upper:
            raise MmRosError(f"{where}: lower limit {lower} is above the upper {upper}")
    speed = number(limit, "velocity", where) if limit is not None else 0.0
    return RobotJoint(
        name, kind if kind in MOVING else "fixed", parent.get("link", ""), child.get("link", ""),
        _origin(e, where), along / length, lower, upper, speed if 0 < speed < math.inf else 0.0,
        None if mimic is None or kind not in MOVING else Mimic(
            mimic.get("joint", ""), number(mimic, "multiplier", where, "1"), number(mimic, "offset", where)
        ),
    )  # fmt: skip


def _origin(e: Element, where: str) -> F64:
    origin = e.find("origin")
    xyz, rpy = numbers(origin, "xyz", where), numbers(origin, "rpy", where)
    return np.concatenate([xyz, quaternion_from_rpy(*rpy)])


def _link(e: Element, source: str) -> Link:
    where = f"{source}: link '{e.get('name', '')}'"
    inertial, mass, centre = e.find("inertial"), 0.0, np.zeros(3)
    if inertial is not None:
        heavy = inertial.find("mass")
        mass = 0.0 if heavy is None else number(heavy, "value", where)
        centre = _origin(inertial, where)[:3]
    if not 0 <= mass < 1e6:
        raise MmRosError(f"{where}: its mass is {mass} kg")
    shapes = [
        s for tag in ("collision", "visual") for part in e.findall(tag)
        if (s := _shape(part, tag == "collision", where)) is not None
    ]  # fmt: skip
    return Link(e.get("name", ""), mass, centre, tuple(shapes))


def _shape(e: Element, collision: bool, where: str) -> Shape | None:
    geometry = e.find("geometry")
    shape = next(iter(geometry), None) if geometry is not None else None
    if shape is None:
        return None
    pose, kind = _origin(e, where), re.sub(r".*\}", "", str(shape.tag))
    if kind == "box":
        size = tuple(float(v) for v in numbers(shape, "size", where))
    elif kind == "sphere":
        size = (number(shape, "radius", where),)
    elif kind in ("cylinder", "capsule"):
        size = (number(shape, "radius", where), number(shape, "length", where))
    elif kind == "mesh":
        size = tuple(float(v) for v in numbers(shape, "scale", where, "1 1 1"))
    else:
        return None
    return Shape(kind, size, pose, collision, shape.get("filename", ""))
