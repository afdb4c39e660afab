"""Binary messages between the headset page and its server; `tools/headset_page/src/wire.js` is the other side.

All numbers in the messages are little-endian. A pose is x, y, z, qx, qy, qz, qw as 32-bit floats. Poses of devices are
in the WebXR space `local-floor` (x right, y up, z back); poses of joints are in the world with the axes of ROS.

The headset page sends five kinds of messages to its server. The message *frame* (112 bytes, or 140 with a transform of
the origin) contains one sample of headset and hands. The message *pong* (16 bytes) contains the time on the page's
clock and answers a ping. By the message *tick* (4 bytes), a page without a tracked headset reports a drawn frame and
requests one pose. The message *steer* (20 bytes) contains the input of keys, gamepad or touch stick. The message *body*
(12 bytes, and 28 for each joint) contains the user's body as the headset estimates it.

The server sends two kinds of messages to the headset page. The message *ping* (8 bytes) asks for the time on the page's
clock. The message *pose* (44 bytes, and 28 for each joint) contains the avatar's pose. The server sends at most one
message *pose* for each message *frame* or *tick*.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64

FRAME, PONG, TICK, STEER, BODY = 1, 2, 3, 5, 4
PING, POSE = 1, 2
# Fields of a frame: kind, states (2 bits per device), flags, number of resets, sequence number, time [ms], lead [ms],
# duration of the page's own code [ms], poses of head, left hand and right hand, session.
_FRAME = struct.Struct("<BBBBIdff21fI")
_TRANSFORM = struct.Struct("<7f")
_PONG = struct.Struct("<BxxxId")
_PING = struct.Struct("<BxxxI")
_POSE = struct.Struct("<BBHIIf7f")
# Fields of a steer message: kind, flags, sequence number, stick forward, stick left, direction of the camera.
_STEER = struct.Struct("<BBxxI3f")
JOG, SPRINT, STRAFE, ACTIVE, TAKES = 1, 2, 4, 8, 16
LEFT_IS_HAND, RIGHT_IS_HAND, BLURRED, PASSTHROUGH, MOVED, RESET, LEFT_GRIP, RIGHT_GRIP = 1, 2, 4, 8, 16, 32, 64, 128
FARTHEST_M = 1000.0
LONGEST_BYTES = 4096
MOST_JOINTS = 128


class Malformed(MmRosError):
    """Raised for a message that an unmodified headset page would not send."""


class PageFrame(NamedTuple):
    """One sample of the poses of headset and hands, as the headset page has sent it."""

    sequence: int
    session: int  # random number of the page's WebXR session
    states: tuple[int, int, int]  # tracking state of head, left hand and right hand: LOST, EXTRAPOLATED or TRACKED
    flags: int
    time_ms: float  # time on the page's clock that the poses belong to; the headset may predict them
    lead_ms: float  # time by which the poses are predicted ahead of the frame's callback [ms]
    logic_ms: float  # time that the page's code needed for the last frame [ms]
    poses: tuple[float, ...]  # poses x, y, z, qx, qy, qz, qw of head, left hand and right hand
    # Pose of the new origin of the play space in the old space, if the user re-centred and the headset reports this.
    moved: tuple[float, ...] | None

    @property
    def reset(self) -> bool:
        """Whether the user re-centred the play space and the headset did not report the transform."""
        return bool(self.flags & RESET) and self.moved is None


class Steering(NamedTuple):
    """Input of a page's keys, gamepad or touch stick, which steers the character."""

    sequence: int
    forward: float  # deflection of the steering stick away from the camera, from -1 to 1
    left: float
    camera_yaw: float  # direction in which the page's camera looks, in the world [rad]
    jog: bool
    sprint: bool
    strafe: bool  # whether the character keeps facing in the camera's direction while it walks
    active: bool  # whether the user steers on this page; false, for example, if the page is hidden
    takes: bool  # whether the user has just begun to steer on this page


