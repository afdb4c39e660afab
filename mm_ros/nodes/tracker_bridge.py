"""A source of trackers → trackers, calibration, TF of trackers; the truth where the source knows it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from mm_ros.core.settings import Settings, setting
from mm_ros.core.tracker_gate import TrackerGate
from mm_ros.core.types import Calibration, TrackerFrame
from mm_ros.ros.conversions import avatar_pose_to_ros, calibration_to_ros, skeleton_to_ros, trackers_to_ros
from mm_ros.ros.node import AvatarNode, run
from mm_ros.ros.tf import TrackerTf
from mm_ros.trackers import SOURCES, make_source


@dataclass(frozen=True)
class BridgeSettings(Settings):
    source: str = setting("synthetic", "where trackers come from", choices=SOURCES, live=False)
    path: str = setting("", "file of the source: BVH or session", live=False)
    rate: float = setting(90.0, "rate asked of the source", "Hz", 1.0, 1000.0, live=False)
    seed: int = setting(0, "of the synthetic user and of simulated noise", live=False)


class TrackerBridge(AvatarNode):
    NAME = "tracker_bridge"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        s = self.settings(BridgeSettings)
        self._trackers = self.publisher("trackers")
        self._calibration = self.publisher("calibration")
        self._truth = self.publisher("truth")
        self._truth_skeleton = self.publisher("truth_skeleton")
        self._tf = self.publisher("/tf")
        self._frames = TrackerTf(self.avatar)
        self._gate = TrackerGate()
        self._source = make_source(s.source, s.path, s.rate, s.seed)
        self._source.open()
        self._introduce()
        self.create_timer(1.0 / self._source.rate, self._poll)
        self.start()

    def _introduce(self) -> None:
        now_ns = self.get_clock().now().nanoseconds
        self._calibration.publish(calibration_to_ros(self._source.calibration() or Calibration(), now_ns))
        skeleton = self._source.truth_skeleton()
        if skeleton is not None:
            self._truth_skeleton.publish(skeleton_to_ros(skeleton, now_ns, "truth"))

    def _poll(self) -> None:
        raw = self._source.poll(self.get_clock().now().nanoseconds)
        if raw is not None:
            self._publish(self._gate.step(raw))

    def _publish(self, frame: TrackerFrame) -> None:
        self._trackers.publish(trackers_to_ros(frame))
        truth = self._source.truth()
        if truth is not None:
            self._truth.publish(avatar_pose_to_ros(truth, "truth"))
        self._tf.publish(self._frames.message(frame))
        self.health.step(frame.stamp_ns)

    def reset(self) -> None:
        self._gate = TrackerGate()

    def close(self) -> None:
        self._source.close()


def main(args: list[str] | None = None) -> int:
    return run(TrackerBridge, args)


if __name__ == "__main__":
    sys.exit(main())
