"""Makes a robot follow the avatar: the robot's limbs get the directions of the avatar's limbs, the robot's trunk gets
the rotations of the avatar's trunk, and a standing foot stays where it landed.

For each pose of the avatar, the follower solves a quadratic program. The solution of the quadratic program is the
change of base pose and joint angles that brings the robot nearest to the targets. The constraints of the quadratic
program are the limits of position, velocity and acceleration, and the absence of self-collision. The targets of the
limbs are directions, so that no user must state the robot's T-pose or a table of matching joints. Lengths of the avatar
are scaled by the ratio of the leg lengths of robot and avatar.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.base.settings import Settings, setting
from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import (  # fmt: skip
    HEAD,
    HIPS,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_LOWER_ARM,
    LEFT_LOWER_LEG,
    LEFT_UPPER_ARM,
    LEFT_UPPER_LEG,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_LOWER_ARM,
    RIGHT_LOWER_LEG,
    RIGHT_UPPER_ARM,
    RIGHT_UPPER_LEG,
    UPPER_CHEST,
    Skeleton,
    default_skeleton,
)
from mm_ros.body.types import F64, AvatarPose, rest_pose
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit
from mm_ros.robot.capsules import Capsules, capsules_of
from mm_ros.robot.figure import SIDES, Figure, figure_of
from mm_ros.robot.kinematics import (
    Bodies,
    LinkPoses,
    bodies_of,
    body_point,
    floor_rows,
    near_pairs,
    normal_equations,
    place_bodies,
)
from mm_ros.robot.revolute import RevoluteRetargeter, map_of
from mm_ros.robot.roles import find_roles
from mm_ros.robot.tree import Tree
from mm_ros.robot.urdf import parse_urdf

# Weights of the follower's targets in the quadratic program, for errors of angles [rad] and positions [leg lengths].
FOOT_PLACE, SWING_PLACE, FOOT_TURN, SWING_TURN = 80.0, 25.0, 4.0, 2.0
LEG_WAY, ARM_WAY, HAND_WAY = 2.5, 3.0, 0.3
PELVIS_PLACE, PELVIS_TURN, CHEST_TURN, HEAD_TURN = 0.3, 4.0, 2.0, 1.0
STANDS_ALONE = 40.0  # weight of the base's target pose in the quadratic program, if the robot has no legs
POSTURE, DAMPING = 0.02, 1e-3
STEPS, FIRST_STEPS = 2, 60
# angle of knees and elbows in the robot's first pose, and minimum angle of the knees and of the elbows [rad]
BENT_START_RAD, KNEE_INSIDE_RAD, ELBOW_INSIDE_RAD = 0.3, 0.02, 0.01
STRAIGHT_RAD = 0.3  # An elbow with an angle limit nearer than this to the straight arm bends to one side only.
# `weight_shift` moves the centre of mass SIDE_MARGIN leg lengths inside the edge of the standing foot. `weight_shift`
# moves the pelvis by at most MOST_SWAY leg lengths, because the feet would meet after a larger move.
SIDE_MARGIN, MOST_SWAY = 0.045, 0.09
FEET_APART = 0.03  # `weight_shift` keeps this gap between the feet, as a share of the leg length.
LEAN_SHARE = 0.5  # If no waist joint can lean or turn the chest, the base takes over this share of the lean or turn.
LATERAL_AXIS = 0.7  # A waist joint leans (turns) the chest if its cosine to the lateral (vertical) axis exceeds this.
FOOT_FADE_S, PELVIS_FADE_S = 0.06, 0.05  # half-lives of the smoothed contact of a foot and of the pelvis offset [s]
# The robot's sole is level while the avatar's ankle is lifted by less than HEEL_DOWN leg lengths, and tilts freely
# above HEEL_UP leg lengths.
HEEL_DOWN, HEEL_UP = 0.02, 0.08
FARTHEST = 0.25  # A standing foot that is farther than this share of the leg length from its target is placed again.
JUMP_M = 0.5  # If the avatar's root moves farther than this [m] in one frame, the robot is moved by the same transform.
LONGEST_STEP_S, USUAL_STEP_S = 0.1, 1 / 60  # maximum time step of the solver, and time step for the first pose [s]
# Capsules of the robot that are nearer than COLLISION_NEAR leg lengths get a constraint, which keeps them COLLISION_GAP
# leg lengths apart. At most MOST_COLLISIONS pairs of capsules get a constraint in one frame.
COLLISION_NEAR, COLLISION_GAP, MOST_COLLISIONS = 0.06, 0.008, 60
FLOOR_NEAR = 0.06  # A constraint keeps soles that are lower than this share of the leg length above the floor.

PELVIS, CHEST, HEAD_ROW, LEFT_SOLE, RIGHT_SOLE = range(5)


@dataclass(frozen=True)
class FollowSettings(Settings):
    method: str = setting(
        "follow",
        "Method by which the robot follows the avatar. With `follow`, limbs point as the avatar's limbs, and standing "
        "feet stay in place. With `decompose`, joint rotations are converted one by one (Karst 2023), relative to "
        "`urdf_t_pose` if it is set.",
        choices=("follow", "decompose"), live=False,
    )  # fmt: skip
    joint_speed: float = setting(
        12.0,
        "Maximum speed of each robot joint for which the robot file states no lower maximum. With a lower value, the "
        "robot lags behind fast motion.",
        "rad/s",
        0.1,
        100.0,
    )
    joint_acceleration: float = setting(
        400.0,
        "Maximum acceleration of the robot's joints. With a lower value, the robot lags more.", "rad/s²", 1.0, 1e5
    )
    weight_shift: float = setting(
        1.0, "Lateral move of the pelvis while one foot stands alone, as a share of the move that brings the centre "
        "of mass over this foot (at most 9 % of the leg length). With larger values, the centre of mass is nearer to "
        "the standing foot, and the standing leg tilts more.", "", 0.0, 1.0,
    )  # fmt: skip
    self_collision: bool = setting(
        True, "Keep the robot's limbs apart from each other and from its trunk, if its file has collision geometry."
    )


@dataclass
class RobotState:
    """State of a robot: pose of its base in the room (x y z qw qx qy qz), and angles [rad] and velocities [rad/s] of
    the joints in `names`."""

    stamp_ns: int
    base: F64
    names: tuple[str, ...]
    angles: F64
    velocities: F64

    def by_name(self) -> dict[str, float]:
        return dict(zip(self.names, self.angles.tolist(), strict=True))


class Follower:
    """Follower, which computes the pose of a robot for each pose of one avatar. Pass the avatar's poses to `step` in
    order of time."""

    def __init__(self, figure: Figure, skeleton: Skeleton, settings: FollowSettings | None = None) -> None:
        try:
            import daqp
        except ImportError:
            raise MmRosError(f"a robot needs the extra 'robot'. Install it: {setup_command('robot')}") from None
        self._solve = daqp.solve
        self.figure, self.skeleton = figure, skeleton
        self.settings = settings or FollowSettings()
        robot, roles = figure.robot, figure.roles
        toes = {j for side in SIDES for j in roles.chains.get(f"{side}_toes", ())}
        still = {n: _within(0.0, robot.joint(n).lower, robot.joint(n).upper) for n in robot.moving}
        self.bodies = bodies_of(robot, {j for j in roles.joints if j not in toes}, still)
        b = self.bodies
        self._n = len(b.dofs)
        self._rest = np.array([still[name] for name in b.dofs])
        self._limits = np.array([[robot.joint(n).lower, robot.joint(n).upper] for n in b.dofs]).reshape(-1, 2)
        self._speed = np.array([robot.joint(n).velocity or math.inf for n in b.dofs])
        self._bend_limbs()
        self.names = robot.moving
        self._out = np.array([still[n] for n in self.names])
        self._place = np.array([self.names.index(n) for n in b.dofs], np.int64)
        rest = skeleton.rest_positions().astype(np.float64)
        self.scale = figure.leg_length / skeleton.leg_length
        self._ankle_rest = rest[[LEFT_FOOT, RIGHT_FOOT], 2]
        self._targets()
        self._masses, self._centres = _masses(figure, b)
        self._capsules: Capsules = capsules_of(figure, b)
        count = len(b.parent)
        self._p, self._q, self._axes = np.zeros((count, 3)), np.zeros((count, 4)), np.zeros((count, 3))
        n = 6 + self._n
        self._h, self._g, self._jac, self._other = np.zeros((n, n)), np.zeros(n), np.zeros((3, n)), np.zeros((3, n))
        self._rows, self._lower = np.zeros((MOST_COLLISIONS + 6, n)), np.zeros(MOST_COLLISIONS + 6)
        self._ap, self._aq = room_joints(rest_pose(skeleton))  # poses of the avatar's joints in the room
        self.reset()

    def reset(self) -> None:
        self._angles = np.clip(self._start, self._limits[:, 0], self._limits[:, 1])
        self._rates = np.zeros(self._n)
        self._base = np.concatenate([[0.0, 0.0, self.figure.leg_length], self.figure.front])
        # row of each foot: 1 if the foot stands, x y of its place, x y z of its offset, smoothed contact 0…1, unused
        self._feet = np.zeros((2, 8))
        self._balls = np.zeros((2, 3))
        self._shift = np.zeros(3)
        self._swayed = np.zeros(1)  # sideways move of the robot's pelvis over the standing foot in the last frame [m]
        self._last_ns = -1
        self._root = np.zeros(7)


    def _bend_limbs(self) -> None:
        """Change the joint limits so that knees and elbows stay slightly bent, and start with bent limbs. The twist of
        a straight limb does not change the direction of the limb, so a limb that is straight at a joint limit and
        twisted the wrong way would stay straight. The limits of elbows that can bend in both directions are not
        changed, because such elbows can pass through the straight pose."""
        figure = self.figure
        tree = Tree(figure.robot)
        front = rot.rotate(rot.inverse(figure.front), np.array([1.0, 0, 0]))
        self._start = self._rest.copy()
        for limb in figure.limbs.values():
            name = figure.roles.chains[f"{limb.side}_lower_{limb.kind}"][0]
            if name not in self.bodies.dofs:
                continue
            i, axis = self.bodies.dofs.index(name), tree.axes[name]
            upper, lower = limb.bend - limb.root, limb.end - limb.bend
            straight = -math.atan2(float(np.cross(upper, lower) @ axis), float(upper @ lower))
            low, high = self._limits[i]
            if limb.kind == "leg":
                sign = -1.0 if np.cross(axis, lower) @ front > 0 else 1.0
            elif min(straight - low, high - straight) > STRAIGHT_RAD:
                continue
            else:
                sign = 1.0 if straight - low < high - straight else -1.0
            inside = straight + sign * (KNEE_INSIDE_RAD if limb.kind == "leg" else ELBOW_INSIDE_RAD)
            limits = (max(low, inside), high) if sign > 0 else (low, min(high, inside))
            if limits[0] < limits[1]:
                self._limits[i] = limits
            self._start[i] = _within(straight + sign * BENT_START_RAD, *self._limits[i])

    def _targets(self) -> None:
        """Prepare the robot's bodies, and the part of each target that is constant over time. The weight of a target is
        0 if the robot lacks the body of this target."""
        figure, b = self.figure, self.bodies
        roles, leg = figure.roles, figure.leg_length
        turns: list[tuple[int, F64, float]] = []
        for link, weight in ((roles.pelvis, PELVIS_TURN), (roles.chest, CHEST_TURN), (roles.head, HEAD_TURN)):
            body, pose = b.of_link[link or figure.robot.base]
            rest = rot.multiply(figure.front, figure.zero[link or figure.robot.base][3:])
            turns.append((body, rot.multiply(rest, rot.inverse(pose[3:])), weight if link else 0.0))
        points: list[tuple[int, F64]] = [body_point(b, roles.pelvis, figure.in_link(roles.pelvis, figure.hips))]
        self._hips = np.zeros((2, 3))
        self._outline: list[F64] = []
        self._ankles, self._has = np.zeros((2, 3)), np.zeros(2, np.bool_)
        for i, side in enumerate(SIDES):
            sole, limb = figure.soles.get(side), figure.limbs.get(f"{side} leg")
            if sole is None or limb is None:
                turns.append((0, np.array([1.0, 0, 0, 0]), 0.0))
                points.append((0, np.zeros(3)))
                self._outline.append(np.zeros((1, 3)))
                continue
            self._has[i] = True
            body, pose = b.of_link[sole.link]
            turns.append((body, rot.multiply(sole.level, rot.inverse(pose[3:])), FOOT_TURN))
            ball = body_point(b, sole.link, sole.ball)
            points.append(ball)
            self._outline.append(np.array([body_point(b, sole.link, p)[1] - ball[1] for p in sole.points]))
            self._ankles[i] = body_point(b, sole.link, sole.ankle)[1] - ball[1]
            self._hips[i] = body_point(b, roles.pelvis, figure.in_link(roles.pelvis, limb.root))[1] - points[0][1]
        longest = max(len(o) for o in self._outline)
        self._soles = np.array([np.concatenate([o, np.tile(o[-1:], (longest - len(o), 1))]) for o in self._outline])
        self._turn_body = np.array([t[0] for t in turns], np.int64)
        self._turn_rest = np.array([t[1] for t in turns])
        self._turn_weight = np.array([[t[2]] * 3 for t in turns])
        self._point_body = np.array([p[0] for p in points], np.int64)
        self._point_local = np.array([p[1] for p in points])
        self._point_weight = np.zeros((3, 3))
        legs = bool(self._has.any())
        if legs:
            self._point_weight[0] = PELVIS_PLACE / leg
        else:
            self._point_weight[0] = STANDS_ALONE / leg
            self._turn_weight[PELVIS] = STANDS_ALONE
        ways: list[tuple[int, F64, int, int, float]] = []
        for limb in figure.limbs.values():
            up, low, end = {
                "left leg": (LEFT_UPPER_LEG, LEFT_LOWER_LEG, LEFT_FOOT),
                "right leg": (RIGHT_UPPER_LEG, RIGHT_LOWER_LEG, RIGHT_FOOT),
                "left arm": (LEFT_UPPER_ARM, LEFT_LOWER_ARM, LEFT_HAND),
                "right arm": (RIGHT_UPPER_ARM, RIGHT_LOWER_ARM, RIGHT_HAND),
            }[f"{limb.side} {limb.kind}"]
            weight = LEG_WAY if limb.kind == "leg" else ARM_WAY
            ways.append(self._way(limb.upper, limb.root, limb.bend, up, low, weight))
            ways.append(self._way(limb.lower, limb.bend, limb.end, low, end, weight))
            tree = Tree(figure.robot)
            if limb.kind == "arm" and len(roles.chains.get(f"{limb.side}_hand", ())) > 1:
                tip = tree.end_of(roles.chains[f"{limb.side}_hand"])
                if np.linalg.norm(tip - limb.end) > 0.02 * leg:
                    ways.append(self._way(limb.tip, limb.end, tip, end, -1, HAND_WAY))
        self._way_body = np.array([w[0] for w in ways], np.int64)
        self._way_local = np.array([w[1] for w in ways])
        self._way_joints = np.array([[w[2], w[3]] for w in ways], np.int64)
        self._way_weight = np.array([w[4] for w in ways])
        waist = [Tree(figure.robot).axes[j] for j in roles.chains.get("upper_chest", ())]
        front = rot.rotate(rot.inverse(figure.front), np.array([1.0, 0, 0]))
        lateral = np.cross(front, [0, 0, 1.0])
        axes = (lateral, np.array([0, 0, 1.0]))
        self._lean = np.array([LEAN_SHARE * (not any(abs(a @ way) > LATERAL_AXIS for a in waist)) for way in axes])
        self._legs = legs
        lowest = min(float(figure.zero[link][2]) for link in figure.zero)
        self._stand = float(figure.hips[2]) - lowest  # height of the hips if the robot has no legs [m]

    def _way(self, link: str, start: F64, end: F64, a: int, b: int, weight: float) -> tuple[int, F64, int, int, float]:
        figure = self.figure
        body, first = body_point(self.bodies, link, figure.in_link(link, start))
        _, last = body_point(self.bodies, link, figure.in_link(link, end))
        way = last - first
        return body, way / max(float(np.linalg.norm(way)), 1e-9), a, b, weight

    # Following

    def step(self, pose: AvatarPose) -> RobotState:
        """Compute the robot's next state, in which the robot follows the avatar's pose `pose`. If the stamp of the pose
        does not advance, a frame time of 1/60 s is assumed."""
        dt = (pose.stamp_ns - self._last_ns) * 1e-9 if self._last_ns >= 0 else 0.0
        first = self._last_ns < 0
        dt = min(dt, LONGEST_STEP_S) if dt > 0 else USUAL_STEP_S
        self._last_ns = pose.stamp_ns
        self._ap, self._aq = room_joints(pose)
        if not first and float(np.linalg.norm(pose.root[:2] - self._root[:2])) > JUMP_M:
            self._carry(pose)
        elif first:
            self._base[:2] = self.scale * self._ap[HIPS, :2]
            self._base[3:] = rot.multiply(rot.from_yaw(rot.yaw_of(self._aq[HIPS])), self.figure.front)
        self._root = np.array(pose.root)
        contacts = np.asarray(pose.contacts | pose.locked, np.bool_)
        turn, way, point, weight = _plan(
            self._ap, self._aq, contacts, dt, first, self.scale, self.figure.leg_length, self.skeleton.leg_length,
            self.figure.sole_height, self._ankle_rest, self._legs, self._stand, self._lean, self._turn_rest,
            self._way_joints, self._hips, self._soles, self._ankles, self._has, self._feet, self._balls, self._shift,
            self.settings.weight_shift, self._swayed, self._missing(),
        )  # fmt: skip
        point_weight = self._point_weight.copy()
        point_weight[1:] = weight[:, None] / self.figure.leg_length
        point_weight[1:, 2] = np.where(weight > 0, FOOT_PLACE, 0.0) / self.figure.leg_length
        turn_weight = self._turn_weight.copy()
        turn_weight[LEFT_SOLE:] *= np.where(self._feet[:, 0] > 0, 1.0, SWING_TURN / FOOT_TURN)[:, None]
        before = self._angles.copy()
        low, high = self._bounds(dt, first)
        for _ in range(FIRST_STEPS if first else STEPS):
            self._iterate(turn, turn_weight, way, point, point_weight, low, high)
        self._rates = np.zeros(self._n) if first else (self._angles - before) / dt
        self._place_bodies()
        for i in range(2):
            body = self._point_body[1 + i]
            self._balls[i] = self._p[body] + rot.rotate(self._q[body], self._point_local[1 + i])
        self._out[self._place] = self._angles
        rates = np.zeros(len(self.names))
        rates[self._place] = self._rates
        return RobotState(pose.stamp_ns, self._base.copy(), self.names, self._out.copy(), rates)

    def _missing(self) -> F64:
        missing: F64 = _lateral_distances(
            self._p, self._q, self._masses, self._centres, self._point_body, self._point_local, self._soles, self._has,
            float(rot.yaw_of(self._aq[HIPS])), self._swayed[0], self.figure.leg_length,
        )  # fmt: skip
        return missing

    def _bounds(self, dt: float, first: bool) -> tuple[F64, F64]:
        """Return the lowest and highest joint angles that the limits of position, velocity and acceleration allow in
        one frame."""
        low, high = self._limits[:, 0], self._limits[:, 1]
        if first:
            return low, high
        s = self.settings
        speed = np.minimum(self._speed, s.joint_speed)
        gain, a = s.joint_acceleration * dt, s.joint_acceleration
        # A joint must be able to stop before its limit, so its speed v must satisfy v² ≤ 2 a (limit − angle). The speed
        # changes only once per time step dt, so the maximum speed is slightly lower than √(2 a (limit − angle)).
        to_high, to_low = (np.maximum(d, 0.0) for d in (high - self._angles, self._angles - low))
        fast_up = np.minimum(speed, np.sqrt(gain * gain / 4 + 2 * a * to_high) - gain / 2)
        fast_down = np.minimum(speed, np.sqrt(gain * gain / 4 + 2 * a * to_low) - gain / 2)
        most = np.clip(self._rates + gain, -fast_down, fast_up)
        least = np.clip(self._rates - gain, -fast_down, fast_up)
        return (
            np.minimum(np.maximum(self._angles + dt * least, low), high),
            np.minimum(np.maximum(self._angles + dt * most, low), high),
        )

    def _iterate(
        self, turn: F64, turn_weight: F64, way: F64, point: F64, point_weight: F64, low: F64, high: F64
    ) -> None:
        b, n = self.bodies, self._n
        self._place_bodies()
        normal_equations(
            b.parent, b.dof, b.factor, self._p, self._q, self._axes, self._turn_body, turn, turn_weight,
            self._way_body, self._way_local, way, self._way_weight, self._point_body, self._point_local, point,
            point_weight, self._angles, self._rest, POSTURE, DAMPING, self._h, self._g, self._jac,
        )  # fmt: skip
        c, leg = self._capsules, self.figure.leg_length
        feet = np.where(self._has, self._point_body[1:], -1)
        floor = floor_rows(
            feet, self._soles, self._point_local[1:], FLOOR_NEAR * leg, b.parent, b.dof, b.factor, self._p, self._q,
            self._axes, self._rows, self._lower, 0, self._jac,
        )  # fmt: skip
        rows = floor
        if self.settings.self_collision and len(c.pairs):
            rows = near_pairs(
                c.pairs, c.body, c.ends, c.radius, COLLISION_NEAR * leg, COLLISION_GAP * leg, b.parent, b.dof,
                b.factor, self._p, self._q, self._axes, self._rows, self._lower, floor, self._jac, self._other,
            )  # fmt: skip
        upper = np.full(6 + n + rows, 1e30)
        lower = np.full(6 + n + rows, -1e30)
        upper[6 : 6 + n], lower[6 : 6 + n] = high - self._angles, low - self._angles
        sense = np.zeros(6 + n + rows, np.int32)
        if rows:
            lower[6 + n :] = self._lower[:rows]
            lower[6 + n + floor :] = np.minimum(lower[6 + n + floor :], 0.01 * leg)
            # The collision constraints are soft, because an overlap that one step cannot remove must not make the
            # program infeasible.
            sense[6 + n + floor :] = 8
        x, _value, flag, _info = self._solve(self._h, -self._g, self._rows[:rows], upper, lower, sense)
        if flag < 0 or not np.isfinite(x).all():
            return
        self._base[:3] += x[:3]
        self._base[3:] = rot.normalize(rot.multiply(rot.exp(np.clip(x[3:6], -1.5, 1.5)), self._base[3:]))
        self._angles = np.clip(self._angles + x[6:], low, high)

    def _place_bodies(self) -> None:
        b = self.bodies
        place_bodies(
            self._base, self._angles, b.parent, b.place, b.axis, b.dof, b.factor, b.offset, self._p, self._q, self._axes
        )

    def _carry(self, pose: AvatarPose) -> None:
        turn = rot.from_yaw(rot.yaw_of(pose.root[3:]) - rot.yaw_of(self._root[3:]))
        old, new = self.scale * self._root[:3], self.scale * np.asarray(pose.root[:3])
        old[2] = new[2] = 0.0
        self._base[:3] = new + rot.rotate(turn, self._base[:3] - old)
        self._base[3:] = rot.multiply(turn, self._base[3:])
        for i in range(2):
            self._balls[i] = new + rot.rotate(turn, self._balls[i] - old)
        self._feet[:, 0] = 0.0
        self._feet[:, 3:6] = 0.0
        self._place_bodies()


def _within(value: float, low: float, high: float) -> float:
    return float(min(max(value, low), high))


def _masses(figure: Figure, bodies: Bodies) -> tuple[F64, F64]:
    """Return the mass of each body, as a share of the robot's mass, and the centre of mass of each body. If the robot
    file states no masses, the share of every body is 0."""
    masses, centres = np.zeros(len(bodies.parent)), np.zeros((len(bodies.parent), 3))
    for name, part in figure.robot.parts.items():
        if part.mass > 0:
            body, centre = body_point(bodies, name, part.centre)
            masses[body] += part.mass
            centres[body] += part.mass * centre
    centres /= np.maximum(masses, 1e-12)[:, None]
    return masses / max(float(masses.sum()), 1e-12), centres


@njit
def _lateral_distances(
    p: Any, q: Any, masses: Any, centres: Any, point_body: Any, point_local: Any, soles: Any, has: Any, yaw: float,
    swayed: float, leg: float,
) -> Any:  # fmt: skip
    """Return for each foot the lateral move of the pelvis that brings the robot's centre of mass over the foot, and the
    width of the foot. The returned move is measured from the pelvis position without the present lateral move
    `swayed`."""
    out = np.zeros((2, 2))
    side = (-math.sin(yaw), math.cos(yaw))
    at, total = -swayed, 0.0
    for b in range(len(masses)):
        c = quat.add(quat.get3(p, b), quat.rotate(quat.get4(q, b), quat.get3(centres, b)))
        at += masses[b] * (c[0] * side[0] + c[1] * side[1])
        total += masses[b]
    if total < 0.5:
        return out
    for i in range(2):
        if not has[i]:
            continue
        b, low, high = point_body[1 + i], 1e9, -1e9
        for k in range(soles.shape[1]):
            sole = (soles[i, k, 0], soles[i, k, 1], soles[i, k, 2])
            local = quat.add(quat.get3(point_local, 1 + i), sole)
            c = quat.add(quat.get3(p, b), quat.rotate(quat.get4(q, b), local))
            low = min(low, c[0] * side[0] + c[1] * side[1])
            high = max(high, c[0] * side[0] + c[1] * side[1])
        middle, half = 0.5 * (low + high), max(0.5 * (high - low) - SIDE_MARGIN * leg, 0.0)
        over = min(max(at, middle - half), middle + half)
        out[i, 0] = min(max(over - at, -MOST_SWAY * leg), MOST_SWAY * leg)
        out[i, 1] = high - low
    return out


@njit
def _smooth(x: float, low: float, high: float) -> float:
    t = min(max((x - low) / (high - low), 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t)


@njit
def _plan(
    p: Any, q: Any, contacts: Any, dt: float, first: bool, scale: float, leg: float, human_leg: float, sole: float,
    ankle_rest: Any, legs: bool, stand: float, lean: Any, turn_rest: Any, way_joints: Any, hips: Any, soles: Any,
    ankles: Any, has: Any, feet: Any, balls: Any, shift: Any, weight_shift: float,
    swayed: Any, missing: Any,
) -> Any:  # fmt: skip
    """Return the robot's targets for a frame: rotations of bodies, directions of limbs, positions of the hips and of
    the balls of the feet, and the weights of these ball positions. `feet`, `balls`, `shift` and `swayed` are the robot
    follower's state (see `Follower.reset`), and `missing` holds the result of `_lateral_distances`."""
    turn, way = np.zeros((5, 4)), np.zeros((len(way_joints), 3))
    point, weight = np.zeros((3, 3)), np.zeros(2)
    hip, chest = quat.get4(q, HIPS), quat.get4(q, UPPER_CHEST)
    centre = quat.mix(quat.get3(p, LEFT_UPPER_LEG), quat.get3(p, RIGHT_UPPER_LEG), 0.5)
    target = quat.scale(centre, scale)
    if legs:
        rest_height = 0.5 * (ankle_rest[0] + ankle_rest[1])
        target = (target[0], target[1], scale * (centre[2] - rest_height) + sole)
        # If the robot's waist has no joint for the lean or the turn of the chest, the base takes over a part of the
        # lean or turn.
        relative = quat.inv_mul(hip, chest)
        yaw = quat.twist(relative, (0.0, 0.0, 1.0))
        swing = quat.mul_inv(relative, quat.from_yaw(yaw))
        pelvis = quat.mul(hip, quat.mul(quat.share(swing, lean[0]), quat.from_yaw(lean[1] * yaw)))
    else:
        target = (target[0], target[1], stand)
        pelvis = quat.from_yaw(quat.yaw_of(hip))
    quat.put4(turn, PELVIS, quat.mul(pelvis, quat.get4(turn_rest, PELVIS)))
    quat.put4(turn, CHEST, quat.mul(chest, quat.get4(turn_rest, CHEST)))
    quat.put4(turn, HEAD_ROW, quat.mul(quat.get4(q, HEAD), quat.get4(turn_rest, HEAD_ROW)))
    turned = quat.get4(turn, PELVIS)
    goal, standing = (0.0, 0.0, 0.0), 0
    fade = 0.0 if first else 0.5 ** (dt / FOOT_FADE_S)
    for i in range(2):
        feet[i, 6] = contacts[i] + fade * (feet[i, 6] - contacts[i])
    # While one foot stands alone, pelvis and swinging foot of the robot move sideways, so that the centre of mass comes
    # over the standing foot. The swinging leg keeps the direction of the avatar's leg; only the standing leg tilts.
    sway, lateral = 0.0, quat.rotate(quat.from_yaw(quat.yaw_of(hip)), (0.0, 1.0, 0.0))
    if has[0] and has[1] and not first:
        alone = feet[0, 6] - feet[1, 6]
        sway = weight_shift * abs(alone) * missing[0 if alone > 0 else 1, 0]
    toward = quat.scale(lateral, sway)
    swayed[0] = sway
    for i in range(2):
        if not has[i]:
            turn[3 + i, 0] = 1.0
            continue
        foot, upper = (LEFT_FOOT, LEFT_UPPER_LEG) if i == 0 else (RIGHT_FOOT, RIGHT_UPPER_LEG)
        way_down = quat.scale(quat.sub(quat.get3(p, foot), quat.get3(p, upper)), scale)
        ankle = quat.add(quat.add(target, quat.rotate(turned, quat.get3(hips, i))), way_down)
        lift = (p[foot, 2] - ankle_rest[i]) / human_leg
        held = feet[i, 0] > 0.0
        free = quat.get4(q, foot)
        level = quat.from_yaw(quat.yaw_of(free))
        flat = feet[i, 6] * (1.0 - _smooth(lift, HEEL_DOWN, HEEL_UP))
        rotation = quat.mul(quat.slerp(free, level, flat), quat.get4(turn_rest, 3 + i))
        quat.put4(turn, 3 + i, rotation)
        ball = quat.sub(ankle, quat.rotate(rotation, quat.get3(ankles, i)))
        ball = quat.add(ball, quat.scale(toward, 1.0 - feet[i, 6]))
        if has[0] and has[1]:  # keeps the robot's feet apart while its pelvis moves sideways
            outward = lateral if i == 0 else quat.scale(lateral, -1.0)
            apart = quat.sub(quat.add(ball, (feet[i, 3], feet[i, 4], 0.0)), quat.get3(balls, 1 - i))
            lacks = max(missing[1 - i, 1] + FEET_APART * leg - quat.dot(apart, outward), 0.0)
            ball = quat.add(ball, quat.scale(outward, min(lacks, abs(sway) * (1.0 - feet[i, 6]))))
        lowest = 0.0
        for k in range(soles.shape[1]):
            lowest = min(lowest, quat.rotate(rotation, (soles[i, k, 0], soles[i, k, 1], soles[i, k, 2]))[2])
        floor = -lowest
        if contacts[i] and not held:
            feet[i, 0] = 1.0
            feet[i, 1] = ball[0] if first else balls[i, 0]
            feet[i, 2] = ball[1] if first else balls[i, 1]
        if not contacts[i]:
            feet[i, 0] = 0.0
        if feet[i, 0] > 0.0:
            x, y = feet[i, 1] - ball[0], feet[i, 2] - ball[1]
            if x * x + y * y > (FARTHEST * leg) ** 2:
                feet[i, 0] = 0.0
            else:
                feet[i, 3], feet[i, 4], feet[i, 5] = x, y, floor - ball[2]
        if feet[i, 0] > 0.0:
            goal = quat.add(goal, (feet[i, 3], feet[i, 4], feet[i, 5]))
            standing += 1
            weight[i] = FOOT_PLACE
        else:
            for k in range(3):
                feet[i, 3 + k] *= fade
            weight[i] = SWING_PLACE
        ball = quat.add(ball, (feet[i, 3], feet[i, 4], feet[i, 5]))
        quat.put3(point, 1 + i, (ball[0], ball[1], max(ball[2], floor)))
    if standing > 0:
        goal = quat.scale(goal, 1.0 / standing)
    keep = 0.0 if first else 0.5 ** (dt / PELVIS_FADE_S)
    for k in range(3):
        shift[k] = goal[k] + keep * (shift[k] - goal[k])
        point[0, k] = target[k] + shift[k] + toward[k]
    for t in range(len(way_joints)):
        a, b = way_joints[t, 0], way_joints[t, 1]
        if b >= 0:
            d = quat.unit(quat.sub(quat.get3(p, b), quat.get3(p, a)), (0.0, 0.0, -1.0))
        else:
            d = quat.rotate(quat.get4(q, a), (0.0, 1.0 if a == LEFT_HAND else -1.0, 0.0))
        if a in (LEFT_UPPER_LEG, LEFT_LOWER_LEG, RIGHT_UPPER_LEG, RIGHT_LOWER_LEG):
            standing_share = feet[0 if a in (LEFT_UPPER_LEG, LEFT_LOWER_LEG) else 1, 6]
            d = quat.unit(quat.sub(d, quat.scale(toward, standing_share / leg)), d)
        quat.put3(way, t, d)
    return turn, way, point, weight


