"""Files that are written completely or not at all, and safe reading of YAML files."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mm_ros.base.errors import MmRosError

MOST_YAML_BYTES, MOST_YAML_ELEMENTS, MOST_YAML_DEPTH = 4 << 20, 200_000, 50


def config_folder(name: str, variable: str) -> Path:
    """Folder of this user's settings: `$<variable>`, else `name` in `$XDG_CONFIG_HOME/mm_ros` or `~/.config/mm_ros`."""
    own = os.environ.get(variable)
    if own:
        return Path(own)
    xdg = os.environ.get("XDG_CONFIG_HOME")
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "mm_ros" / name
    try:
        return Path("~/.config").expanduser() / "mm_ros" / name
    except RuntimeError as error:  # the user has no home folder, for example in a container whose user id has no name
        raise MmRosError(f"this user has no home folder for settings; set {variable} to a folder") from error


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading. A pipe or device is refused, because reading it could block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # `open` raises ValueError for a name with a zero byte
        raise MmRosError(f"{path}: cannot be read ({getattr(error, 'strerror', error)})") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MmRosError(f"{path}: cannot be read (it is not a regular file)")
    return os.fdopen(descriptor, "rb")


def identity(path: str | Path) -> tuple[int, ...]:
    """Return numbers that change when a file is replaced, or an empty tuple for a file that cannot be read."""
    try:
        now = os.stat(path)
    except (OSError, ValueError):
        return ()
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


def read_yaml(path: str | Path) -> Any:
    """Content of a YAML file; None when the file is empty."""
    import yaml

    try:
        with open_regular(path) as handle:
            data = handle.read(MOST_YAML_BYTES + 1)
        if len(data) > MOST_YAML_BYTES:
            raise MmRosError(f"is longer than {MOST_YAML_BYTES >> 20} MB; expected a handwritten file")
        value = yaml.safe_load(data.decode("utf-8-sig"))
        _refuse_bombs(value)
    except OSError as error:
        raise MmRosError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise MmRosError(f"{path}: is not YAML (it is no text: byte {error.start} is not UTF-8)") from error
    except RecursionError as error:
        raise MmRosError(f"{path}: is not YAML that can be used (it is nested too deeply)") from error
    except MmRosError as error:
        raise MmRosError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, OverflowError, LookupError) as error:
        # PyYAML's constructors fail on impossible dates, numbers and keys.
        raise MmRosError(f"{path}: is not YAML ({' '.join(str(error).split())[:300]})") from error
    return value


def _refuse_bombs(value: Any) -> None:
    """Refuse a document that expands to too many elements: aliases of aliases can grow to billions."""
    sizes: dict[int, int] = {}

    def size(part: Any, depth: int) -> int:
        if not isinstance(part, dict | list | tuple | set):
            return 1
        if depth > MOST_YAML_DEPTH:
            raise MmRosError("is nested too deeply, or holds itself")
        if id(part) not in sizes:
            inner = [*part.keys(), *part.values()] if isinstance(part, dict) else part
            sizes[id(part)] = 1 + sum(size(p, depth + 1) for p in inner)
        return sizes[id(part)]

    if size(value, 0) > MOST_YAML_ELEMENTS:
        raise MmRosError(f"grows to more than {MOST_YAML_ELEMENTS} elements by its aliases")


@contextmanager
def folder_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary folder of the same name; it is renamed to `path` when the block ends without an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name[:200]}.", dir=path.parent) as temporary:
            inside = Path(temporary) / path.name
            yield inside
            inside.rename(path)
    except OSError as error:
        raise MmRosError(f"cannot write {path}: {error.strerror}") from error


def write_whole(path: Path, data: bytes | Iterable[bytes | memoryview], mode: int = 0o644) -> None:
    """Write a temporary file in the same folder, then rename it: a reader never sees an incomplete file."""
    path = Path(path)
    parts = [data] if isinstance(data, bytes) else data
    try:
        if path.exists() and not path.is_file():
            _write_through(path, parts)
        else:
            _replace(path.resolve(), parts, mode)  # the path is resolved, so that a symbolic link is kept
    except OSError as error:
        raise MmRosError(f"cannot write {path}: {error.strerror}") from error


def _write_through(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write into a pipe or device, because renaming would replace the device by a file. `open` refuses a folder."""
    with path.open("wb") as handle:
        handle.writelines(parts)


def _replace(path: Path, parts: Iterable[bytes | memoryview], mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:200]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.writelines(parts)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
