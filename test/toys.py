"""Small inputs for tests: a database of straight and turning walks, desired trajectories, and tracker frames."""

from __future__ import annotations

import math

import numpy as np

from mm_ros.body import skeleton as sk
from mm_ros.body.types import HEAD_ROLE, TRACKED, Calibration, TrackerFrame, Trajectory
from mm_ros.maths import rotations as rot
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.features import HORIZON_S, default_layout

RATE = 60.0
SPEEDS = (0.0, 0.6, 1.2, 2.4)
COINCIDENT = (sk.SPINE, sk.NECK, sk.LEFT_SHOULDER, sk.RIGHT_SHOULDER)
TURNS = (-1.0, 0.0, 1.0)  # rad/s


def _clip(speed: float, turn: float, seconds: float, crouch: float, phase: float) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and rotations (F, J, …) of an even walk with swinging legs, which faces ahead."""
    t = np.arange(round(seconds * RATE)) / RATE
    skeleton = sk.default_skeleton()
    positions = np.tile(skeleton.offsets, (len(t), 1, 1)).astype(np.float64)
    rotations = np.zeros((len(t), sk.J, 4))
    rotations[..., 0] = 1
    yaw = turn * t
    if turn:
        x, y = speed / turn * np.sin(yaw), speed / turn * (1 - np.cos(yaw))
    else:
        x, y = speed * t, 0 * t
    positions[:, 0] = np.stack([x, y, 0 * t], -1)
    rotations[:, 0] = rot.from_yaw(yaw)
    positions[:, sk.HIPS, 2] -= crouch
    swing = 0.3 * min(1.0, speed) * np.sin(2 * math.pi * t + phase)
    for joint, sign in ((sk.LEFT_UPPER_LEG, 1), (sk.RIGHT_UPPER_LEG, -1)):
        rotations[:, joint] = rot.exp(np.stack([0 * t, sign * swing, 0 * t], -1))
    return positions, rotations


def toy_database(seconds: float = 6.0) -> MotionDatabase:
    """Return a database with upright and crouched clips of four speeds and three turn rates, and a tag `fast`."""
    parts = [
        (
            f"{band}_{speed:g}_{turn:g}",
            speed,
            turn,
            band,
            _clip(speed, turn, seconds, 0.5 * (band == "crouch"), i),
        )
        for i, (band, speed, turn) in enumerate((b, s, t) for b in ("upright", "crouch") for s in SPEEDS for t in TURNS)
    ]
    tag_names = ("band_upright", "band_crouch", "fast")
    tags, features = [], []
    rows = {k: [] for k in ("positions", "rotations", "velocities", "angular_velocities", "contacts")}
    for _, speed, _, band, (p, q) in parts:
        v = np.gradient(p, 1 / RATE, axis=0)
        w = np.zeros_like(p)
        step = rot.log(rot.multiply(q[1:], rot.inverse(q[:-1]))) * RATE
        w[:-1] = step
        w[-1] = step[-1]
        v[:, 0] = rot.rotate(rot.inverse(q[:, 0]), v[:, 0])
        bits = (1 << tag_names.index(f"band_{band}")) | (4 if speed > 1.5 else 0)
        tags.append(np.full(len(p), bits, np.uint64))
        rows["positions"].append(p)
        rows["rotations"].append(q)
        rows["velocities"].append(v)
        rows["angular_velocities"].append(w)
        left = rot.to_matrix(q[:, sk.LEFT_UPPER_LEG])[:, 0, 2] > 0
        rows["contacts"].append(np.stack([left, ~left], -1).astype(np.uint8))
        features.append(_features(p, q))
    raw = np.concatenate(features)
    mean, std = raw.mean(0), np.maximum(raw.std(0), 1e-3)
    counts = [len(t) for t in tags]
    stops = np.cumsum(counts)
    arrays = {k: np.concatenate(v) for k, v in rows.items()}
    skeleton = sk.default_skeleton()
    head = np.array([skeleton.head_height - 0.5 * (part[3] == "crouch") for part in parts]) / skeleton.head_height
    return MotionDatabase(
        skeleton=skeleton,
        rate=RATE,
        positions=arrays["positions"].astype(np.float32),
        rotations=arrays["rotations"].astype(np.float32),
        velocities=arrays["velocities"].astype(np.float32),
        angular_velocities=arrays["angular_velocities"].astype(np.float32),
        contacts=arrays["contacts"],
        head_height_ratio=np.repeat(head, counts).astype(np.float32),
        range_starts=(stops - counts).astype(np.int32),
        range_stops=stops.astype(np.int32),
        clip_names=tuple(part[0] for part in parts),
        tag_names=tag_names,
        tags=np.concatenate(tags),
        layout=default_layout(),
        features=((raw - mean) / std).astype(np.float32),
        feature_mean=mean.astype(np.float32),
        feature_std=std.astype(np.float32),
    )


def joints_in_one_place(skeleton: sk.Skeleton) -> sk.Skeleton:
    """Return a skeleton as in CMU files, with the spine at the hips, and neck and shoulders at the upper chest."""
    offsets = skeleton.offsets.copy()
    offsets[list(COINCIDENT)] = 0.0
    return sk.Skeleton(offsets)


def with_tiny_hands(skeleton: sk.Skeleton, length_m: float) -> sk.Skeleton:
    """Return a skeleton whose hands are at this distance from the elbows, as in damaged files."""
    offsets = skeleton.offsets.copy()
    for hand in (sk.LEFT_HAND, sk.RIGHT_HAND):
        offsets[hand] *= length_m / np.linalg.norm(offsets[hand])
    return sk.Skeleton(offsets)


def _features(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    gp, gq = rot.forward_kinematics(sk.PARENTS, p, q)
    back = rot.inverse(gq[:, 0])
    frames = np.arange(len(p))
    columns = []
    for what in ("position", "direction"):
        for t in HORIZON_S:
            later = np.minimum(frames + round(t * RATE), len(p) - 1)
            ahead = gp[later, 0] - gp[:, 0]
            if what == "direction":
                ahead = rot.rotate(gq[later, 0], np.array([1.0, 0, 0]))
            columns.append(rot.rotate(back, ahead)[:, :2])
    feet = [rot.rotate(back, gp[:, j] - gp[:, 0]) for j in (sk.LEFT_FOOT, sk.RIGHT_FOOT)]
    velocity = np.gradient(gp, 1 / RATE, axis=0)
    speeds = [rot.rotate(back, velocity[:, j]) for j in (sk.LEFT_FOOT, sk.RIGHT_FOOT, sk.HIPS)]
    return np.concatenate([*columns, *feet, *speeds], axis=1)


def desired(
    t: float,
    position=(0.0, 0.0),
    velocity=(0.0, 0.0),
    yaw: float = 0.0,
    height: float = 1.0,
    epoch: int = 0,
    **more,
) -> Trajectory:
    """Return a desired trajectory at time `t` [s], straight from `position` with `velocity`, facing `yaw`."""
    times = np.array(HORIZON_S, np.float32)
    p, v = np.array(position, np.float64), np.array(velocity, np.float64)
    directions = np.tile(np.array([math.cos(yaw), math.sin(yaw)], np.float32), (3, 1))
    return Trajectory(
        round(t * 1e9), epoch, "test", p, v, yaw, 0.1, height,
        times, (p + times[:, None] * v).astype(np.float32), directions, **more,
    )  # fmt: skip


def trackers(
    t: float, head=(0.0, 0.0, 1.68), yaw: float = 0.0, velocity=(0.0, 0.0, 0.0), epoch: int = 0
) -> TrackerFrame:
    """Return a tracker frame with only a level headset at the position `head`."""
    frame = TrackerFrame(round(t * 1e9), epoch)
    frame.rotations[HEAD_ROLE] = rot.from_yaw(yaw)
    frame.positions[HEAD_ROLE] = head
    frame.velocities[HEAD_ROLE] = velocity
    frame.state[HEAD_ROLE] = TRACKED
    return frame


CALIBRATION = Calibration()