def t_pose_of(figure: Figure) -> RobotState:
    """Return the robot state that is nearest to a T-pose."""
    skeleton = default_skeleton()
    return Follower(figure, skeleton, FollowSettings(self_collision=False)).step(rest_pose(skeleton))


class Decomposer:
    """Robot follower that converts the avatar's rotations joint by joint (Karst 2023). The rotations are relative to
    the robot's T-pose `t_pose` or, by default, to the pose that `t_pose_of` computes."""

    def __init__(self, figure: Figure, skeleton: Skeleton, t_pose: dict[str, float] | None = None) -> None:
        angles = t_pose_of(figure).by_name() if t_pose is None else t_pose
        self.figure, self.skeleton = figure, skeleton
        self._stage = RevoluteRetargeter(skeleton, figure.robot, map_of(figure, angles))
        self.names = figure.robot.moving
        self.reset()

    def reset(self) -> None:
        self._stage.reset()
        self._last: tuple[int, F64] | None = None

    def step(self, pose: AvatarPose) -> RobotState:
        moved = self._stage.step(pose)
        angles = np.array([moved.angles[n] for n in self.names])
        rates = np.zeros(len(angles))
        if self._last is not None and pose.stamp_ns > self._last[0]:
            rates = (angles - self._last[1]) / ((pose.stamp_ns - self._last[0]) * 1e-9)
        self._last = pose.stamp_ns, angles
        return RobotState(pose.stamp_ns, moved.base, self.names, angles, rates)


