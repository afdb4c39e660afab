"""Find the tags of a synthetic clip, such as "walk" or "turn", and their frames from the desired motion."""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.motion.procedural.desired_motion import DesiredMotion
from mm_ros.motion.procedural.smooth import gaussian

Tag = tuple[str, int, int]


def tags_of(desired: DesiredMotion, whole_clip: tuple[str, ...] = ()) -> tuple[Tag, ...]:
    speed = np.hypot(desired.velocity[:, 0], desired.velocity[:, 1])
    heading = np.degrees(np.arctan2(desired.velocity[:, 1], desired.velocity[:, 0]))
    faster = np.gradient(gaussian(speed, 0.1, desired.rate)) * desired.rate
    running = desired.posture["run"] > 0.5
    moving = speed > 0.08
    turning = np.abs(desired.turn) > 0.4
    masks = {
        "idle": ~moving & ~turning,
        "turn": ~moving & turning,
        "walk": moving & ~running & (np.abs(heading) < 45),
        "side": moving & ~running & (np.abs(np.abs(heading) - 90) <= 45),
        "back": moving & ~running & (np.abs(heading) > 135),
        "curve": moving & turning,
        "jog": running & (speed <= 2.6),
        "run": running & (speed > 2.6),
        "start": faster > 0.8,
        "stop": faster < -0.8,
    }
    out = [(name, 0, len(desired)) for name in whole_clip]
    for name, mask in masks.items():
        out += [(name, a, b) for a, b in _ranges(mask)]
    return tuple(out)


def _ranges(mask: Any) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(int)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
