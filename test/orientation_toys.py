"""Small inputs for the facing tests: a user who walks and turns, as arrays and as tracker frames."""

import numpy as np

from mm_ros.body.types import TRACKED, R, TrackerFrame
from mm_ros.facing.training.data import Motion
from mm_ros.maths import rotations as rot
from mm_ros.tracking import simulation as sim


def walker(seconds=4.0, rate=60.0, seed=0, subject="toy") -> Motion:
    """Return the motion of a head and two swinging hands on a curved path; the head looks to both sides."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    yaw = rng.uniform(-3, 3) + 0.8 * np.sin(rng.uniform(0.3, 1.0) * t + rng.uniform(0, 6))
    forward = np.stack([np.cos(yaw), np.sin(yaw), 0 * yaw], -1)
    path = np.cumsum(forward, 0) / rate * rng.uniform(0.3, 1.4)
    swing = 0.25 * np.sin(2 * np.pi * t)
    positions = np.empty((len(t), 3, 3))
    positions[:, 0] = path + np.array([0, 0, 1.6])
    turn = rot.from_yaw(yaw)
    for hand, side in ((1, 1.0), (2, -1.0)):
        reach = np.stack([0.05 + side * swing, side * (0.22 + 0 * t), -0.75 + 0 * t], -1)
        positions[:, hand] = positions[:, 0] + rot.rotate(turn, reach)
    rotations = np.repeat(turn[:, None], 3, axis=1)
    look = 0.4 * np.sin(1.7 * t + rng.uniform(0, 6))
    rotations[:, 0] = rot.multiply(rot.from_yaw(look), rotations[:, 0])
    return Motion(f"{subject}_{seed}", subject, rate, 1.68, positions, rotations, yaw, yaw)


def everyone(count=8):
    return [walker(6, seed=i, subject=f"s{i % 3}") for i in range(count)]


def frames(motion: Motion, rate=90.0, turned=0.0, start_ns=10**9, epoch=0) -> list[TrackerFrame]:
    """Return tracker frames of headset and controllers for a motion, in a room rotated by `turned` [rad]."""
    times = sim.sample_times(len(motion), motion.rate, rate)
    p, q = sim.resample(motion.positions, motion.rotations, motion.rate, times)
    turn = rot.from_yaw(turned)
    p, q = rot.rotate(turn, p), rot.multiply(turn, q)
    v, w = sim.derivatives(p, q, rate)
    out = []
    for i, t in enumerate(times):
        f = TrackerFrame(start_ns + round(t * 1e9), epoch)
        f.positions[:3], f.rotations[:3], f.velocities[:3], f.angular_velocities[:3] = p[i], q[i], v[i], w[i]
        f.state[:3] = TRACKED
        f.sampled_ns = np.full(R, f.stamp_ns)
        out.append(f)
    return out


def degrees_apart(a, b):
    return np.degrees(np.abs(rot.wrap_angle(np.asarray(a) - np.asarray(b))))
