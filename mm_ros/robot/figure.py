"""Geometry of a humanoid robot, from the roles of its joints: positions of the limbs, soles, size and facing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.robot.load import load_robot, robot_text
from mm_ros.robot.model import Robot
from mm_ros.robot.overrides import FILE, Overrides, adapted, read_overrides, roles_with
from mm_ros.robot.roles import NotHumanoidError, Roles, meeting_point
from mm_ros.robot.soles import Sole, find_sole
from mm_ros.robot.tree import Tree
from mm_ros.robot.xml import parse

TWIST = 0.9  # A joint whose axis has at least this cosine to the direction of its limb twists the limb.
SIDES = ("left", "right")
NONE = Overrides()


@dataclass(frozen=True)
class Limb:
    """Leg or arm of a robot. `root`, `bend` and `end` are the positions of hip, knee and ankle, or of shoulder, elbow
    and wrist, at zero joint angles in the axes of the base. `upper`, `lower` and `tip` are the names of the links of
    thigh, lower leg and foot, or of upper arm, forearm and hand."""

    side: str
    kind: str  # leg, arm
    root: F64
    bend: F64
    end: F64
    upper: str
    lower: str
    tip: str

    @property
    def length(self) -> float:
        return float(np.linalg.norm(self.bend - self.root) + np.linalg.norm(self.end - self.bend))


@dataclass(frozen=True)
class Figure:
    """Geometry of a robot. `front` is the rotation of the base that makes the robot face +x at zero joint angles;
    `zero` has the pose of each link at zero joint angles."""

    robot: Robot
    roles: Roles
    zero: dict[str, F64]
    front: F64
    limbs: dict[str, Limb]  # "left leg", …
    soles: dict[str, Sole]  # by side
    overrides: str = ""  # path of the file robot.yaml from which corrections were read; else empty

    @cached_property
    def leg_length(self) -> float:
        """Mean length of the robot's legs [m]. For a robot without legs, the leg length is estimated from its arms."""
        legs = [limb.length for limb in self.limbs.values() if limb.kind == "leg"]
        return float(np.mean(legs)) if legs else 1.5 * float(np.mean([a.length for a in self.limbs.values()]))

    @cached_property
    def hips(self) -> F64:
        """Centre between the robot's hips at zero joint angles in the axes of the base."""
        legs = [limb.root for limb in self.limbs.values() if limb.kind == "leg"]
        return np.mean(legs, axis=0) if legs else self.zero[self.roles.pelvis][:3]

    @cached_property
    def sole_height(self) -> float:
        """Mean height of the robot's ankles above the soles of its feet [m]; 0 without feet."""
        return float(np.mean([s.height for s in self.soles.values()])) if self.soles else 0.0

    def in_link(self, link: str, point: F64) -> F64:
        """Convert a point from the axes of the base to the axes of a link, at zero joint angles."""
        pose = self.zero[link]
        return np.asarray(rot.rotate(rot.inverse(pose[3:]), point - pose[:3]))


def read_figure(path: str | Path, overrides: str | Path | None = None) -> Figure:
    """Read a robot file and robot.yaml: the given one, or else the one beside the robot file if it exists."""
    robot, stated = read_robot(path, overrides)
    return figure_of(robot, roles_with(robot, stated), stated)


def read_robot(path: str | Path, overrides: str | Path | None = None) -> tuple[Robot, Overrides]:
    """Read a robot file and the robot.yaml that `read_figure` uses."""
    beside = Path(path).parent / FILE
    chosen = overrides or (beside if beside.is_file() else None)
    stated = Overrides() if chosen is None else read_overrides(chosen)
    return adapted(load_robot(path), stated), stated


