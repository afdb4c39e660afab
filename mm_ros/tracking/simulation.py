"""Simulates the trackers on a moving body, for training, tests and evaluation.

By default, the headset is at (0.10, 0, 0.08) m from the head joint in head axes, and each controller is 0.08 m from the
wrist along the hand. By default, the trackers are simulated at 90 frames per second. Noise, losses of controllers,
rotations of controllers in the hands and turns of the head are options; their random numbers follow from a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import LEFT_UPPER_LEG, RIGHT_UPPER_LEG
from mm_ros.body.types import (  # fmt: skip
    CHEST_ROLE,
    EXTRAPOLATED,
    F64,
    HEAD_ROLE,
    JOINT_OF_ROLE,
    LEFT_FOOT_ROLE,
    LEFT_FOREARM_ROLE,
    LEFT_HAND_ROLE,
    LEFT_KNEE_ROLE,
    LOST,
    RIGHT_FOOT_ROLE,
    RIGHT_FOREARM_ROLE,
    RIGHT_HAND_ROLE,
    RIGHT_KNEE_ROLE,
    TRACKED,
    WAIST_ROLE,
    R,
    TrackerFrame,
)
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import catmull_rom, continuous
from mm_ros.tracking.calibration import CONTROLLER_ALONG_HAND, HEADSET_IN_HEAD

RATE = 90.0  # frame rate of a usual headset [Hz]
# usual position of each body tracker on its strap, in the axes of the joint that carries it [m]
STRAPPED: dict[int, tuple[float, float, float]] = {
    WAIST_ROLE: (0.12, 0.0, 0.03), LEFT_FOOT_ROLE: (0.09, 0.0, 0.02), RIGHT_FOOT_ROLE: (0.09, 0.0, 0.02),
    CHEST_ROLE: (0.12, 0.0, 0.0), LEFT_KNEE_ROLE: (0.07, 0.0, -0.06), RIGHT_KNEE_ROLE: (0.07, 0.0, -0.06),
    LEFT_FOREARM_ROLE: (0.0, 0.08, 0.05), RIGHT_FOREARM_ROLE: (0.0, -0.08, 0.05),
}  # fmt: skip


@dataclass(frozen=True)
class Simulation:
    """Options of the simulated devices, which by default have no errors and sit at their usual places on the body."""

    rate: float = RATE
    headset_in_head: tuple[float, float, float] = HEADSET_IN_HEAD
    controller_along_hand: float = CONTROLLER_ALONG_HAND
    noise_m: float = 0.0  # standard deviation of the noise of a device's position, per axis [m]
    noise_rad: float = 0.0
    grip_sd_rad: float = 0.0  # standard deviation of the constant rotation of each controller in the hand, per axis
    grip_sd_m: float = 0.0
    dropouts_per_minute: float = 0.0  # average number of times per minute that a controller is lost
    dropout_s: float = 0.5  # mean time for which a controller is lost [s]
    look_around_rad: float = 0.0  # maximum yaw of the head relative to the captured head while the user looks around
    level_pitch: bool = True
    # true if the constant yaw of the head relative to the pelvis is removed, which is done only for training
    remove_yaw_bias: bool = False
    waist: bool = False
    feet: bool = False
    chest: bool = False
    knees: bool = False
    forearms: bool = False
    straps: bool = False  # true if body trackers are at random places on straps, false if exactly at their joints
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1.0 <= self.rate <= 10_000.0:
            raise MmRosError(f"simulated trackers: rate: expected 1 to 10000 Hz, came {self.rate:g}")
        if not np.isfinite(self.headset_in_head).all():
            raise MmRosError(f"simulated trackers: headset: expected x, y and z, came {self.headset_in_head}")
        for name in ("noise_m", "noise_rad", "grip_sd_rad", "grip_sd_m", "dropouts_per_minute", "dropout_s", "seed"):
            if not 0 <= getattr(self, name) < np.inf:
                raise MmRosError(f"simulated trackers: {name}: expected 0 or more, came {getattr(self, name):g}")
        if not np.isfinite(self.look_around_rad):
            raise MmRosError(f"simulated trackers: look_around_rad: expected an angle, came {self.look_around_rad:g}")


@dataclass(frozen=True)
class TrackerTrack:
    """Simulated trackers: arrays over F frames and the R roles (headset, controllers, body trackers)."""

    stamps_ns: NDArray[np.int64]  # (F,)
    positions: F64  # (F, R, 3)
    rotations: F64  # (F, R, 4)
    velocities: F64  # (F, R, 3)
    angular_velocities: F64  # (F, R, 3) room axes
    state: NDArray[np.uint8]  # (F, R)
    epoch: int = 0

    def __len__(self) -> int:
        return len(self.stamps_ns)

    def frame(self, i: int) -> TrackerFrame:
        return TrackerFrame(
            int(self.stamps_ns[i]), self.epoch, *self.row(i), np.where(self.present, self.stamps_ns[i], 0)
        )

    def row(self, i: int) -> tuple[F64, F64, F64, F64, NDArray[np.uint8]]:
        """Return copies of positions, rotations, velocities, angular velocities and states of all roles in frame i."""
        return (
            self.positions[i].copy(), self.rotations[i].copy(), self.velocities[i].copy(),
            self.angular_velocities[i].copy(), self.state[i].copy(),
        )  # fmt: skip

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Array (R,) that is true for each role whose device is tracked in at least one frame."""
        return np.asarray((self.state != LOST).any(0))


