"""Continuity of the published pose: after a restart it fades in from where the avatar was, or it is declared new.

A node that was killed comes back some seconds later, and the user has moved meanwhile. Within reach, the difference to
the last published pose becomes an offset on the whole body that decays: the body is moved rigidly, so that no limb is
stretched, and the feet slide for about 0.4 s, or longer if a joint would move faster than `FASTEST`. Beyond reach the
avatar appears at its new place with a new `run`.

A process that was started again finds the listeners of its topics only after some tenths of a second. Until then the
pose stays where it was, because a listener that joins during the fade would see a leap.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np

from mm_ros.body.skeleton import HIPS, canonical_kinematics
from mm_ros.body.types import AvatarPose
from mm_ros.maths import rotations as rot
from mm_ros.maths.springs import decay

LEAP_M = 0.3  # the root moves by less than this in one step, unless a node was restarted
LEAP_RAD = 0.35  # likewise its yaw: a hand at 0.8 m moves by 0.28 m
REACH_M = 1.0
HALFLIFE_S = 0.12
FASTEST = 5.0  # [m/s]; a listener that loses two of three poses at 90 Hz sees 0.17 m of it
PEAK = 2.0 * math.log(2.0) / math.e  # fastest rate of the spring, in offsets per half-life
LONGEST_STEP_S = 0.05  # maximum time step of the decay, so that a stall does not end it at once


class FadeIn:
    """Fade-in of the published pose. Its state is the last published pose, the offset of that pose from the stage's
    pose, and the number that is combined with `run`."""

    def __init__(self, former: AvatarPose | None = None) -> None:
        """`former`: pose that another process published last, before it was killed."""
        self._last, self._resumes = former, former is not None
        self._mixed = 0
        self._clear()

    def _clear(self) -> None:
        # Value and rate of x, y, z and yaw of the root; of each joint's rotation and, last, of the hips' position.
        self._root, self._joints = np.zeros((2, 4)), np.zeros((2, 1, 3))
        self._active = False
        self._halflife = HALFLIFE_S

    def step(
        self, pose: AvatarPose, dt: float, travels: bool = False, gap: bool = False, wait: bool = False
    ) -> AvatarPose:
        """The pose to publish. `travels`: a transform of the play space announces a leap, as a new epoch does.

        `gap`: poses were missing for a while, or time jumped back, so that trackers and with them the hands may leap.
        `wait`: stay at the pose of the former process, within reach of it, instead of the fade.
        """
        if wait and self._resumes and self._last is not None and _distance(pose, self._last) <= REACH_M:
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
            away = _distance(out, last)
            if away > REACH_M:
                self._clear()
                out = pose
                self.declare()
            elif gap or away > LEAP_M or _turn(out, last) > LEAP_RAD or pose.run ^ self._mixed != last.run:
                self._begin(last, pose)
                self._halflife = max(HALFLIFE_S, PEAK * self._longest_path(pose) / FASTEST)
                out = self._shifted(pose)
        self._last = out = replace(out, run=pose.run ^ self._mixed) if self._mixed else out
        return out

    def declare(self) -> None:
        """Give all later poses another `run`: what follows is not continuous for each listener."""
        self._mixed = random.getrandbits(32) | 1

    def _begin(self, last: AvatarPose, pose: AvatarPose) -> None:
        self._clear()
        self._active = True
        self._root[0, :3] = last.root[:3] - pose.root[:3]
        self._root[0, 3] = rot.wrap_angle(rot.yaw_of(last.root[3:]) - rot.yaw_of(pose.root[3:]))
        self._joints = np.zeros((2, len(pose.rotations) + 1, 3))
        both = min(len(last.rotations), len(pose.rotations))  # the skeleton may have got or lost fingers
        before, after = (p.rotations[:both].astype(np.float64) for p in (last, pose))
        self._joints[0, :both] = rot.log(rot.multiply(before, rot.inverse(after)))
        self._joints[0, -1] = last.positions[HIPS] - pose.positions[HIPS]

    def _advance(self, dt: float) -> None:
        if self._active:
            dt = min(dt, LONGEST_STEP_S)
            self._root = np.stack(decay(self._root[0], self._root[1], self._halflife, dt))
            self._joints = np.stack(decay(self._joints[0], self._joints[1], self._halflife, dt))
            self._active = bool(np.abs(self._root).max() > 1e-5 or np.abs(self._joints).max() > 1e-5)

    def _longest_path(self, pose: AvatarPose) -> float:
        """Distance [m] that the decay of the offset moves a joint, by the quarter that moves a joint farthest."""
        poses = [self._shifted(pose, share) for share in (1.0, 0.75, 0.5, 0.25, 0.0)]
        positions, rotations = (np.stack([getattr(p, k) for p in poses]) for k in ("positions", "rotations"))
        positions[:, 0], rotations[:, 0] = 0.0, [1.0, 0.0, 0.0, 0.0]
        places = canonical_kinematics(positions.astype(np.float64), rotations.astype(np.float64))[0]
        roots = np.stack([p.root for p in poses])[:, None]
        places = rot.rotate(roots[..., 3:], places) + roots[..., :3]
        return float(np.linalg.norm(np.diff(places, axis=0), axis=2).max()) * 4.0

    def _shifted(self, pose: AvatarPose, share: float = 1.0) -> AvatarPose:
        """The pose with a share of the present offset."""
        if not self._active:
            return pose
        offset, root = share * self._root[0], pose.root.copy()
        root[:3] += offset[:3]
        root[3:] = rot.from_yaw(rot.yaw_of(pose.root[3:]) + offset[3])
        rotations = rot.multiply(rot.exp(share * self._joints[0, :-1]), pose.rotations)
        positions = pose.positions.copy()
        positions[HIPS] += (share * self._joints[0, -1]).astype(np.float32)
        return replace(pose, root=root, positions=positions, rotations=rotations.astype(np.float32))


def _distance(a: AvatarPose, b: AvatarPose) -> float:
    """Distance of the roots [m]."""
    return float(np.linalg.norm(a.root[:3] - b.root[:3]))


def _turn(a: AvatarPose, b: AvatarPose) -> float:
    """Angle between the roots' yaws [rad]."""
    return abs(float(rot.wrap_angle(rot.yaw_of(a.root[3:]) - rot.yaw_of(b.root[3:]))))
