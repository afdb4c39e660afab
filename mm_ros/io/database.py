"""The database file: one memory-mapped file, written once, read-only, shared by all who have it open.

    8 bytes magic · u32 version · u32 CRC-32 of the header · u64 length of the header · header (JSON) · arrays

Arrays start at multiples of 64 bytes after the header. Nothing in the file depends on time or machine: the same
database gives the same bytes.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.core.database import MotionDatabase
from mm_ros.core.errors import MmRosError
from mm_ros.core.features import Feature, FeatureLayout
from mm_ros.core.skeleton import PARENTS, Skeleton
from mm_ros.io.files import open_regular, write_whole

MAGIC = b"MMROSDB\0"
VERSION = 1
SUFFIX = ".mmdb"
_HEAD = struct.Struct("<8sIIQ")
_ALIGN = 64
_ARRAYS = (
    "positions", "rotations", "velocities", "angular_velocities", "contacts", "head_height_ratio",
    "range_starts", "range_stops", "tags", "features", "feature_mean", "feature_std",
)  # fmt: skip


def write_database(database: MotionDatabase, path: str | Path) -> None:
    """Whole or not at all, and read-only: those who have an older file mapped keep it."""
    write_whole(Path(path), _parts(database), mode=0o444)


def _parts(database: MotionDatabase) -> Iterator[bytes]:
    arrays = {n: np.ascontiguousarray(getattr(database, n)) for n in _ARRAYS}
    arrays["skeleton_offsets"] = np.ascontiguousarray(database.skeleton.offsets, np.float32)
    arrays |= {f"search/{k}": np.ascontiguousarray(v) for k, v in sorted(database.search_arrays.items())}
    table, at = {}, 0
    arrays = {n: a.astype(a.dtype.newbyteorder("<")) if a.dtype.byteorder == ">" else a for n, a in arrays.items()}
    for name, array in arrays.items():
        table[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "at": at}
        at += -(-array.nbytes // _ALIGN) * _ALIGN
    header = {
        "arrays": table,
        "bytes": at,
        "clip_names": list(database.clip_names),
        "joint_names": list(database.skeleton.names),
        "joint_parents": PARENTS.tolist(),
        "layout": [asdict(f) for f in database.layout.features],
        "layout_hash": database.layout.hash,
        "provenance": database.provenance,
        "rate": database.rate,
        "skeleton_hash": f"{database.skeleton.hash:016x}",
        "tag_names": list(database.tag_names),
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), default=_plain).encode()
    text += b" " * (-(_HEAD.size + len(text)) % _ALIGN)
    yield _HEAD.pack(MAGIC, VERSION, zlib.crc32(text), len(text)) + text
    for array in arrays.values():
        yield array.tobytes()
        yield b"\0" * (-array.nbytes % _ALIGN)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"provenance: {type(value).__name__} cannot be written: {value!r}")


def read_header(path: str | Path) -> dict[str, Any]:
    """What the file says of itself, without touching its arrays."""
    return _header(Path(path))[0]


def _header(path: Path) -> tuple[dict[str, Any], int]:
    try:
        with open_regular(path) as handle:
            start = handle.read(_HEAD.size)
            if len(start) < _HEAD.size or start[:8] != MAGIC:
                raise MmRosError(f"{path}: is not a motion database (it does not begin with {MAGIC[:7].decode()})")
            _, version, crc, length = _HEAD.unpack(start)
            if version > VERSION:
                raise MmRosError(f"{path}: has version {version}; this mm_ros reads up to {VERSION}. Update mm_ros")
            if version < VERSION:
                raise MmRosError(
                    f"{path}: has version {version}; expected {VERSION}. Build it again with mm_ros import"
                )
            text = handle.read(min(length, 1 << 30))
            size = os.fstat(handle.fileno()).st_size
    except OSError as error:
        raise MmRosError(f"{path}: cannot be read ({error.strerror})") from error
    if len(text) != length or zlib.crc32(text) != crc:
        raise MmRosError(f"{path}: is broken: its header does not fit its checksum. Build it again with mm_ros import")
    header: dict[str, Any] = json.loads(text)
    body = _HEAD.size + length
    if size != body + header["bytes"]:
        raise MmRosError(f"{path}: is broken: expected {body + header['bytes']} bytes, came {size}. Build it again")
    return header, body


def read_database(path: str | Path) -> MotionDatabase:
    """Arrays are views of the mapped file: pages are read when touched and shared between processes."""
    path = Path(path)
    header, body = _header(path)
    with open_regular(path) as handle:
        raw = np.memmap(handle, np.uint8, "r")
    arrays = {name: _view(raw, body, entry) for name, entry in header["arrays"].items()}
    missing = [n for n in (*_ARRAYS, "skeleton_offsets") if n not in arrays]
    if missing:
        raise MmRosError(f"{path}: is broken: it lacks {', '.join(missing)}")
    layout = FeatureLayout(tuple(Feature(**{**f, "times": tuple(f["times"])}) for f in header["layout"]))
    if layout.hash != header["layout_hash"]:
        raise MmRosError(
            f"{path}: its feature layout has hash {layout.hash}, the file was written with "
            f"{header['layout_hash']}. Build it again"
        )
    skeleton = Skeleton(np.array(arrays["skeleton_offsets"]), tuple(header["joint_names"]))
    if header["joint_parents"] != PARENTS.tolist():
        raise MmRosError(f"{path}: has another humanoid than this mm_ros. Build it again")
    return MotionDatabase(
        skeleton=skeleton,
        rate=float(header["rate"]),
        clip_names=tuple(header["clip_names"]),
        tag_names=tuple(header["tag_names"]),
        layout=layout,
        search_arrays={n.removeprefix("search/"): a for n, a in arrays.items() if n.startswith("search/")},
        provenance=header["provenance"],
        **{n: arrays[n] for n in _ARRAYS},
    )


def _view(raw: NDArray[np.uint8], body: int, entry: dict[str, Any]) -> NDArray[Any]:
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    start = body + int(entry["at"])
    count = int(np.prod(shape))
    view: NDArray[Any] = np.asarray(raw[start : start + count * dtype.itemsize]).view(dtype).reshape(shape)
    return view
