"""Where the shared motion data is, and archives unpacked once into the cache."""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from mm_ros.cache import locked, writable_root
from mm_ros.core.errors import MmRosError

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
# RuntimeError: a password is wanted; NotImplementedError: a compression that Python does not know.
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError)
_WANTED = (".bvh", ".csv", ".txt", ".yaml", ".json")


BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"  # the project
WHAT_IT_IS = (
    "It is motion capture of CMU (free, from mocap.cs.cmu.edu; as BVH: the cgspeed conversion), in folders or archives "
    "named cmu_locomotion and cmu_general. Set MM_ROS_DATA to the folder that holds them"
)
PROCEDURAL_NOTE = (
    "note: procedural motion is used, so the figures are not comparable with those of the docs. They are about the "
    f"shared motion data. {WHAT_IT_IS}."
)


def has_data() -> bool:
    """Whether the shared motion data should be there. MM_ROS_DATA counts even when it leads nowhere: a mistake in it
    must not pass for a choice."""
    return bool(os.environ.get("MM_ROS_DATA")) or BESIDE.is_dir()


def data_folder() -> Path:
    """`$MM_ROS_DATA`, else `../shared/data` beside the project."""
    folder = Path(os.environ.get("MM_ROS_DATA") or BESIDE)
    if not folder.is_dir():
        raise MmRosError(f"the shared motion data is not at {folder}. {WHAT_IT_IS}")
    return folder


def dataset(name: str) -> Path:
    """Folder of one set of the shared data, such as 'cmu_locomotion': as it is, or unpacked into the cache."""
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
    """The archive's motion and text files, in a folder of the cache; the second time it is only looked up."""
    path = Path(archive).resolve()
    try:
        stat = path.stat()
    except OSError as error:
        raise MmRosError(f"{archive}: cannot be read ({error.strerror})") from error
    key = hashlib.blake2b(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}".encode(), digest_size=6).hexdigest()
    stem = path.name.split(".")[0]
    target = writable_root() / "data" / f"{stem}-{key}"
    with locked(f"unpack-{key}"):
        if not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            aside = Path(tempfile.mkdtemp(prefix=f".{stem}-", dir=target.parent))
            try:
                _extract(path, aside)
                aside.rename(target)
            except BaseException:
                shutil.rmtree(aside, ignore_errors=True)
                raise
    return target


def _extract(path: Path, folder: Path) -> None:
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                for entry in archive.infolist():
                    if not entry.is_dir() and _wanted(entry.filename):
                        _write(folder, entry.filename, archive.read(entry))
        else:
            with tarfile.open(path) as tar:
                for member in tar:
                    if member.isfile() and _wanted(member.name):
                        handle = tar.extractfile(member)
                        _write(folder, member.name, handle.read() if handle else b"")
    except _BROKEN as error:
        raise MmRosError(f"{path}: is no archive that can be unpacked ({error})") from error


def _wanted(name: str) -> bool:
    return name.lower().endswith(_WANTED) and not PurePosixPath(name).name.startswith("._")


def _write(folder: Path, name: str, data: bytes) -> None:
    """Only inside of the folder: a name in an archive may say '../' or '/'."""
    parts = [p for p in PurePosixPath(name.replace("\\", "/")).parts if p not in ("/", "..", ".")]
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
