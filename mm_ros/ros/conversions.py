"""Conversions between mm_ros messages and core types, in pairs `x_to_ros` / `x_from_ros`.

Only this module reorders quaternions: w is first in core types, last in ROS. `x_from_ros` raises MmRosError for wrong
lengths, for numbers that are not finite, and for implausible sizes (`body/plausible.py`).
"""

from __future__ import annotations

import math
from array import array
from itertools import pairwise
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Pose, Quaternion, Twist, Vector3
from numpy.typing import NDArray
from std_msgs.msg import Header

from mm_ros.base.errors import MmRosError
from mm_ros.body import plausible
from mm_ros.body.landmarks import COUNT, Landmarks, flat
from mm_ros.body.skeleton import LEFT_FOOT, LEFT_TOES, NAMES, PARENTS, RIGHT_FOOT, RIGHT_TOES, J, Skeleton
from mm_ros.body.types import (
    FEET_NUMBERS,
    LOST,
    ROLES,
    WAIST_ROLE,
    AvatarPose,
    BodyOrientation,
    Calibration,
    FeetEstimate,
    Match,
    R,
    TrackerFrame,
    Trajectory,
    feet_from_flat,
    role_index,
)
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.features import FeatureLayout
from mm_ros.msg import AvatarPose as AvatarPoseMsg
from mm_ros.msg import BodyOrientation as BodyOrientationMsg
from mm_ros.msg import Calibration as CalibrationMsg
from mm_ros.msg import FeatureLayout as FeatureLayoutMsg
from mm_ros.msg import Landmarks as LandmarksMsg
from mm_ros.msg import Match as MatchMsg
from mm_ros.msg import Skeleton as SkeletonMsg
from mm_ros.msg import Tracker as TrackerMsg
from mm_ros.msg import TrackerArray as TrackerArrayMsg
from mm_ros.msg import Trajectory as TrajectoryMsg

WORLD = "map"


