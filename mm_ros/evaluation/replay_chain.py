"""Run all stages on recorded or simulated trackers and store the output of each stage for every frame."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.avatar import Avatar
from mm_ros.base.errors import MmRosError
from mm_ros.body.landmarks import Sighting
from mm_ros.body.types import F32, F64, AvatarPose, BodyOrientation, Calibration, FeetEstimate
from mm_ros.tracking.simulation import TrackerTrack


@dataclass
class PoseTrack:
    """Poses of the avatar in F frames, stored as arrays."""

    root: F64  # (F, 7)
    positions: F32  # (F, J, 3)
    rotations: F32  # (F, J, 4)
    velocities: F32  # (F, J, 3)
    angular_velocities: F32  # (F, J, 3)
    contacts: NDArray[np.bool_]  # (F, 2)
    locked: NDArray[np.bool_]  # (F, 2)
    segment: NDArray[np.int64]  # (F,)

    def local(self) -> tuple[F64, F64]:
        """Return the positions and rotations of the joints relative to their parents; joint 0 has the pose of the root.
        """
        positions, rotations = self.positions.astype(np.float64), self.rotations.astype(np.float64)
        positions[:, 0], rotations[:, 0] = self.root[:, :3], self.root[:, 3:]
        return positions, rotations


@dataclass
class FeetTrack:
    """Estimates of the user's feet in F frames, stored as arrays."""

    ankles: F64  # (F, 2, 3)
    contact: F64  # (F, 2)
    touchdown: NDArray[np.bool_]  # (F, 2)


@dataclass
class ChainResult:
    stamps_ns: NDArray[np.int64]  # (F,)
    facing_yaw: F64  # (F,) predicted facing [rad]
    facing_sigma: F64  # (F,)
    desired_position: F64  # (F, 2) desired position of the root [m]
    desired_velocity: F64  # (F, 2)
    desired_yaw: F64  # (F,)
    desired_ahead: F64  # (F, T, 2) predicted positions of the user's hips at `desired_times`
    desired_times: F32  # (T,)
    height_ratio: F64  # (F,)
    matched: PoseTrack
    pose: PoseTrack
    frame: NDArray[np.int64]  # (F,) index in the database of the played frame
    reason: list[str]  # (F,) reason why a search has run in a frame, or "" without a search
    band: list[str]  # (F,)
    cost: F64  # (F,) cost of the frame that a search has chosen; NaN without a search
    continue_cost: F64  # (F,)
    added_lean_deg: F64  # (F,) lean that post-processing adds to the torso, so that the head reaches the headset
    step_s: F64  # (F,) computing time of all stages of the avatar for a frame [s]
    mounts: F64  # (F, 3, 7) calibrated poses of headset and controllers relative to head and hands
    feet: FeetTrack | None = None  # the user's feet, estimated from the trackers; None without estimate

    def __len__(self) -> int:
        return len(self.stamps_ns)

    @property
    def target_error_m(self) -> F64:
        """Return the distance (F,) [m] between the root of the avatar and the desired position."""
        return np.asarray(np.linalg.norm(self.pose.root[:, :2] - self.desired_position, axis=1))


def run_chain(
    track: TrackerTrack, avatar: Avatar, facing: Any = None, warm: bool = True, sightings: Sequence[Sighting] = (),
    calibrations: Mapping[int, Calibration] | None = None,
) -> ChainResult:  # fmt: skip
    """Run all stages of the avatar on the tracker samples `track`; the result leaves out samples that a stage drops.

    If the yaws `facing` (F,) [rad] are given, they replace the predicted facing of the user. `sightings` holds camera
    landmarks; the avatar gets each of them before the next tracker sample. `calibrations` maps the index of a tracker
    sample to the calibration that takes effect before the sample.
    """
    if warm:
        avatar.warm_up()
    rows: list[tuple[Any, ...]] = []
    coming = deque(sightings)
    for i in range(len(track)):
        trackers = track.frame(i)
        if calibrations and i in calibrations:
            avatar.set_calibration(calibrations[i])
        while coming and coming[0].arrives_ns <= trackers.stamp_ns:
            avatar.watch(coming.popleft().landmarks)
        given = None
        if facing is not None:
            given = BodyOrientation(trackers.stamp_ns, trackers.epoch, float(facing[i]), 0.0, 0.0, "truth")
        began = time.perf_counter()
        pose = avatar.step(trackers, given)
        took = time.perf_counter() - began
        if pose is not None and avatar.last is not None:
            s = avatar.last
            lean = avatar.post.added_lean_deg
            mounts = mounts_of(avatar.calibration)
            rows.append((trackers.stamp_ns, s.facing, s.desired, s.match, s.matched, pose, lean, took, mounts, s.feet))
    if not rows:
        raise MmRosError("the headset is not tracked in any sample, so there is no pose")
    stamps, facings, targets, matches, matched, poses, leans, took_s, carried, feet = zip(*rows, strict=True)
    return ChainResult(
        stamps_ns=np.array(stamps),
        facing_yaw=np.array([f.yaw for f in facings]),
        facing_sigma=np.array([f.sigma for f in facings]),
        desired_position=np.array([w.position for w in targets]),
        desired_velocity=np.array([w.velocity for w in targets]),
        desired_yaw=np.array([w.yaw for w in targets]),
        desired_ahead=np.array([w.positions for w in targets], np.float64),
        desired_times=targets[0].times,
        height_ratio=np.array([w.height_ratio for w in targets]),
        matched=stack_poses(matched),
        pose=stack_poses(poses),
        frame=np.array([m.frame for m in matches]),
        reason=[m.reason for m in matches],
        band=[m.band for m in matches],
        cost=np.array([m.cost for m in matches]),
        continue_cost=np.array([m.continue_cost for m in matches]),
        added_lean_deg=np.array(leans),
        step_s=np.array(took_s),
        mounts=np.stack(carried),
        feet=stack_feet(feet),
    )


def mounts_of(calibration: Calibration) -> F64:
    c = calibration
    return np.stack([c.headset_in_head, c.left_grip_in_hand, c.right_grip_in_hand])


def stack_feet(feet: Sequence[FeetEstimate | None]) -> FeetTrack | None:
    """Join the estimates of the user's feet to arrays; return None if the estimate of a tracker sample is missing."""
    known = [f for f in feet if f is not None]
    if len(known) < len(feet):
        return None
    ankles, contact, touchdown = (np.stack([getattr(f, n) for f in known]) for n in ("ankles", "contact", "touchdown"))
    return FeetTrack(ankles, contact, touchdown)


def stack_poses(poses: Any) -> PoseTrack:
    poses = list[AvatarPose](poses)
    names = ("root", "positions", "rotations", "velocities", "angular_velocities", "contacts", "locked")
    stacked = {name: np.stack([getattr(p, name) for p in poses]) for name in names}
    return PoseTrack(**stacked, segment=np.array([p.segment for p in poses]))
