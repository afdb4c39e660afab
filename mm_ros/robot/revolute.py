"""Transfer a human pose to the revolute joints of a robot within their limits, by the method of Karst (2023).

Each canonical joint of the human determines the angles of a chain of revolute joints of the robot. The best value of
one joint angle has a closed form: the remaining rotation between chain and target, projected on the joint's axis.
Repeated passes over all angles of the chain converge to the rotation within the joint limits that is nearest to the
target. If a joint limit causes an error, the joints farther from the base compensate for the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import LEFT_FOOT, NAMES, RIGHT_FOOT, Skeleton, canonical_kinematics
from mm_ros.body.types import F64, AvatarPose
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Quat, Row
from mm_ros.robot.figure import Figure
from mm_ros.robot.model import MOVING, Robot, RobotJoint
from mm_ros.robot.tree import Tree

SWEEPS = 60
SETTLED_RAD = 1e-8  # The search for the joint angles of a limb ends when no angle changes by more than this.

@dataclass(frozen=True)
class RobotMap:
    """Map from canonical joints (the avatar's) to joints of a robot. `chains` maps each canonical joint to the robot's
    joints that follow it, from the base outward. `t_pose` has the joint angles of the robot in the canonical T-pose
    [rad]; missing angles are 0. The robot's base link follows the avatar's joint `base`."""

    chains: dict[str, tuple[str, ...]]
    t_pose: dict[str, float] = field(default_factory=dict)
    # Names of the links of the left and right foot; if empty, the robot's height is not adapted to the floor.
    feet: tuple[str, str] = ("", "")
    base: str = "hips"


def map_of(figure: Figure, t_pose: dict[str, float] | None = None) -> RobotMap:
    """Map the avatar's canonical joints to the robot's joints by the roles of the robot's joints. If the robot's base
    is above its waist, the waist joints follow the avatar's hips."""
    chains, base = dict(figure.roles.chains), "hips"
    groups = Tree(figure.robot).group_of
    if "upper_chest" in chains and groups[figure.robot.base] == groups[figure.roles.chest]:
        base, chains["hips"] = "upper_chest", chains.pop("upper_chest")
    feet = {side: sole.link for side, sole in figure.soles.items()}
    return RobotMap(chains, t_pose or {}, (feet.get("left", ""), feet.get("right", "")), base)


@dataclass
class RobotPose:
    """Pose of a robot: pose of its base and angles of its joints [rad]."""

    base: F64  # (7,) pose of the base link in the room, x y z qw qx qy qz
    angles: dict[str, float]
    error_rad: dict[str, float]  # for each joint of the avatar, the angle between desired and reached rotation


class RevoluteRetargeter:
    """Retargets poses of the avatar to the revolute joints of a robot."""

    def __init__(self, source: Skeleton, robot: Robot, mapping: RobotMap) -> None:
        self.source, self.robot, self.map = source, robot, mapping
        self._check()
        self._angles = {n: float(np.clip(0.0, self._of(n).lower, self._of(n).upper)) for n in robot.moving}
        self._rest = robot.links(mapping.t_pose)
        self._order = sorted(mapping.chains, key=NAMES.index)
        self._by_child = {j.child: j for j in robot.joints}
        self._chains = {c: self._chain(names) for c, names in mapping.chains.items() if names}
        rest = source.rest_positions().astype(np.float64)
        self._rest_feet = rest[[LEFT_FOOT, RIGHT_FOOT], 2]
        if all(mapping.feet):
            drop = np.mean([self._rest[f][2] for f in mapping.feet])
            hip_height = float(rest[1, 2] - self._rest_feet.mean())
            self.scale = float(-drop) / hip_height if drop < 0 else 1.0
        else:
            self.scale = 1.0

    def _of(self, name: str) -> RobotJoint:
        return self.robot.joint(name)

    def _check(self) -> None:
        for canonical, chain in self.map.chains.items():
            if canonical not in NAMES:
                raise MmRosError(f"'{canonical}' is not a canonical joint. Joints: {', '.join(NAMES)}")
            for name in chain:
                kind = self._of(name).kind
                if kind not in MOVING:
                    raise MmRosError(f"joint '{name}' of robot '{self.robot.name}' is {kind}, not revolute")
        for name in self.map.t_pose:
            self._of(name)
        links = {self.robot.base, *(j.child for j in self.robot.joints)}
        for foot in self.map.feet:
            if foot and foot not in links:
                every = ", ".join(sorted(links))
                raise MmRosError(f"link '{foot}' is not in robot '{self.robot.name}'. Links: {every}")

    def reset(self) -> None:
        for n in self._angles:
            self._angles[n] = float(np.clip(0.0, self._of(n).lower, self._of(n).upper))

    def step(self, pose: AvatarPose) -> RobotPose:
        """Return the robot's pose that is nearest to the avatar's pose, by a search from the previous joint angles."""
        p, q = pose.positions.astype(np.float64), pose.rotations.astype(np.float64)
        p[0], q[0] = pose.root[:3], pose.root[3:]
        p, q = canonical_kinematics(p, q)
        base_q = rot.multiply(q[NAMES.index(self.map.base)], self._rest[self.robot.base][3:])
        base = np.concatenate([p[1], base_q])
        errors: dict[str, float] = {}
        # `links` is filled from the base outward, because the pose of a link depends on that of its parent.
        links = {self.robot.base: base}
        for canonical in self._order:
            errors[canonical] = self._turn(canonical, q[NAMES.index(canonical)], links)
        base[:3] = self._standing(p, base)
        return RobotPose(base, dict(self._angles), errors)

    def _turn(self, canonical: str, wanted_source: F64, links: dict[str, F64]) -> float:
        """Turn a chain of joints so that its last link gets the desired rotation (equation 3.23 of Karst 2023), and
        return the remaining error [rad]."""
        if canonical not in self._chains:
            return 0.0
        chain, before, axes, limits = self._chains[canonical]
        wanted = rot.multiply(wanted_source, self._rest[chain[-1].child][3:])
        angles = np.array([self._angles[j.name] for j in chain])
        target = rot.multiply(rot.inverse(self._link(chain[0].parent, links)[3:]), wanted)
        left = solve_chain(before, axes, limits, tuple(target), angles)
        for j, a in zip(chain, angles, strict=True):
            self._angles[j.name] = float(a)
        return float(left)

    def _link(self, name: str, links: dict[str, F64]) -> F64:
        if name not in links:
            j = self._by_child[name]
            links[name] = j.moved(self._link(j.parent, links), self._angles.get(j.name, 0.0))
        return links[name]

    def _chain(self, names: tuple[str, ...]) -> tuple[list[RobotJoint], F64, F64, F64]:
        chain = [self._of(n) for n in names]
        return chain, *self._between(chain), np.array([[j.lower, j.upper] for j in chain])

    def _between(self, chain: list[RobotJoint]) -> tuple[F64, F64]:
        """Return the constant rotation before each joint of the chain, including fixed joints, and the axis of each
        joint."""
        before = []
        for i, j in enumerate(chain):
            q, link = j.origin[3:], j.parent
            stop = chain[i - 1].child if i else chain[0].parent
            while link != stop:
                if link not in self._by_child:
                    a, robot = chain[max(i - 1, 0)].name, self.robot.name
                    raise MmRosError(f"joints '{a}' and '{j.name}' are not on one chain of robot '{robot}'")
                q, link = rot.multiply(self._by_child[link].origin[3:], q), self._by_child[link].parent
            before.append(q)
        return np.array(before), np.array([j.axis for j in chain])

    def _standing(self, p: F64, base: F64) -> F64:
        """Return the position of the robot's base: the scaled position of the avatar's hips, with a corrected height.
        The height is chosen so that the lowest foot of the robot is as high above the floor as the scaled lowest foot
        of the avatar."""
        out = p[1] * self.scale
        if not all(self.map.feet):
            return np.asarray(out)
        links = {self.robot.base: base}
        below = [self._link(f, links)[2] - base[2] for f in self.map.feet]
        rest = np.mean([self._rest[f][2] for f in self.map.feet])
        height = self.scale * (p[1, 2] - self.source.rest_positions()[1, 2]) - rest
        clearance = (p[[LEFT_FOOT, RIGHT_FOOT], 2] - self._rest_feet).min() * self.scale
        out[2] = clearance - min(below) if below else height
        return np.asarray(out)


@njit
def solve_chain(before: Any, axes: Any, limits: Any, target: Row, angles: Any) -> float:
    """Change the joint angles so that the rotation of the chain is nearest to `target`, and return the remaining error
    [rad]."""
    n = len(angles)
    for _ in range(SWEEPS):
        most = 0.0
        for i in range(n):
            a = _part(before, axes, angles, 0, i)
            a = quat.mul(a, quat.get4(before, i))
            b = _part(before, axes, angles, i + 1, n)
            # The chain's rotation is a · turn · b, so the best turn is the twist of a⁻¹ · target · b⁻¹ about the
            # joint's axis.
            want = quat.twist(quat.mul_inv(quat.inv_mul(a, target), b), quat.get3(axes, i))
            new = _within(want, limits[i, 0], limits[i, 1], angles[i])
            most = max(most, abs(new - angles[i]))
            angles[i] = new
        if most < SETTLED_RAD:
            break
    return quat.angle_of(quat.mul_inv(target, _part(before, axes, angles, 0, n)))


@njit
def _part(before: Any, axes: Any, angles: Any, first: int, stop: int) -> Quat:
    q = (1.0, 0.0, 0.0, 0.0)
    for i in range(first, stop):
        q = quat.mul(q, quat.mul(quat.get4(before, i), quat.about(quat.get3(axes, i), angles[i])))
    return quat.normalize(q)


@njit
def _within(angle: float, lower: float, upper: float, now: float) -> float:
    """Return `angle` plus the number of full turns that brings it nearest to `now` within the joint limits, or the
    nearer limit if no such number exists."""
    turns = 2.0 * math.pi
    near = angle + turns * round((now - angle) / turns)
    for k in (0, 1, -1):
        if lower <= near + k * turns <= upper:
            return near + k * turns
    return lower if abs(quat.wrap(angle - lower)) < abs(quat.wrap(angle - upper)) else upper