def simulate_clip(clip: Clip, options: Simulation = Simulation(), start_ns: int = 0) -> TrackerTrack:
    positions, rotations = clip.globals()
    return simulate(positions, rotations, clip.rate, options, start_ns)


def simulate(
    positions: Any, rotations: Any, rate: float, options: Simulation = Simulation(), start_ns: int = 0,
    head_axes_local: F64 | None = None,
    times: F64 | None = None,
) -> TrackerTrack:  # fmt: skip
    """Simulate trackers on a body with joint positions (F, J, 3) and rotations (F, J, 4) in the room at `rate` [Hz].

    `head_axes_local` (4,) is the rotation from the axes of the head joint to the head axes (x forward, y left, z up);
    by default it is estimated from the motion.
    `times` are the sample times [s] of the trackers; by default they start at 0 with `options.rate`.
    """
    joints = np.array([*JOINT_OF_ROLE, LEFT_UPPER_LEG, RIGHT_UPPER_LEG])
    if len(positions) < 2:
        raise MmRosError(f"simulated trackers need at least two frames of motion, came {len(positions)}")
    p = np.asarray(positions, np.float64)[:, joints]
    q = np.asarray(rotations, np.float64)[:, joints]
    if head_axes_local is None:
        head_axes_local = head_axes(q[:, 0], facing(p[:, R], p[:, R + 1]), options.level_pitch, options.remove_yaw_bias)
    hands_local = np.stack(
        [hand_axis(q[:, h], p[:, h] - p[:, f])
         for h, f in ((LEFT_HAND_ROLE, LEFT_FOREARM_ROLE), (RIGHT_HAND_ROLE, RIGHT_FOREARM_ROLE))]
    )  # fmt: skip
    times = sample_times(len(p), rate, options.rate) if times is None else times
    p, q = resample(p[:, :R], q[:, :R], rate, times)

    rng = np.random.default_rng(options.seed)
    q[:, HEAD_ROLE] = rot.multiply(q[:, HEAD_ROLE], head_axes_local)
    if options.look_around_rad:
        turn = look_around(times, options.look_around_rad, rng)
        q[:, HEAD_ROLE] = rot.multiply(rot.from_yaw(turn), q[:, HEAD_ROLE])
    p[:, HEAD_ROLE] += rot.rotate(q[:, HEAD_ROLE], np.array(options.headset_in_head))
    for role, axis in ((LEFT_HAND_ROLE, hands_local[0]), (RIGHT_HAND_ROLE, hands_local[1])):
        offset = axis * options.controller_along_hand + options.grip_sd_m * rng.normal(size=3)
        p[:, role] += rot.rotate(q[:, role], offset)
        q[:, role] = rot.multiply(q[:, role], rot.exp(options.grip_sd_rad * rng.normal(size=3)))
    if options.straps:
        for role, mounting in random_mountings(options.seed).items():
            p[:, role] += rot.rotate(q[:, role], mounting[:3])
            q[:, role] = rot.multiply(q[:, role], mounting[3:])
    v, w = derivatives(p, q, options.rate)
    if options.noise_m or options.noise_rad:
        p, q, v, w = _noisy(p, q, v, w, options, rng)
    state = _state(len(p), options, rng)
    return _track(p, q, v, w, state, start_ns + np.round(times * 1e9).astype(np.int64))


def random_mountings(seed: int) -> dict[int, F64]:
    """Return a random pose of each body tracker in the axes of its joint, as a person could have strapped it on.

    The position of a device differs from the usual one (`STRAPPED`) by up to 4 cm per axis. The yaw is random, the tilt
    is up to 35°, and a quarter of the devices are upside down.
    """
    rng = np.random.default_rng([seed, 77])
    out = {}
    for role, place in STRAPPED.items():
        tilt = rot.exp(np.append(rng.uniform(-0.43, 0.43, 2), 0.0))
        over = rot.exp(np.array([np.pi if rng.uniform() < 0.25 else 0.0, 0.0, 0.0]))
        turned = rot.multiply(rot.multiply(tilt, rot.from_yaw(rng.uniform(-np.pi, np.pi))), over)
        out[role] = np.concatenate([np.array(place) + rng.uniform(-0.04, 0.04, 3), turned])
    return out


