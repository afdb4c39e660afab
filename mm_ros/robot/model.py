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
    """Rule for the angle of a joint that mimics another joint: factor · (angle of the other joint `joint`) + offset."""

    joint: str
    factor: float
    offset: float


@dataclass(frozen=True)
class RobotJoint:
    """Joint of a robot. `origin` is the pose of the joint in the parent link (x y z qw qx qy qz). The joint turns about
    the unit vector `axis`, in the axes of the joint, by an angle from `lower` to `upper` [rad]."""

    name: str
    kind: str  # revolute, continuous, fixed
    parent: str
    child: str
    origin: F64
    axis: F64
    lower: float
    upper: float
    velocity: float = 0.0  # maximum speed of the joint [rad/s]; 0 if the robot file states no maximum speed
    mimic: Mimic | None = None

    def moved(self, parent: F64, angle: float) -> F64:
        """Return the pose of the joint's child link for a pose of the parent link and a joint angle."""
        q = rot.multiply(parent[3:], self.origin[3:])
        if self.kind in MOVING:
            q = rot.multiply(q, rot.exp(self.axis * angle))
        return np.concatenate([parent[:3] + rot.rotate(parent[3:], self.origin[:3]), q])


@dataclass(frozen=True)
class Shape:
    """Shape of a link. `size` is the length of the three edges of a box, the radius of a sphere, or the scale of a
    mesh. `size` of a cylinder or capsule is its radius and the length of its straight part. The shape has the pose
    `pose` in the axes of the link."""

    kind: str  # kind of the shape: box, sphere, cylinder, capsule or mesh
    size: tuple[float, ...]
    pose: F64
    collision: bool
    file: str = ""  # path of the mesh file, as written in the robot file


@dataclass(frozen=True)
class Link:
    """Link of a robot. `centre` is the link's centre of mass in the axes of the link. A link with a `mass` of 0 kg has
    an unknown mass."""

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
    controlled: tuple[str, ...] = ()  # joints in the <ros2_control> tag of the robot file, in the order of this tag
    source: str = ""  # path of the file from which the robot was read
    notes: tuple[str, ...] = ()  # sentences about parts of the robot file that the reader left out or repaired

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
        """Names of the robot's joints that turn and do not mimic another joint."""
        return tuple(j.name for j in self.joints if j.kind in MOVING and j.mimic is None)

    def with_mimics(self, angles: dict[str, float]) -> dict[str, float]:
        """Return the given joint angles together with the angles of the joints that mimic another joint."""
        out = dict(angles)
        for j in self.joints:
            if j.mimic is not None and j.kind in MOVING:
                out[j.name] = j.mimic.factor * out.get(j.mimic.joint, 0.0) + j.mimic.offset
        return out

    def links(self, angles: dict[str, float], base: Any = None) -> dict[str, F64]:
        """Return the pose (x y z qw qx qy qz) of each link when the base link is at the pose `base`. All joints without
        an angle in `angles` are at the angle 0."""
        out = {self.base: identity_pose() if base is None else np.array(base, np.float64)}
        angles = self.with_mimics(angles)
        for j in self.joints:
            out[j.child] = j.moved(out[j.parent], angles.get(j.name, 0.0))
        return out
