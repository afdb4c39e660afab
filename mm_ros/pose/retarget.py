"""Retarget poses from the canonical skeleton to a humanoid with other names, rest pose and proportions.

Rotations: q_t = q_s (q_s0)⁻¹ q_t0 in room axes, with both skeletons in T-pose for q_0 (thesis Eq. 3.20 to 3.23). In the
canonical T-pose all rotations are the identity, so q_t = q_s q_t0. After that, the legs bend so that each foot rises
above its rest height as on the source, scaled by the ratio of the leg lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import HIPS, NAMES, Skeleton, canonical_kinematics
from mm_ros.body.types import F64, AvatarPose
from mm_ros.maths import quat
from mm_ros.maths import rotations as rot
from mm_ros.maths.ik import bend_two, soft_reach, swung_normal

LEGS = (("left_upper_leg", "left_lower_leg", "left_foot"), ("right_upper_leg", "right_lower_leg", "right_foot"))
REACH_ZONE = 0.004  # m


@dataclass(frozen=True)
class Humanoid:
    """A tree of N joints, x forward and z up: `offsets` (N, 3) in the parent's axes [m], `t_pose` (N, 4) local
    rotations of the T-pose. `joints`: canonical name → own name; hips and legs are required."""

    names: tuple[str, ...]
    parents: tuple[int, ...]
    offsets: F64
    t_pose: F64
    joints: dict[str, str]

    def __post_init__(self) -> None:
        n = len(self.names)
        if self.offsets.shape != (n, 3) or self.t_pose.shape != (n, 4) or len(self.parents) != n:
            raise MmRosError(
                f"humanoid with {n} joints: expected offsets ({n}, 3), t_pose ({n}, 4) and {n} parents, "
                f"came {self.offsets.shape}, {self.t_pose.shape} and {len(self.parents)}"
            )
        if any(p >= i for i, p in enumerate(self.parents)):
            raise MmRosError("humanoid: parents must come before their children, and the first has parent -1")
        for canonical, own in self.joints.items():
            if canonical not in NAMES:
                raise MmRosError(f"'{canonical}' is not a canonical joint. Joints: {', '.join(NAMES)}")
            if own not in self.names:
                raise MmRosError(f"joint '{own}' is not in the humanoid. Joints: {', '.join(self.names)}")
        lacking = [j for j in ("hips", *LEGS[0], *LEGS[1]) if j not in self.joints]
        if lacking:
            raise MmRosError(f"retargeting needs the joints hips and legs; not mapped: {', '.join(lacking)}")


@dataclass
class HumanoidPose:
    """Local positions and rotations; row 0 is in the room."""

    positions: F64  # (N, 3)
    rotations: F64  # (N, 4)


class Retargeter:
    """Retargets poses to `target`. `travel`: "scaled" scales the path by the ratio of leg lengths; "kept" keeps it."""

    def __init__(self, source: Skeleton, target: Humanoid, travel: str = "scaled", keep_feet: bool = True) -> None:
        if travel not in ("scaled", "kept"):
            raise MmRosError(f"travel: '{travel}' is not among scaled, kept")
        self.source, self.target, self.keep_feet = source, target, keep_feet
        self._index = {c: target.names.index(own) for c, own in target.joints.items()}
        self._source_of = {self._index[c]: NAMES.index(c) for c in target.joints}
        rest_p, self._rest_q = rot.forward_kinematics(target.parents, target.offsets, target.t_pose)
        self._rest_source = source.rest_positions().astype(np.float64)
        feet = [self._index[leg[2]] for leg in LEGS]
        self._floor = float(rest_p[feet, 2].min() - self._rest_source[[NAMES.index(leg[2]) for leg in LEGS], 2].min())
        self._rest_p = rest_p
        self.scale = self._leg_length() / source.leg_length
        self._travel = self.scale if travel == "scaled" else 1.0
        self._bones = [[target.offsets[self._index[name]] for name in leg[1:]] for leg in LEGS]

    def _leg_length(self) -> float:
        o, i = self.target.offsets, self._index
        return float(sum(np.linalg.norm(o[i[n]]) for leg in LEGS for n in leg[1:]) / 2)

    def step(self, pose: AvatarPose) -> HumanoidPose:
        """Pose of the target humanoid for a pose of the avatar."""
        p, q = pose.positions.astype(np.float64), pose.rotations.astype(np.float64)
        p[0], q[0] = pose.root[:3], pose.root[3:]
        source_p, source_q = canonical_kinematics(p, q)
        room_q = self._rotations(source_q)
        room_p = np.zeros((len(room_q), 3))
        hips = self._index["hips"]
        self._place(room_p, room_q, hips, self._scaled(source_p[HIPS], source_p[HIPS], hips))
        if self.keep_feet:
            for side, leg in enumerate(LEGS):
                self._stand(side, [self._index[n] for n in leg], source_p, room_p, room_q)
        return self._local(room_p, room_q)

    def _rotations(self, source_q: F64) -> F64:
        out = np.empty((len(self.target.names), 4))
        for i, parent in enumerate(self.target.parents):
            s = self._source_of.get(i)
            if s is not None:
                out[i] = rot.multiply(source_q[s], self._rest_q[i])  # Eq. 3.23
            elif parent < 0:
                out[i] = rot.multiply(source_q[HIPS], self._rest_q[i])
            else:
                out[i] = rot.multiply(out[parent], self.target.t_pose[i])
        return out

    def _scaled(self, place: F64, hips: F64, joint: int) -> F64:
        """Position of the target's joint for a source joint at `place`, scaled about the hips and the rest height."""
        source = self._source_of[joint]
        way = hips[:2] * self._travel + (place - hips)[:2] * self.scale
        height = self._rest_p[joint, 2] + (place[2] - self._rest_source[source, 2]) * self.scale
        return np.array([way[0], way[1], height])

    def _place(self, p: F64, q: F64, joint: int, at: F64) -> None:
        """Set all positions from the rotations, then move the body so that `joint` is at `at`."""
        for i, parent in enumerate(self.target.parents):
            offset = self.target.offsets[i]
            p[i] = offset if parent < 0 else p[parent] + rot.rotate(q[parent], offset)
        p += at - p[joint]

    def _stand(self, side: int, leg: list[int], source_p: F64, p: F64, q: F64) -> None:
        hip, knee, foot = leg
        wanted = self._scaled(source_p[self._source_of[foot]], source_p[HIPS], foot)
        longest = float(sum(np.linalg.norm(b) for b in self._bones[side])) * 0.9999
        line = wanted - p[hip]
        far = float(np.linalg.norm(line))
        if far < 1e-6:
            return
        wanted = p[hip] + line * (soft_reach(far, longest, REACH_ZONE) / far)
        # The knee bends about the axis that points left in the T-pose.
        axes = [rot.rotate(rot.inverse(self._rest_q[j]), np.array([0.0, 1.0, 0.0])) for j in (hip, knee)]
        room_axis = rot.rotate(q[hip], axes[0])
        normal = swung_normal(tuple(p[hip]), tuple(p[foot]), tuple(room_axis), tuple(wanted))
        thigh_bone, shin_bone = (
            rot.rotate(self._rest_q[j], b) for j, b in ((hip, self._bones[side][0]), (knee, self._bones[side][1]))
        )
        turn_a, turn_b, middle = bend_two(
            tuple(p[hip]), tuple(wanted), normal, tuple(thigh_bone), tuple(shin_bone), (0.0, 1.0, 0.0)
        )
        q[hip] = quat.mul(turn_a, tuple(self._rest_q[hip]))
        q[knee] = quat.mul(turn_b, tuple(self._rest_q[knee]))
        p[knee], p[foot] = middle, wanted

    def _local(self, p: F64, q: F64) -> HumanoidPose:
        positions, rotations = self.target.offsets.copy(), np.empty_like(q)
        for i, parent in enumerate(self.target.parents):
            rotations[i] = q[i] if parent < 0 else rot.multiply(rot.inverse(q[parent]), q[i])
        positions[0] = p[0]
        return HumanoidPose(positions, rot.normalize(rotations))
