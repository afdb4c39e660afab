"""The cache folder of mm_ros, for files that can be made again: compiled kernels and the default database.

`mm_ros/__init__.py` imports this module before numba, so it is fast and needs only the standard library.
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

# The tag of https://bford.info/cachedir: backups skip such a folder, and `mm_ros clean` may remove it.
TAG = "CACHEDIR.TAG"
TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by mm_ros; `mm_ros clean` removes this folder.\n"
UNUSED_DAYS = 7.0

_PACKAGE = Path(__file__).resolve().parents[1]
# Packages with compiled functions, or with constants that are compiled into them.
_COMPILED = (
    *("maths", "body", "search", "motion", "tracking", "facing"),
    *("trajectory", "matching", "pose", "robot", "show"),
)


def cache_root() -> Path:
    """`$MM_ROS_CACHE`, else `$XDG_CACHE_HOME/mm_ros`, else `~/.cache/mm_ros`. The folder may not exist yet."""
    own = os.environ.get("MM_ROS_CACHE")
    return Path(own) if own else cache_root_by_default()


def cache_root_by_default() -> Path:
    xdg = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification requires that a relative path is ignored.
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "mm_ros"
    try:
        return Path("~/.cache").expanduser() / "mm_ros"
    except RuntimeError:  # the user has no home folder, for example in a container whose user id has no name
        return _temporary()


def writable_root() -> Path:
    """Return the cache folder, which is created if it is missing. If it cannot be created, return a private temporary
    folder and print a warning.
    """
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
    os.environ["MM_ROS_CACHE"] = str(fresh)  # this process and its children use the temporary folder from now on
    return fresh


def _is_private(folder: Path) -> bool:
    """Whether only this user can use the folder. Another user's pickled kernels could run that user's code."""
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
    """Whether the folder is writable or could be created. The function does not create it."""
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
    """Whether mm_ros alone uses the folder: MM_ROS_CACHE may name a folder with other files."""
    return (folder / TAG).is_file() or folder == cache_root_by_default()


@cache
def kernels_key() -> str:
    """Hash of everything that compiled kernels depend on: sources of the compiled packages, numba, Python, CPU.

    The path of the checkout is not included, so that checkouts with the same sources share their kernels.

    numba checks only the file of a function, not other files whose functions are compiled into it: after a change
    there, old machine code would stay in use.
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
    """Model and features of the CPU: machines with different CPUs may share a home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))


def configure_numba() -> None:
    """Set numba's cache folder and one thread, unless the environment already sets them."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    if "NUMBA_CACHE_DIR" in os.environ or "numba" in sys.modules:
        return
    os.environ["NUMBA_CACHE_DIR"] = str(writable_root() / "kernels" / kernels_key())


def configure_bytecode() -> None:
    """Keep Python's compiled modules in the cache folder if Python is set not to write them beside the sources.

    With PYTHONDONTWRITEBYTECODE, as in many containers, a node would compile about 300 modules at each start (1.2 s of
    CPU time). The setting applies to the processes that mm_ros starts; a program that imports mm_ros keeps its own
    setting. A cache folder without kernels is not used: either `mm_ros clean` has emptied it, or no node has been
    started yet.
    """
    if sys.dont_write_bytecode and sys.pycache_prefix is None and (cache_root() / "kernels").is_dir():
        environment = hashlib.sha256(sys.prefix.encode()).hexdigest()[:16]
        sys.pycache_prefix, sys.dont_write_bytecode = str(writable_root() / "bytecode" / environment), False


def forget_old_code(days: float = 30.0) -> None:
    """Remove folders of kernels and bytecode unused for `days`: each change of the sources leads to new folders."""
    current = (Path(os.environ.get("NUMBA_CACHE_DIR", "")), Path(sys.pycache_prefix or ""))
    for folder in current:
        mark_used(folder)
    for name in ("kernels", "bytecode"):
        for folder in unused(cache_root() / name, "*", days):
            if folder not in current:
                shutil.rmtree(folder, ignore_errors=True)


def mark_used(path: Path) -> None:
    """Set the file time to now, so that it is the time of the last use."""
    with suppress(OSError):
        os.utime(path)


def unused(folder: Path, pattern: str, days: float = UNUSED_DAYS) -> list[Path]:
    """Return the paths that were unused for `days`. Newer paths may still be in use by another checkout or an older
    version.
    """
    out = []
    for path in folder.glob(pattern):
        with suppress(OSError):  # another process has just removed the folder
            if time.time() - path.stat().st_mtime > days * 86400:
                out.append(path)
    return out


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Lock `name` against other processes. The operating system frees the lock when its process dies."""
    folder = writable_root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)
