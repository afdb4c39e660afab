"""A robot as a tree of links and joints, as read from a URDF or MJCF file."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64, identity_pose
from mm_ros.maths import rotations as rot

MOVING = ("revolute", "continuous")


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another joint: angle = factor · angle of `joint` + offset."""

    joint: str
    factor: float
    offset: float


@dataclass(frozen=True)
class RobotJoint:
    """`origin`: x y z qw qx qy qz in the parent link; `axis`: unit vector in the joint's axes; limits in rad, rad/s."""

    name: str
    kind: str  # revolute, continuous, fixed
    parent: str
    child: str
    origin: F64
    axis: F64
    lower: float
    upper: float
    velocity: float = 0.0  # maximum velocity; 0 if the file does not state it
    mimic: Mimic | None = None

    def moved(self, parent: F64, angle: float) -> F64:
        """Pose of the child link."""
        q = rot.multiply(parent[3:], self.origin[3:])
        if self.kind in MOVING:
            q = rot.multiply(q, rot.exp(self.axis * angle))
        return np.concatenate([parent[:3] + rot.rotate(parent[3:], self.origin[:3]), q])


@dataclass(frozen=True)
class Shape:
    """`size`: box: edges; sphere: radius; cylinder and capsule: radius, length between the ends of the straight part;
    mesh: scale. `pose`: pose of the shape in the axes of the link."""

    kind: str  # kind of shape: box, sphere, cylinder, capsule or mesh
    size: tuple[float, ...]
    pose: F64
    collision: bool
    file: str = ""  # path of a mesh, as written in the file


@dataclass(frozen=True)
class Link:
    """`mass` [kg] and `centre` of mass in the axes of the link; a mass of 0 is unknown."""

    name: str
    mass: float = 0.0
    centre: F64 = field(default_factory=lambda: np.zeros(3))
    shapes: tuple[Shape, ...] = ()


@dataclass(frozen=True)
class Robot:
    """Tree of links and joints of a robot."""

    name: str
    base: str
    joints: tuple[RobotJoint, ...]  # parents before children
    parts: dict[str, Link] = field(default_factory=dict)  # by name
    controlled: tuple[str, ...] = ()  # joints of the <ros2_control> tag, in its order
    source: str = ""  # path of the file
    notes: tuple[str, ...] = ()  # descriptions of what the reader left out or repaired

    def joint(self, name: str) -> RobotJoint:
        try:
            return self.by_name[name]
        except KeyError:
            names = ", ".join(j.name for j in self.joints)
            raise MmRosError(f"joint '{name}' is not in robot '{self.name}'. Joints: {names}") from None

    @cached_property
    def by_name(self) -> dict[str, RobotJoint]:
        return {j.name: j for j in self.joints}

    @cached_property
    def by_child(self) -> dict[str, RobotJoint]:
        return {j.child: j for j in self.joints}

    @cached_property
    def by_parent(self) -> dict[str, list[RobotJoint]]:
        out: dict[str, list[RobotJoint]] = defaultdict(list)
        for j in self.joints:
            out[j.parent].append(j)
        return out

    @property
    def moving(self) -> tuple[str, ...]:
        """Joints that turn, without those that mimic another joint."""
        return tuple(j.name for j in self.joints if j.kind in MOVING and j.mimic is None)

    def with_mimics(self, angles: dict[str, float]) -> dict[str, float]:
        """The angles of these joints and of those that mimic them."""
        out = dict(angles)
        for j in self.joints:
            if j.mimic is not None and j.kind in MOVING:
                out[j.name] = j.mimic.factor * out.get(j.mimic.joint, 0.0) + j.mimic.offset
        return out

    def links(self, angles: dict[str, float], base: Any = None) -> dict[str, F64]:
        """Pose (x y z qw qx qy qz) of each link, with the base link at `base`; missing angles are 0."""
        out = {self.base: identity_pose() if base is None else np.array(base, np.float64)}
        angles = self.with_mimics(angles)
        for j in self.joints:
            out[j.child] = j.moved(out[j.parent], angles.get(j.name, 0.0))
        return out
