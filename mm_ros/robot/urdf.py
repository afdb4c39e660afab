"""URDF files: the tree of joints, and a guess of the canonical joint of each."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64
from mm_ros.maths.transformations import quaternion_from_rpy
from mm_ros.robot.revolute import MOVING, Robot, RobotJoint, RobotMap

# Word in a joint's name → canonical joint, without its side.
_WORDS = (
    ("hip", "upper_leg"), ("knee", "lower_leg"), ("ankle", "foot"), ("shoulder", "upper_arm"), ("elbow", "lower_arm"),
    ("wrist", "hand"), ("neck", "neck"), ("head", "head"), ("waist", "spine"), ("torso", "spine"), ("chest", "chest"),
)  # fmt: skip
_SIDED = ("upper_leg", "lower_leg", "foot", "upper_arm", "lower_arm", "hand")


def read_urdf(path: str | Path) -> Robot:
    path = Path(path)
    if not path.is_file():
        raise MmRosError(f"{path}: there is no such file")
    try:
        return parse_urdf(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise MmRosError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise MmRosError(f"{path}: is not UTF-8 text (byte {error.start})") from error


def parse_urdf(text: str, source: str = "URDF") -> Robot:
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:  # ValueError: the text declares an unknown encoding
        raise MmRosError(f"{source}: not XML: {error}") from None
    if root.tag != "robot":
        raise MmRosError(f"{source}: expected <robot>, came <{root.tag}>")
    joints = [_joint(e, source) for e in root.findall("joint")]
    links = [e.get("name", "") for e in root.findall("link")]
    children = [j.child for j in joints]
    bases = [n for n in links if n not in children]
    if len(bases) != 1 or len(set(children)) != len(children):
        names = ", ".join(bases) or "none"
        raise MmRosError(f"{source}: expected one tree of links; links without a parent: {names}")
    return Robot(root.get("name", "robot"), bases[0], _ordered(joints, bases[0], source))


def _ordered(joints: list[RobotJoint], base: str, source: str) -> tuple[RobotJoint, ...]:
    out: list[RobotJoint] = []
    known, left = {base}, list(joints)
    while left:
        ready = [j for j in left if j.parent in known]
        if not ready:
            j = left[0]
            raise MmRosError(f"{source}: joint '{j.name}' has the parent '{j.parent}', which is not part of the tree")
        out += ready
        known |= {j.child for j in ready}
        left = [j for j in left if j not in ready]
    return tuple(out)


def _joint(e: ElementTree.Element, source: str) -> RobotJoint:
    name, kind = e.get("name", ""), e.get("type", "")
    where = f"{source}: joint '{name}'"
    parent, child = e.find("parent"), e.find("child")
    if parent is None or child is None:
        raise MmRosError(f"{where} lacks its <parent> or <child>")
    origin, axis, limit = e.find("origin"), e.find("axis"), e.find("limit")
    xyz = _numbers(origin, "xyz", where) if origin is not None else np.zeros(3)
    rpy = _numbers(origin, "rpy", where) if origin is not None else np.zeros(3)
    # Only moving joints need an axis: CAD exporters write "0 0 0" for fixed ones.
    along = _numbers(axis, "xyz", where) if axis is not None and kind in MOVING else np.array([1.0, 0.0, 0.0])
    length = float(np.linalg.norm(along))
    if not 1e-9 < length < math.inf:
        raise MmRosError(f"{where}: its axis has no length")
    lower, upper = -math.inf, math.inf
    if kind == "revolute":
        if limit is None:
            raise MmRosError(f"{where} is revolute and lacks its <limit>")
        lower, upper = _number(limit, "lower", where), _number(limit, "upper", where)
        if not lower <= upper:  # also NaN
            raise MmRosError(f"{where}: lower limit {lower} is above the upper {upper}")
    # Prismatic, planar and floating joints are treated as fixed.
    return RobotJoint(
        name, kind if kind in MOVING else "fixed", parent.get("link", ""), child.get("link", ""),
        np.concatenate([xyz, quaternion_from_rpy(*rpy)]), along / length, lower, upper,
    )  # fmt: skip


def _number(e: ElementTree.Element, key: str, where: str) -> float:
    try:
        return float(e.get(key, "0"))
    except ValueError:
        raise MmRosError(f"{where}: {key}=\"{e.get(key)}\" is not a number") from None


def _numbers(e: ElementTree.Element, key: str, where: str) -> F64:
    text = e.get(key, "0 0 0")
    try:
        out = np.array([float(x) for x in text.split()])
    except ValueError:
        out = np.zeros(0)
    if out.shape != (3,) or not np.isfinite(out).all():
        raise MmRosError(f"{where}: expected three numbers in {key}, came \"{text}\"")
    return out


def guess_map(robot: Robot, t_pose: dict[str, float] | None = None) -> RobotMap:
    """Guess the map from words in the joints' names; feet are the links of the ankles. Other joints do not move."""
    chains: dict[str, list[str]] = {}
    for j in robot.joints:
        canonical = _canonical(j.name) if j.kind in MOVING else ""
        if canonical:
            chains.setdefault(canonical, []).append(j.name)
    ends = {c: robot.joint(names[-1]).child for c, names in chains.items()}
    feet = (ends.get("left_foot", ""), ends.get("right_foot", ""))
    return RobotMap({c: tuple(n) for c, n in chains.items()}, t_pose or {}, feet if all(feet) else ("", ""))


def _canonical(name: str) -> str:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    words = [w for w in re.split(r"[^a-z]+", apart.lower()) if w]
    for word, joint in _WORDS:
        if not any(w.startswith(word) for w in words):
            continue
        if joint not in _SIDED:
            return joint
        for side, marks in (("left", ("l", "left")), ("right", ("r", "right"))):
            if any(m in words for m in marks):
                return f"{side}_{joint}"
    return ""