def read_frame(raw: bytes) -> PageFrame:
    if len(raw) not in (_FRAME.size, _FRAME.size + _TRANSFORM.size):
        raise Malformed(f"frame: expected {_FRAME.size} bytes, came {len(raw)}")
    values = _FRAME.unpack_from(raw)
    _, bits, flags, _, sequence, time_ms, lead_ms, logic_ms = values[:8]
    states = (bits & 3, bits >> 2 & 3, bits >> 4 & 3)
    if bits >> 6 or 3 in states:
        raise Malformed(f"frame: expected states 0 to 2, came {bits:#x}")
    if bool(flags & MOVED) != (len(raw) > _FRAME.size):
        raise Malformed("frame: transform and flag differ")
    _clock(time_ms)
    if not (abs(lead_ms) < 1e3 and 0.0 <= logic_ms < 1e6):
        raise Malformed("frame: lead or duration out of range")
    poses: tuple[float, ...] = values[8:29]
    for k, state in enumerate(states):
        if state:
            _pose(poses[7 * k : 7 * k + 7])
    moved = None
    if flags & MOVED:
        moved = _TRANSFORM.unpack_from(raw, _FRAME.size)
        _pose(moved)
    return PageFrame(sequence, values[29], states, flags, time_ms, lead_ms, logic_ms, poses, moved)


def _clock(time_ms: float) -> None:
    if not 0.0 <= time_ms < 1e12:
        raise Malformed("time: expected milliseconds since the page was opened")


def _pose(pose: tuple[float, ...]) -> None:
    if not all(abs(v) <= FARTHEST_M for v in pose[:3]):  # false for NaN
        raise Malformed(f"pose: expected a position within {FARTHEST_M:g} m")
    if not abs(math.hypot(*pose[3:]) - 1.0) < 0.01:
        raise Malformed("pose: expected a rotation of length 1")


def read_pong(raw: bytes) -> tuple[int, float]:
    """Return the number of the answered ping and the time on the page's clock [ms]."""
    if len(raw) != _PONG.size:
        raise Malformed(f"pong: expected {_PONG.size} bytes, came {len(raw)}")
    _, number, time_ms = _PONG.unpack(raw)
    _clock(time_ms)
    return number, time_ms


def read_steering(raw: bytes) -> Steering:
    if len(raw) != _STEER.size:
        raise Malformed(f"steer: expected {_STEER.size} bytes, came {len(raw)}")
    _, flags, sequence, forward, left, yaw = _STEER.unpack(raw)
    if not (abs(forward) <= 1.0 and abs(left) <= 1.0 and abs(yaw) <= 10.0):  # false for NaN
        raise Malformed("steer: expected sticks within -1 and 1 and a direction in radians")
    return Steering(
        sequence, forward, left, yaw, *(bool(flags & bit) for bit in (JOG, SPRINT, STRAFE, ACTIVE, TAKES))
    )


def read_body(raw: bytes) -> tuple[float, F64]:
    """Return the time [ms] and the poses (N, 7) of the body joints that the headset estimates, in WebXR axes. Joints
    that the headset does not track have NaN as pose."""
    count = (len(raw) - 12) // 28
    if len(raw) != 12 + 28 * count or not 0 < count <= MOST_JOINTS:
        raise Malformed(f"body: expected 1 to {MOST_JOINTS} joints, came {len(raw)} bytes")
    time_ms = struct.unpack_from("<d", raw, 4)[0]
    _clock(time_ms)
    joints = np.frombuffer(raw, "<f4", offset=12).reshape(count, 7).astype(np.float64)
    good = np.isfinite(joints).all(1) & (np.abs(joints[:, :3]) <= FARTHEST_M).all(1)
    good &= np.abs(np.linalg.norm(joints[:, 3:], axis=1) - 1.0) < 0.01
    joints[~good] = np.nan
    return time_ms, joints


def ping(number: int) -> bytes:
    return _PING.pack(PING, number)


class PoseMessage:
    """Message with the avatar's pose for all headset pages; `raw` fills in the sequence number, which differs between
    pages."""

    def __init__(
        self, stamp_ns: int, skeleton: int, feet: int, source_from_map: F64, positions: F64, rotations: F64
    ) -> None:
        """Make the message from the joints' positions (J, 3) and rotations (J, 4; w, x, y, z) in the world. The pose
        has the time stamp `stamp_ns` in CLOCK_MONOTONIC."""
        self.stamp_ns = stamp_ns
        joints = np.empty((len(positions), 7), "<f4")
        joints[:, :3], joints[:, 3:6], joints[:, 6] = positions, rotations[:, 1:], rotations[:, 0]
        x, y, z, qw, qx, qy, qz = source_from_map.tolist()
        self._front = (POSE, feet, len(joints))
        self._skeleton = skeleton & 0xFFFFFFFF
        self._back = (x, y, z, qx, qy, qz, qw)
        self._joints = joints.tobytes()

    def raw(self, sequence: int, now_ns: int) -> bytes:
        age_ms = (now_ns - self.stamp_ns) * 1e-6
        return _POSE.pack(*self._front, sequence, self._skeleton, age_ms, *self._back) + self._joints
