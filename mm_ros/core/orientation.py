"""Where the body faces, told from the trackers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mm_ros.core import rotations as rot
from mm_ros.core.settings import Settings, setting
from mm_ros.core.types import HEAD_ROLE, BodyOrientation, Calibration, TrackerFrame


class FacingModel(Protocol):
    def run(self, inputs: Any) -> Any: ...


@dataclass(frozen=True)
class OrientationSettings(Settings):
    predictor: str = setting("hmd_forward", "how the facing is told", choices=("hmd_forward",))


class OrientationStage:
    """For now the headset's forward direction alone: the named baseline."""

    def __init__(
        self,
        settings: OrientationSettings = OrientationSettings(),
        calibration: Calibration | None = None,
        model: FacingModel | None = None,
    ):
        self.settings = settings
        self.reset()

    def reset(self) -> None:
        self.yaw = 0.0

    def step(self, trackers: TrackerFrame) -> BodyOrientation:
        self.yaw = heading(trackers.rotations[HEAD_ROLE])
        rate = float(trackers.angular_velocities[HEAD_ROLE][2])
        return BodyOrientation(trackers.stamp_ns, trackers.epoch, self.yaw, rate, 0.5, "hmd_forward")


def heading(rotation: Any) -> float:
    """Yaw of a headset; looking straight down or up, its up axis takes over."""
    forward = rot.rotate(rotation, np.array([1.0, 0.0, 0.0]))
    up = rot.rotate(rotation, np.array([0.0, 0.0, 1.0]))
    lying = forward[2] ** 2
    direction = forward[:2] * (1 - lying) - up[:2] * math.copysign(lying, forward[2])
    return math.atan2(direction[1], direction[0])
