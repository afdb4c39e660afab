"""Pose stage: blend the matched pose, put head and hands on their trackers, and put the feet on the floor."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.kinematics import limb_lengths, make_body
from mm_ros.body.rounding import frozen
from mm_ros.body.skeleton import ARM_BONES, HEAD, Skeleton, default_skeleton
from mm_ros.body.timeline import ADVANCE, CARRY, DROP, HOLD, RESET, Timeline, is_identity
from mm_ros.body.types import (
    BODY_ROLES,
    CHEST_ROLE,
    F64,
    HEAD_ROLE,
    JOINT_OF_ROLE,
    LEFT_HAND_ROLE,
    ROLES,
    U8,
    WAIST_ROLE,
    AvatarPose,
    Calibration,
    R,
    TrackerFrame,
)
from mm_ros.maths import rotations as rot
from mm_ros.maths.packed import packed
from mm_ros.maths.springs import damp
from mm_ros.pose.fade import FadeIn
from mm_ros.pose.feet import make_feet
from mm_ros.pose.floor import FlatFloor, Floor
from mm_ros.pose.kernel import (
    choose_targets,
    follow_user,
    load,
    make_hold,
    make_source,
    make_user,
    post_step,
    read_out,
    wear,
)
from mm_ros.pose.low import Low, LowPosture
from mm_ros.pose.settings import PostSettings, tuning

__all__ = ["PostSettings", "PostStage"]

WARM_UP_NS = 11_111_111
GROUND_HALFLIFE_S = 0.15  # Half-life with which the height of the root follows uneven ground.
NO_FEET = np.zeros((0, 10))  # Argument of the compiled step if there is no estimate of the user's feet.
# `NO_FEET` is read-only, because a writable array would need another compiled version of the kernel.
NO_FEET.flags.writeable = False
# Half-lives with which the estimated usual head height of a seated user rises and falls.
SITTING_UP_HALFLIFE_S, SITTING_DOWN_HALFLIFE_S = 0.5, 20.0


class PostStage:
    """Pose stage of one avatar, which corrects the matched pose. The `skeleton` must already have the user's size."""

    def __init__(
        self, settings: PostSettings, skeleton: Skeleton, calibration: Calibration, floor: Floor | None = None,
        former: AvatarPose | None = None,
    ) -> None:  # fmt: skip
        """Start the stage. If `former` is given, the first pose fades in from this last pose of a killed process."""
        self.skeleton, self.floor = skeleton, floor or FlatFloor()
        self._lengths, self._low = limb_lengths(skeleton), LowPosture(skeleton)
        self.set_calibration(calibration)
        self.settings = settings
        self.reset()
        self._fade = FadeIn(former)

    @property
    def settings(self) -> PostSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: PostSettings) -> None:
        self._settings, (self._tuning, _) = settings, packed(tuning(settings))
        # `_wanted` states for each role (head, waist, …) whether the pose follows the tracker with this role.
        self._wanted: NDArray[np.bool_] | None = None

    def set_calibration(self, calibration: Calibration) -> None:
        self._devices = np.zeros((R, 7))
        self._devices[:, 3] = 1.0
        self._devices[HEAD_ROLE] = calibration.headset_in_head
        self._devices[LEFT_HAND_ROLE] = calibration.left_grip_in_hand
        self._devices[LEFT_HAND_ROLE + 1] = calibration.right_grip_in_hand
        self._wanted = None
        self._low.set_height_sigma(calibration.head_height_sigma)
        self._mounted = np.array([r < WAIST_ROLE or name in calibration.mountings for r, name in enumerate(ROLES)])
        for name, mounting in calibration.mountings.items():
            self._devices[ROLES.index(name)] = self._on_this_skeleton(ROLES.index(name), mounting)
        lengths = np.linalg.norm(self._devices[:, 3:], axis=1)
        if not np.isfinite(self._devices).all() or (np.abs(lengths - 1) > 1e-3).any():
            raise MmRosError(
                "calibration: headset_in_head, left_grip_in_hand and right_grip_in_hand need finite positions and unit "
                f"quaternions, came {self._devices[:3].round(3).tolist()}"
            )

    def use_skeleton(self, skeleton: Skeleton) -> bool:
        """Use another `skeleton` from the next step on, without a reset, and return True. If other bones than those of
        the arms differ, do nothing and return False."""
        others = [j for j in range(len(skeleton)) if j not in ARM_BONES]
        old = self.skeleton
        if skeleton.names != old.names or not np.array_equal(skeleton.offsets[others], old.offsets[others]):
            return False
        self.skeleton, self._lengths = skeleton, limb_lengths(skeleton)
        return True

    def _on_this_skeleton(self, role: int, mounting: F64) -> F64:
        """Convert a mounting from the default skeleton, on which mountings are measured, to the skeleton of this stage.

        In the rest pose, the converted device is at the same place for both skeletons, although the legs may differ.
        """
        joint = JOINT_OF_ROLE[role]
        rest = default_skeleton()
        rest = rest.scaled(self.skeleton.head_height / rest.head_height)
        moved = (rest.rest_positions() - self.skeleton.rest_positions()).astype(np.float64)
        # At knees and feet, only the device's height is converted, because the skeletons' legs differ in length.
        on_trunk = role in (WAIST_ROLE, CHEST_ROLE)
        shift = moved[joint] - moved[HEAD] if on_trunk else np.array([0.0, 0.0, moved[joint, 2]])
        return np.concatenate([mounting[:3] + shift, mounting[3:]])

    def reset(self) -> None:
        self._timeline, self._fade = Timeline(), FadeIn()
        self._forget()

    def _forget(self) -> None:
        body, joints = make_body(self.skeleton), len(self.skeleton)
        source, new = make_source(joints), make_source(joints)
        states = (body, source, new, make_hold(), make_feet(self.skeleton), make_user())
        self._memory, views = zip(*map(packed, states), strict=True)
        self._body, self._source, self._new, self._hold, self._feet, _ = views
        self._low.reset()
        self._last: AvatarPose | None = None  # last pose, without the offset of the fade after a restart
        self.published: AvatarPose | None = None
        self._stretch = (0, 0)
        self._ground: float | None = None
        self._sitting: float | None = None  # usual height of a seated user's head joint [m]

    def declare(self) -> None:
        """Change the field `run` of all later poses, so that subscribers do not blend earlier poses into them."""
        self._fade.declare()

    def step(self, matched: AvatarPose, trackers: TrackerFrame | None = None, wait: bool = False) -> AvatarPose:
        """Return the published pose: the matched pose, blended after jumps, with head, hands and feet put in place.
        Without `trackers`, the limbs follow the played motion.

        If `wait` is true and the pose `former` of the constructor is near the new pose, `step` returns `former` again.
        """
        judged = self._timeline.judge(matched.stamp_ns, matched.epoch, trackers.new_from_old if trackers else None)
        if judged.verdict == DROP and self.published is not None:
            return self.published
        if judged.verdict == RESET:
            self._forget()
        # After a gap the whole body is faded; an additional blend of the limbs to their trackers would be too fast.
        elif judged.verdict == HOLD:
            sitting = self._sitting
            self._forget()
            self._sitting = sitting
        if judged.verdict == CARRY and trackers is not None:
            self._carry(trackers.new_from_old)
        fresh = self._last is None
        self._load(matched, judged.dt)
        p, q, seen = self._targets(trackers, judged.dt)
        if fresh:
            self._hold.weight[:] = seen
        jumped = not fresh and (matched.run, matched.segment) != self._stretch
        self._stretch = (matched.run, matched.segment)
        stands, estimated = np.empty(2, np.uint8), np.empty((2, 7))
        known, s = matched.feet.numbers if matched.feet else NO_FEET, self._settings
        body, source, new, hold, feet, user = self._memory
        follow_user(
            user, feet, known, matched.contacts, s.follow_feet, s.certain_feet, s.hold_feet, judged.dt, estimated,
            stands,
        )  # fmt: skip
        post_step(
            body, source, new, hold, feet, self._lengths, self._tuning, p, q, seen, self._devices,
            stands, estimated, self._grounds(),
            self._posture(trackers, p, q, seen, judged.dt), jumped, judged.dt,
        )  # fmt: skip
        self._last = self._published(matched, stands, judged.dt if judged.verdict in (ADVANCE, CARRY) else 0.0)
        travels = trackers is not None and not is_identity(trackers.new_from_old)
        gap, held = judged.verdict in (HOLD, RESET), seen[: LEFT_HAND_ROLE + 2].astype(bool).tolist()
        self.published = self._fade.step(self._last, judged.dt, travels, gap, wait, held)
        return self.published

    def _carry(self, new_from_old: F64) -> None:
        q, yaw = new_from_old[3:], float(rot.yaw_of(new_from_old[3:]))
        for points in (self._feet.place, self._feet.toe, self._feet.desired):
            points[:] = rot.rotate(q, points) + new_from_old[:3]
        feet = self._feet
        for vectors in (feet.offset, feet.rate, feet.toe_rate, feet.from_offset, feet.from_rate):
            vectors[:] = rot.rotate(q, vectors)
        self._feet.yaw[:] += yaw
        self._feet.heading[:, 0] += yaw
        self._feet.desired_yaw[:] += yaw
        self._low.forget_place()
        self._hold.calm[:, 2, 0] = 0.0  # A 0 here restarts the tremor filter of a body tracker in the next step.
        root = self._source.root
        root[0, :3] = rot.rotate(q, root[0, :3]) + new_from_old[:3]
        root[0, 3] += yaw

    def _load(self, matched: AvatarPose, dt: float) -> None:
        came, expected = len(matched.positions), len(self.skeleton)
        if came != expected:
            raise MmRosError(f"the matched pose has {came} joints; expected the {expected} of its skeleton")
        rows = matched.positions, matched.rotations, matched.velocities, matched.angular_velocities
        if not load(self._memory[2], matched.root, *rows):
            raise MmRosError("the matched pose has numbers that are not finite; expected a pose of the database")
        self._new.root[0, 2] += self._under_feet(dt)

    def _under_feet(self, dt: float) -> float:
        """Return the smoothed mean height of the ground under both feet [m], which the root of the avatar follows."""
        root, toes = self._new.root[0], self._feet.toe
        places = toes[:, :2].tolist() if self._feet.ready[0] else [root[:2].tolist()] * 2
        self._heights = [self.floor(x, y) for x, y in places]
        height = sum(self._heights) / 2
        self._ground = height if self._ground is None else damp(self._ground, height, GROUND_HALFLIFE_S, dt)
        return self._ground

    def _targets(self, trackers: TrackerFrame | None, dt: float) -> tuple[F64, F64, NDArray[np.uint8]]:
        """Return positions (R, 3), rotations (R, 4) and validity (R,) of the trackers that the settings use. A tracker
        is valid if it is not lost, its numbers are finite, and its quaternion has a length near 1."""
        if trackers is None:
            return np.zeros((R, 3)), np.tile([1.0, 0, 0, 0], (R, 1)), np.zeros(R, np.uint8)
        s = self._settings
        if self._wanted is None:
            self._wanted = self._mounted & np.array([s.head, s.hands, s.hands, *[s.extra_trackers] * len(BODY_ROLES)])
        p, q, good = np.zeros((R, 3)), np.zeros((R, 4)), np.zeros(R, np.uint8)
        choose_targets(trackers.positions, trackers.rotations, trackers.state, self._wanted, p, q, good)
        if s.posture == "seated" and good[HEAD_ROLE]:
            p[: LEFT_HAND_ROLE + 2, 2] += self._lift(p[HEAD_ROLE], q[HEAD_ROLE], dt)
        return p, q, good

    def _posture(self, trackers: TrackerFrame | None, p: F64, q: F64, seen: NDArray[np.uint8], dt: float) -> Low:
        allowed = trackers is not None and bool(seen[HEAD_ROLE]) and not (seen[WAIST_ROLE] or seen[CHEST_ROLE])
        frame = trackers or TrackerFrame(0)
        head, _ = wear(p[HEAD_ROLE], q[HEAD_ROLE], self._devices[HEAD_ROLE])
        return self._low.step(dt, frame, head, float(self._new.root[0, 3]), float(self._ground or 0.0), allowed)

    def _lift(self, headset: F64, rotation: F64, dt: float) -> float:
        """Return the difference [m] between the head height of the skeleton and the usual head height of a seated user.

        The estimate of the usual head height rises fast, because the user may sit up, and falls slowly, because the
        user may only bend over a desk.
        """
        head, _ = wear(headset, rotation, self._devices[HEAD_ROLE])
        if self._sitting is None:
            self._sitting = float(head[2])
        slow = SITTING_UP_HALFLIFE_S if head[2] > self._sitting else SITTING_DOWN_HALFLIFE_S
        self._sitting = float(damp(self._sitting, float(head[2]), slow, dt))
        return self.skeleton.head_height - self._sitting

    def _grounds(self) -> F64:
        return np.array([self._ground, *self._heights], np.float64)

    def _published(self, matched: AvatarPose, stands: U8, dt: float) -> AvatarPose:
        positions, rotations = (np.empty((len(self.skeleton), n), np.float32) for n in (3, 4))
        velocities, angular = matched.velocities.copy(), matched.angular_velocities.copy()
        last = (positions, rotations) if self._last is None else (self._last.positions, self._last.rotations)
        flags = np.empty((2, 2), np.bool_)
        body, *_, feet, _ = self._memory
        rated = 0.0 if self._last is None else dt
        read_out(body, feet, stands, last, rated, positions, rotations, velocities, angular, flags)
        x, y, z, yaw = self._new.root[0].tolist()
        return AvatarPose(
            matched.stamp_ns, matched.epoch, matched.skeleton,
            np.array([x, y, z, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]), positions, rotations, velocities,
            angular, flags[0], flags[1], matched.run, matched.segment, matched.stale, matched.engine, matched.feet,
        )  # fmt: skip

    @property
    def added_lean_deg(self) -> float:
        """Return the lean that the last step added to the torso toward the headset [deg]."""
        return math.degrees(self._hold.hips[2, 1])

    def warm_up(self, matched: AvatarPose) -> None:
        for i in range(2):  # The velocities of the joints are computed only from the second step on.
            again = replace(matched, stamp_ns=matched.stamp_ns + i * WARM_UP_NS)
            # Arrays of received messages are read-only, too, so that the same version of the kernel is compiled.
            self.step(frozen(again), frozen(TrackerFrame(again.stamp_ns)))
        self.reset()