def sample_times(frames: int, rate: float, new_rate: float) -> F64:
    """Return the sample times [s] at `new_rate` [Hz] within a motion of `frames` frames at `rate` [Hz]."""
    last = (frames - 1) / rate
    return np.arange(int(np.floor(last * new_rate + 1e-6)) + 1) / new_rate


def resample(p: F64, q: F64, rate: float, times: F64) -> tuple[F64, F64]:
    """Resample a motion to `times` [s] by cubic interpolation; linear interpolation would make the velocity jump."""
    at = np.clip(times * rate, 0, len(p) - 1)
    i = np.minimum(at.astype(int), len(p) - 2)
    u = (at - i)[:, None, None]
    p, q = _continued(p), _continued(continuous(q))  # `_continued` adds a frame in front: frame i has the index i + 1
    out_p = catmull_rom([p[i + k] for k in range(4)], u)
    return out_p, rot.normalize(catmull_rom([q[i + k] for k in range(4)], u))


def _continued(a: F64) -> F64:
    return np.concatenate([2 * a[:1] - a[1:2], a, 2 * a[-1:] - a[-2:-1]])


def derivatives(p: F64, q: F64, rate: float) -> tuple[F64, F64]:
    """Return velocities and angular velocities of the poses `p`, `q` in room axes, by central differences."""
    v = np.gradient(p, 1 / rate, axis=0)
    step = rot.log(rot.multiply(q[1:], rot.inverse(q[:-1]))) * rate
    w = np.concatenate([step[:1], (step[1:] + step[:-1]) / 2, step[-1:]])
    return v, w


def facing(left_hip: F64, right_hip: F64) -> F64:
    """Return the direction in which the pelvis faces in each frame, as horizontal unit vectors (F, 3).

    Frames in which one hip is exactly above the other hip get the mean direction of all frames.
    """
    side = (left_hip - right_hip)[:, :2]
    forward = np.stack([side[:, 1], -side[:, 0], np.zeros(len(side))], axis=-1)
    length = np.linalg.norm(forward, axis=-1, keepdims=True)
    mean = forward.sum(0) / max(float(np.linalg.norm(forward.sum(0))), 1e-9)
    return np.asarray(np.where(length > 1e-6, forward / np.maximum(length, 1e-9), mean))


def head_axes(head_rotations: F64, facing_room: F64, level_pitch: bool = True, remove_yaw_bias: bool = False) -> F64:
    """Return the head axes (x forward, y left, z up) in the axes of the head joint, as a quaternion.

    The axes of the head joint differ between skeletons, so the head axes are the local axes that are nearest to the
    mean directions up and forward. The median pitch that remains in the head axes is an error of the marker placement,
    and is removed if `level_pitch` is true. The constant yaw of the head is removed only if `remove_yaw_bias` is true,
    because this yaw is not known in live use.
    """
    back = rot.inverse(head_rotations)
    up = _nearest_axis(rot.rotate(back, np.array([0.0, 0.0, 1.0])).mean(0))
    ahead = rot.rotate(back, facing_room).mean(0)
    forward = _nearest_axis(np.where(np.abs(up) > 0.5, 0.0, ahead))
    axes = _quaternion_of_axes(forward, up)
    # A correction of the pitch of the head axes changes their yaw and vice versa, so both corrections are repeated.
    for _ in range(6 if remove_yaw_bias and level_pitch else 1):
        if remove_yaw_bias:
            seen = rot.rotate(rot.inverse(rot.multiply(head_rotations, axes)), facing_room).mean(0)
            axes = rot.multiply(axes, rot.from_yaw(np.arctan2(seen[1], seen[0])))
        if level_pitch:
            looking = rot.rotate(rot.multiply(head_rotations, axes), np.array([1.0, 0.0, 0.0]))
            pitch_up = float(np.median(np.arcsin(np.clip(looking[:, 2], -1, 1))))
            axes = rot.multiply(axes, rot.exp(np.array([0.0, pitch_up, 0.0])))
    return np.asarray(axes, np.float64)


def hand_axis(hand_rotations: F64, forearm_room: F64) -> F64:
    """Return the local axis of the hand, with its sign, that points along the hand and away from the elbow."""
    return _nearest_axis(rot.rotate(rot.inverse(hand_rotations), forearm_room).mean(0))


