"""Sources of trackers, by name. Each is imported when it is asked for: their libraries are optional."""

from __future__ import annotations

from mm_ros.core.errors import MmRosError
from mm_ros.trackers.base import TrackerSource

SOURCES: tuple[str, ...] = ("synthetic", "mocap", "openxr", "steamvr", "session", "topics")


def make_source(name: str, path: str = "", rate: float = 90.0, seed: int = 0) -> TrackerSource:
    if name == "synthetic":
        from mm_ros.trackers.synthetic import synthetic_source

        return synthetic_source(rate, seed)
    raise MmRosError(f"tracker source '{name}' does not exist. Sources: {', '.join(SOURCES)}")
