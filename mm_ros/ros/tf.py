"""Makes the TF messages of an avatar, its robot and its trackers; message objects are created once and then reused."""

from __future__ import annotations

from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped
from numpy.typing import NDArray
from rclpy.serialization import serialize_message
from tf2_msgs.msg import TFMessage

from mm_ros.body.rounding import NO_ROOT, write_transforms
from mm_ros.body.skeleton import Skeleton, default_skeleton
from mm_ros.body.types import LOST, ROLES, AvatarPose, TrackerFrame
from mm_ros.maths import rotations as rot
from mm_ros.robot.model import MOVING, Robot
from mm_ros.ros.conversions import WORLD, stamp_to_ros


def _transform(parent: str, child: str) -> TransformStamped:
    t = TransformStamped(child_frame_id=child)
    t.header.frame_id = parent
    return t


def _fill(t: TransformStamped, stamp: object, p: list[float], q: list[float]) -> None:
    t.header.stamp = stamp
    translation, rotation = t.transform.translation, t.transform.rotation
    translation.x, translation.y, translation.z = p
    rotation.w, rotation.x, rotation.y, rotation.z = q


class SerializedTf:
    """Serialized TFMessage in which only numbers change; to serialize a new message by rclpy would take about 20 times
    as long."""

    def __init__(self, transforms: list[TransformStamped]) -> None:
        # CDR aligns numbers relative to the end of its 4-byte header; 4 spare bytes before the header align the numbers
        # in memory, too.
        store = bytearray(4) + bytearray(serialize_message(TFMessage(transforms=transforms)))
        self._raw = memoryview(store)[4:]
        self._words = np.frombuffer(store, "<u4", len(store) // 4)
        self._doubles = np.frombuffer(store, "<f8", len(store) // 8)
        stamps, numbers = _offsets(transforms)
        self._stamps, self._numbers = (stamps + 4) // 4, (numbers + 4) // 8

    def filled(
        self, stamp_ns: int, positions: Any, rotations: Any, root: NDArray[np.float64] = NO_ROOT
    ) -> bytes:  # fmt: skip
        """Return the serialized message with N transforms from `positions` (N, 3) and `rotations` (N, 4), w first. If
        `root` (7,) is not empty, it replaces the pose of the first transform."""
        sec, nanosec = divmod(stamp_ns, 1_000_000_000)
        write_transforms(
            self._words, self._doubles, self._stamps, self._numbers, sec, nanosec, positions, rotations, root
        )
        return self._raw.tobytes()


class PoseTf:
    """TF of an avatar: the root relative to the world, and the first `joints` joints of the skeleton (None: all joints)
    relative to their parents."""

    def __init__(
        self, avatar: str, world: str = WORLD, joints: int | None = None, skeleton: Skeleton | None = None
    ) -> None:
        tree = skeleton or default_skeleton()
        names = tree.names[:joints]
        parents = [world] + [f"{avatar}/{tree.names[p]}" for p in tree.parents[1:joints]]
        self._transforms = [_transform(p, f"{avatar}/{n}") for p, n in zip(parents, names, strict=True)]
        self._message = TFMessage(transforms=self._transforms)
        self._wire = SerializedTf(self._transforms)

    def message(self, pose: AvatarPose) -> TFMessage:
        positions, rotations = self._numbers(pose)
        stamp = stamp_to_ros(pose.stamp_ns)
        for t, p, q in zip(self._transforms, positions.tolist(), rotations.tolist(), strict=True):
            _fill(t, stamp, p, q)
        return self._message

    def serialized(self, pose: AvatarPose) -> bytes:
        """Return the serialized TF message for the avatar's pose `pose`."""
        count = len(self._transforms)
        return self._wire.filled(pose.stamp_ns, pose.positions[:count], pose.rotations[:count], pose.root)

    def _numbers(self, pose: AvatarPose) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        count = len(self._transforms)
        positions = pose.positions[:count].astype(np.float64)
        rotations = rot.normalize(pose.rotations[:count].astype(np.float64))
        positions[0], rotations[0] = pose.root[:3], pose.root[3:]
        return positions, rotations


def _offsets(transforms: list[TransformStamped]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    at, stamps, numbers = 4, [], []
    for t in transforms:
        at = -(-at // 4) * 4
        stamps.append(at)
        at += 8
        for name in (t.header.frame_id, t.child_frame_id):
            at = -(-at // 4) * 4 + 4 + len(name.encode()) + 1
        at = -(-at // 8) * 8
        numbers.append(at)
        at += 7 * 8
    return np.array(stamps, np.int64) + 4, np.array(numbers, np.int64) + 4


class RobotTf:
    """TF of the user's robot: its base relative to the world and, if `links` is true, each link relative to its
    parent."""

    def __init__(self, robot: Robot, prefix: str, world: str, links: bool) -> None:
        joints = robot.joints if links else ()
        frames = [_transform(prefix + j.parent, prefix + j.child) for j in joints]
        self._wire = SerializedTf([_transform(world, prefix + robot.base), *frames])
        self._moving = [j.name if j.kind in MOVING else "" for j in joints]
        origins = np.array([j.origin for j in joints]).reshape(-1, 7)
        self._positions, self._rotations = origins[:, :3], origins[:, 3:]
        self._axes = np.array([j.axis for j in joints]).reshape(-1, 3)

    def serialized(self, stamp_ns: int, base: NDArray[np.float64], angles: dict[str, float]) -> bytes:
        half = np.array([angles.get(name, 0.0) for name in self._moving]) / 2
        turns = np.concatenate([np.cos(half)[:, None], np.sin(half)[:, None] * self._axes], axis=1)
        rotations = np.concatenate([base[None, 3:], rot.multiply(self._rotations, turns)])
        return self._wire.filled(stamp_ns, np.concatenate([base[None, :3], self._positions]), rotations)


class TrackerTf:
    def __init__(self, avatar: str, world: str = WORLD) -> None:
        self._transforms = [_transform(world, f"{avatar}/tracker/{role}") for role in ROLES]
        # For each combination of tracked devices, one message object is stored.
        self._wires: dict[tuple[int, ...], tuple[SerializedTf, NDArray[np.int64]]] = {}

    def message(self, frame: TrackerFrame) -> TFMessage:
        stamp, seen = stamp_to_ros(frame.stamp_ns), _seen(frame)
        for r in seen:
            _fill(self._transforms[r], stamp, frame.positions[r].tolist(), rot.normalize(frame.rotations[r]).tolist())
        return TFMessage(transforms=[self._transforms[r] for r in seen])

    def serialized(self, frame: TrackerFrame) -> bytes:
        """Return the serialized TF message for the tracker frame `frame`."""
        seen = _seen(frame)
        if seen not in self._wires:
            self._wires[seen] = SerializedTf([self._transforms[r] for r in seen]), np.array(seen, np.int64)
        wire, rows = self._wires[seen]
        return wire.filled(frame.stamp_ns, frame.positions.take(rows, 0), frame.rotations.take(rows, 0))


def _seen(frame: TrackerFrame) -> tuple[int, ...]:
    return tuple(r for r, state in enumerate(frame.state.tolist()) if state != LOST)
