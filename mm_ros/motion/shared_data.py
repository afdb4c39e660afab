"""Find the folder of the shared motion data, and unpack archives in it into the cache folder."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any

from mm_ros.base.cache import locked, writable_root
from mm_ros.base.errors import MmRosError

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
# Errors that Python raises for damaged archives; RuntimeError stands for a password or an unsupported compression.
_BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError,
    IndexError, KeyError, OverflowError, struct.error, AssertionError,
)  # fmt: skip
# Motion files become about 5 times smaller in an archive, and files with a constant pose 100 times smaller. An archive
# is refused if it unpacks to more than 100 times its size (and more than 256 MiB), or to more than 100,000 files.
LEAST_MOST_BYTES, MOST_GROWTH, MOST_FILES = 256 << 20, 100, 100_000
_WANTED = (".bvh", ".csv", ".txt", ".yaml", ".json")


BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"  # the folder shared/data beside the project
WHAT_IT_IS = (
    "It is CMU motion capture (free, from mocap.cs.cmu.edu; BVH files of the cgspeed conversion: "
    "https://github.com/una-dinosauria/cmu-mocap), in folders or archives named cmu_locomotion and cmu_general "
    "(docs/evaluation.md lists their files). Set MM_ROS_DATA to the folder that contains them"
)
PROCEDURAL_NOTE = (
    "note: procedural motion is used, so the figures are not comparable with those in the docs, which are for the "
    f"shared motion data. {WHAT_IT_IS}."
)


def has_data() -> bool:
    """Return whether the shared motion data is expected to exist.

    Shared data is expected if the environment variable MM_ROS_DATA is set. A wrong path in MM_ROS_DATA causes an error.
    """
    return bool(os.environ.get("MM_ROS_DATA")) or BESIDE.is_dir()


def data_folder() -> Path:
    """Return the folder of the shared motion data: `$MM_ROS_DATA` if it is set, otherwise `../shared/data`."""
    folder = Path(os.environ.get("MM_ROS_DATA") or BESIDE)
    if not folder.is_dir():
        raise MmRosError(f"the shared motion data is not at {folder}. {WHAT_IT_IS}")
    return folder


def dataset(name: str) -> Path:
    """Return the folder of a dataset such as 'cmu_locomotion'; if it is an archive, unpack it into the cache folder."""
    folder = data_folder()
    if (folder / name).is_dir():
        return folder / name
    for suffix in ARCHIVES:
        if (folder / f"{name}{suffix}").is_file():
            inside = unpacked(folder / f"{name}{suffix}")
            return inside / name if (inside / name).is_dir() else inside
    there = sorted(p.name for p in folder.iterdir())
    raise MmRosError(f"'{name}' is not in the shared motion data at {folder}. There: {', '.join(there)}. {WHAT_IT_IS}")


def is_archive(path: str | Path) -> bool:
    return str(path).lower().endswith(ARCHIVES)


def unpacked(archive: str | Path) -> Path:
    """Unpack the motion files and text files of an archive into the cache folder once, and return their folder."""
    path = Path(archive).resolve()
    try:
        stat = path.stat()
    except OSError as error:
        raise MmRosError(f"{archive}: cannot be read ({error.strerror})") from error
    version = os.fsencode(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}")
    key = hashlib.blake2b(version, digest_size=6).hexdigest()
    stem = path.name.split(".")[0]
    target = writable_root() / "data" / f"{stem}-{key}"
    with locked(f"unpack-{key}"):
        if not target.is_dir():
            partial = target.with_name(f".{target.name}.part")
            shutil.rmtree(partial, ignore_errors=True)  # remove files left by a killed process
            partial.mkdir(parents=True)
            try:
                _extract(path, partial, max(LEAST_MOST_BYTES, MOST_GROWTH * stat.st_size))
                partial.rename(target)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
    return target


def _extract(path: Path, folder: Path, most: int) -> None:
    try:
        if path.suffix.lower() == ".zip":
            _extract_zip(path, folder, most)
        else:
            _extract_tar(path, folder, most)
    except MmRosError:
        raise
    except MemoryError as error:
        raise MmRosError(f"{path}: is no archive that can be unpacked (it needs too much memory)") from error
    except _BROKEN as error:
        raise MmRosError(f"{path}: is no archive that can be unpacked ({error})") from error


def _too_big(path: Path, most: int) -> MmRosError:
    return MmRosError(
        f"{path}: would unpack to more than {most / 1e6:.0f} MB from {path.stat().st_size / 1e6:.1f} MB, or to more "
        f"than {MOST_FILES} files; motion does not compress that much. Nothing was unpacked"
    )


def _extract_zip(path: Path, folder: Path, most: int) -> None:
    with zipfile.ZipFile(path) as archive:
        entries = [e for e in archive.infolist() if not e.is_dir() and _wanted(e.filename)]
        total = sum(e.file_size for e in entries)  # declared total size; `zipfile` reads no more than this
        if total > most or len(entries) > MOST_FILES:
            raise _too_big(path, most)
        if total > shutil.disk_usage(folder).free:
            raise MmRosError(f"{path}: unpacks to {total / 1e6:.0f} MB, but {folder.parent} has less free space")
        for entry in entries:
            with archive.open(entry) as handle:
                _write(folder, entry.filename, handle)


_OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open, ".tgz": gzip.open, ".xz": lzma.open, ".txz": lzma.open, ".bz2": bz2.open, ".tbz2": bz2.open,
}  # fmt: skip


def _extract_tar(path: Path, folder: Path, most: int) -> None:
    opener = _OPENERS.get(path.suffix.lower(), open)
    count = 0
    # The tar archive is read as a stream, so that the size limit also includes the headers of the archive.
    with opener(path, "rb") as plain:
        counted: Any = _Counted(plain, path, most)
        with tarfile.open(fileobj=counted, mode="r|") as tar:
            for member in tar:
                count += 1
                if member.size > most or count > MOST_FILES:
                    raise _too_big(path, most)
                handle = tar.extractfile(member) if member.isfile() and _wanted(member.name) else None
                if handle is not None:
                    _write(folder, member.name, handle)


class _Counted:
    """An input stream that raises MmRosError when more than `most` bytes are read."""

    def __init__(self, stream: IO[bytes], path: Path, most: int) -> None:
        self._stream, self._path, self._most, self._left = stream, path, most, most

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size if 0 <= size <= self._left else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise _too_big(self._path, self._most)
        return data


def _wanted(name: str) -> bool:
    return name.lower().endswith(_WANTED) and not PurePosixPath(name).name.startswith("._")


def _write(folder: Path, name: str, data: IO[bytes]) -> None:
    """Write a file inside `folder`, even if its name in the archive contains '../' or starts with '/'."""
    parts = [p for p in PurePosixPath(name.replace("\\", "/")).parts if p not in ("/", "..", ".")]
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as handle:
        shutil.copyfileobj(data, handle)
