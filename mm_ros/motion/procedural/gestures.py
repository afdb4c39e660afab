"""Gestures of the hands (reach, point, wave, hold controllers), which are added to a clip by bending the arms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import UPPER_CHEST
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import slerp
from mm_ros.motion.procedural.body import ARMS
from mm_ros.motion.procedural.geometry import from_axes, two_bones
from mm_ros.motion.procedural.smooth import gaussian, minimum_jerk

Array = Any
ARM_REACH = 0.985  # maximum distance from shoulder to wrist, as a share of the arm's length


@dataclass(frozen=True)
class Gesture:
    """A gesture: a hand moves to `target` [m] (ahead, outward, up, relative to the upper chest) and back."""

    side: int
    start: float  # s
    rise: float
    hold: float
    fall: float
    target: tuple[float, float, float]
    elbow: tuple[float, float, float] = (-0.3, 0.5, -1.0)  # direction in which the elbow points (ahead, outward, up)
    stays: bool = False  # whether the target of the hand stays at one place in the room while the person moves
    wave_hz: float = 0.0

    @property
    def stop(self) -> float:
        return self.start + self.rise + self.hold + self.fall


def apply_gestures(clip: Clip, gestures: list[Gesture]) -> Clip:
    rotations = clip.rotations.astype(float)
    positions = clip.positions.astype(float)
    p, q = clip.skeleton.kinematics(positions, rotations)
    heading = rot.from_yaw(gaussian(np.unwrap(rot.yaw_of(q[:, UPPER_CHEST])), 0.1, clip.rate))
    offsets = clip.skeleton.offsets.astype(float)
    for side in (0, 1):
        mine = [g for g in gestures if g.side == side]
        for gesture in mine:
            _apply(rotations, p, q, heading, offsets, clip.rate, gesture)
    rotations *= np.where(rotations[..., :1] < 0, -1.0, 1.0) ** (np.arange(rotations.shape[1]) > 0)[:, None]
    return replace(clip, rotations=rotations.astype(np.float32))


def _apply(rotations: F64, p: F64, q: F64, heading: F64, offsets: F64, rate: float, g: Gesture) -> None:
    first, stop = max(0, int(g.start * rate)), min(len(p), int(np.ceil(g.stop * rate)) + 1)
    if stop - first < 2:
        return
    at = slice(first, stop)
    t = np.arange(first, stop) / rate - g.start
    weight = minimum_jerk(t / g.rise) - minimum_jerk((t - g.rise - g.hold) / g.fall)
    out = np.array([1.0, 1.0 if g.side == 0 else -1.0, 1.0])
    target = np.repeat((np.array(g.target) * out)[None], len(t), 0)
    if g.wave_hz:
        target[:, 1] += 0.11 * weight * np.sin(2 * np.pi * g.wave_hz * t) * out[1]
    goal = p[at, UPPER_CHEST] + rot.rotate(heading[at], target)
    if g.stays:
        there = min(int((g.rise + 0.5 * g.hold) * rate), len(goal) - 1)
        goal = np.repeat(goal[there][None], len(goal), 0)
    shoulder, upper, lower, hand = ARMS[g.side]
    start = p[at, upper]
    lengths = float(np.linalg.norm(offsets[lower])), float(np.linalg.norm(offsets[hand]))
    reach = goal - start
    distance = np.linalg.norm(reach, axis=1, keepdims=True)
    goal = start + reach * np.minimum(1.0, ARM_REACH * sum(lengths) / distance)
    pole = rot.rotate(heading[at], np.repeat(rot.unit(np.array(g.elbow) * out)[None], len(t), 0))
    bones = two_bones(start, goal, pole, *lengths)
    q_upper, q_lower = (_arm_frame(bone, bones[2], g.side) for bone in bones[:2])
    for joint, wanted in (
        (upper, rot.multiply(rot.inverse(q[at, shoulder]), q_upper)),
        (lower, rot.multiply(rot.inverse(q_upper), q_lower)),
    ):
        rotations[at, joint] = slerp(rotations[at, joint], wanted, np.asarray(weight)[..., None])


def _arm_frame(bone: Array, elbow_side: Array, side: int) -> Array:
    """Return the rotation of an arm bone, which in the rest pose points along +y (left) or −y (right)."""
    y = bone if side == 0 else -bone
    x = -rot.unit(elbow_side - (elbow_side * y).sum(-1, keepdims=True) * y)
    return from_axes(x, y, np.cross(x, y))
