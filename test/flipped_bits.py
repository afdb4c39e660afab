"""Flip bits in a database file, and open, search and play the file in a child process, which alone ends in a crash."""

from __future__ import annotations

import json
import os
import signal
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.matching.engines.source import SearchSource
from mm_ros.motion.files import _header, read_database
from mm_ros.search import Mask

_HEAD = struct.Struct("<8sIIQ")
CORRECT, REFUSED, WRONG = "correct", "refused", "wrong"
END_MARGIN_S = 0.5
HANGS_S = 60  # time [s] after which SIGALRM ends a child process that hangs


def without_checksums(data: bytes) -> bytes:
    """Return the bytes of a database file without its checksums, as older versions of mm_ros wrote the file."""
    magic, version, _, length = _HEAD.unpack_from(data)
    header = json.loads(data[_HEAD.size : _HEAD.size + length])
    del header["checksums"]
    text = json.dumps(header).encode()
    text += b" " * (-(_HEAD.size + len(text)) % 64)
    return _HEAD.pack(magic, version, zlib.crc32(text), len(text)) + text + data[_HEAD.size + length :]


def index_part(path: Path) -> dict[str, range]:
    """Return for each array that a search reads the range of its bytes in the database file."""
    with path.open("rb") as handle:
        length = _HEAD.unpack(handle.read(_HEAD.size))[3]
    out = {}
    for name, entry in _header(path)[0]["arrays"].items():
        start = _HEAD.size + length + entry["at"]
        size = int(np.prod(entry["shape"])) * np.dtype(entry["dtype"]).itemsize
        if name.startswith(("search/", "range_", "feature", "tags", "skeleton")):
            out[name] = range(start, start + size)
    return out


def flips(parts: Iterable[range], count: int, seed: int) -> Iterator[tuple[int, int]]:
    """Yield for each part `count` random bytes, and one random bit of each byte."""
    random = np.random.default_rng(seed)
    for part in parts:
        for at in random.integers(part.start, part.stop, count):
            yield int(at), int(random.integers(8))


def answers(path: Path) -> list[np.ndarray]:
    """Return the results of some searches in a database file, and a pose that is played from the file."""
    database = read_database(path)
    weights = database.layout.column_weights()
    source = SearchSource(database, 1.0, "tree", END_MARGIN_S, weights)
    queries = np.random.default_rng(5).normal(size=(40, database.layout.size)).astype(np.float32)
    queries[::2] = database.features[:: len(database) // 20][:20] + np.float32(0.05)
    out = list(source.engine.search_batch(queries, weights))
    out += source.engine.search_batch(queries, weights, mask=Mask(any_of=3))
    for frame in out[0].tolist():
        source.player.seek(max(frame, 0))
        source.advance(0.1)
    return [*out, *source.pose()]


def outcome(path: Path, truth: list[np.ndarray]) -> str:
    try:
        same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(answers(path), truth, strict=True))
    except MmRosError:
        return REFUSED
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return CORRECT if same else WRONG


def campaign(sound: bytes, changed: Iterable[tuple[int, int]], path: Path, truth: list[np.ndarray]) -> Counter[str]:
    """Return the number of bit flips with each outcome; a child process changes the file `path` for each flip."""
    found: Counter[str] = Counter()
    todo = list(changed)
    path.write_bytes(sound)
    while todo:
        done, ended_by = _in_a_child(sound, todo, path, truth)
        found.update(done)
        todo = todo[len(done) :]
        if todo:
            assert ended_by, "the child ended early, and not by a signal"
            found[f"signal {ended_by} by bit {todo[0][1]} of byte {todo[0][0]}"] += 1
            path.write_bytes(sound)
            todo = todo[1:]
    return found


def _in_a_child(
    sound: bytes, todo: list[tuple[int, int]], path: Path, truth: list[np.ndarray]
) -> tuple[list[str], int]:
    """Return the outcomes of the first flips, and the signal that then ended the child process early (0: none)."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            file = os.open(path, os.O_RDWR)
            for i, (at, bit) in enumerate(todo):
                os.pwrite(file, bytes([sound[at] ^ 1 << bit]), at)
                os.utime(path, ns=(i, i - len(todo)))  # a new modification time for each flip
                signal.alarm(HANGS_S)
                os.write(writing, f"{outcome(path, truth)}\n".encode())
                os.pwrite(file, sound[at : at + 1], at)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        done = lines.read().splitlines()
    return done, os.WTERMSIG(os.waitpid(child, 0)[1])
