"""Makes tracker sources by name. A source is imported only if it is selected, because its libraries are optional."""

from __future__ import annotations

from mm_ros.base.errors import MmRosError
from mm_ros.tracking.simulation import Simulation
from mm_ros.tracking.sources.base import TrackerSource

SOURCES: tuple[str, ...] = ("synthetic", "mocap", "webxr", "openxr", "steamvr", "session", "topics")


def make_source(
    name: str,
    path: str = "",
    rate: float = 90.0,
    seed: int = 0,
    simulation: Simulation | None = None,
    serials: dict[str, str] | None = None,
    axes: str = "ros",
    page_port: int = 8090,
    page_wifi: bool = False,
) -> TrackerSource:
    """Make the tracker source with the name `name`, for example `openxr`.

    The source `mocap` simulates devices with the options `simulation`. `serials` maps roles to serial numbers of
    SteamVR trackers. `page_port` is the port of the headset page of the source `webxr`, and `page_wifi` opens this page
    to the local network.
    """
    if name == "synthetic":
        from mm_ros.tracking.sources.synthetic import synthetic_source

        return synthetic_source(rate, seed)
    if name == "mocap":
        from mm_ros.tracking.sources.mocap import mocap_source

        return mocap_source(path, simulation or Simulation(rate=rate, seed=seed))
    if name == "session":
        from mm_ros.tracking.sources.session import SessionSource

        return SessionSource(path)
    if name == "topics":
        from mm_ros.tracking.sources.topics import TopicsSource

        return TopicsSource(axes)
    if name == "openxr":
        from mm_ros.tracking.sources.openxr import OpenXrSource

        return OpenXrSource(rate)
    if name == "webxr":
        from mm_ros.tracking.sources.webxr import WebXrSource
        from mm_ros.web.headset.server import HeadsetServer

        return WebXrSource(HeadsetServer(page_port, page_wifi))
    if name == "steamvr":
        from mm_ros.tracking.sources.steamvr import SteamVrSource

        return SteamVrSource(rate, serials)
    raise MmRosError(f"tracker source '{name}' does not exist. Sources: {', '.join(SOURCES)}")
