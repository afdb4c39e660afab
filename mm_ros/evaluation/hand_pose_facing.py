"""Measure how the convention of controller poses affects the predicted facing, on clips with simulated controllers."""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.body.types import F64, LEFT_HAND_ROLE, Calibration, TrackerFrame
from mm_ros.evaluation.measure import DT, Truth
from mm_ros.facing.orientation import FacingModel, OrientationSettings, OrientationStage
from mm_ros.maths import rotations as rot
from mm_ros.motion import metrics as m
from mm_ros.tracking.calibration import head_joint_height
from mm_ros.tracking.hand_poses import ESTIMATED, HAND_POSES, hand_in_device
from mm_ros.tracking.hands import HandSettings, HandStage
from mm_ros.tracking.simulation import TrackerTrack

Errors = dict[str, F64]  # maps the name of each convention of controller poses to the facing errors of all frames [deg]


def facing_errors(
    track: TrackerTrack, truth: Truth, calibration: Calibration, settings: OrientationSettings, model: FacingModel
) -> Errors:
    """Return the facing errors for each convention of controller poses, both if the user states the convention and if
    the convention is estimated from the motion ("NAME estimated")."""
    out = {}
    for name in HAND_POSES:
        for given, label in ((name, name), (ESTIMATED, f"{name} {ESTIMATED}")):
            hands = HandStage(HandSettings(hand_pose=given))
            hands.measure(head_joint_height(calibration), 0.0)
            stage = OrientationStage(settings, calibration, model)
            yaws = [stage.step(hands.step(in_convention(track.frame(i), name))).yaw for i in range(len(track))]
            times = (track.stamps_ns - track.stamps_ns[0]) * 1e-9
            facing = truth.facing[: int(times[-1] / DT) + 1]
            predicted = np.interp(np.arange(len(facing)) * DT, times, np.unwrap(yaws))
            out[label] = m.angle_error_deg(predicted, facing)
    return out


def in_convention(frame: TrackerFrame, name: str) -> TrackerFrame:
    """Convert the hand poses of a frame to controller poses of the convention `name`, in place."""
    for side in range(2):
        role, device = LEFT_HAND_ROLE + side, hand_in_device(name, side)
        q = rot.multiply(frame.rotations[role], rot.inverse(device[3:]))
        palm = rot.rotate(q, device[:3])
        frame.rotations[role] = q
        frame.positions[role] -= palm
        frame.velocities[role] -= np.cross(frame.angular_velocities[role], palm)
    return frame


def pooled(parts: list[Errors]) -> dict[str, Any]:
    """Return mean, median, p95 and p99 of the facing errors of all clips, for each convention of controller poses."""
    return {name: m.summarise(np.concatenate([p[name] for p in parts])) for name in (parts[0] if parts else ())}


def table(figures: dict[str, Any]) -> list[list[str]]:
    head = ["hand poses", "declared: mean °", "p95 °", "estimated: mean °", "p95 °"]
    columns = [("", "mean"), ("", "p95"), (f" {ESTIMATED}", "mean"), (f" {ESTIMATED}", "p95")]
    return [head, *([n, *(f"{figures[n + which][key]:.2f}" for which, key in columns)] for n in HAND_POSES)]
