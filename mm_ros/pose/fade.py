"""Fade the published pose in after a restart of the pose node, so that the avatar does not leap.

A killed pose node is started again some seconds later, and the user has moved in the meantime. If the new pose is at
most 1 m (`REACH_M`) from the last published pose, the differences of the two poses become offsets that decay to zero:
of root, hips and joint rotations, and of head, hands and feet in the room. The bones keep their lengths in a fade, and
the feet slide for about 0.4 s, or longer if a joint would otherwise be faster than 5 m/s (`FASTEST`). The offsets of
head, hands and feet are separate, so that after a new calibration they stay on headset, controllers and floor. If the
new pose is more than 1 m away, the avatar appears there at once, and the field `run` of the pose gets another value.

A restarted process is connected to the subscribers of its topics only after some tenths of a second; until then the
process publishes the last pose of the former process, because a subscriber that joins during the fade would see a leap.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mm_ros.body.shape import room_joints
from mm_ros.body.skeleton import (
    HEAD,
    HIPS,
    LEFT_FOOT,
    LEFT_HAND,
    LEFT_SHOULDER,
    NECK,
    RIGHT_FOOT,
    RIGHT_HAND,
    RIGHT_SHOULDER,
    canonical_kinematics,
)
from mm_ros.body.types import F64, AvatarPose
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.maths.ik import corner
from mm_ros.maths.quat import Vec
from mm_ros.maths.springs import decay

# A pose is faded in if its root moved by more than `LEAP_M` [m] or turned by more than `LEAP_RAD` [rad] in one step.
LEAP_M = 0.3
LEAP_RAD = 0.35
REACH_M = 1.0  # A pose that is farther than `REACH_M` from the last published pose is shown at once, without a fade.
HALFLIFE_S = 0.12  # Half-life with which the offset of a fade decays.
OWN_MOTION_M = 0.05  # A tracked head or hand that moved by less than `OWN_MOTION_M` [m] is not faded.
ENDS = (HEAD, LEFT_HAND, RIGHT_HAND, LEFT_FOOT, RIGHT_FOOT)
CARRIERS = (NECK, LEFT_SHOULDER, RIGHT_SHOULDER, HIPS, HIPS)  # Parent joints of the head, the arms and the legs.
STRAIGHTEST = 0.999  # Maximum distance from shoulder to hand or from hip to foot, as a share of the limb's length.
# A fade moves each joint at most at the speed `FASTEST` [m/s]. If a subscriber loses two of three poses at 90 Hz, a
# joint at `FASTEST` moves by 0.17 m from one received pose to the next.
FASTEST = 5.0
# Maximum decay rate of the offset of a fade: `PEAK` times the initial value per half-life.
PEAK = 2.0 * math.log(2.0) / math.e
LONGEST_STEP_S = 0.05  # Maximum time step of a fade; a longer step would end the fade at once.


class FadeIn:
    """Add to the published pose the offsets from the last pose of the former process, which decay to zero."""

    def __init__(self, former: AvatarPose | None = None) -> None:
        """Start the fade from `former`, the last pose that another process published before it was killed."""
        self._last, self._resumes = former, former is not None
        self._mixed = 0
        self._are_held: tuple[bool, ...] = (False,) * len(ENDS)
        self._clear()

    def _clear(self) -> None:
        # Row 0 of `_root`, `_joints` and `_ends` contains the offsets of the fade, row 1 the rates of these offsets.
        self._root = np.zeros((2, 4))  # offsets of the fade in x, y, z and yaw of the root
        self._joints = np.zeros((2, 1, 3))  # offsets of the fade in all joint rotations, then in the hips' position
        # offsets of the fade in position and rotation of head, hands and feet in the room
        self._ends = np.zeros((2, 2, len(ENDS), 3))
        self._active = False
        self._halflife = HALFLIFE_S

    def step(
        self, pose: AvatarPose, dt: float, travels: bool = False, gap: bool = False, wait: bool = False,
        held: Sequence[bool] = (False, False, False),
    ) -> AvatarPose:  # fmt: skip
        """Return `pose` with the remaining offset of the fade, and start a new fade if the avatar would leap.

        `travels` is true if the avatar leaps because the user moved the play space; this leap is not faded. `gap` is
        true if poses were missing or time jumped back, so that the trackers may leap. If `wait` is true and the last
        pose of the former process is near, this last pose is returned instead of the fade. `held` (3,) states whether
        the head, the left hand and the right hand follow a tracked device.
        """
        self._are_held = (*(bool(h) and not wait for h in held), False, False)
        if wait and self._resumes and self._last is not None and _apart(pose, self._last)[0] <= REACH_M:
            self._begin(self._last, pose)
            out = self._shifted(pose)
            self._clear()
            return out
        last, self._last = self._last, None
        declared = last is None or travels or pose.epoch != last.epoch
        if declared and not self._resumes:
            self._clear()
            last = None
        gap, self._resumes = gap or self._resumes, False
        self._advance(dt)
        out = self._shifted(pose)
        if last is not None:
            away, turned = _apart(out, last)
            if away > REACH_M:
                self._clear()
                out = pose
                self.declare()
            elif gap or away > LEAP_M or turned > LEAP_RAD or pose.run ^ self._mixed != last.run:
                self._begin(last, pose)
                self._halflife = max(HALFLIFE_S, PEAK * self._longest_path(pose) / FASTEST)
                out = self._shifted(pose)
        self._last = out = replace(out, run=pose.run ^ self._mixed) if self._mixed else out
        return out

    def declare(self) -> None:
        """Change the field `run` of all later poses, so that subscribers do not blend earlier poses into them."""
        self._mixed = random.getrandbits(32) | 1

    def _begin(self, last: AvatarPose, pose: AvatarPose) -> None:
        self._clear()
        self._active = True
        self._root[0, :3] = last.root[:3] - pose.root[:3]
        self._root[0, 3] = rot.wrap_angle(rot.yaw_of(last.root[3:]) - rot.yaw_of(pose.root[3:]))
        self._joints = np.zeros((2, len(pose.rotations) + 1, 3))
        # The offsets are computed for the joints that both poses have, because one pose may have fewer finger joints.
        both = min(len(last.rotations), len(pose.rotations))
        before, after = (p.rotations[:both].astype(np.float64) for p in (last, pose))
        self._joints[0, :both] = rot.log(rot.multiply(before, rot.inverse(after)))
        self._joints[0, -1] = last.positions[HIPS] - pose.positions[HIPS]
        (p0, q0), (p1, q1) = room_joints(last), room_joints(pose)
        for k, joint in enumerate(ENDS):
            off = p0[joint] - p1[joint]
            if self._are_held[k] and float(np.linalg.norm(off)) < OWN_MOTION_M:
                continue
            self._ends[0, 0, k] = off
            self._ends[0, 1, k] = rot.log(rot.multiply(q0[joint], rot.inverse(q1[joint])))

    def _advance(self, dt: float) -> None:
        if self._active:
            dt = min(dt, LONGEST_STEP_S)
            self._root = np.stack(decay(self._root[0], self._root[1], self._halflife, dt))
            self._joints = np.stack(decay(self._joints[0], self._joints[1], self._halflife, dt))
            self._ends = np.stack(decay(self._ends[0], self._ends[1], self._halflife, dt))
            self._active = any(bool(np.abs(a).max() > 1e-5) for a in (self._root, self._joints, self._ends))

    def _longest_path(self, pose: AvatarPose) -> float:
        """Estimate the longest path [m] of a joint during the fade: four times the longest path in a quarter of the
        fade."""
        poses = [self._shifted(pose, share) for share in (1.0, 0.75, 0.5, 0.25, 0.0)]
        positions, rotations = (np.stack([getattr(p, k) for p in poses]) for k in ("positions", "rotations"))
        positions[:, 0], rotations[:, 0] = 0.0, [1.0, 0.0, 0.0, 0.0]
        places = canonical_kinematics(positions.astype(np.float64), rotations.astype(np.float64))[0]
        roots = np.stack([p.root for p in poses])[:, None]
        places = rot.rotate(roots[..., 3:], places) + roots[..., :3]
        return float(np.linalg.norm(np.diff(places, axis=0), axis=2).max()) * 4.0

    def _shifted(self, pose: AvatarPose, share: float = 1.0) -> AvatarPose:
        if not self._active:
            return pose
        offset, root = share * self._root[0], pose.root.copy()
        root[:3] += offset[:3]
        root[3:] = rot.from_yaw(rot.yaw_of(pose.root[3:]) + offset[3])
        rotations = rot.multiply(rot.exp(share * self._joints[0, :-1]), pose.rotations)
        positions = pose.positions.copy()
        positions[HIPS] += (share * self._joints[0, -1]).astype(np.float32)
        moved = replace(pose, root=root, positions=positions, rotations=rotations.astype(np.float32))
        return self._held(moved, pose, share)

    def _held(self, moved: AvatarPose, pose: AvatarPose, share: float) -> AvatarPose:
        """Move head, hands and feet of the shifted body to the places that follow from their own offsets."""
        p, q = room_joints(pose)
        offsets, turned_by = share * self._ends[0]
        goals = [tuple((p[j] + offsets[k]).tolist()) for k, j in enumerate(ENDS)]
        turns = [rot.multiply(rot.exp(turned_by[k]), q[j]) for k, j in enumerate(ENDS)]
        positions, rotations = moved.positions.copy(), moved.rotations.copy()
        p, q = room_joints(moved)
        shift = np.array(goals[0]) - p[HEAD]
        positions[HIPS] += rot.rotate(rot.inverse(q[0]), shift).astype(np.float32)
        p += shift
        rotations[HEAD] = rot.multiply(rot.inverse(q[CARRIERS[0]]), turns[0])
        for goal, turn, end_joint, carrier in zip(goals[1:], turns[1:], ENDS[1:], CARRIERS[1:], strict=True):
            upper, lower = end_joint - 2, end_joint - 1
            root, middle, tip = (tuple(p[j].tolist()) for j in (upper, lower, end_joint))
            first, second = (quat.norm(quat.sub(b, a)) for a, b in ((root, middle), (middle, tip)))
            # A limb may be stretched more than `STRAIGHTEST` if it already is in the pose without the offset.
            longest = max(STRAIGHTEST * (first + second), quat.norm(quat.sub(tip, root)))
            line = quat.shortened(quat.sub(goal, root), longest)
            end = quat.add(root, line)
            along = quat.unit(line, (0.0, 0.0, -1.0))
            down = quat.unit(quat.across((0.0, 0.0, -1.0), along), (1.0, 0.0, 0.0))
            side = quat.unit(quat.across(quat.sub(middle, root), along), down)
            bent = corner(root, end, side, first, second)
            turned = _aimed(q[upper], quat.sub(middle, root), quat.sub(bent, root))
            below = _aimed(q[lower], quat.sub(tip, middle), quat.sub(end, bent))
            rotations[upper] = rot.multiply(rot.inverse(q[carrier]), turned)
            rotations[lower] = rot.multiply(rot.inverse(turned), below)
            rotations[end_joint] = rot.multiply(rot.inverse(below), turn)
        return replace(moved, positions=positions, rotations=rotations)


def _aimed(q: F64, old: Vec, new: Vec) -> F64:
    """Turn the rotation `q` of a bone by the smallest rotation from the direction `old` to the direction `new`."""
    between = quat.between(quat.unit(old, (1.0, 0.0, 0.0)), quat.unit(new, (1.0, 0.0, 0.0)))
    return np.asarray(rot.multiply(np.array(between), q))


def _apart(a: AvatarPose, b: AvatarPose) -> tuple[float, float]:
    p, q = a.root.tolist(), b.root.tolist()
    turned = quat.wrap(quat.yaw_of(tuple(p[3:])) - quat.yaw_of(tuple(q[3:])))
    return math.dist(p[:3], q[:3]), abs(turned)
