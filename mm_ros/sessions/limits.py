"""Limit the decompressed size of a bag, and check the tables of an SQLite bag before its queries run.

The library rosbags itself would decompress data of any size. A table in an SQLite file may really be a view or virtual
table that runs code.
"""

from __future__ import annotations

import io
import re
import sqlite3
import sys
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from rosbags.rosbag2 import reader as rosbags_reader
from rosbags.rosbag2 import storage_mcap

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import read_yaml
from mm_ros.sessions.paths import storage_files

# Limits on the size of a bag after decompression: minimum of the limit [bytes], and maximum ratio to the compressed
# size, which is about 3 for moving poses and 50 for poses at rest.
LEAST_MOST_BYTES, MOST_GROWTH = 64 << 20, 200
# A query of a SQLite bag ends with an error after MOST_STEPS instructions without a row; a query of a bag with a
# million messages needs some million instructions.
MOST_STEPS, STEPS_PER_LOOK = 100_000_000, 1_000_000
_TABLES = ("topics", "messages", "schema", "message_definitions")


def most_bytes(compressed: int) -> int:
    return max(LEAST_MOST_BYTES, MOST_GROWTH * compressed)


class TooBigError(MmRosError):
    """Raised for compressed data in a bag that expand far more than recorded motion does."""


def expand_zstd(data: bytes, size: int | None = None) -> bytes:
    """Return decompressed zstd data, or raise TooBigError above the size limit; `size` is the declared size [bytes]."""
    most = most_bytes(len(data))
    if size is not None and size > most:
        raise _too_big(len(data), size)
    out = zstd.ZstdDecompressor()
    whole: bytes = out.decompress(data, max_length=most + 1)
    if len(whole) > most:
        raise _too_big(len(data), len(whole))
    if not out.eof:
        raise zstd.ZstdError("the compressed data ends too soon")
    return whole


def expand_lz4(data: bytes, size: int | None = None) -> bytes:
    from lz4.frame import LZ4FrameDecompressor  # type: ignore[import-untyped]

    most = most_bytes(len(data))
    if size is not None and size > most:
        raise _too_big(len(data), size)
    out = LZ4FrameDecompressor()
    whole: bytes = out.decompress(data, max_length=most + 1)
    if len(whole) > most:
        raise _too_big(len(data), len(whole))
    return whole


def _too_big(compressed: int, size: int) -> TooBigError:
    return TooBigError(f"{compressed} bytes in it expand to {size} or more; expected at most {most_bytes(compressed)}")


class _BoundedZstd:
    """Zstd module that limits the size of decompressed data, and replaces the zstd module that rosbags uses."""

    ZstdError = zstd.ZstdError
    compress = staticmethod(zstd.compress)

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return expand_zstd(bytes(data))

    @staticmethod
    def open(file: Any, _mode: str = "rb") -> Any:
        return _BoundedFile(file)


class _BoundedFile(zstd.ZstdFile):
    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self._compressed = file.seek(0, io.SEEK_END)
        file.seek(0)
        self._came = 0

    def read(self, size: int | None = -1) -> bytes:
        part: bytes = super().read(size if size is not None and size > 0 else 1 << 20)
        self._came += len(part)
        if self._came > most_bytes(self._compressed):
            raise _too_big(self._compressed, self._came)
        return part


@cache
def bound_rosbags() -> None:
    """Replace the decompressors of rosbags, because rosbags has no option for a size limit."""
    getattr(storage_mcap, "DECOMPRESSORS", {}).update({"zstd": expand_zstd, "lz4": expand_lz4})
    rosbags_reader.zstd = _BoundedZstd


def check_bag(path: Path) -> None:
    """Check the size of a bag's metadata and the kinds of its SQLite tables before rosbags opens the bag."""
    bound_rosbags()
    metadata = path / "metadata.yaml"
    if path.is_dir() and metadata.is_file():
        read_yaml(metadata)
    for part in storage_files(path):
        if part.name.endswith(".db3"):
            check_sqlite(part)


def check_chunks(reader: Any, path: Path) -> None:
    """Check the total size of all chunks of an MCAP file, because sorting by time may need all chunks in memory at
    once."""
    storages = getattr(reader.storage, "storages", None) or [reader.storage]
    chunks = [c for s in storages for c in getattr(s, "chunks", [])]
    size, compressed = (sum(int(getattr(c, n)) for c in chunks) for n in ("uncompressed_size", "compressed_size"))
    if size > most_bytes(max(compressed, sum(p.stat().st_size for p in storage_files(path)))):
        raise _too_big(compressed, size)


def check_sqlite(path: Path) -> None:
    """Refuse an SQLite file with views, which may never end, or with virtual tables or computed columns, which may run
    any code."""
    try:
        database = sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1&mode=ro", uri=True)
    except sqlite3.Error as error:
        raise MmRosError(f"{path}: is no SQLite file ({error})") from error
    try:
        Bounded(database)
        check_tables(database, str(path))
    except sqlite3.Error:
        return  # the reader of the bag reports damaged files
    finally:
        database.close()


def check_tables(database: sqlite3.Connection, where: str) -> None:
    for kind, name, sql in database.execute("SELECT type, name, sql FROM sqlite_master"):
        if not isinstance(name, str) or name.lower() not in _TABLES:
            continue
        if kind != "table" or re.search(r"\bvirtual\b|\bas\b|\bgenerated\b", str(sql or ""), re.IGNORECASE):
            raise TooBigError(f"{where}: '{name}' is not a plain table but: {str(sql)[:80]}; expected a rosbag2 file")


class Bounded:
    """Limit that interrupts a query of an SQLite connection after MOST_STEPS instructions without a row."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.left = MOST_STEPS
        database.set_progress_handler(self._look, STEPS_PER_LOOK)
        if sys.version_info >= (3, 11):
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LEAST_MOST_BYTES)

    def row(self) -> None:
        self.left = MOST_STEPS

    def _look(self) -> int:
        self.left -= STEPS_PER_LOOK
        return int(self.left < 0)
