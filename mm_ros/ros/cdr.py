"""Templates of serialized messages, whose numbers are written and read in place.

rclpy converts each message between Python and C, which often takes longer than the computation of the avatar. The
layout of a serialized message (CDR, version 1, little endian) depends only on the strings and the lengths of the
sequences in the message. A `Template` holds the bytes of a message with certain strings and sequence lengths, and numpy
views of the numbers in these bytes.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message, serialize_message
from rosidl_parser.definition import AbstractGenericString, AbstractSequence, Array, BasicType

from mm_ros.base.errors import MmRosError

HEAD = b"\x00\x01\x00\x00"  # first bytes of a serialized message: CDR version 1, little endian, no options
# Number of unused bytes before a serialized message, so that its numbers are aligned in memory: CDR aligns numbers
# relative to the end of the 4-byte header.
SPARE = 4
PADDED = 4  # The DDS middleware pads each message between processes to a multiple of 4 bytes.
_NUMBERS = {
    "boolean": "u1", "octet": "u1", "uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4",
    "int32": "<i4", "uint64": "<u8", "int64": "<i8", "float": "<f4", "double": "<f8",
}  # fmt: skip


class Walk:
    """Byte offsets of the fields in a serialized message, counted from the end of the header. `numbers` maps the path
    of each numeric field to (offset, dtype, count); `fixed` holds the byte ranges of strings and lengths."""

    def __init__(self, msg: Any) -> None:
        self.at = 0
        self.numbers: dict[str, tuple[int, np.dtype[Any], int]] = {}
        self.fixed: list[tuple[int, int]] = []
        self._message(msg, "")

    def _message(self, msg: Any, path: str) -> None:
        for name, kind in zip(msg.get_fields_and_field_types(), msg.SLOT_TYPES, strict=True):
            self._value(getattr(msg, name), kind, f"{path}{name}")

    def _value(self, value: Any, kind: Any, path: str) -> None:
        if isinstance(kind, BasicType):
            self._number(kind, 1, path)
        elif isinstance(kind, AbstractGenericString):
            self._fix(4, 4 + len(value.encode()) + 1)  # a string in CDR: length, text and a zero byte
        elif isinstance(kind, (Array, AbstractSequence)):
            if isinstance(kind, AbstractSequence):
                self._fix(4, 4)
            if isinstance(kind.value_type, BasicType):
                self._number(kind.value_type, len(value), path)
            else:
                for i, item in enumerate(value):
                    self._value(item, kind.value_type, f"{path}.{i}")
        else:
            self._message(value, f"{path}.")

    def _number(self, kind: Any, count: int, path: str) -> None:
        dtype = np.dtype(_NUMBERS[kind.typename])
        if count:  # CDR aligns the elements of a sequence only if the sequence is not empty.
            self.at += -self.at % dtype.itemsize
        self.numbers[path] = (self.at, dtype, count)
        self.at += count * dtype.itemsize

    def _fix(self, align: int, size: int) -> None:
        self.at += -self.at % align
        self.fixed.append((self.at, self.at + size))
        self.at += size


class Template:
    """The serialized bytes of a message with certain strings and sequence lengths, and numpy views of its numbers.

    A template must not be used by two threads at the same time.
    """

    def __init__(self, msg: Any) -> None:
        raw = serialize_message(msg)
        walk = Walk(msg)
        # A message may end with up to 31 padding bytes, because rclpy also aligns empty sequences.
        if raw[:4] != HEAD or not 0 <= len(raw) - 4 - walk.at < 32:
            raise TypeError(f"{type(msg).__name__}: {len(raw) - 4} serialized bytes, expected {walk.at}")
        self._numbers = walk.numbers
        self._store = bytearray(SPARE) + bytearray(raw)
        self._raw = memoryview(self._store)[SPARE:]
        self._size = len(raw)
        self._fixed = [(0, 4, HEAD)] + [(a + 4, b + 4, raw[a + 4 : b + 4]) for a, b in walk.fixed]

    def view(self, first: str, count: int = 0) -> NDArray[Any]:
        """Return a numpy view of the numbers in the field `first` of the message. If `count` is given, the view covers
        `count` numbers, which may belong to several fields of one numeric type."""
        at, dtype, own = self._numbers[first]
        return np.frombuffer(self._store, dtype, count or own, SPARE + 4 + at)

    def serialized(self, stamp_ns: int) -> bytes:
        """Write the stamp [ns] into the header of the message and return the serialized message."""
        struct.pack_into("<iI", self._store, SPARE + 4, *divmod(stamp_ns, 1_000_000_000))
        return self._raw.tobytes()

    def load(self, raw: bytes) -> bool:
        """Copy the numbers of the serialized message `raw` into the template. If strings or sequence lengths of the
        message differ from those of the template, copy nothing and return False."""
        if not 0 <= len(raw) - self._size < PADDED:
            return False
        for a, b, expected in self._fixed:
            if raw[a:b] != expected:
                return False
        self._raw[:] = raw[: self._size]
        return True


def deserialized(raw: bytes, kind: Any) -> Any:
    """Deserialize bytes to a message of the class `kind`, or raise MmRosError if the bytes are malformed."""
    try:
        return deserialize_message(raw, kind)
    # For malformed bytes rclpy raises an RMWError, and for a malformed string a UnicodeDecodeError.
    except (RuntimeError, ValueError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200]
        raise MmRosError(f"{len(raw)} bytes are not a message {kind.__name__}: {reason}") from None


def stamp_of(raw: bytes) -> int | None:
    """Return the time stamp [ns] in the header of a serialized message, or None if the bytes are not in CDR version
    1."""
    if raw[:4] != HEAD or len(raw) < len(HEAD) + 8:
        return None
    sec, nanosec = struct.unpack_from("<iI", raw, 4)
    return int(sec) * 1_000_000_000 + int(nanosec)
