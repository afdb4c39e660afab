"""Files of sessions on the disk, without any library."""

from __future__ import annotations

from pathlib import Path

KEPT = 256  # number of messages in a publisher's history, which is 2 s at 120 Hz
STORED = (".mcap", ".db3", ".mcap.zstd", ".db3.zstd")


def storage_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(p for p in path.glob("*") if p.name.endswith(STORED))


def write_ahead_log(part: Path) -> Path:
    """SQLite's log of changes that are not yet in the file. This file exists during a recording and after a kill."""
    return part.with_name(part.name + "-wal")


def is_session(path: Path) -> bool:
    """Whether this is a rosbag2 folder or file. A killed recorder leaves a folder without metadata.yaml."""
    if not path.is_dir():
        return path.name.endswith(STORED)
    return (path / "metadata.yaml").is_file() or (bool(storage_files(path)) and not any(path.glob("*.[bB][vV][hH]")))
