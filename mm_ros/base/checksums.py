"""Checksums (CRC-32) of each megabyte of a file after its header, and a record of the files that were checked.

The checked bytes are not read from a memory map, because mapped pages would count as memory of the process.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mm_ros.base.cache import unused, writable_root
from mm_ros.base.errors import MmRosError

VERSION = 1
BLOCK = 1 << 20
_KEPT_DAYS = 90.0


def block_checksums(parts: Iterable[bytes | memoryview]) -> dict[str, Any]:
    """Return a dict, for the header of a file, with the checksums of the bytes `parts`, which follow the header."""
    blocks: list[int] = []
    crc, room = 0, BLOCK
    for part in parts:
        rest = memoryview(part)
        while rest:
            crc, taken = zlib.crc32(rest[:room], crc), min(room, len(rest))
            rest, room = rest[taken:], room - taken
            if not room:
                blocks.append(crc)
                crc, room = 0, BLOCK
    if room < BLOCK:
        blocks.append(crc)
    return {"version": VERSION, "block_bytes": BLOCK, "crc32": blocks}


class BodyChecksums:
    """Checksums of the body of a file, that is, of the bytes after its header. `said` is the entry of the header with
    the checksums, or None for files of older versions of mm_ros, which are not checked."""

    def __init__(self, path: Path, body: int, size: int, said: Any) -> None:
        self.path, self._body, self._blocks, self._block = path, body, (), BLOCK
        if said is None:
            return
        try:
            version, self._block, self._blocks = int(said["version"]), int(said["block_bytes"]), tuple(said["crc32"])
        except (KeyError, TypeError, ValueError) as error:
            raise MmRosError(f"{path}: is broken: the checksums in its header cannot be read") from error
        if version > VERSION:
            raise MmRosError(f"{path}: has checksums of version {version}; expected {VERSION}. Update mm_ros")
        if self._block < 1 or len(self._blocks) != -(-size // self._block):
            raise MmRosError(f"{path}: is broken: it has {len(self._blocks)} checksums for {size} bytes")

    def check(self, start: int = 0, stop: int | None = None) -> None:
        """Raise MmRosError if the bytes of the body from `start` to `stop` are damaged."""
        last = len(self._blocks) if stop is None else -(-stop // self._block)
        with self.path.open("rb") as handle:
            handle.seek(self._body + start // self._block * self._block)
            for i in range(start // self._block, min(last, len(self._blocks))):
                if zlib.crc32(handle.read(self._block)) != self._blocks[i]:
                    first = self._body + i * self._block
                    raise MmRosError(
                        f"{self.path}: is damaged: bytes {first} to {first + self._block - 1} do not fit their "
                        "checksum. Build it again with mm_ros import"
                    )


class SoundFile:
    """An empty file in the cache folder, which marks another file as checked. The name of the empty file is made from
    device, inode, size, modification time and header checksum of the checked file."""

    def __init__(self, path: Path, header_crc: int) -> None:
        at = path.stat()
        name = f"{at.st_dev:x}-{at.st_ino:x}-{at.st_size:x}-{at.st_mtime_ns:x}-{header_crc:08x}"
        self._mark = writable_root() / "sound" / name

    def known(self) -> bool:
        try:
            os.utime(self._mark)  # The modification time of the marker file is the time of its last use.
        except OSError:
            return False
        return True

    def remember(self) -> None:
        with suppress(OSError):
            self._mark.parent.mkdir(parents=True, exist_ok=True)
            self._mark.touch()
            for old in unused(self._mark.parent, "*", _KEPT_DAYS):
                old.unlink(missing_ok=True)
