"""rosbag2 files: written by rosbags, read by it where they are whole, front to back where they are not."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rosbags.interfaces import Connection, Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import CompressionFormat, CompressionMode, Reader, StoragePlugin, Writer
from rosbags.serde import SerdeError

from mm_ros.core.errors import MmRosError
from mm_ros.io.bag_limits import TooBigError, check_bag, check_chunks
from mm_ros.io.bag_paths import STORED, storage_files
from mm_ros.io.bag_recover import recover
from mm_ros.io.bag_types import check_definition, typestore

STORAGES = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}
COMPRESSIONS = {
    "none": CompressionMode.NONE,
    "message": CompressionMode.MESSAGE,
    "file": CompressionMode.FILE,
    "storage": CompressionMode.STORAGE,
}
# What deserializing damaged bytes ends in.
BROKEN_MESSAGE = (
    SerdeError, ValueError, LookupError, TypeError, OverflowError, AssertionError, MemoryError, struct.error,
)  # fmt: skip
FLUSH_S = 1.0  # what a killed recorder loses at most
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
    """A bag that is there. `damage` says what is wrong with it, empty when nothing is."""

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
        """Name → type."""
        try:
            check_bag(self.path)
            with Reader(self.path) as reader:
                check_chunks(reader, self.path)
                connections = list(reader.connections)
        except TooBigError as error:
            raise MmRosError(f"{self.path}: {str(error).removeprefix(f'{self.path}: ')}") from error
        except Exception as error:
            # rosbags reads what it finds without suspicion; a cut file shows in many kinds of exceptions.
            self.damage = f"{self.path} is incomplete ({error or type(error).__name__}): read as far as it goes"
            connections = list({c.topic: c for c, _, _ in recover(self.path)}.values())
            if not connections:
                raise MmRosError(f"{self.path}: nothing in it can be read ({error})") from error
        for connection in connections:
            check_definition(connection, str(self.path))
        return {c.topic: c.msgtype for c in connections}

    def messages(self, topics: set[str] | None = None) -> Iterator[BagMessage]:
        """In order of log time; of a damaged bag in order of the file."""
        for connection, logged_ns, data in self._raw(topics):
            if topics is None or connection.topic in topics:
                if not 0 <= int(logged_ns) < 1 << 63:
                    raise MmRosError(f"{self.path}: a message of {connection.topic} was logged at {logged_ns} ns")
                yield BagMessage(connection.topic, connection.msgtype, int(logged_ns), bytes(data))

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


def refuse_existing(path: Path) -> None:
    if path.exists():
        raise MmRosError(f"{path} exists already, and sessions are not overwritten")


class BagWriter:
    """A new bag; one that is there is never overwritten."""

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
        self._writer.open()
        self._connections: dict[str, Connection] = {}
        self._flushed = time.monotonic()
        self.counts: dict[str, int] = {}

    def add_topic(self, topic: str, kind: str, latched: bool = False, reliable: bool = True) -> None:
        self._connections[topic] = self._writer.add_connection(
            topic, kind, typestore=typestore(), offered_qos_profiles=[_qos(latched, reliable)]
        )
        self.counts[topic] = 0

    def write(self, topic: str, logged_ns: int, message: Any) -> None:
        """A message object of rosbags, or its serialized bytes."""
        connection = self._connections[topic]
        data = message if isinstance(message, bytes) else typestore().serialize_cdr(message, connection.msgtype)
        self._writer.write(connection, logged_ns, data)
        self.counts[topic] += 1
        if time.monotonic() - self._flushed > FLUSH_S:
            self._flush()

    def _flush(self) -> None:
        """rosbags writes a megabyte at a time; a recorder that is killed would lose minutes."""
        self._flushed = time.monotonic()
        storage: Any = self._writer.storage
        if hasattr(storage, "close_chunk"):
            storage.close_chunk()
            storage.bio.flush()

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def _qos(latched: bool, reliable: bool) -> Qos:
    """What `ros2 bag play` will offer. Latched, or a player that starts late gets no calibration."""
    return Qos(
        QosHistory.KEEP_LAST,
        1 if latched else 5,
        QosReliability.RELIABLE if reliable else QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        _FOREVER,
        _FOREVER,
        QosLiveliness.AUTOMATIC,
        _FOREVER,
        False,
    )
