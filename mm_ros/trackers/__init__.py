"""Sources of trackers. Each is imported only when it is asked for: OpenXR and OpenVR are extras."""

from __future__ import annotations

import importlib

from mm_ros.core.errors import MmRosError
from mm_ros.trackers.base import TrackerSource

# name → "module:Class"; the class takes (path, rate, seed).
_SOURCES = {
    "synthetic": "mm_ros.trackers.synthetic:SyntheticSource",
    "mocap": "mm_ros.trackers.mocap:MocapSource",
    "openxr": "mm_ros.trackers.openxr:OpenXrSource",
    "steamvr": "mm_ros.trackers.steamvr:SteamVrSource",
    "poses": "mm_ros.trackers.poses:PosesSource",
}
SOURCES: tuple[str, ...] = tuple(_SOURCES)


def make_source(name: str, path: str = "", rate: float = 90.0, seed: int = 0) -> TrackerSource:
    if name not in _SOURCES:
        raise MmRosError(f"source '{name}' does not exist. Sources: {', '.join(_SOURCES)}")
    module, cls = _SOURCES[name].split(":")
    source: TrackerSource = getattr(importlib.import_module(module), cls)(path, rate, seed)
    return source
