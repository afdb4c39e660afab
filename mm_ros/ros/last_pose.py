"""The last published pose in a memory-mapped file, from which a restarted `pose_postprocessor` continues.

The pose is not kept as a latched message, because DDS drops latched messages of a killed publisher; a memory-mapped
file remains. Poses are written to two slots of the file in turn, so that a kill can damage at most one slot.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
import time
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from mm_ros.base.cache import writable_root
from mm_ros.base.errors import MmRosError
from mm_ros.body import plausible
from mm_ros.body.skeleton import MOST_JOINTS
from mm_ros.body.types import AvatarPose

NEWEST_S = 30.0  # An avatar's stored pose that is older than 30 s is ignored.
WAIT_S = 1.5  # A restarted node waits at most WAIT_S for the subscribers of the killed process.
# After a restarted node has found all subscribers, it waits this long until they have found it [s].
SETTLED_S = 0.4
# Header of a slot: checksum of the rest of the slot, size, number of the pose, number of joints, time of writing, time
# stamp, epoch, run, skeleton, and the numbers of subscribers of `pose` and of TF.
_HEAD = struct.Struct("<IIIIqqIIQHH")
_ROOT = 7 * 8
_SLOT = _HEAD.size + _ROOT + MOST_JOINTS * 7 * 4


class LastPose:
    """File with an avatar's last published pose; `read` returns the pose that a killed process has left in it."""

    def __init__(self, avatar: str) -> None:
        self._map: mmap.mmap | None = None
        self._count = 0
        self.listeners = (0, 0)  # numbers of subscribers of `pose` and of TF before the kill
        domain = os.environ.get("ROS_DOMAIN_ID", "0")
        with suppress(OSError, ValueError):  # without a writable folder, no pose is stored
            self._path = writable_root() / "last_pose" / f"{domain}.{avatar.replace('/', '.')}"
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._map = _mapped(self._path)

    def read(self) -> AvatarPose | None:
        if self._map is None:
            return None
        good = [s for s in (self._slot(0), self._slot(1)) if s is not None]
        if not good:
            return None
        newest = max(good, key=lambda s: _HEAD.unpack_from(s)[2])
        _, _, self._count, j, written_ns, stamp_ns, epoch, run, skeleton, *listeners = _HEAD.unpack_from(newest)
        if not 0 <= time.time_ns() - written_ns <= NEWEST_S * 1e9 or len(newest) != _HEAD.size + _ROOT + j * 28:
            return None
        root = np.frombuffer(newest, np.float64, 7, _HEAD.size)
        joints = np.frombuffer(newest, np.float32, j * 7, _HEAD.size + _ROOT)
        still, feet = np.zeros((j, 3), np.float32), np.zeros(2, np.bool_)
        positions, rotations = joints[: j * 3].reshape(j, 3), joints[j * 3 :].reshape(j, 4)
        pose = AvatarPose(stamp_ns, epoch, skeleton, root, positions, rotations, still, still, feet, feet, run)
        try:
            plausible.avatar_pose(pose)
        except MmRosError:
            return None
        self.listeners = (listeners[0], listeners[1])
        return pose

    def _slot(self, i: int) -> bytes | None:
        assert self._map is not None
        slot = self._map[i * _SLOT : (i + 1) * _SLOT]
        checksum, size, *_ = _HEAD.unpack_from(slot)
        whole = _HEAD.size + _ROOT <= size <= _SLOT and zlib.crc32(memoryview(slot)[4:size]) == checksum
        return slot[:size] if whole else None

    def write(self, pose: AvatarPose, listeners: tuple[int, int] = (0, 0)) -> None:
        if self._map is None:
            return
        self._count = (self._count + 1) & 0xFFFFFFFF
        numbers = pose.root.tobytes() + pose.positions.tobytes() + pose.rotations.tobytes()
        head = _HEAD.pack(
            0, _HEAD.size + len(numbers), self._count, len(pose.positions), time.time_ns(), pose.stamp_ns,
            pose.epoch & 0xFFFFFFFF, pose.run, pose.skeleton, *(min(n, 0xFFFF) for n in listeners),
        )  # fmt: skip
        content = head[4:] + numbers
        at = self._count % 2 * _SLOT
        self._map[at : at + 4 + len(content)] = zlib.crc32(content).to_bytes(4, "little") + content

    def close(self) -> None:
        """Remove the file at a normal end, because only the replacement of a killed process uses the last pose."""
        if self._map is not None:
            self._map.close()
            self._map = None
            self._path.unlink(missing_ok=True)


class Reunion:
    """Decides how long a restarted process repeats the last pose and waits for the killed process's subscribers."""

    def __init__(self, expected: tuple[int, int]) -> None:
        self.expected = expected
        self.over = not any(expected)
        self.complete = self.over  # True if all subscribers that the killed process had were found
        self._begun_ns = self._found_ns = 0

    def waits(self, found: tuple[int, int], now_ns: int) -> bool:
        """Return whether to wait longer for subscribers; `found` holds the present numbers of subscribers of `pose` and
        of TF. After the wait, the attribute `complete` states whether all expected subscribers were found."""
        self._begun_ns = self._begun_ns or now_ns
        self.complete = all(f >= e for f, e in zip(found, self.expected, strict=True))
        self._found_ns = (self._found_ns or now_ns) if self.complete else 0
        settled = self.complete and now_ns - self._found_ns >= SETTLED_S * 1e9
        self.over = settled or now_ns - self._begun_ns >= WAIT_S * 1e9
        return not self.over


def _mapped(path: Path) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            raise OSError(f"{path} is not a regular file of this user")
        if status.st_size != 2 * _SLOT:
            os.ftruncate(handle, 2 * _SLOT)
        return mmap.mmap(handle, 2 * _SLOT)
    finally:
        os.close(handle)
