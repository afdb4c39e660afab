"""Fast conversion between dataclasses of mm_ros and serialized messages, by templates instead of rclpy's conversion.

The results of the fast conversion equal those of the ordinary conversion by rclpy. A message with new strings or
sequence lengths is converted by rclpy, and a template is made for the next messages with these strings and lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rclpy.serialization import serialize_message

from mm_ros.body import plausible
from mm_ros.body.rounding import frozen, handed_trackers, rounded_orientation, rounded_pose, rounded_trajectory
from mm_ros.body.types import (
    LOST,
    AvatarPose,
    BodyOrientation,
    FeetEstimate,
    TrackerFrame,
    Trajectory,
    feet_from_flat,
    role_index,
)
from mm_ros.ros import conversions as convert
from mm_ros.ros import graph
from mm_ros.ros.cdr import Template, deserialized
from mm_ros.ros.qos import message_class

SHAPES = 8  # maximum number of message templates (one for each combination of lengths) of a topic and direction


class _Form:
    """A template of a message and views of its numbers, through which the fields of a dataclass are read and
    written."""

    def __init__(self, template: Template, msg: Any) -> None:
        self.template = template
        self._sec, self._nanosec = template.view("header.stamp.sec"), template.view("header.stamp.nanosec")
        self._epoch = template.view("epoch")

    def write(self, value: Any) -> None:
        raise NotImplementedError

    def read(self) -> Any:
        raise NotImplementedError

    def _stamp_ns(self) -> int:
        return plausible.stamp_ns(int(self._sec[0]), int(self._nanosec[0]))


class _Trackers(_Form):
    def __init__(self, template: Template, msg: Any) -> None:
        super().__init__(template, msg)
        self._moved = template.view("new_from_old.position.x", 7)
        self._rows = [
            (
                role_index(t.role),
                template.view(f"trackers.{i}.pose.position.x", 13),
                template.view(f"trackers.{i}.state"),
                template.view(f"trackers.{i}.sampled.sec"),
                template.view(f"trackers.{i}.sampled.nanosec"),
            )
            for i, t in enumerate(msg.trackers)
        ]

    def write(self, value: TrackerFrame) -> None:
        self._epoch[0] = value.epoch
        _put_pose(self._moved, value.new_from_old)
        for r, numbers, state, sec, nanosec in self._rows:
            numbers[:3] = value.positions[r]
            q = value.rotations[r]
            numbers[3:6], numbers[6] = q[1:], q[0]
            numbers[7:10], numbers[10:] = value.velocities[r], value.angular_velocities[r]
            state[0] = value.state[r]
            sec[0], nanosec[0] = divmod(int(value.sampled_ns[r]), 1_000_000_000)

    def read(self) -> TrackerFrame:
        out = TrackerFrame(self._stamp_ns(), int(self._epoch[0]), new_from_old=_pose(self._moved))
        for r, numbers, state, sec, nanosec in self._rows:
            out.positions[r] = numbers[:3]
            q = out.rotations[r]
            q[1:], q[0] = numbers[3:6], numbers[6]
            out.velocities[r], out.angular_velocities[r] = numbers[7:10], numbers[10:]
            out.state[r] = state[0]
            out.sampled_ns[r] = plausible.stamp_ns(int(sec[0]), int(nanosec[0]))
        return plausible.trackers(out)


class _Orientation(_Form):
    def __init__(self, template: Template, msg: Any) -> None:
        super().__init__(template, msg)
        self._source = msg.source
        self._numbers = template.view("yaw", 3)

    def write(self, value: BodyOrientation) -> None:
        self._epoch[0] = value.epoch
        self._numbers[:] = value.yaw, value.yaw_rate, value.sigma

    def read(self) -> BodyOrientation:
        yaw, rate, sigma = self._numbers.tolist()
        out = BodyOrientation(self._stamp_ns(), int(self._epoch[0]), yaw, rate, sigma, self._source)
        return plausible.orientation(out)


class _Trajectory(_Form):
    def __init__(self, template: Template, msg: Any) -> None:
        super().__init__(template, msg)
        self._source = msg.source
        self._moved = template.view("new_from_old.position.x", 7)
        self._now = template.view("position", 7)
        self._times = template.view("times")
        self._ahead = [template.view(name).reshape(-1, 2) for name in ("positions", "directions")]
        self._feet = template.view("feet") if len(msg.feet) else None
        self._stale = template.view("stale")

    def write(self, value: Trajectory) -> None:
        _put_feet(self._feet, value.feet)
        self._epoch[0] = value.epoch
        _put_pose(self._moved, value.new_from_old)
        self._now[:2], self._now[2:4] = value.position, value.velocity
        self._now[4:] = value.yaw, value.yaw_sigma, value.height_ratio
        self._times[:] = value.times
        self._ahead[0][:], self._ahead[1][:] = value.positions, value.directions
        self._stale[0] = value.stale

    def read(self) -> Trajectory:
        yaw, sigma, height = self._now[4:].tolist()
        out = Trajectory(
            self._stamp_ns(), int(self._epoch[0]), self._source, self._now[:2].copy(), self._now[2:4].copy(),
            yaw, sigma, height, self._times.copy(), self._ahead[0].copy(), self._ahead[1].copy(),
            bool(self._stale[0]), _pose(self._moved), _feet(self._feet),
        )  # fmt: skip
        return plausible.trajectory(out)


class _AvatarPose(_Form):
    def __init__(self, template: Template, msg: Any) -> None:
        super().__init__(template, msg)
        self._engine = msg.engine
        self._skeleton, self._stretch = template.view("skeleton"), template.view("run", 2)
        self._root, self._root_velocity = template.view("root"), template.view("root_velocity")
        self._positions, self._velocities, self._angular = (
            template.view(name).reshape(-1, 3) for name in ("positions", "velocities", "angular_velocities")
        )
        self._rotations = template.view("rotations").reshape(-1, 4)
        self._flags = template.view("contacts", 4)  # `contacts` and `locked`
        self._feet = template.view("feet") if len(msg.feet) else None
        self._stale = template.view("stale")

    def write(self, value: AvatarPose) -> None:
        _put_feet(self._feet, value.feet)
        self._epoch[0], self._skeleton[0] = value.epoch, value.skeleton
        self._stretch[0], self._stretch[1] = value.run, value.segment
        _put_pose(self._root, value.root)
        self._root_velocity[:3], self._root_velocity[3:] = value.velocities[0], value.angular_velocities[0]
        self._positions[:] = value.positions[1:]
        q = value.rotations
        self._rotations[:, :3], self._rotations[:, 3] = q[1:, 1:], q[1:, 0]
        self._velocities[:], self._angular[:] = value.velocities[1:], value.angular_velocities[1:]
        self._flags[:2], self._flags[2:], self._stale[0] = value.contacts, value.locked, value.stale

    def read(self) -> AvatarPose:
        joints = len(self._rotations) + 1
        positions, velocities, angular = (np.empty((joints, 3), np.float32) for _ in range(3))
        rotations = np.empty((joints, 4), np.float32)
        positions[0], rotations[0] = 0.0, (1.0, 0.0, 0.0, 0.0)
        positions[1:] = self._positions
        rotations[1:, 1:], rotations[1:, 0] = self._rotations[:, :3], self._rotations[:, 3]
        velocities[0], velocities[1:] = self._root_velocity[:3], self._velocities
        angular[0], angular[1:] = self._root_velocity[3:], self._angular
        flags = self._flags != 0
        out = AvatarPose(
            self._stamp_ns(), int(self._epoch[0]), int(self._skeleton[0]), _pose(self._root), positions, rotations,
            velocities, angular, flags[:2], flags[2:], int(self._stretch[0]), int(self._stretch[1]),
            bool(self._stale[0]), self._engine, _feet(self._feet),
        )  # fmt: skip
        return plausible.avatar_pose(out)


def _put_feet(view: Any, feet: FeetEstimate | None) -> None:
    if view is not None and feet is not None:
        view[:] = feet.flat()


def _feet(view: Any) -> FeetEstimate | None:
    return None if view is None else feet_from_flat(view.copy())


def _put_pose(view: Any, pose: Any) -> None:
    """Write the pose x, y, z, qw, qx, qy, qz in the order of ROS, in which qw is the last number."""
    view[:3], view[3:6], view[6] = pose[:3], pose[4:], pose[3]


def _pose(view: Any) -> Any:
    out = np.empty(7)
    out[:3], out[3], out[4:] = view[:3], view[6], view[3:6]
    return out


@dataclass(frozen=True)
class _Kind:
    """Functions that convert ROS messages of one type to dataclasses of mm_ros and back. The function `handed` returns
    a read-only copy of a dataclass, equal to what a subscriber would receive by a message."""

    to_ros: Callable[[Any], Any]
    from_ros: Callable[[Any], Any]
    handed: Callable[[Any], Any]
    form: type[_Form] | None = None
    # Dataclasses for which `shape` returns equal keys share one template.
    shape: Callable[[Any], Any] = lambda _: None


def _roles(frame: TrackerFrame) -> tuple[bool, ...]:
    return tuple(((frame.state != LOST) | (frame.sampled_ns != 0)).tolist())


_POSE = _Kind(
    convert.avatar_pose_to_ros, convert.avatar_pose_from_ros, rounded_pose, _AvatarPose,
    lambda p: (p.engine, len(p.positions), p.feet is None),
)  # fmt: skip
KINDS = {
    "trackers": _Kind(convert.trackers_to_ros, convert.trackers_from_ros, handed_trackers, _Trackers, _roles),
    "body_orientation": _Kind(
        convert.orientation_to_ros, convert.orientation_from_ros, rounded_orientation, _Orientation, lambda o: o.source
    ),
    "trajectory": _Kind(
        convert.trajectory_to_ros, convert.trajectory_from_ros, rounded_trajectory, _Trajectory,
        lambda t: (t.source, len(t.times), t.feet is None),
    ),
    "matched_pose": _POSE,
    "pose": _POSE,
    "truth": _POSE,
}  # fmt: skip


class Wire:
    """Conversions for the messages of one topic; messages with equal strings and sequence lengths share a template."""

    def __init__(self, topic: str, world: str) -> None:
        self._kind, self._world = KINDS[topic], world
        self._type = message_class(graph.TOPICS[topic].type)
        self._written: dict[Any, _Form] = {}
        self._read: dict[Any, _Form] = {}
        self._last: tuple[bytes, Any] = (b"", None)
        self.handed = self._kind.handed

    def message(self, value: Any) -> Any:
        msg = self._kind.to_ros(value)
        msg.header.frame_id = self._world
        return msg

    def serialized(self, value: Any) -> bytes:
        shape = self._kind.shape(value)
        form = self._written.get(shape)
        if form is None:
            msg = self.message(value)
            form = self._add(self._written, shape, msg)
            if form is None:
                return bytes(serialize_message(msg))
        form.write(value)
        return form.template.serialized(value.stamp_ns)

    def value(self, given: Any) -> Any:
        """Convert a message or a serialized message to a dataclass; raise MmRosError if its numbers are implausible."""
        if not isinstance(given, bytes):
            return self._kind.from_ros(given)
        if given == self._last[0]:  # another subscription of this process has already converted the message
            return self._last[1]
        out = self._read_fast(given)
        if out is None:
            msg = deserialized(given, self._type)
            out = self._kind.from_ros(msg)
            key = (msg.header.frame_id, self._kind.shape(out))
            if key not in self._read:
                self._add(self._read, key, msg)
        frozen(out)
        self._last = (given, out)
        return out

    def _read_fast(self, raw: bytes) -> Any:
        for form in self._read.values():
            if form.template.load(raw):
                return form.read()
        return None

    def _add(self, forms: dict[Any, _Form], shape: Any, msg: Any) -> _Form | None:
        if self._kind.form is None:
            return None
        if len(forms) >= SHAPES:  # If each message contained new strings, templates would fill the memory.
            forms.clear()
        forms[shape] = self._kind.form(Template(msg), msg)
        return forms[shape]