def make_follower(
    figure: Figure, skeleton: Skeleton, settings: FollowSettings, t_pose: dict[str, float] | None = None
) -> Follower | Decomposer:
    """Create the robot follower for the method (`follow` or `decompose`) that `settings` selects."""
    if settings.method == "decompose":
        return Decomposer(figure, skeleton, t_pose)
    return Follower(figure, skeleton, settings)


def warm_up() -> None:
    """Make a small robot follow two poses with each method, so that all functions of numba are compiled or loaded."""
    robot = parse_urdf(_two_legs())
    figure, skeleton = figure_of(robot, find_roles(robot)), default_skeleton()
    for method in ("follow", "decompose"):
        follower = make_follower(figure, skeleton, FollowSettings(method=method))
        state = [follower.step(rest_pose(skeleton, stamp_ns)) for stamp_ns in (0, 20_000_000)][-1]
    LinkPoses(robot)(state.by_name(), state.base)


def _two_legs() -> str:
    shape = '<collision><geometry><cylinder radius="0.05" length="0.3"/></geometry></collision>'
    parts = []
    for side, y in (("left", 0.1), ("right", -0.1)):
        parent = "pelvis"
        for name, at, axis, low in (
            ("hip_roll", f"0 {y} 0", "1 0 0", -1), ("hip_pitch", "0 0 0", "0 1 0", -1),
            ("knee", "0 0 -0.4", "0 1 0", 0), ("ankle", "0 0 -0.4", "0 1 0", -1),
        ):  # fmt: skip
            link = f"{side}_{name}_link"
            parts.append(
                f'<link name="{link}">{shape}</link><joint name="{side}_{name}" type="revolute">'
                f'<origin xyz="{at}"/><parent link="{parent}"/><child link="{link}"/><axis xyz="{axis}"/>'
                f'<limit lower="{low}" upper="2" velocity="10" effort="1"/></joint>'
            )
            parent = link
    return f'<robot name="two_legs"><link name="pelvis"/>{"".join(parts)}</robot>'