def stamp_to_ros(ns: int) -> Time:
    return Time(sec=ns // 1_000_000_000, nanosec=ns % 1_000_000_000)


def stamp_from_ros(stamp: Time) -> int:
    return plausible.stamp_ns(int(stamp.sec), int(stamp.nanosec))


def header(stamp_ns: int, frame: str = WORLD) -> Header:
    return Header(stamp=stamp_to_ros(stamp_ns), frame_id=frame)


def floats(values: NDArray[Any]) -> array[float]:
    """Return a float32 array for a message; rclpy accepts `array('f')` without checking each number."""
    out = array("f")
    out.frombytes(np.ascontiguousarray(values, np.float32).tobytes())
    return out


def w_first(q: NDArray[Any]) -> NDArray[Any]:
    return np.roll(q, 1, axis=-1)


def w_last(q: NDArray[Any]) -> NDArray[Any]:
    return np.roll(q, -1, axis=-1)


def _numbers(name: str, values: Any, shape: tuple[int, ...]) -> NDArray[np.float32]:
    out = np.array(values, np.float32)
    if out.size != int(np.prod(shape)):
        raise MmRosError(f"{name}: expected {int(np.prod(shape))} numbers, came {out.size}")
    return out.reshape(shape)


# ---- poses


def pose_to_ros(pose: NDArray[np.float64]) -> Pose:
    x, y, z, qw, qx, qy, qz = (float(v) for v in pose)
    return Pose(position=Point(x=x, y=y, z=z), orientation=Quaternion(x=qx, y=qy, z=qz, w=qw))


def pose_from_ros(pose: Pose) -> NDArray[np.float64]:
    p, q = pose.position, pose.orientation
    return np.array([p.x, p.y, p.z, q.w, q.x, q.y, q.z])


# ---- landmarks


def landmarks_to_ros(seen: Landmarks, frame: str = "camera") -> LandmarksMsg:
    return LandmarksMsg(header=header(seen.stamp_ns, frame), **flat(seen))


def landmarks_from_ros(msg: LandmarksMsg) -> Landmarks:
    out = Landmarks(
        stamp_from_ros(msg.header.stamp),
        _numbers("landmarks' positions", msg.positions, (COUNT, 3)).astype(np.float64),
        _numbers("landmarks' visibility", msg.visibility, (COUNT,)),
        _numbers("landmarks' image positions", msg.image, (COUNT, 2)),
        float(msg.confidence),
        int(msg.epoch),
        str(msg.source),
    )
    return plausible.landmarks(out)


# ---- trackers


def trackers_to_ros(frame: TrackerFrame) -> TrackerArrayMsg:
    """Convert a frame; roles that are lost and were never sampled are left out."""
    out = TrackerArrayMsg(
        header=header(frame.stamp_ns), epoch=frame.epoch, new_from_old=pose_to_ros(frame.new_from_old)
    )
    out.trackers = [
        _tracker_to_ros(frame, r) for r in range(R) if frame.state[r] != LOST or frame.sampled_ns[r] != 0
    ]
    return out


def _tracker_to_ros(frame: TrackerFrame, r: int) -> TrackerMsg:
    v, w = frame.velocities[r].tolist(), frame.angular_velocities[r].tolist()
    return TrackerMsg(
        role=ROLES[r],
        pose=pose_to_ros(np.concatenate([frame.positions[r], frame.rotations[r]])),
        twist=Twist(linear=Vector3(x=v[0], y=v[1], z=v[2]), angular=Vector3(x=w[0], y=w[1], z=w[2])),
        state=int(frame.state[r]),
        sampled=stamp_to_ros(int(frame.sampled_ns[r])),
    )


def trackers_from_ros(msg: TrackerArrayMsg) -> TrackerFrame:
    out = TrackerFrame(stamp_from_ros(msg.header.stamp), int(msg.epoch))
    out.new_from_old = pose_from_ros(msg.new_from_old)
    for t in msg.trackers:
        r = role_index(t.role)
        pose = pose_from_ros(t.pose)
        out.positions[r], out.rotations[r] = pose[:3], pose[3:]
        v, w = t.twist.linear, t.twist.angular
        out.velocities[r], out.angular_velocities[r] = (v.x, v.y, v.z), (w.x, w.y, w.z)
        out.state[r] = t.state
        out.sampled_ns[r] = stamp_from_ros(t.sampled)
    return plausible.trackers(out)


# ---- orientation, trajectory


def orientation_to_ros(o: BodyOrientation) -> BodyOrientationMsg:
    return BodyOrientationMsg(
        header=header(o.stamp_ns),
        epoch=o.epoch,
        yaw=float(o.yaw),
        yaw_rate=float(o.yaw_rate),
        sigma=float(o.sigma),
        source=o.source,
    )


def orientation_from_ros(msg: BodyOrientationMsg) -> BodyOrientation:
    out = BodyOrientation(
        stamp_from_ros(msg.header.stamp), int(msg.epoch), msg.yaw, msg.yaw_rate, msg.sigma, msg.source
    )
    return plausible.orientation(out)


def trajectory_to_ros(t: Trajectory) -> TrajectoryMsg:
    return TrajectoryMsg(
        header=header(t.stamp_ns),
        epoch=t.epoch,
        source=t.source,
        position=np.asarray(t.position, np.float64),
        velocity=np.asarray(t.velocity, np.float64),
        yaw=float(t.yaw),
        yaw_sigma=float(t.yaw_sigma),
        height_ratio=float(t.height_ratio),
        times=floats(t.times),
        positions=floats(t.positions),
        directions=floats(t.directions),
        new_from_old=pose_to_ros(t.new_from_old),
        feet=feet_to_ros(t.feet),
        stale=bool(t.stale),
    )


def trajectory_from_ros(msg: TrajectoryMsg) -> Trajectory:
    n = len(msg.times)
    out = Trajectory(
        stamp_from_ros(msg.header.stamp),
        int(msg.epoch),
        msg.source,
        np.array(msg.position, np.float64),
        np.array(msg.velocity, np.float64),
        msg.yaw,
        msg.yaw_sigma,
        msg.height_ratio,
        _numbers("trajectory times", msg.times, (n,)),
        _numbers("trajectory positions", msg.positions, (n, 2)),
        _numbers("trajectory directions", msg.directions, (n, 2)),
        bool(msg.stale),
        pose_from_ros(msg.new_from_old),
        feet_from_ros(msg.feet),
    )
    return plausible.trajectory(out)


def feet_to_ros(feet: FeetEstimate | None) -> array[float]:
    return array("f") if feet is None else floats(feet.flat())


def feet_from_ros(numbers: Any) -> FeetEstimate | None:
    return feet_from_flat(_numbers("feet", numbers, (FEET_NUMBERS,))) if len(numbers) else None


# ---- avatar pose


def avatar_pose_to_ros(pose: AvatarPose) -> AvatarPoseMsg:
    root = pose.root
    return AvatarPoseMsg(
        header=header(pose.stamp_ns),
        epoch=pose.epoch,
        skeleton=pose.skeleton,
        engine=pose.engine,
        run=pose.run,
        segment=pose.segment,
        root=np.concatenate([root[:3], w_last(root[3:])]),
        positions=floats(pose.positions[1:]),
        rotations=floats(w_last(pose.rotations[1:])),
        velocities=floats(pose.velocities[1:]),
        angular_velocities=floats(pose.angular_velocities[1:]),
        root_velocity=np.concatenate([pose.velocities[0], pose.angular_velocities[0]]).astype(np.float32),
        contacts=[bool(c) for c in pose.contacts],
        locked=[bool(c) for c in pose.locked],
        feet=feet_to_ros(pose.feet),
        stale=bool(pose.stale),
    )


def avatar_pose_from_ros(msg: AvatarPoseMsg) -> AvatarPose:
    positions, velocities, angular = (np.zeros((J, 3), np.float32) for _ in range(3))
    rotations = np.zeros((J, 4), np.float32)
    rotations[0, 0] = 1.0
    positions[1:] = _numbers("joint positions", msg.positions, (J - 1, 3))
    rotations[1:] = w_first(_numbers("joint rotations", msg.rotations, (J - 1, 4)))
    velocities[1:] = _numbers("joint velocities", msg.velocities, (J - 1, 3))
    angular[1:] = _numbers("joint angular velocities", msg.angular_velocities, (J - 1, 3))
    moving = _numbers("root velocity", msg.root_velocity, (6,))
    velocities[0], angular[0] = moving[:3], moving[3:]
    root = np.array(msg.root, np.float64)
    out = AvatarPose(
        stamp_from_ros(msg.header.stamp),
        int(msg.epoch),
        int(msg.skeleton),
        np.concatenate([root[:3], w_first(root[3:])]),
        positions,
        rotations,
        velocities,
        angular,
        np.array(msg.contacts, bool),
        np.array(msg.locked, bool),
        int(msg.run),
        int(msg.segment),
        bool(msg.stale),
        msg.engine,
        feet_from_ros(msg.feet),
    )
    return plausible.avatar_pose(out)


# ---- match


def match_to_ros(m: Match, pose: AvatarPose, database: MotionDatabase | None = None, scale: float = 1.0) -> MatchMsg:
    """Convert a match; with a database also feature names and values in root space, scaled to the user."""
    described = database if m.query.size else None
    return MatchMsg(
        header=header(m.stamp_ns),
        epoch=m.epoch,
        engine=m.engine,
        search_structure=m.search_structure,
        run=pose.run,
        segment=pose.segment,
        database=m.database,
        layout=m.layout,
        clip=m.clip,
        clip_index=m.clip_index,
        frame=m.frame,
        frame_fraction=m.frame_fraction,
        time=m.time,
        tags=list(m.tags),
        band=m.band,
        searched=m.searched,
        reason=m.reason,
        jumped=m.jumped,
        cost=float(m.cost),
        continue_cost=float(m.continue_cost),
        search_time=m.search_time,
        feature_names=list(described.layout.column_names) if described else [],
        weights=floats(m.weights),
        query=floats(m.query),
        winner=floats(m.winner),
        query_physical=floats(_physical(described, m.query, scale)),
        winner_physical=floats(_physical(described, m.winner, scale)),
        runner_up_frames=m.runner_up_frames.astype(np.int32),
        runner_up_clips=list(m.runner_up_clips),
        runner_up_costs=floats(m.runner_up_costs),
    )


def _physical(database: MotionDatabase | None, normalized: Any, scale: float) -> Any:
    if database is None:
        return np.zeros(0)
    out = np.asarray(normalized) * database.feature_std + database.feature_mean
    for f in database.layout.features:
        if f.kind in ("trajectory_position", "joint_position", "joint_velocity"):
            out[database.layout.offsets[f.name]] *= scale
    return out


# ---- feature layout


def feature_layout_to_ros(layout: FeatureLayout, stamp_ns: int) -> FeatureLayoutMsg:
    return FeatureLayoutMsg(
        header=header(stamp_ns),
        hash=int(layout.hash, 16),
        features=[f.name for f in layout.features],
        weights=[float(f.weight) for f in layout.features],
        trajectory_times=list(layout.trajectory_times),
    )


def trajectory_times_from_ros(msg: FeatureLayoutMsg) -> tuple[float, ...]:
    """Return the trajectory times; the message does not contain the rest of the layout."""
    times = tuple(float(t) for t in msg.trajectory_times)
    if not times or not all(a < b < math.inf for a, b in pairwise((0.0, *times))):
        raise MmRosError(f"feature layout: expected ascending trajectory times above 0, came {times}")
    plausible.check("number of times of the feature layout", len(times), "samples")
    plausible.check("times of the feature layout", np.array(times), "time ahead")
    return times


# ---- skeleton, calibration


def skeleton_to_ros(skeleton: Skeleton, stamp_ns: int, name: str = "avatar") -> SkeletonMsg:
    return SkeletonMsg(
        header=header(stamp_ns),
        hash=skeleton.hash,
        name=name,
        joints=list(skeleton.names),
        parents=skeleton.parents.astype(np.int16),
        offsets=floats(skeleton.offsets),
        height=skeleton.head_height,
        feet=np.array([LEFT_FOOT, RIGHT_FOOT], np.int16),
        toes=np.array([LEFT_TOES, RIGHT_TOES], np.int16),
    )


def skeleton_from_ros(msg: SkeletonMsg) -> Skeleton:
    if tuple(msg.joints) != NAMES or list(msg.parents) != PARENTS.tolist():
        raise MmRosError(f"skeleton '{msg.name}' is not the canonical humanoid. Joints: {', '.join(NAMES)}")
    out = plausible.skeleton(Skeleton(_numbers("skeleton offsets", msg.offsets, (J, 3))))
    if out.hash != msg.hash:
        raise MmRosError(f"skeleton '{msg.name}': its hash is {msg.hash:x}, but that of its offsets is {out.hash:x}")
    return out


_DEVICE_OFFSETS = ("headset_in_head", "left_grip_in_hand", "right_grip_in_hand")


def calibration_to_ros(c: Calibration, stamp_ns: int) -> CalibrationMsg:
    return CalibrationMsg(
        header=header(stamp_ns),
        user=c.user,
        calibrated=c.calibrated,
        posture=c.posture,
        head_height=c.head_height,
        floor_height=c.floor_height,
        arm_span=c.arm_span,
        forward_yaw=c.forward_yaw,
        head_height_sigma=c.head_height_sigma,
        floor_sigma=c.floor_sigma,
        arm_span_sigma=c.arm_span_sigma,
        note=c.note,
        roles=[*ROLES[:WAIST_ROLE], *c.mountings],
        offsets=[*(pose_to_ros(getattr(c, name)) for name in _DEVICE_OFFSETS), *map(pose_to_ros, c.mountings.values())],
    )


def calibration_from_ros(msg: CalibrationMsg) -> Calibration:
    if len(msg.roles) != len(msg.offsets):
        raise MmRosError(f"calibration: {len(msg.roles)} roles came with {len(msg.offsets)} offsets")
    poses = {role: pose_from_ros(pose) for role, pose in zip(msg.roles, msg.offsets, strict=True)}
    offsets = {_DEVICE_OFFSETS[ROLES.index(role)]: poses.pop(role) for role in ROLES[:WAIST_ROLE] if role in poses}
    out = Calibration(
        user=msg.user,
        calibrated=bool(msg.calibrated),
        posture=msg.posture,
        head_height=msg.head_height,
        floor_height=msg.floor_height,
        arm_span=msg.arm_span,
        forward_yaw=msg.forward_yaw,
        head_height_sigma=msg.head_height_sigma,
        floor_sigma=msg.floor_sigma,
        arm_span_sigma=msg.arm_span_sigma,
        note=msg.note,
        mountings={role: pose for role, pose in poses.items() if role in ROLES},
        **offsets,
    )
    return plausible.calibration(out)
