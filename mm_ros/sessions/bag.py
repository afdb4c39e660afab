"""Read and write rosbag2 recordings (bags) with the library rosbags. Damaged bags are read by the module recover.py."""

from __future__ import annotations

import os
import sqlite3
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rosbags.interfaces import Connection, Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import CompressionFormat, CompressionMode, Reader, ReaderError, StoragePlugin, Writer
from rosbags.serde import SerdeError

from mm_ros.base.errors import MmRosError
from mm_ros.sessions.definitions import todays, typestore, version_of
from mm_ros.sessions.limits import TooBigError, check_bag, check_chunks
from mm_ros.sessions.paths import KEPT, STORED, storage_files, write_ahead_log
from mm_ros.sessions.recover import recover
from mm_ros.sessions.versions import VERSION

STORAGES = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}
COMPRESSIONS = {
    "none": CompressionMode.NONE,
    "message": CompressionMode.MESSAGE,
    "file": CompressionMode.FILE,
    "storage": CompressionMode.STORAGE,
}
# Exceptions that the library rosbags raises for messages with damaged bytes.
BROKEN_MESSAGE = (
    SerdeError, ValueError, LookupError, TypeError, OverflowError, AssertionError, MemoryError, struct.error,
)  # fmt: skip
# Written messages are flushed to the disk at intervals of this time [s], and a killed recorder loses only messages
# after the last flush.
FLUSH_S = 0.5
_FOREVER = QosTime(2147483647, 4294967295)


@dataclass(frozen=True)
class BagMessage:
    topic: str
    type: str
    logged_ns: int
    data: bytes

    def decode(self) -> Any:
        try:
            return typestore().deserialize_cdr(self.data, self.type)
        except BROKEN_MESSAGE as error:
            raise MmRosError(f"a message of {self.topic} is broken: {error or type(error).__name__}") from error


