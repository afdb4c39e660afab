"""The avatar's topics → markers for RViz, at most 30 times a second."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from mm_ros.core.settings import Settings, setting
from mm_ros.ros import markers
from mm_ros.ros.conversions import avatar_pose_from_ros, trackers_from_ros, trajectory_from_ros
from mm_ros.ros.node import AvatarNode


@dataclass(frozen=True)
class VisualizerSettings(Settings):
    marker_rate: float = setting(30.0, "markers are published this often", "Hz", 1.0, 120.0, live=False)
    world_frame: str = setting("map", "frame of the markers", live=False)


class Visualizer(AvatarNode):
    NAME = "visualizer"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._markers = self.publisher("markers")
        self._newest: dict[str, Any] = {}
        self._fresh = True
        for topic in ("pose", "matched_pose", "trackers", "trajectory"):
            self.listen(topic, partial(self._newest.__setitem__, topic))
        self.every(1.0 / self.settings(VisualizerSettings).marker_rate, self._draw)
        self.start()

    def _draw(self) -> None:
        if "pose" not in self._newest or not self._markers.get_subscription_count():
            self._fresh = True
            return
        pose = avatar_pose_from_ros(self._newest["pose"])
        out = [markers.start_afresh(self._ns("body"))] if self._fresh else []
        self._fresh = False
        out += [markers.skeleton_lines(self._ns("body"), pose, markers.BODY, 0.05)]
        out += [markers.joint_spheres(self._ns("joints"), pose)]
        out += markers.contacts(self._ns("contacts"), pose)
        out += markers.feature_vectors(self._ns("features"), pose)
        out += self._others()
        self._markers.publish(
            markers.array(out, pose.stamp_ns, self.settings(VisualizerSettings).world_frame)
        )
        self.health.step(pose.stamp_ns)

    def _others(self) -> list[Any]:
        out: list[Any] = []
        if "matched_pose" in self._newest:
            matched = avatar_pose_from_ros(self._newest["matched_pose"])
            out.append(markers.skeleton_lines(self._ns("matched"), matched, markers.MATCHED, 0.02))
        if "trackers" in self._newest:
            out += markers.trackers(self._ns("trackers"), trackers_from_ros(self._newest["trackers"]))
        if "trajectory" in self._newest:
            out += markers.trajectory(self._ns("trajectory"), trajectory_from_ros(self._newest["trajectory"]))
        return out

    def _ns(self, what: str) -> str:
        return f"{self.avatar}/{what}"
