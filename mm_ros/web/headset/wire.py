"""Binary messages between the headset page and its server; `tools/headset_page/src/wire.js` is the other side.

All numbers are little-endian. Poses are x, y, z, qx, qy, qz, qw as 32-bit floats; poses of devices are in the axes of
WebXR (x right, y up, z back) and in the space `local-floor`, poses of joints in the axes of ROS and in the world.

| from the page | content |
|---|---|
| frame, 112 bytes (140 with a transform of the origin) | one sample of headset and hands |
| pong, 16 bytes | the page's clock, as the answer to a ping |
| tick, 4 bytes | the page has drawn a frame and wants one pose: for pages that do not track |
| steer, 20 bytes | input of keys, gamepad or touch stick |
| body, 8 bytes and 28 for each joint | the headset's own estimate of the body, on request of the user |

| from the server | content |
|---|---|
| ping, 8 bytes | asks for the page's clock |
| pose, 44 bytes and 28 for each joint | the avatar; at most one for each frame or tick |
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
# kind, states (2 bits per device), flags, number of resets, sequence number, time [ms], lead [ms], time of the page's
# own frame logic [ms], poses of head, left and right hand, session
_FRAME = struct.Struct("<BBBBIdff21fI")
_TRANSFORM = struct.Struct("<7f")
_PONG = struct.Struct("<BxxxId")
_PING = struct.Struct("<BxxxI")
_POSE = struct.Struct("<BBHIIf7f")
# kind, flags, sequence number, move forward and left, direction of the camera
_STEER = struct.Struct("<BBxxI3f")
JOG, SPRINT, STRAFE, ACTIVE, TAKES = 1, 2, 4, 8, 16
LEFT_IS_HAND, RIGHT_IS_HAND, BLURRED, PASSTHROUGH, MOVED, RESET, LEFT_GRIP, RIGHT_GRIP = 1, 2, 4, 8, 16, 32, 64, 128
FARTHEST_M = 1000.0
LONGEST_BYTES = 4096
MOST_JOINTS = 128


class Malformed(MmRosError):
    """A message that the page does not send."""


class PageFrame(NamedTuple):
    """One sample as the page has sent it."""

    sequence: int
    session: int  # random number of the XR session
    states: tuple[int, int, int]  # head, left, right: LOST, EXTRAPOLATED or TRACKED
    flags: int
    time_ms: float  # page's clock: time for which the poses are predicted, else the time of the callback
    lead_ms: float  # predicted time minus the time of the callback
    logic_ms: float  # time that the page's own code needed for the last frame
    poses: tuple[float, ...]  # 3 × (x, y, z, qx, qy, qz, qw).
    # New origin in the old space, if the space was re-centred and the transform is known
    moved: tuple[float, ...] | None

    @property
    def reset(self) -> bool:
        """Whether the space was re-centred by an unknown transform."""
        return bool(self.flags & RESET) and self.moved is None


class Steering(NamedTuple):
    """Input of keys, gamepad or touch stick."""

    sequence: int
    forward: float  # -1 … 1, in the direction of the camera
    left: float
    camera_yaw: float  # direction of the camera in the world [rad]
    jog: bool
    sprint: bool
    strafe: bool  # whether the character faces in the direction of the camera
    active: bool  # false: input has stopped, for example because the page is hidden
    takes: bool  # the user has given the first input: this page steers from now on


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
    """Return the number of the ping and the page's clock [ms]."""
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
    """Return the time [ms] and the poses (N, 7) of the headset's own body joints in WebXR axes; NaN: not tracked."""
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
    """The avatar for the pages. `sequence` differs between pages, so it is filled in for each."""

    def __init__(
        self, stamp_ns: int, skeleton: int, feet: int, source_from_map: F64, positions: F64, rotations: F64
    ) -> None:
        """`stamp_ns`: CLOCK_MONOTONIC; joints in the world: positions (J, 3), rotations (J, 4) w, x, y, z."""
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