def _nearest_axis(v: F64) -> F64:
    out = np.zeros(3)
    k = int(np.argmax(np.abs(v)))
    out[k] = 1.0 if v[k] >= 0 else -1.0
    return out


def _quaternion_of_axes(forward: F64, up: F64) -> F64:
    turn = rot.between(np.array([1.0, 0.0, 0.0]), forward)
    z = rot.rotate(turn, np.array([0.0, 0.0, 1.0]))
    angle = np.arctan2(float(np.dot(np.cross(z, up), forward)), float(np.dot(z, up)))
    return np.asarray(rot.multiply(rot.exp(angle * forward), turn), np.float64)


def look_around(times: F64, amplitude: float, rng: np.random.Generator) -> F64:
    """Return the yaw (F,) [rad] of the simulated user's head while the user looks around.

    The head turns in a new direction within 0.3 s, and turns again 0.3 to 2.5 s after the last turn began.
    """
    keys: list[float] = [0.0]
    while keys[-1] <= times[-1]:
        keys.append(keys[-1] + rng.uniform(0.3, 2.5))
    # Every second glance of the simulated user is straight ahead.
    yaws = np.array([rng.uniform(-amplitude, amplitude) if i % 2 else 0.0 for i in range(len(keys))])
    i = np.searchsorted(np.array(keys), times, side="right") - 1
    u = np.clip((times - np.array(keys)[i]) / 0.3, 0, 1)
    previous = yaws[np.maximum(i - 1, 0)]
    return np.asarray(previous + (yaws[i] - previous) * (u * u * u * (10 + u * (6 * u - 15))), np.float64)


def _noisy(p: F64, q: F64, v: F64, w: F64, options: Simulation, rng: np.random.Generator) -> tuple[F64, F64, F64, F64]:
    """Add noise. The velocities get less noise than differences of positions would, as with real inertial sensors."""
    # The chest tracker and later devices use other random numbers, so that the noise of earlier devices stays equal.
    later = np.random.default_rng([options.seed, 78])

    def normal() -> F64:
        first = rng.normal(size=(len(p), CHEST_ROLE, 3))
        return np.concatenate([first, later.normal(size=(len(p), R - CHEST_ROLE, 3))], axis=1)

    p = p + options.noise_m * normal()
    q = rot.multiply(rot.exp(options.noise_rad * normal()), q)
    return p, q, v + 10 * options.noise_m * normal(), w + 10 * options.noise_rad * normal()


def _state(frames: int, options: Simulation, rng: np.random.Generator) -> NDArray[np.uint8]:
    state = np.full((frames, R), LOST, np.uint8)
    state[:, [HEAD_ROLE, LEFT_HAND_ROLE, RIGHT_HAND_ROLE]] = TRACKED
    if options.waist:
        state[:, WAIST_ROLE] = TRACKED
    if options.feet:
        state[:, [LEFT_FOOT_ROLE, RIGHT_FOOT_ROLE]] = TRACKED
    if options.chest:
        state[:, CHEST_ROLE] = TRACKED
    if options.knees:
        state[:, [LEFT_KNEE_ROLE, RIGHT_KNEE_ROLE]] = TRACKED
    if options.forearms:
        state[:, [LEFT_FOREARM_ROLE, RIGHT_FOREARM_ROLE]] = TRACKED
    for role in (LEFT_HAND_ROLE, RIGHT_HAND_ROLE):
        for _ in range(rng.poisson(options.dropouts_per_minute * frames / options.rate / 60)):
            first = int(rng.integers(frames))
            guessed = first + int(0.1 * options.rate)
            stop = first + max(1, int(rng.exponential(options.dropout_s) * options.rate))
            state[first : min(guessed, stop), role] = EXTRAPOLATED
            state[guessed:stop, role] = LOST
    return state


def _track(p: F64, q: F64, v: F64, w: F64, state: NDArray[np.uint8], stamps: NDArray[np.int64]) -> TrackerTrack:
    """Make a track. A lost tracker keeps its last pose and has the velocity 0, as in the reports of real devices."""
    for role in range(R):
        lost = state[:, role] == LOST
        last = np.maximum.accumulate(np.where(lost, -1, np.arange(len(p))))
        held = lost & (last >= 0)
        p[held, role], q[held, role] = p[last[held], role], q[last[held], role]
        never = last < 0
        p[never, role], q[never, role] = 0.0, (1.0, 0.0, 0.0, 0.0)
        v[lost, role] = w[lost, role] = 0.0
    return TrackerTrack(stamps, p, q, v, w, state)
