"""A made-up user, live: walks, stops, looks about; crude, until core/procedural/user.py takes over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mm_ros.core import rotations as rot
from mm_ros.core.clip import Clip
from mm_ros.core.simulated_trackers import Simulation
from mm_ros.core.skeleton import LEFT_UPPER_ARM, RIGHT_UPPER_ARM, J, Skeleton, default_skeleton
from mm_ros.trackers.clip_source import ClipSource

NOISE = Simulation(noise_m=0.0003, noise_rad=0.001, look_around_rad=0.6)


def synthetic_source(rate: float, seed: int) -> ClipSource:
    return ClipSource([walking_doll(60.0, seed)], replace(NOISE, rate=rate, seed=seed))


def walking_doll(seconds: float, seed: int, skeleton: Skeleton | None = None) -> Clip:
    """A stiff body that goes along a wavy loop at up to 1.2 m/s and stands at times."""
    skeleton = skeleton or default_skeleton()
    rate = 60.0
    t = np.arange(int(seconds * rate)) / rate
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi)
    go = np.clip(1.5 * np.sin(2 * np.pi * t / 12 + phase), 0, 1)
    speed = 1.2 * go * go * (3 - 2 * go)
    yaw = np.cumsum(0.9 * np.sin(2 * np.pi * t / 17 + phase) + 0.25) / rate
    positions = np.tile(skeleton.offsets, (len(t), 1, 1))
    rotations = np.zeros((len(t), J, 4), np.float32)
    rotations[..., 0] = 1
    positions[:, 0, 0] = np.cumsum(speed * np.cos(yaw)) / rate
    positions[:, 0, 1] = np.cumsum(speed * np.sin(yaw)) / rate
    rotations[:, 0] = rot.from_yaw(yaw)
    swing = 0.4 * speed * np.sin(2 * np.pi * 0.9 * t)
    for joint, sign in ((LEFT_UPPER_ARM, 1.0), (RIGHT_UPPER_ARM, -1.0)):
        down = rot.exp(np.array([-sign * 1.35, 0.0, 0.0]))
        forth = rot.exp(np.stack([0 * t, sign * swing, 0 * t], axis=-1))
        rotations[:, joint] = rot.multiply(forth, down)
    return Clip("walking doll", rate, skeleton, positions, rotations)
