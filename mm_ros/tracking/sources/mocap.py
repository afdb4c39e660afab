"""The source `mocap`, which simulates the trackers of a person in motion capture clips."""

from __future__ import annotations

from mm_ros.base.errors import MmRosError
from mm_ros.motion.importing import load_clips
from mm_ros.tracking.simulation import Simulation
from mm_ros.tracking.sources.played import PlayedSource, segments_of_clips


def mocap_source(path: str, simulation: Simulation, loop: bool = True) -> PlayedSource:
    if not path:
        raise MmRosError("the source 'mocap' needs a path: a BVH file, a folder or an archive of them")
    return PlayedSource(segments_of_clips(load_clips([path]), simulation, loop), simulation.rate)
