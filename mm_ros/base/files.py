"""Functions that write a file completely or not at all, and that read YAML files safely."""

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
    """Return the path of a folder for the user's own files: the value of the environment variable `variable` if it is
    set, else the folder `name` in `$XDG_CONFIG_HOME/mm_ros` or `~/.config/mm_ros`."""
    own = os.environ.get(variable)
    if own:
        return Path(own)
    xdg = os.environ.get("XDG_CONFIG_HOME")
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "mm_ros" / name
    try:
        return Path("~/.config").expanduser() / "mm_ros" / name
    except RuntimeError as error:  # `expanduser` fails if the user has no home folder, as in some containers.
        raise MmRosError(f"this user has no home folder for settings; set {variable} to a folder") from error


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading. Pipes and devices are refused, because reading from a pipe could block forever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # `os.open` raises ValueError if the path contains a zero byte.
        raise MmRosError(f"{path}: cannot be read ({getattr(error, 'strerror', error)})") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MmRosError(f"{path}: cannot be read (it is not a regular file)")
    return os.fdopen(descriptor, "rb")


def identity(path: str | Path) -> tuple[int, ...]:
    """Return numbers that change when the file is replaced, or an empty tuple if the file cannot be read."""
    try:
        now = os.stat(path)
    except (OSError, ValueError):
        return ()
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


def read_yaml(path: str | Path) -> Any:
    """Return the content of a YAML file, or None if the file is empty."""
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
        # PyYAML raises errors of several classes for impossible dates, numbers and keys.
        raise MmRosError(f"{path}: is not YAML ({' '.join(str(error).split())[:300]})") from error
    return value


def _refuse_bombs(value: Any) -> None:
    """Refuse a YAML document with too many elements, because aliases of aliases can expand to billions of elements."""
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
    """Context with a temporary folder, which is renamed to `path` if the `with` block ends without an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name[:200]}.", dir=path.parent) as temporary:
            inside = Path(temporary) / path.name
            yield inside
            inside.rename(path)
    except OSError as error:
        raise MmRosError(f"cannot write {path}: {error.strerror}") from error


def write_whole(path: Path, data: bytes | Iterable[bytes | memoryview], mode: int = 0o644) -> None:
    """Write `data` to a temporary file and rename the file to `path`, so that no reader sees an incomplete file."""
    path = Path(path)
    parts = [data] if isinstance(data, bytes) else data
    try:
        if path.exists() and not path.is_file():
            _write_through(path, parts)
        else:
            _replace(path.resolve(), parts, mode)  # If `path` is a symbolic link, the linked file is replaced.
    except OSError as error:
        raise MmRosError(f"cannot write {path}: {error.strerror}") from error


def _write_through(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write into a pipe or device directly, because renaming a temporary file would replace the device by a file."""
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
