"""The moving joints of a robot at zero joint angles: positions and axes in the axes of the base, chains of joints, and
pairs of mirrored chains."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.robot.model import MOVING, Robot, RobotJoint
from mm_ros.robot.names import vote

SAME_HEIGHT = 0.04  # Maximum position error of mirrored joints, as a share of the length of their chain.
SHORT_CHAIN = 0.25  # Chains of joints that are shorter than this share of the longest limb are fingers, eyes or wheels.
SAME_AXIS = 0.98  # cosine
AS_LONG = 2.0  # A branch of a limb that is this many times longer than the other branches continues the limb.
BODY_JOINTS = 3  # A joint that mimics another one belongs to the body if at least this many joints follow it.


@dataclass(frozen=True)
class Pair:
    """Two mirrored chains of a robot's joints; the chain `first` has the larger coordinate along `lateral`."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    lateral: F64  # unit, horizontal
    middle: float  # position of the robot's mirror plane along `lateral` [m]
    group: int


@dataclass
class Tree:
    robot: Robot
    points: dict[str, F64] = field(default_factory=dict)  # positions of the robot's moving joints by name [m]
    axes: dict[str, F64] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.zero = self.robot.links({})
        self.group_of: dict[str, int] = {self.robot.base: 0}  # index of each link's group of links
        self.members: list[list[str]] = [[self.robot.base]]
        self.root: list[str] = [""]  # for each group of links, the joint that moves it
        self.below: list[list[str]] = [[]]
        self.dropped: dict[str, str] = {}  # joint → reason
        self._drop()
        for j in self.robot.joints:
            g = self.group_of[j.parent]
            if self.moves(j):
                pose = j.moved(self.zero[j.parent], 0.0)
                self.points[j.name] = pose[:3]
                self.axes[j.name] = np.asarray(rot.rotate(pose[3:], j.axis))
                self.below[g].append(j.name)
                g = len(self.members)
                self.members.append([])
                self.below.append([])
                self.root.append(j.name)
            self.group_of[j.child] = g
            self.members[g].append(j.child)

    def moves(self, j: RobotJoint) -> bool:
        return j.kind in MOVING and j.name not in self.dropped

    def _drop(self) -> None:
        """Ignore grippers, fingers, and joints that mimic another joint, except mimicking joints of the body such as
        coupled hips."""
        count = dict.fromkeys(self.robot.by_name, 0)  # by joint, the number of moving joints below it
        for j in reversed(self.robot.joints):
            below = self.robot.by_parent.get(j.child, [])
            count[j.name] = sum(count[b.name] + (b.kind in MOVING and b.mimic is None) for b in below)
        for j in self.robot.joints:
            if j.kind not in MOVING:
                continue
            above = self.robot.by_child.get(j.parent)
            # A mimicking joint with more joints beyond it than the mimicked joint has is not a finger, but a joint of
            # the body that is driven by gears.
            driven = j.mimic is not None and count[j.name] > count[j.mimic.joint]
            if j.mimic is not None and count[j.name] < BODY_JOINTS and not driven:
                self.dropped[j.name] = f"mimics {j.mimic.joint}"
            elif vote(j.name).finger:
                self.dropped[j.name] = "finger, gripper, eye or wheel by its name"
            elif above is not None and above.name in self.dropped and count[j.name] < BODY_JOINTS:
                self.dropped[j.name] = f"moves with {above.name}"
        for j in self.robot.joints:
            target = j.mimic.joint if j.mimic is not None and j.name in self.dropped else ""
            if target and target not in self.dropped and count[target] < BODY_JOINTS:
                self.dropped[target] = "gripper: other joints mimic it"

    def parent_group(self, joint: str) -> int:
        return self.group_of[self.robot.joint(joint).parent]

    def child_group(self, joint: str) -> int:
        return self.group_of[self.robot.joint(joint).child]

    @cached_property
    def tips(self) -> list[list[F64]]:
        """Points of each group of rigidly joined links: origins, centres of mass and centres of their shapes."""
        out = []
        for members in self.members:
            points = [self.zero[m][:3] for m in members]
            for m in members:
                part = self.robot.parts.get(m)
                if part is not None:
                    own = [part.centre] if part.mass > 0 else []
                    own += [s.pose[:3] for s in part.shapes if s.kind != "mesh"]
                    points += [self.zero[m][:3] + rot.rotate(self.zero[m][3:], p) for p in own]
            out.append(points)
        return out

    def reach(self, joint: str) -> float:
        """Length of the longest path from a joint outward along the joints beyond it [m]."""
        at, g = self.points[joint], self.child_group(joint)
        own = max((float(np.linalg.norm(p - at)) for p in self.tips[g]), default=0.0)
        return max([own, *(float(np.linalg.norm(self.points[b] - at)) + self.reach(b) for b in self.below[g])])

    def chain(self, joint: str) -> tuple[str, ...]:
        """Return the names of the joints from `joint` outward, until the chain branches into subtrees of similar
        length."""
        out = [joint]
        while True:
            below = self.below[self.child_group(out[-1])]
            if len(below) > 1:
                by_reach = sorted(((self.reach(b), b) for b in below), reverse=True)
                below = [by_reach[0][1]] if by_reach[0][0] > AS_LONG * max(by_reach[1][0], 0.05) else []
            if not below:
                return tuple(out)
            out.append(below[0])

    def end_of(self, chain: tuple[str, ...]) -> F64:
        """Return the end of a chain: the point of the last group of links that is farthest from the chain's last joint.
        """
        at = self.points[chain[-1]]
        return max(self.tips[self.child_group(chain[-1])], key=lambda p: float(np.linalg.norm(p - at)))

    def pairs(self) -> list[Pair]:
        """Return all pairs of mirrored chains of joints that are long enough for an arm or leg."""
        found = []
        for g, below in enumerate(self.below):
            for i, a in enumerate(below):
                for b in below[i + 1 :]:
                    pair = self._pair(g, self.chain(a), self.chain(b))
                    if pair is not None:
                        found.append(pair)
        longest = max((self.reach(p.first[0]) for p in found), default=0.0)
        return [p for p in found if self.reach(p.first[0]) >= SHORT_CHAIN * longest and len(p.first) >= 2]

    def _pair(self, group: int, a: tuple[str, ...], b: tuple[str, ...]) -> Pair | None:
        n = min(len(a), len(b))
        if n < 2 or abs(len(a) - len(b)) > 2:
            return None
        if {vote(j).side for j in a} == {vote(j).side for j in b} != {""} and len({vote(j).side for j in a}) == 1:
            return None  # The names state one side for both limbs, for example a left front leg and a left hind leg.
        a, b = a[:n], b[:n]
        tolerance = max(0.01, SAME_HEIGHT * max(self.reach(a[0]), self.reach(b[0])))
        apart = np.array([self.points[i] - self.points[j] for i, j in zip(a, b, strict=True)])
        apart[:, 2] = 0.0
        for way in (apart[int(np.linalg.norm(apart, axis=1).argmax())], apart.mean(axis=0), [0, 1, 0], [1, 0, 0]):
            length = float(np.linalg.norm(way))
            if length < 1e-3:
                continue
            lateral = np.asarray(way) / length
            middle = self._mirrored(a, b, lateral, tolerance)
            if middle is not None:
                if (apart @ lateral).mean() < 0:
                    a, b = b, a
                return Pair(a, b, lateral, middle, group)
        return None

    def _mirrored(self, a: tuple[str, ...], b: tuple[str, ...], lateral: F64, tolerance: float) -> float | None:
        """Return the distance along `lateral` of the plane that mirrors chain a to chain b, or None if no plane normal
        to `lateral` does."""
        pa, pb = np.array([self.points[j] for j in a]), np.array([self.points[j] for j in b])
        middle = float(np.median((pa + pb) @ lateral)) / 2
        if abs(float(((pa - pb) @ lateral).mean())) < 1e-3:
            return None
        mirrored = pa - 2 * (pa @ lateral - middle)[:, None] * lateral
        axes, others = np.array([self.axes[j] for j in a]), np.array([self.axes[j] for j in b])
        axes = 2 * (axes @ lateral)[:, None] * lateral - axes
        off = pb - mirrored
        along = (np.abs((axes * others).sum(axis=1)) > SAME_AXIS)[:, None]
        # Distances along a joint's axis are ignored, because the origin of the joint may be anywhere on the axis.
        off = off - along * (off * others).sum(axis=1)[:, None] * others
        return middle if float(np.linalg.norm(off, axis=1).max()) < tolerance else None

    def path(self, start: int, end: int) -> tuple[list[str], list[int]]:
        """Return the names of the joints on the path between two groups, and the indices of the groups on this path,
        including both ends."""
        up = {start: ([], [start])}  # type: dict[int, tuple[list[str], list[int]]]
        g, joints, groups = start, [], [start]  # type: int, list[str], list[int]
        while self.root[g]:
            joints = [*joints, self.root[g]]
            g = self.parent_group(self.root[g])
            groups = [*groups, g]
            up[g] = (joints, groups)
        down: list[str] = []
        groups, g = [], end
        while g not in up:
            down.insert(0, self.root[g])
            groups.insert(0, g)
            g = self.parent_group(self.root[g])
        return up[g][0] + down, up[g][1] + groups
