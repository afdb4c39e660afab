"""Checksum of an ONNX file, in its last metadata entry, which covers all bytes before that entry.

Protobuf joins repeated fields from all places of a file. Therefore the entry can be appended to a finished file; other
programs see one more metadata entry. Files of older versions and other programs have no such entry and are read
unchecked.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from mm_ros.base.errors import MmRosError

_KEY = b"mm_ros_sha256"
_DIGITS = 64
# ModelProto.metadata_props is field 14; its entries have the fields 1 (key) and 2 (value), all of variable length.
_HEAD = b"\x0a" + bytes([len(_KEY)]) + _KEY + b"\x12" + bytes([_DIGITS])
_HEAD = b"\x72" + bytes([len(_HEAD) + _DIGITS]) + _HEAD


def sealed(content: bytes) -> bytes:
    """Return the bytes of an ONNX file with its checksum, in place of an earlier one."""
    content = unsealed(content)
    return content + _HEAD + _digest(content)


def unsealed(content: bytes) -> bytes:
    """Return the bytes of an ONNX file without its checksum, as an older version would have written it."""
    end = len(content) - _DIGITS
    return content[: end - len(_HEAD)] if content[:end].endswith(_HEAD) else content


def read_checked(path: Path) -> bytes:
    """Read an ONNX file; raise MmRosError if it has a checksum and is damaged."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MmRosError(f"{path} cannot be read: {error.strerror}") from None
    before = unsealed(content)
    if len(before) < len(content) and _digest(before) != content[-_DIGITS:]:
        raise MmRosError(f"{path} is damaged: its checksum does not agree with its content. Copy or train it again")
    return content


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
