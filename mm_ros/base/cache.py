"""The cache folder of mm_ros contains files that can be made again: compiled functions and the default database.

`mm_ros/__init__.py` imports `cache.py` before numba, so `cache.py` must load fast and use no library.
"""

import fcntl
import hashlib
import importlib.metadata
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

# A file CACHEDIR.TAG marks a folder as a cache (https://bford.info/cachedir), so that backup programs skip the folder.
TAG = "CACHEDIR.TAG"
TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by mm_ros; `mm_ros clean` removes this folder.\n"
UNUSED_DAYS = 7.0

_PACKAGE = Path(__file__).resolve().parents[1]
# Packages of mm_ros that contain functions compiled by numba, or constants that these functions use.
_COMPILED = (
    *("maths", "body", "search", "motion", "tracking", "facing"),
    *("trajectory", "matching", "pose", "robot", "show"),
)


def cache_root() -> Path:
    """Return the path of the cache folder: `$MM_ROS_CACHE`, else `$XDG_CACHE_HOME/mm_ros`, else `~/.cache/mm_ros`."""
    own = os.environ.get("MM_ROS_CACHE")
    return Path(own) if own else cache_root_by_default()


def cache_root_by_default() -> Path:
    xdg = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification requires that programs ignore a relative path in XDG_CACHE_HOME.
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "mm_ros"
    try:
        return Path("~/.cache").expanduser() / "mm_ros"
    except RuntimeError:  # `expanduser` fails if the user has no home folder, as in some containers.
        return _temporary()


def writable_root() -> Path:
    """Return the cache folder and create it if it is missing. If the cache folder cannot be created or written, return
    a private temporary folder and print a warning."""
    root, fallback = cache_root(), _temporary()
    if root != fallback and _can_write(root):
        return root
    if _is_private(fallback) and _can_write(fallback):
        if root != fallback:
            _warn(f"cache folder {root} is not writable", fallback)
        return fallback
    fresh = Path(tempfile.mkdtemp(prefix="mm_ros-"))
    why = f"{fallback} is not a folder that only this user can use" if root == fallback else f"{root} is not writable"
    _warn(f"cache folder {why}", fresh)
    os.environ["MM_ROS_CACHE"] = str(fresh)  # makes child processes use the same cache folder
    return fresh


def _is_private(folder: Path) -> bool:
    """Check that only the present user can write to the folder: another user's pickle file could run foreign code."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _temporary() -> Path:
    return Path(tempfile.gettempdir()) / f"mm_ros-{os.getuid()}"


def _warn(why: str, fallback: Path) -> None:
    warnings.warn(
        f"{why}; using {fallback} instead. Set MM_ROS_CACHE to a folder that you can write to.",
        RuntimeWarning,
        stacklevel=3,
    )


def is_writable(folder: Path) -> bool:
    """Return whether the folder is writable or, if it does not exist, could be created."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            (folder / TAG).write_text(TAG_TEXT)
        return os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def is_ours(folder: Path) -> bool:
    """Return whether only mm_ros uses the folder: MM_ROS_CACHE may name a folder with other files of the user."""
    return (folder / TAG).is_file() or folder == cache_root_by_default()


@cache
def kernels_key() -> str:
    """Return a hash of all that compiled functions depend on: their sources and the versions of numba, Python and CPU.

    The path of the source folder is not part of the hash, so copies of mm_ros with equal sources share their compiled
    functions. Numba compiles a function again only if the file of this function has changed. If only a file with a
    called function changes, numba uses the old machine code, so a new hash selects a new folder.
    """
    digest = hashlib.sha256()
    sources = (source for package in _COMPILED for source in (_PACKAGE / package).rglob("*.py"))
    for source in sorted(s for s in sources if "training" not in s.parts):
        digest.update(str(source.relative_to(_PACKAGE)).encode() + b"\0" + source.read_bytes() + b"\0")
    for fact in (_numba_version(), sys.version, platform.machine(), _cpu()):
        digest.update(fact.encode() + b"\0")
    return digest.hexdigest()[:16]


def _numba_version() -> str:
    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _cpu() -> str:
    """Return model and features of the CPU, because machines with different CPUs may share a cache folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))


def configure_numba() -> None:
    """Set the cache folder of numba and limit numba to one thread, unless environment variables set other values."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    if "NUMBA_CACHE_DIR" in os.environ or "numba" in sys.modules:
        return
    os.environ["NUMBA_CACHE_DIR"] = str(writable_root() / "kernels" / kernels_key())


def configure_bytecode() -> None:
    """Make Python store bytecode in the cache folder if PYTHONDONTWRITEBYTECODE forbids bytecode beside the sources.

    Many containers set PYTHONDONTWRITEBYTECODE. Without stored bytecode, each node would compile about 300 Python
    modules at its start, which takes 1.2 s of CPU time. Only the processes that mm_ros starts store their bytecode.
    No bytecode is stored while the cache folder contains no compiled functions, for example after `mm_ros clean`.
    """
    if sys.dont_write_bytecode and sys.pycache_prefix is None and (cache_root() / "kernels").is_dir():
        environment = hashlib.sha256(sys.prefix.encode()).hexdigest()[:16]
        sys.pycache_prefix, sys.dont_write_bytecode = str(writable_root() / "bytecode" / environment), False


def forget_old_code(days: float = 30.0) -> None:
    """Remove folders of compiled code that were not used for `days`; each change of the sources makes a new folder."""
    current = (Path(os.environ.get("NUMBA_CACHE_DIR", "")), Path(sys.pycache_prefix or ""))
    for folder in current:
        mark_used(folder)
    for name in ("kernels", "bytecode"):
        for folder in unused(cache_root() / name, "*", days):
            if folder not in current:
                shutil.rmtree(folder, ignore_errors=True)


def mark_used(path: Path) -> None:
    """Set the modification time of `path` to the present time, which `unused` reads as the time of the last use."""
    with suppress(OSError):
        os.utime(path)


def unused(folder: Path, pattern: str, days: float = UNUSED_DAYS) -> list[Path]:
    """Return the paths in `folder` that match `pattern` and whose last use is more than `days` days ago."""
    out = []
    for path in folder.glob(pattern):
        with suppress(OSError):  # Another process may have removed `path` after `glob` found it.
            if time.time() - path.stat().st_mtime > days * 86400:
                out.append(path)
    return out


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Context in which only this process holds the lock `name`; the system frees the lock of a killed process."""
    folder = writable_root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)
