"""Checksum of an ONNX file, stored in the last metadata entry of the file, for all bytes before this entry.

Other programs read the checksum as one more metadata entry, because an ONNX file is in Protobuf format and Protobuf
collects metadata entries from all places of a file. ONNX files without a checksum entry are read unchecked.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from mm_ros.base.errors import MmRosError

_KEY = b"mm_ros_sha256"
_DIGITS = 64
# First bytes of a metadata entry in Protobuf format: `metadata_props` is field 14 of an ONNX model, and an entry has
# the fields 1 (key) and 2 (value).
_HEAD = b"\x0a" + bytes([len(_KEY)]) + _KEY + b"\x12" + bytes([_DIGITS])
_HEAD = b"\x72" + bytes([len(_HEAD) + _DIGITS]) + _HEAD


def sealed(content: bytes) -> bytes:
    """Return the bytes of an ONNX file with a new checksum at the end; an earlier checksum is removed."""
    content = unsealed(content)
    return content + _HEAD + _digest(content)


def unsealed(content: bytes) -> bytes:
    """Return the bytes of an ONNX file without the checksum at the end of the file."""
    end = len(content) - _DIGITS
    return content[: end - len(_HEAD)] if content[:end].endswith(_HEAD) else content


def read_checked(path: Path) -> bytes:
    """Read an ONNX file, and raise MmRosError if the file has a checksum that differs from its bytes."""
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