class Bag:
    """Reader of an existing rosbag2 recording (bag). `damage` describes the damage of the bag; it is empty for an
    undamaged bag. Messages that a former version of mm_ros recorded are converted to the present message definitions.
    Of all message definitions in the bag, the oldest has the version `version`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = ""
        if not path.exists():
            raise MmRosError(f"session {path} does not exist")
        if path.is_dir() and not storage_files(path):
            raise MmRosError(f"{path} is no session: expected a rosbag2 folder with a .mcap or .db3 file in it")
        if path.is_file() and not path.name.endswith(STORED):
            raise MmRosError(f"{path} is no session: expected a rosbag2 folder, or a .mcap or .db3 file")
        self.topics = self._topics()

    def _topics(self) -> dict[str, str]:
        try:
            check_bag(self.path)
            if any(write_ahead_log(part).exists() for part in storage_files(self.path)):
                # rosbags would not read the write-ahead log, which holds the last messages of a killed recorder.
                raise ReaderError("its recorder has not completed it")
            with Reader(self.path) as reader:
                check_chunks(reader, self.path)
                connections = list(reader.connections)
        except TooBigError as error:
            raise MmRosError(f"{self.path}: {str(error).removeprefix(f'{self.path}: ')}") from error
        except Exception as error:
            # rosbags does not validate its input, so a truncated file may raise any kind of exception.
            broken = ", ".join(str(p) for p in self._broken_files())
            reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".:")
            self.damage = f"{broken} is missing, incomplete or broken ({reason}): read as far as it goes"
            connections = list({c.topic: c for c, _, _ in recover(self.path)}.values())
            if not connections:
                raise MmRosError(f"{broken}: nothing in it can be read ({reason})") from error
        self._versions = {c.topic: version_of(c, str(self.path)) for c in connections}
        self.version = min(self._versions.values(), default=VERSION)
        return {c.topic: c.msgtype for c in connections}

    def _broken_files(self) -> list[Path]:
        """Return the unreadable storage files of a damaged bag, or, if all are readable, its metadata file."""
        broken = [p for p in storage_files(self.path) if not _readable(p)]
        return broken or [self.path / "metadata.yaml"]

    def messages(self, topics: set[str] | None = None) -> Iterator[BagMessage]:
        """Yield the messages of the bag in the order of their log time. The messages of a damaged bag are yielded in
        the order of the file."""
        for connection, logged_ns, data in self._raw(topics):
            if topics is None or connection.topic in topics:
                if not 0 <= int(logged_ns) < 1 << 63:
                    raise MmRosError(f"{self.path}: a message of {connection.topic} was logged at {logged_ns} ns")
                try:
                    yield self._message(connection, int(logged_ns), bytes(data))
                except MmRosError:
                    if not self.damage:
                        raise
                    return  # A damaged bag ends at its first broken message.

    def _message(self, connection: Connection, logged_ns: int, data: bytes) -> BagMessage:
        topic, kind = connection.topic, connection.msgtype
        version = self._versions.get(topic, VERSION)
        return BagMessage(topic, kind, logged_ns, data if version == VERSION else todays(data, kind, version))

    def _raw(self, topics: set[str] | None) -> Iterator[tuple[Connection, int, bytes]]:
        if self.damage:
            yield from recover(self.path)
            return
        given: set[int] = set()
        try:
            with Reader(self.path) as reader:
                wanted = [c for c in reader.connections if topics is None or c.topic in topics]
                for connection, logged_ns, data in reader.messages(wanted) if wanted else ():
                    given.add(_mark(connection, logged_ns, data))
                    yield connection, logged_ns, data
            return
        except (MmRosError, GeneratorExit):
            raise
        except Exception as error:
            self.damage = f"{self.path} is damaged ({error or type(error).__name__}): read as far as it goes"
        for connection, logged_ns, data in recover(self.path):
            if connection.topic in self.topics and _mark(connection, logged_ns, data) not in given:
                yield connection, logged_ns, data


def _mark(connection: Connection, logged_ns: int, data: bytes) -> int:
    return hash((connection.topic, int(logged_ns), zlib.crc32(data)))


def _readable(file: Path) -> bool:
    try:
        with Reader(file):
            return True
    except Exception:  # as above
        return False


def refuse_existing(path: Path) -> None:
    if path.exists():
        raise MmRosError(f"{path} exists already, and sessions are not overwritten")


class BagWriter:
    """Writer of a new rosbag2 recording (bag), which never overwrites an existing file. All methods of `BagWriter`
    raise MmRosError for errors of the disk. After a disk error or a kill of the process, the bag contains all messages
    up to the last flush, in complete chunks (MCAP) or with the write-ahead log beside the file (SQLite)."""

    def __init__(self, path: Path, storage: str = "mcap", compression: str = "none") -> None:
        refuse_existing(path)
        if storage not in STORAGES:
            raise MmRosError(f"storage '{storage}' does not exist. Storages: {', '.join(STORAGES)}")
        if compression not in COMPRESSIONS:
            raise MmRosError(f"compression '{compression}' does not exist. Compressions: {', '.join(COMPRESSIONS)}")
        if (storage, compression) == ("sqlite3", "storage"):
            raise MmRosError("sqlite3 has no compression of its own; take none, message or file, or mcap")
        self._writer = Writer(path, version=9, storage_plugin=STORAGES[storage])
        self._writer.set_compression(COMPRESSIONS[compression], CompressionFormat.ZSTD)
        self._path = path
        self._ended = False
        self._whole = 0  # number of bytes in the MCAP file up to the end of the last complete record
        with self._refusals():
            self._writer.open()
            if storage == "sqlite3":
                self._storage.conn.execute("PRAGMA journal_mode=WAL")
                # SQLite does not wait for the disk, because the recorder would lose messages meanwhile; a power failure
                # may therefore damage the file.
                self._storage.conn.execute("PRAGMA synchronous=OFF")
        self._connections: dict[str, Connection] = {}
        self._flushed = time.monotonic()
        self.counts: dict[str, int] = {}

    def add_topic(self, topic: str, kind: str, latched: bool = False, reliable: bool = True) -> None:
        with self._refusals():
            self._connections[topic] = self._writer.add_connection(
                topic, kind, typestore=typestore(), offered_qos_profiles=[_qos(latched, reliable)]
            )
        self.counts[topic] = 0

    def write(self, topic: str, logged_ns: int, message: Any) -> None:
        """Write a message to the bag; `message` is an object of the library rosbags or its serialized bytes."""
        connection = self._connections[topic]
        data = message if isinstance(message, bytes) else typestore().serialize_cdr(message, connection.msgtype)
        with self._refusals():
            self._writer.write(connection, logged_ns, data)
        self.counts[topic] += 1
        if time.monotonic() - self._flushed > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write all buffered messages to the file, which rosbags does only once per megabyte (MCAP) or at the end."""
        self._flushed = time.monotonic()
        with self._refusals():
            if hasattr(self._storage, "close_chunk"):
                if self._storage.chunk.msgs:
                    self._storage.close_chunk()
                self._storage.bio.flush()
                self._whole = self._storage.bio.tell()
            else:
                self._storage.conn.commit()
                self._storage.conn.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        if self._ended:
            return
        self.flush()
        with self._refusals():
            # The command journal_mode=DELETE merges the write-ahead log into the file, for readers without write access
            # to the folder.
            if hasattr(self._storage, "conn"):
                self._storage.conn.execute("PRAGMA journal_mode=DELETE")
            self._writer.close()
        self._ended = True

    @property
    def _storage(self) -> Any:
        return self._writer.storage

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            self._abandon()
            reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
            raise MmRosError(f"{self._path}: {reason}; what was written before can be read") from error

    def _abandon(self) -> None:
        self._ended = True
        if hasattr(self._storage, "bio"):
            with suppress(OSError):
                self._storage.bio.raw.close()  # closing `raw` does not write the buffered bytes
                os.truncate(self._storage.path, self._whole)
        elif hasattr(self._storage, "conn"):
            with suppress(sqlite3.Error):
                self._storage.conn.rollback()
            with suppress(sqlite3.Error):
                self._storage.conn.close()

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def _qos(latched: bool, reliable: bool) -> Qos:
    """Return the quality of service (QoS) with which `ros2 bag play` publishes a topic; later subscribers of a
    `latched` topic get its last message."""
    return Qos(
        QosHistory.KEEP_LAST,
        1 if latched else KEPT,
        QosReliability.RELIABLE if reliable else QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        _FOREVER,
        _FOREVER,
        QosLiveliness.AUTOMATIC,
        _FOREVER,
        False,
    )
