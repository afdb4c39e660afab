"""Convert the data types of the package `body` to ROS messages and back. The running ROS graph and the reader of bags
use the same conversions.

`Encoder` makes messages of the classes of rclpy or of rosbags; the functions `…_from` read messages of both. Only this
module reorders quaternions: w is first in the data types and last in messages. The functions `…_from` raise MmRosError
for arrays of wrong length, for numbers that are not finite, and for implausible values (`plausible.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body import plausible
from mm_ros.body.landmarks import COUNT, Landmarks, flat
from mm_ros.body.skeleton import LEFT_FOOT, LEFT_TOES, MOST_JOINTS, NAMES, RIGHT_FOOT, RIGHT_TOES, Skeleton
from mm_ros.body.types import (
    F64,
    FEET_NUMBERS,
    LOST,
    ROLES,
    WAIST_ROLE,
    AvatarPose,
    BodyOrientation,
    Calibration,
    FeetEstimate,
    R,
    TrackerFrame,
    Trajectory,
    feet_from_flat,
    role_index,
)

WORLD = "map"
PACKAGE = "mm_ros/msg/"
_DEVICE_OFFSETS = ("headset_in_head", "left_grip_in_hand", "right_grip_in_hand")


def w_first(q: NDArray[Any]) -> NDArray[Any]:
    return np.roll(q, 1, axis=-1)


def w_last(q: NDArray[Any]) -> NDArray[Any]:
    return np.roll(q, -1, axis=-1)


def stamp_from(stamp: Any) -> int:
    return plausible.stamp_ns(int(stamp.sec), int(stamp.nanosec))


def pose_from(pose: Any) -> F64:
    p, q = pose.position, pose.orientation
    return np.array([p.x, p.y, p.z, q.w, q.x, q.y, q.z], np.float64)


def numbers_from(name: str, values: Any, shape: tuple[int, ...]) -> NDArray[np.float32]:
    out = np.array(values, np.float32)
    if out.size != int(np.prod(shape)):
        raise MmRosError(f"{name}: expected {int(np.prod(shape))} numbers, came {out.size}")
    return out.reshape(shape)


class Encoder:
    """Encoder of messages for rclpy or rosbags. The function `kind` returns the class of a message by its full name.
    `floats` and `bools` are functions that convert arrays to the arrays of float32 or bool in the message classes."""

    def __init__(
        self,
        kind: Callable[[str], Any],
        floats: Callable[[NDArray[Any]], Any],
        bools: Callable[[NDArray[Any]], Any],
    ) -> None:
        self.kind, self.floats, self.bools = kind, floats, bools

    def message(self, type_name: str, /, **fields: Any) -> Any:
        return self.kind(PACKAGE + type_name)(**fields)

    def stamp(self, ns: int) -> Any:
        return self.kind("builtin_interfaces/msg/Time")(sec=int(ns) // 1_000_000_000, nanosec=int(ns) % 1_000_000_000)

    def header(self, stamp_ns: int, frame: str = WORLD) -> Any:
        return self.kind("std_msgs/msg/Header")(stamp=self.stamp(stamp_ns), frame_id=frame)

    def vector(self, v: NDArray[Any]) -> Any:
        x, y, z = v.tolist()
        return self.kind("geometry_msgs/msg/Vector3")(x=x, y=y, z=z)

    def pose(self, pose: NDArray[np.float64]) -> Any:
        x, y, z, qw, qx, qy, qz = (float(v) for v in pose)
        return self.kind("geometry_msgs/msg/Pose")(
            position=self.kind("geometry_msgs/msg/Point")(x=x, y=y, z=z),
            orientation=self.kind("geometry_msgs/msg/Quaternion")(x=qx, y=qy, z=qz, w=qw),
        )

    def landmarks(self, seen: Landmarks, frame: str = "camera") -> Any:
        return self.message("Landmarks", header=self.header(seen.stamp_ns, frame), **flat(seen))

    def trackers(self, frame: TrackerFrame) -> Any:
        """Convert a tracker frame to a message, without the devices (roles) that are lost and were never sampled."""
        return self.message(
            "TrackerArray",
            header=self.header(frame.stamp_ns),
            epoch=frame.epoch,
            new_from_old=self.pose(frame.new_from_old),
            trackers=[
                self._tracker(frame, r) for r in range(R) if frame.state[r] != LOST or frame.sampled_ns[r] != 0
            ],
        )

    def _tracker(self, frame: TrackerFrame, r: int) -> Any:
        twist = self.kind("geometry_msgs/msg/Twist")(
            linear=self.vector(frame.velocities[r]), angular=self.vector(frame.angular_velocities[r])
        )
        return self.message(
            "Tracker",
            role=ROLES[r],
            pose=self.pose(np.concatenate([frame.positions[r], frame.rotations[r]])),
            twist=twist,
            state=int(frame.state[r]),
            sampled=self.stamp(frame.sampled_ns[r]),
        )

    def orientation(self, o: BodyOrientation) -> Any:
        return self.message(
            "BodyOrientation",
            header=self.header(o.stamp_ns),
            epoch=o.epoch,
            yaw=float(o.yaw),
            yaw_rate=float(o.yaw_rate),
            sigma=float(o.sigma),
            source=o.source,
        )

    def trajectory(self, t: Trajectory) -> Any:
        return self.message(
            "Trajectory",
            header=self.header(t.stamp_ns),
            epoch=t.epoch,
            source=t.source,
            position=np.asarray(t.position, np.float64),
            velocity=np.asarray(t.velocity, np.float64),
            yaw=float(t.yaw),
            yaw_sigma=float(t.yaw_sigma),
            height_ratio=float(t.height_ratio),
            times=self.floats(t.times),
            positions=self.floats(t.positions),
            directions=self.floats(t.directions),
            new_from_old=self.pose(t.new_from_old),
            feet=self._feet(t.feet),
            stale=bool(t.stale),
        )

    def _feet(self, feet: FeetEstimate | None) -> Any:
        return self.floats(np.zeros(0) if feet is None else feet.flat())

    def avatar_pose(self, pose: AvatarPose) -> Any:
        return self.message(
            "AvatarPose",
            header=self.header(pose.stamp_ns),
            epoch=pose.epoch,
            skeleton=pose.skeleton,
            engine=pose.engine,
            run=pose.run,
            segment=pose.segment,
            root=np.concatenate([pose.root[:3], w_last(pose.root[3:])]),
            positions=self.floats(pose.positions[1:]),
            rotations=self.floats(w_last(pose.rotations[1:])),
            velocities=self.floats(pose.velocities[1:]),
            angular_velocities=self.floats(pose.angular_velocities[1:]),
            root_velocity=np.concatenate([pose.velocities[0], pose.angular_velocities[0]]).astype(np.float32),
            contacts=self.bools(pose.contacts),
            locked=self.bools(pose.locked),
            feet=self._feet(pose.feet),
            stale=bool(pose.stale),
        )

    def skeleton(self, skeleton: Skeleton, stamp_ns: int, name: str) -> Any:
        return self.message(
            "Skeleton",
            header=self.header(stamp_ns),
            hash=skeleton.hash,
            name=name,
            joints=list(skeleton.names),
            parents=skeleton.parents.astype(np.int16),
            offsets=self.floats(skeleton.offsets),
            height=skeleton.head_height,
            feet=np.array([LEFT_FOOT, RIGHT_FOOT], np.int16),
            toes=np.array([LEFT_TOES, RIGHT_TOES], np.int16),
        )

    def calibration(self, c: Calibration, stamp_ns: int) -> Any:
        return self.message(
            "Calibration",
            header=self.header(stamp_ns),
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
            offsets=[*(self.pose(getattr(c, n)) for n in _DEVICE_OFFSETS), *map(self.pose, c.mountings.values())],
        )


def landmarks_from(msg: Any) -> Landmarks:
    out = Landmarks(
        stamp_from(msg.header.stamp),
        numbers_from("landmarks' positions", msg.positions, (COUNT, 3)).astype(np.float64),
        numbers_from("landmarks' visibility", msg.visibility, (COUNT,)),
        numbers_from("landmarks' image positions", msg.image, (COUNT, 2)),
        float(msg.confidence),
        int(msg.epoch),
        str(msg.source),
    )
    return plausible.landmarks(out)


def trackers_from(msg: Any) -> TrackerFrame:
    out = TrackerFrame(stamp_from(msg.header.stamp), int(msg.epoch))
    out.new_from_old = pose_from(msg.new_from_old)
    for t in msg.trackers:
        r = role_index(t.role)
        pose = pose_from(t.pose)
        out.positions[r], out.rotations[r] = pose[:3], pose[3:]
        v, w = t.twist.linear, t.twist.angular
        out.velocities[r], out.angular_velocities[r] = (v.x, v.y, v.z), (w.x, w.y, w.z)
        out.state[r], out.sampled_ns[r] = t.state, stamp_from(t.sampled)
    return plausible.trackers(out)


def orientation_from(msg: Any) -> BodyOrientation:
    out = BodyOrientation(
        stamp_from(msg.header.stamp), int(msg.epoch), msg.yaw, msg.yaw_rate, msg.sigma, str(msg.source)
    )
    return plausible.orientation(out)


def trajectory_from(msg: Any) -> Trajectory:
    n = len(msg.times)
    out = Trajectory(
        stamp_from(msg.header.stamp),
        int(msg.epoch),
        msg.source,
        np.array(msg.position, np.float64),
        np.array(msg.velocity, np.float64),
        msg.yaw,
        msg.yaw_sigma,
        msg.height_ratio,
        numbers_from("trajectory times", msg.times, (n,)),
        numbers_from("trajectory positions", msg.positions, (n, 2)),
        numbers_from("trajectory directions", msg.directions, (n, 2)),
        bool(msg.stale),
        pose_from(msg.new_from_old),
        feet_from(msg.feet),
    )
    return plausible.trajectory(out)


def feet_from(numbers: Any) -> FeetEstimate | None:
    return feet_from_flat(numbers_from("feet", numbers, (FEET_NUMBERS,))) if len(numbers) else None


def avatar_pose_from(msg: Any) -> AvatarPose:
    moved = min(max(len(msg.positions) // 3, len(NAMES) - 1), MOST_JOINTS - 1)  # number of joints without the root
    positions, velocities, angular = (np.zeros((moved + 1, 3), np.float32) for _ in range(3))
    rotations = np.zeros((moved + 1, 4), np.float32)
    rotations[0, 0] = 1.0
    positions[1:] = numbers_from("joint positions", msg.positions, (moved, 3))
    rotations[1:] = w_first(numbers_from("joint rotations", msg.rotations, (moved, 4)))
    velocities[1:] = numbers_from("joint velocities", msg.velocities, (moved, 3))
    angular[1:] = numbers_from("joint angular velocities", msg.angular_velocities, (moved, 3))
    moving = numbers_from("root velocity", msg.root_velocity, (6,))
    velocities[0], angular[0] = moving[:3], moving[3:]
    root = np.array(msg.root, np.float64)
    out = AvatarPose(
        stamp_from(msg.header.stamp),
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
        str(msg.engine),
        feet_from(msg.feet),
    )
    return plausible.avatar_pose(out)


def skeleton_from(msg: Any) -> Skeleton:
    names = tuple(msg.joints)
    if names[: len(NAMES)] != NAMES:
        raise MmRosError(f"skeleton '{msg.name}' does not begin with the canonical joints: {', '.join(NAMES)}")
    offsets = numbers_from("skeleton offsets", msg.offsets, (len(names), 3))
    out = plausible.skeleton(Skeleton(offsets, names, np.array(msg.parents, np.int32)))
    if out.hash != msg.hash:
        raise MmRosError(f"skeleton '{msg.name}': its hash is {msg.hash:x}, but that of its offsets is {out.hash:x}")
    return out


def calibration_from(msg: Any) -> Calibration:
    if len(msg.roles) != len(msg.offsets):
        raise MmRosError(f"calibration: {len(msg.roles)} roles came with {len(msg.offsets)} offsets")
    poses = {role: pose_from(pose) for role, pose in zip(msg.roles, msg.offsets, strict=True)}
    offsets = {_DEVICE_OFFSETS[ROLES.index(role)]: poses.pop(role) for role in ROLES[:WAIST_ROLE] if role in poses}
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