def state_publisher_suffices(path: str | Path) -> bool:
    """Return whether robot_state_publisher can publish all links of a robot file. robot_state_publisher reads URDF
    only, and publishes the child link of a joint only if the joint is fixed, has an angle in `joint_states`, or mimics
    a joint that has one. `joint_states` contains the joints in `Robot.moving`."""
    text = robot_text(path)
    if not text:
        return False
    stated = read_robot(path)[0].moving
    unfixed = [e for e in parse(text, str(path)).findall("joint") if e.get("type") != "fixed"]
    sources = [(e.get("name") if (m := e.find("mimic")) is None else m.get("joint")) for e in unfixed]
    return set(sources) <= set(stated)


def figure_of(robot: Robot, roles: Roles, stated: Overrides = NONE) -> Figure:
    tree = Tree(robot)
    if len(roles.missing) == 4:
        raise NotHumanoidError(f"robot '{robot.name}' is not a humanoid: it has neither two legs nor two arms")
    limbs: dict[str, Limb] = {}
    for side in SIDES:
        for kind, parts in (("leg", ("upper_leg", "lower_leg", "foot")), ("arm", ("upper_arm", "lower_arm", "hand"))):
            if roles.has(side, kind):
                limbs[f"{side} {kind}"] = _limb(tree, side, kind, [roles.chains.get(f"{side}_{p}", ()) for p in parts])
    front = rot.from_yaw(-roles.facing)
    soles = {}
    for limb in limbs.values():
        if limb.kind == "leg":
            soles[limb.side] = _sole(tree, roles, limb, front, stated)
    return Figure(robot, roles, tree.zero, front, limbs, soles, stated.source)


def _limb(tree: Tree, side: str, kind: str, chains: list[tuple[str, ...]]) -> Limb:
    robot = tree.robot
    upper, lower, end = chains
    points, axes = tree.points, tree.axes
    bend_joint = lower[0]
    near = upper[-3:] if upper else (bend_joint,)
    root = meeting_point([points[j] for j in near], [axes[j] for j in near])
    tip = robot.joint((*upper, *lower, *end)[-1]).child
    far = tree.end_of((*upper, *lower, *end))
    hinge = [j for j in end if kind == "leg" or not _along(tree, j, far - points[bend_joint])]
    stop = meeting_point([points[j] for j in hinge[:3]], [axes[j] for j in hinge[:3]]) if hinge else far
    # The robot file may place the origin of a knee or elbow joint anywhere on its axis, so the knee is placed at the
    # point of its joint axis that is nearest to the line from hip to ankle, and the elbow at the point nearest to the
    # line from shoulder to wrist.
    p, axis = points[bend_joint], axes[bend_joint]
    bend = p + axis * float(((root - p) @ axis + (stop - p) @ axis) / 2)
    # The hip axes may meet beside the plane in which the knee bends, so the hip is moved sideways into this plane.
    if kind == "leg":
        root, bend = root + axis * float((stop - root) @ axis), p + axis * float((stop - p) @ axis)
    lower_link = robot.joint(hinge[0]).parent if hinge else tip
    return Limb(side, kind, root, bend, stop, robot.joint(bend_joint).parent, lower_link, tip)


def _along(tree: Tree, joint: str, way: F64) -> bool:
    return abs(float(tree.axes[joint] @ way)) > TWIST * float(np.linalg.norm(way))


def _sole(tree: Tree, roles: Roles, limb: Limb, front: F64, stated: Overrides) -> Sole:
    feet = roles.chains.get(f"{limb.side}_foot") or roles.chains[f"{limb.side}_lower_leg"]
    group = tree.child_group(feet[-1])
    links = [limb.tip, *(m for m in tree.members[group] if m != limb.tip)]
    toes = roles.chains.get(f"{limb.side}_toes", ())
    if toes:
        links = [tree.robot.joint(feet[-1]).child, *(m for m in links if m != tree.robot.joint(feet[-1]).child)]
        links += tree.members[tree.child_group(toes[-1])]
    return find_sole(tree.robot, links, tree.zero, limb.end, limb.length, front, stated.sole)
