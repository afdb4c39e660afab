"""Conversions between types of `body` and messages in bags, like ros/conversions.py but without ROS."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body import plausible
from mm_ros.body.landmarks import COUNT, Landmarks, flat
from mm_ros.body.skeleton import LEFT_FOOT, LEFT_TOES, NAMES, PARENTS, RIGHT_FOOT, RIGHT_TOES, J, Skeleton
from mm_ros.body.types import (
    F64,
    FEET_NUMBERS,
    LOST,
    ROLES,
    WAIST_ROLE,
    AvatarPose,
    Calibration,
    FeetEstimate,
    R,
    TrackerFrame,
    feet_from_flat,
    role_index,
)
from mm_ros.sessions.definitions import typestore
from mm_ros.sessions.versions import PACKAGE, engine_today

WORLD = "map"
_CARRIED = ("headset_in_head", "left_grip_in_hand", "right_grip_in_hand")


@cache
def _type(name: str) -> Any:
    return typestore().types[name]


def _ours(name: str) -> Any:
    return _type(PACKAGE + name)


def _time(ns: int) -> Any:
    return _type("builtin_interfaces/msg/Time")(int(ns) // 1_000_000_000, int(ns) % 1_000_000_000)


def time_ns(stamp: Any) -> int:
    return plausible.stamp_ns(int(stamp.sec), int(stamp.nanosec))


def _header(stamp_ns: int) -> Any:
    return _type("std_msgs/msg/Header")(stamp=_time(stamp_ns), frame_id=WORLD)


def _vector(v: NDArray[Any]) -> Any:
    return _type("geometry_msgs/msg/Vector3")(float(v[0]), float(v[1]), float(v[2]))


def _pose(pose: NDArray[Any]) -> Any:
    x, y, z, qw, qx, qy, qz = (float(v) for v in pose)
    point, quaternion = _type("geometry_msgs/msg/Point"), _type("geometry_msgs/msg/Quaternion")
    return _type("geometry_msgs/msg/Pose")(point(x, y, z), quaternion(qx, qy, qz, qw))


def _from_pose(pose: Any) -> F64:
    p, q = pose.position, pose.orientation
    return np.array([p.x, p.y, p.z, q.w, q.x, q.y, q.z], np.float64)


def trackers_to_bag(frame: TrackerFrame) -> Any:
    twist = _type("geometry_msgs/msg/Twist")
    trackers = [
        _ours("Tracker")(
            role=ROLES[r],
            pose=_pose(np.concatenate([frame.positions[r], frame.rotations[r]])),
            twist=twist(_vector(frame.velocities[r]), _vector(frame.angular_velocities[r])),
            state=int(frame.state[r]),
            sampled=_time(int(frame.sampled_ns[r])),
        )
        for r in range(R)
        if frame.state[r] != LOST or frame.sampled_ns[r] != 0
    ]
    return _ours("TrackerArray")(
        header=_header(frame.stamp_ns),
        epoch=frame.epoch,
        new_from_old=_pose(frame.new_from_old),
        trackers=trackers,
    )


def trackers_from_bag(msg: Any) -> TrackerFrame:
    out = TrackerFrame(time_ns(msg.header.stamp), int(msg.epoch))
    out.new_from_old = _from_pose(msg.new_from_old)
    for t in msg.trackers:
        r = role_index(t.role)
        pose = _from_pose(t.pose)
        out.positions[r], out.rotations[r] = pose[:3], pose[3:]
        v, w = t.twist.linear, t.twist.angular
        out.velocities[r], out.angular_velocities[r] = (v.x, v.y, v.z), (w.x, w.y, w.z)
        out.state[r], out.sampled_ns[r] = t.state, time_ns(t.sampled)
    return plausible.trackers(out)


def landmarks_to_bag(seen: Landmarks, frame: str = "camera") -> Any:
    header = _type("std_msgs/msg/Header")(stamp=_time(seen.stamp_ns), frame_id=frame)
    return _ours("Landmarks")(header=header, **flat(seen))


def landmarks_from_bag(msg: Any) -> Landmarks:
    out = Landmarks(
        time_ns(msg.header.stamp),
        np.array(msg.positions, np.float64).reshape(COUNT, 3),
        np.array(msg.visibility, np.float32),
        np.array(msg.image, np.float32).reshape(COUNT, 2),
        float(msg.confidence),
        int(msg.epoch),
        str(msg.source),
    )
    return plausible.landmarks(out)


def avatar_pose_to_bag(pose: AvatarPose) -> Any:
    q = np.roll(pose.rotations[1:], -1, axis=-1)
    return _ours("AvatarPose")(
        header=_header(pose.stamp_ns),
        epoch=pose.epoch,
        skeleton=pose.skeleton,
        engine=pose.engine,
        run=pose.run,
        segment=pose.segment,
        root=np.concatenate([pose.root[:3], np.roll(pose.root[3:], -1)]),
        root_velocity=np.concatenate([pose.velocities[0], pose.angular_velocities[0]]).astype(np.float32),
        positions=np.ascontiguousarray(pose.positions[1:], np.float32).ravel(),
        rotations=np.ascontiguousarray(q, np.float32).ravel(),
        velocities=np.ascontiguousarray(pose.velocities[1:], np.float32).ravel(),
        angular_velocities=np.ascontiguousarray(pose.angular_velocities[1:], np.float32).ravel(),
        contacts=np.asarray(pose.contacts, np.bool_),
        locked=np.asarray(pose.locked, np.bool_),
        feet=np.zeros(0, np.float32) if pose.feet is None else pose.feet.flat(),
        stale=bool(pose.stale),
    )


def avatar_pose_from_bag(msg: Any) -> AvatarPose:
    moving = np.asarray(msg.root_velocity, np.float32)
    zero = np.zeros((1, 3), np.float32)
    q = np.roll(_rows(msg.rotations, 4), 1, axis=-1)
    out = AvatarPose(
        time_ns(msg.header.stamp),
        int(msg.epoch),
        int(msg.skeleton),
        np.concatenate([msg.root[:3], np.roll(msg.root[3:], 1)]),
        np.concatenate([zero, _rows(msg.positions, 3)]),
        np.concatenate([np.array([[1, 0, 0, 0]], np.float32), q]),
        np.concatenate([moving[None, :3], _rows(msg.velocities, 3)]),
        np.concatenate([moving[None, 3:], _rows(msg.angular_velocities, 3)]),
        np.array(msg.contacts, bool),
        np.array(msg.locked, bool),
        int(msg.run),
        int(msg.segment),
        bool(msg.stale),
        engine_today(msg.engine),
        _feet(msg.feet),
    )
    return plausible.avatar_pose(out)


def _feet(numbers: Any) -> FeetEstimate | None:
    if len(numbers) not in (0, FEET_NUMBERS):
        raise MmRosError(f"avatar pose: expected {FEET_NUMBERS} numbers of the feet or none, came {len(numbers)}")
    return feet_from_flat(np.asarray(numbers, np.float32))


def _rows(values: Any, width: int) -> NDArray[np.float32]:
    out = np.array(values, np.float32)
    if out.size != (J - 1) * width:
        raise MmRosError(f"avatar pose: expected {(J - 1) * width} numbers, came {out.size}")
    return out.reshape(J - 1, width)


def skeleton_to_bag(skeleton: Skeleton, stamp_ns: int, name: str = "truth") -> Any:
    return _ours("Skeleton")(
        header=_header(stamp_ns),
        hash=skeleton.hash,
        name=name,
        joints=list(skeleton.names),
        parents=skeleton.parents.astype(np.int16),
        offsets=np.ascontiguousarray(skeleton.offsets, np.float32).ravel(),
        height=skeleton.head_height,
        feet=np.array([LEFT_FOOT, RIGHT_FOOT], np.int16),
        toes=np.array([LEFT_TOES, RIGHT_TOES], np.int16),
    )


def skeleton_from_bag(msg: Any) -> Skeleton:
    if tuple(msg.joints) != NAMES or list(msg.parents) != PARENTS.tolist():
        raise MmRosError(f"skeleton '{msg.name}' is not the canonical humanoid. Joints: {', '.join(NAMES)}")
    return plausible.skeleton(Skeleton(np.array(msg.offsets, np.float32).reshape(J, 3)))


def calibration_to_bag(c: Calibration, stamp_ns: int) -> Any:
    return _ours("Calibration")(
        header=_header(stamp_ns),
        user=c.user,
        calibrated=c.calibrated,
        posture=c.posture,
        head_height=float(c.head_height),
        floor_height=float(c.floor_height),
        arm_span=float(c.arm_span),
        forward_yaw=float(c.forward_yaw),
        head_height_sigma=float(c.head_height_sigma),
        floor_sigma=float(c.floor_sigma),
        arm_span_sigma=float(c.arm_span_sigma),
        note=c.note,
        roles=[*ROLES[:WAIST_ROLE], *c.mountings],
        offsets=[*(_pose(getattr(c, name)) for name in _CARRIED), *map(_pose, c.mountings.values())],
    )


def calibration_from_bag(msg: Any) -> Calibration:
    poses = {role: _from_pose(pose) for role, pose in zip(msg.roles, msg.offsets, strict=True)}
    offsets = {_CARRIED[ROLES.index(role)]: poses.pop(role) for role in ROLES[:WAIST_ROLE] if role in poses}
    out = Calibration(
        user=msg.user,
        calibrated=bool(msg.calibrated),
        posture=msg.posture,
        head_height=float(msg.head_height),
        floor_height=float(msg.floor_height),
        arm_span=float(msg.arm_span),
        forward_yaw=float(msg.forward_yaw),
        head_height_sigma=float(msg.head_height_sigma),
        floor_sigma=float(msg.floor_sigma),
        arm_span_sigma=float(msg.arm_span_sigma),
        note=str(msg.note),
        mountings={role: pose for role, pose in poses.items() if role in ROLES},
        **offsets,
    )
    return plausible.calibration(out)
