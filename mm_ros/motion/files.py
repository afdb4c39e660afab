"""Read and write database files. Processes memory-map a database file, so that they share its memory.

    8 bytes magic · u32 version · u32 CRC-32 of the header · u64 length of the header · header (JSON) · arrays

Each array begins at a multiple of 64 bytes. The header contains checksums of the arrays. A database file contains no
time and no property of the machine, so equal databases give equal files.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.checksums import BodyChecksums, SoundFile, block_checksums
from mm_ros.base.errors import MmRosError
from mm_ros.base.files import open_regular, write_whole
from mm_ros.body.skeleton import Skeleton
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.features import Feature, FeatureLayout

MAGIC = b"MMROSDB\0"
VERSION = 1
SUFFIX = ".mmdb"
_HEAD = struct.Struct("<8sIIQ")
_ALIGN = 64
_ARRAYS = (
    "positions", "rotations", "velocities", "angular_velocities", "contacts", "head_height_ratio",
    "range_starts", "range_stops", "tags", "features", "feature_mean", "feature_std",
)  # fmt: skip
_SEARCHED = "range_starts"  # the search reads this array and all later ones, playback reads all earlier ones
_DTYPE = re.compile(r"[<|][fiu][1248]")


def write_database(database: MotionDatabase, path: str | Path) -> None:
    """Write a database to a read-only file; processes that have an older file of this name open can still read it."""
    write_whole(Path(path), _parts(database), mode=0o444)


def _parts(database: MotionDatabase) -> Iterator[bytes | memoryview]:
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
        "checksums": block_checksums(_body(arrays)),
        "clip_names": list(database.clip_names),
        "joint_names": list(database.skeleton.names),
        "joint_parents": database.skeleton.parents.tolist(),
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
    yield from _body(arrays)


def _body(arrays: dict[str, NDArray[Any]]) -> Iterator[bytes | memoryview]:
    for array in arrays.values():
        yield array.reshape(-1).view(np.uint8).data
        yield b"\0" * (-array.nbytes % _ALIGN)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"provenance: {type(value).__name__} cannot be written: {value!r}")


def file_version(path: Path) -> int:
    """Return the version of the format of a database file."""
    with open_regular(path) as handle:
        return int(_HEAD.unpack(handle.read(_HEAD.size))[1])


def _header(path: Path) -> tuple[dict[str, Any], int, int]:
    """Return the header of a file, the byte at which the arrays begin, and the checksum of the header."""
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
        raise MmRosError(f"{path}: is broken: its header does not match its checksum. Rebuild it with mm_ros import")
    body = _HEAD.size + length
    try:
        header: dict[str, Any] = json.loads(text)
        wanted = body + int(header["bytes"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MmRosError(f"{path}: is broken: its header cannot be read ({error})") from error
    if size != wanted or body % _ALIGN:
        raise MmRosError(f"{path}: is broken: expected {wanted} bytes, came {size}. Build it again")
    return header, body, crc


def read_database(path: str | Path, on_damage: Callable[[str], None] | None = None) -> MotionDatabase:
    """Read a database from a file. The arrays are memory-mapped, so that several processes share the memory.

    The checksums of all arrays are checked once, and the cache folder stores that the file is not damaged. If
    `on_damage` is given, a thread checks the poses later, and calls `on_damage` with a message if they are damaged.
    """
    path = Path(path)
    try:
        return _read_database(path, on_damage)
    except MmRosError as error:
        raise MmRosError(str(error) if str(path) in str(error) else f"{path}: is broken: {error}") from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        what = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise MmRosError(f"{path}: is broken: its header cannot be used ({what}). Build it again") from error


def _read_database(path: Path, on_damage: Callable[[str], None] | None) -> MotionDatabase:
    header, body, crc = _header(path)
    table = {str(name): _entry(entry, header["bytes"]) for name, entry in header["arrays"].items()}
    missing = [n for n in (*_ARRAYS, "skeleton_offsets") if n not in table]
    if missing:
        raise MmRosError(f"{path}: is broken: it lacks {', '.join(missing)}")
    checksums, sound = BodyChecksums(path, body, header["bytes"], header.get("checksums")), SoundFile(path, crc)
    known = sound.known()
    if not known:
        checksums.check(table[_SEARCHED].at)
    with open_regular(path) as handle:
        raw = np.memmap(handle, np.uint8, "r")
    database = _database(path, header, {name: _view(raw, body, entry) for name, entry in table.items()})
    if not known:
        _check_motion(checksums, table[_SEARCHED].at, sound, on_damage)
    return database


def _check_motion(
    checksums: BodyChecksums, stop: int, sound: SoundFile, on_damage: Callable[[str], None] | None
) -> None:
    def check() -> None:
        checksums.check(0, stop)
        sound.remember()

    def check_and_report() -> None:
        assert on_damage is not None
        try:
            check()
        except (MmRosError, OSError) as error:
            on_damage(str(error))

    if on_damage is None:
        check()
    else:
        threading.Thread(target=check_and_report, name="database check", daemon=True).start()


def _database(path: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> MotionDatabase:
    try:
        layout = FeatureLayout(tuple(Feature(**{**f, "times": tuple(f["times"])}) for f in header["layout"]))
        if layout.hash != header["layout_hash"]:
            raise MmRosError(
                f"its feature layout has hash {layout.hash}, the file was written with {header['layout_hash']}"
            )
        for name in ("joint_names", "clip_names", "tag_names"):
            if not isinstance(header[name], list) or not all(isinstance(n, str) for n in header[name]):
                raise MmRosError(f"is broken: its {name} must be a list of strings")
        if not isinstance(header["provenance"], dict):
            raise MmRosError("is broken: its provenance must be a table")
        parents = np.array(header["joint_parents"], np.int32)
        skeleton = Skeleton(np.array(arrays["skeleton_offsets"]), tuple(header["joint_names"]), parents)
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
    except MmRosError as error:
        raise MmRosError(f"{path}: {error}. Build it again with mm_ros import") from None


class _Entry(NamedTuple):
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    at: int  # offset of the array from the start of the first array [bytes]


def _entry(said: dict[str, Any], size: int) -> _Entry:
    dtype, shape, at = said["dtype"], tuple(map(int, said["shape"])), int(said["at"])
    if not _DTYPE.fullmatch(dtype):  # an array of objects would use bytes of the file as addresses
        raise ValueError(f"numbers of type {dtype!r}")
    if min((*shape, at)) < 0 or at % _ALIGN or at + math.prod(shape) * np.dtype(dtype).itemsize > size:
        raise ValueError(f"an array of shape {shape} at byte {at} of {size}")
    return _Entry(np.dtype(dtype), shape, at)


def _view(raw: NDArray[np.uint8], body: int, entry: _Entry) -> NDArray[Any]:
    start = body + entry.at
    view: NDArray[Any] = np.asarray(raw[start : start + math.prod(entry.shape) * entry.dtype.itemsize])
    return view.view(entry.dtype).reshape(entry.shape)
