"""Endurance test: steer an avatar for minutes by noisy input, and measure whether it drifts to a mean pose."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mm_ros.body.skeleton import LEFT_TOES, RIGHT_TOES, canonical_kinematics
from mm_ros.body.types import F64, Trajectory
from mm_ros.maths.signals import wrap
from mm_ros.maths.springs import damp

DT = 1 / 60
SPEEDS, CHANCES = (0.0, 0.6, 1.1, 1.4, 2.5), (0.25, 0.2, 0.3, 0.15, 0.1)
SETTLED_S = 0.25


def wandering(times: tuple[float, ...], seconds: float, seed: int = 0, noise: float = 0.0) -> Iterator[Trajectory]:
    """Yield desired trajectories of a simulated user who changes speed and direction every few seconds.

    `noise` is the standard deviation of random errors of the trajectory in each frame, in metres and in radians.
    """
    rng = np.random.default_rng(seed)
    position, velocity, yaw = np.zeros(2), np.zeros(2), 0.0
    goal, facing, height, left = np.zeros(2), 0.0, 1.0, 0.0
    ahead = np.array(times)
    for i in range(round(seconds / DT)):
        if left <= 0:
            left, direction = rng.uniform(1, 5), rng.uniform(-math.pi, math.pi)
            goal = rng.choice(SPEEDS, p=CHANCES) * np.array([math.cos(direction), math.sin(direction)])
            facing = direction if rng.random() < 0.8 else rng.uniform(-math.pi, math.pi)
            height = 0.7 if rng.random() < 0.1 else 1.0
        left -= DT
        velocity = np.array([damp(float(v), float(g), SETTLED_S, DT) for v, g in zip(velocity, goal, strict=True)])
        yaw += (1 - 2 ** (-DT / SETTLED_S)) * wrap(facing - yaw)
        position = position + velocity * DT
        at, turned = position + noise * rng.standard_normal(2), yaw + noise * rng.standard_normal()
        later = turned + np.zeros(len(times)) + noise * rng.standard_normal(len(times))
        yield Trajectory(
            round(i * DT * 1e9), 0, "wandering", at, velocity, turned, 0.1, height, np.array(times, np.float32),
            (at + ahead[:, None] * velocity + noise * rng.standard_normal((len(times), 2))).astype(np.float32),
            np.stack([np.cos(later), np.sin(later)], -1).astype(np.float32),
        )  # fmt: skip


def endure(stage: Any, times: tuple[float, ...], minutes: float, seed: int = 0, noise: float = 0.0) -> dict[str, Any]:
    """Run `stage` for `minutes`, and return for each minute how far joints are from their mean position, how fast the
    toes move, and how far the root is from the desired position."""
    poses, far = [], []
    for desired in wandering(times, 60 * minutes, seed, noise):
        pose = stage.step(desired)[0]
        poses.append((pose.positions, pose.rotations))
        far.append(np.linalg.norm(pose.root[:2] - desired.position))
    positions, rotations = (np.stack(a).astype(np.float64) for a in zip(*poses, strict=True))
    joints, _ = canonical_kinematics(positions, rotations)
    each = round(60 / DT)
    return {
        "finite": bool(np.isfinite(joints).all()),
        "farthest_joint_m": float(np.abs(joints).max()),
        "spread_m": [_spread(joints[a : a + each]) for a in range(0, len(joints), each)],
        "toe_speed_m_s": [_toe_speed(joints[a : a + each]) for a in range(0, len(joints), each)],
        "target_error_m": [float(np.mean(far[a : a + each])) for a in range(0, len(far), each)],
    }


def _spread(joints: F64) -> float:
    return float(np.linalg.norm(joints - joints.mean(0), axis=-1).mean())


def _toe_speed(joints: F64) -> float:
    toes = joints[:, [LEFT_TOES, RIGHT_TOES]]
    return float(np.linalg.norm(np.diff(toes, axis=0), axis=-1).mean() / DT)
