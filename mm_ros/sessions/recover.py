"""Recover a truncated bag: read all messages before the place where the file ends.

A killed recorder leaves a bag without index and metadata.yaml; an interrupted copy of a bag also lacks messages. MCAP
and SQLite files of damaged bags are read from front to back, without their index.
"""

from __future__ import annotations

import sqlite3
import struct
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from rosbags.interfaces import Connection, ConnectionExtRosbag2, MessageDefinition, MessageDefinitionFormat

from mm_ros.sessions.limits import Bounded, check_tables, most_bytes
from mm_ros.sessions.paths import storage_files, write_ahead_log

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 3, 4, 5, 6, 15

Found = tuple[Connection, int, bytes]


def recover(path: Path) -> Iterator[Found]:
    """Yield the connection, log time [ns] and serialized data of each message of a bag, in the order of its files."""
    for part in storage_files(path):
        name = part.name.removesuffix(".zstd")
        log = write_ahead_log(part)
        try:
            data, logged = part.read_bytes(), log.read_bytes() if log.exists() else b""
        except OSError:
            continue
        data = _expand(data) if part.name.endswith(".zstd") else data
        for connection, stamp, message in _mcap(data) if name.endswith(".mcap") else _sqlite(data, logged):
            yield connection, stamp, _expand(message) if message[:4] == ZSTD_MAGIC else message


def _expand(data: bytes) -> bytes:
    """Return decompressed zstd data up to the first error or up to the size limit."""
    decompressor, most = zstd.ZstdDecompressor(), most_bytes(len(data))
    out = bytearray()
    try:
        for at in range(0, len(data), 65536):
            out += decompressor.decompress(data[at : at + 65536], max_length=most - len(out))
            if decompressor.eof or len(out) >= most:
                break
    except zstd.ZstdError:
        pass
    return bytes(out)


def _connection(number: int, topic: str, kind: str, definition: str = "", encoding: str = "") -> Connection:
    known = {"ros2msg": MessageDefinitionFormat.MSG, "ros2idl": MessageDefinitionFormat.IDL}
    form = known.get(encoding, MessageDefinitionFormat.NONE)
    extra = ConnectionExtRosbag2("cdr", [])
    return Connection(number, topic, kind, MessageDefinition(form, definition), "", 0, extra, None)


# ---- MCAP files: records of opcode, length and content


@dataclass
class _Cursor:
    data: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        out = self.data[self.at : self.at + count]
        if len(out) < count:
            raise EOFError
        self.at += count
        return out

    def number(self, form: str) -> int:
        return int(struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0])

    def blob(self) -> bytes:
        return self.take(self.number("I"))

    def text(self) -> str:
        return self.blob().decode(errors="replace")


def _mcap(data: bytes) -> Iterator[Found]:
    yield from _McapWalk().records(data, 8)


class _McapWalk:
    def __init__(self) -> None:
        self.schemas: dict[int, tuple[str, str, str]] = {}
        self.channels: dict[int, Connection] = {}

    def records(self, data: bytes, start: int) -> Iterator[Found]:
        at = start
        while at + 9 <= len(data):
            operation, length = data[at], struct.unpack_from("<Q", data, at + 1)[0]
            if operation in (0, _DATA_END):
                return
            content = data[at + 9 : at + 9 + length]
            if len(content) < length and operation != _CHUNK:
                return
            try:
                yield from self._record(operation, _Cursor(content))
            except EOFError:
                return
            at += 9 + length

    def _record(self, operation: int, c: _Cursor) -> Iterator[Found]:
        if operation == _SCHEMA:
            number, name, encoding, definition = c.number("H"), c.text(), c.text(), c.text()
            self.schemas[number] = (name, encoding, definition)
        elif operation == _CHANNEL:
            number, schema, topic = c.number("H"), c.number("H"), c.text()
            name, encoding, definition = self.schemas.get(schema, ("", "", ""))
            self.channels[number] = _connection(number, topic, name, definition, encoding)
        elif operation == _MESSAGE:
            number, _, logged, _ = c.number("H"), c.number("I"), c.number("Q"), c.number("Q")
            if number in self.channels:
                yield self.channels[number], logged, c.data[c.at :]
        elif operation == _CHUNK:
            yield from self._chunk(c)

    def _chunk(self, c: _Cursor) -> Iterator[Found]:
        c.take(8 + 8 + 8 + 4)
        compression, _ = c.text(), c.number("Q")
        content = c.data[c.at :]
        if compression == "zstd":
            content = _expand(content)
        elif compression == "lz4":
            content = _expand_lz4(content)
        yield from self.records(content, 0)


def _expand_lz4(data: bytes) -> bytes:
    from lz4.frame import LZ4FrameDecompressor  # type: ignore[import-untyped]

    decompressor, out, most = LZ4FrameDecompressor(), bytearray(), most_bytes(len(data))
    try:
        for at in range(0, len(data), 4096):
            out += decompressor.decompress(data[at : at + 4096], max_length=most - len(out))
            if len(out) >= most:
                break
    except (RuntimeError, EOFError):
        pass
    return bytes(out)


# ---- SQLite


def _sqlite(data: bytes, log: bytes = b"") -> Iterator[Found]:
    """Yield the messages of an SQLite file, from a temporary copy of the file. `data` is the content of the file, and
    `log` that of its write-ahead log."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db3"
        page = int.from_bytes(data[16:18], "big") or 4096
        # An incomplete last page of the file is cut off, because SQLite would read the rows of this page as zeros.
        copy.write_bytes(data[: len(data) // page * page])
        write_ahead_log(copy).write_bytes(log)
        database = sqlite3.connect(copy)
        try:
            # Without the pragma writable_schema, SQLite refuses a file that is shorter than its header declares.
            limit = Bounded(database)
            database.text_factory = lambda text: text.decode(errors="replace")
            database.execute("PRAGMA writable_schema=ON")
            check_tables(database, "the bag")
            definitions = dict(_definitions(database))
            rows = database.execute("SELECT id, name, type FROM topics")
            topics = {
                number: _connection(number, topic, kind, *definitions.get(kind, ()))
                for number, topic, kind in rows
                if isinstance(topic, str) and isinstance(kind, str)
            }
            yield from _sqlite_rows(database, topics, limit)
        # A cell of a wrong type in a SQLite table causes OverflowError, ValueError or TypeError.
        except (sqlite3.Error, OverflowError, ValueError, TypeError):
            return
        finally:
            database.close()


def _definitions(database: Any) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield name, definition and encoding of each message type in a SQLite bag; bags of ROS versions before Iron
    contain none."""
    try:
        rows = database.execute("SELECT topic_type, encoded_message_definition, encoding FROM message_definitions")
        yield from ((row[0], (row[1], row[2])) for row in rows if all(isinstance(cell, str) for cell in row))
    except sqlite3.DatabaseError:
        return


def _sqlite_rows(database: Any, topics: dict[int, Connection], limit: Bounded) -> Iterator[Found]:
    """Yield messages of an SQLite file by row number, because the index by time, at the end of the file, may be
    missing."""
    rows = database.execute("SELECT topic_id, timestamp, data FROM messages NOT INDEXED ORDER BY rowid")
    for topic, stamp, message in rows:
        limit.row()
        if topic in topics and isinstance(stamp, int) and isinstance(message, bytes):
            yield topics[topic], int(stamp), bytes(message)
