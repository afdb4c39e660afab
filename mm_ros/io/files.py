"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from mm_ros.core.errors import MmRosError


def write_whole(path: Path, data: bytes | Iterable[bytes], mode: int = 0o644) -> None:
    """Written under a temporary name in the same folder, then renamed: a reader never sees half of it."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise MmRosError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as handle:
            for part in [data] if isinstance(data, bytes) else data:
                handle.write(part)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(aside, mode)
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
