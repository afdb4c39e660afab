"""Where sessions are on the disk; no library is needed to see it."""

from __future__ import annotations

from pathlib import Path

KEPT = 256  # messages that a writer keeps for its listeners: 2 s at 120 Hz
STORED = (".mcap", ".db3", ".mcap.zstd", ".db3.zstd")


def storage_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(p for p in path.glob("*") if p.name.endswith(STORED))


def write_ahead_log(part: Path) -> Path:
    """What SQLite has not yet put into the file itself; it is there while a bag is recorded, and after a kill."""
    return part.with_name(part.name + "-wal")


def is_session(path: Path) -> bool:
    """A rosbag2 folder or its file; also one without metadata.yaml, as a recorder that was killed leaves it."""
    if not path.is_dir():
        return path.name.endswith(STORED)
    return (path / "metadata.yaml").is_file() or (bool(storage_files(path)) and not any(path.glob("*.[bB][vV][hH]")))
