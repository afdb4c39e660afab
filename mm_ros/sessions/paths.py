"""Find the files of recorded sessions on the disk, without the library rosbags."""

from __future__ import annotations

from pathlib import Path

KEPT = 288  # length of the message queue of a publisher, enough for 2 s of messages of a headset with 144 Hz
STORED = (".mcap", ".db3", ".mcap.zstd", ".db3.zstd")


def storage_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(p for p in path.glob("*") if p.name.endswith(STORED))


def write_ahead_log(part: Path) -> Path:
    """Path of SQLite's write-ahead log, which has the changes that are not yet in the database file. The log exists
    during a recording, and after a kill of the recorder."""
    return part.with_name(part.name + "-wal")


def is_session(path: Path) -> bool:
    """Whether `path` is a recorded session, that is, a rosbag2 folder or file. A killed recorder leaves a folder
    without metadata.yaml, which also counts."""
    if not path.is_dir():
        return path.name.endswith(STORED)
    return (path / "metadata.yaml").is_file() or (bool(storage_files(path)) and not any(path.glob("*.[bB][vV][hH]")))
