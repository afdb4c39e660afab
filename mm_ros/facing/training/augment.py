"""Data augmentation for the training: makes random variants of a motion, as trackers would report the motion.

The random errors differ from those of `mm_ros.tracking.simulation`, because the simulation is used for the validation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F32, F64
from mm_ros.facing.inputs import INPUTS, inputs_sequence
from mm_ros.facing.training.data import Motion
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import smoothstep
from mm_ros.tracking import simulation as sim
from mm_ros.tracking.calibration import CONTROLLER_ALONG_HAND, HEADSET_IN_HEAD

HEADSET: F64 = np.array(HEADSET_IN_HEAD)
# maximum angle by which a head turns relative to the body to look along the path [rad]; glances are added to this angle
FARTHEST_LOOK = np.radians(75)


@dataclass(frozen=True)
class Augmentation:
    """Options of the augmentation: probabilities of an effect in a clip, and sizes of effects, which are standard
    deviations or ranges."""

    mirror: float = 0.5
    reverse: float = 0.15  # probability that a motion is reversed in time, so that forward becomes backward walking
    time: tuple[float, float] = (0.8, 1.25)
    size: tuple[float, float] = (0.85, 1.15)
    height_error: float = 0.03
    reach: tuple[float, float] = (0.95, 1.05)  # range of a random factor on the distance between hands and head
    look_around: float = 0.65
    look_amplitude: tuple[float, float] = (10.0, 75.0)  # range of the largest yaw of a head that looks around [degrees]
    # probability that the head looks to one side during the whole clip, by up to `look_sideways_deg` degrees
    look_sideways: float = 0.05
    look_sideways_deg: float = 50.0
    other_hand: float = 0.12  # probability that a hand moves, relative to the body, like the hand in another clip
    other_head: float = 0.15  # probability that the head turns, relative to the body, like the head in another clip
    gesture: float = 0.1  # probability that a hand reaches to random places and returns in a clip
    # probability that the body is turned relative to its path, so that it steps sideways, backwards or diagonally
    crab: float = 0.2
    crab_deg: float = 100.0
    crab_looks: float = 0.5  # share of the clips with a body turned by `crab` in which the head looks along the path
    head_pitch: float = 6.0  # standard deviation of the pitch [degrees] of a headset that sits turned on the head
    head_yaw: float = 2.0  # standard deviation of the yaw [degrees] of a headset that sits turned on the head
    grip: float = 28.0  # standard deviation of the rotation of controllers on the hands about each axis [degrees]
    wild_grip: float = 0.1  # share of the clips in which the controllers are rotated on the hands nearly at random
    grip_m: float = 0.03
    headset_m: float = 0.02
    noise: float = 0.5
    noise_m: float = 0.003
    noise_deg: float = 0.6
    dropouts: float = 0.35
    one_hand: float = 0.10
    no_hands: float = 0.07
    # probability that the room turns during the clip, as after a re-centring that was not reported
    wrong_past: float = 0.1


NONE = Augmentation(
    mirror=0, reverse=0, time=(1, 1), size=(1, 1), height_error=0, reach=(1, 1), look_around=0, look_sideways=0,
    other_hand=0, other_head=0, gesture=0,
    crab=0, crab_looks=0, head_pitch=0, head_yaw=0, grip=0, wild_grip=0, grip_m=0, headset_m=0, noise=0, dropouts=0,
    one_hand=0, no_hands=0, wrong_past=0,
)  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """Poses and velocities of head, left hand and right hand of one motion, and the true facing `yaw` (F,) [rad]."""

    positions: F64
    rotations: F64
    velocities: F64
    angular_velocities: F64
    state: NDArray[np.uint8]
    height: float
    dt: float
    yaw: F64

    def inputs(self) -> tuple[F32, F64]:
        """Return the inputs (F, INPUTS) of the network and the headings (F,) [rad]; the network predicts the facing
        relative to the heading.
        """
        n = len(self.yaw)
        out, headings = np.empty((n, INPUTS), np.float32), np.empty(n)
        dt = np.full(n, self.dt)
        dt[0] = 0
        inputs_sequence(
            self.positions, self.rotations, self.velocities, self.angular_velocities,
            self.state, self.height, dt, out, headings,
        )  # fmt: skip
        return out, headings


def variant(motion: Motion, how: Augmentation, rng: np.random.Generator, donors: list[Motion] | None = None) -> Variant:
    """Return a variant of a motion with random changes, for the training of the facing network. The motion of a hand or
    of the head may be copied from one of `donors`."""
    p, q, yaw = motion.positions.copy(), motion.rotations.copy(), motion.yaw.copy()
    seams = list(motion.seams)
    if donors:
        for part, share in ((0, how.other_head), (1, how.other_hand), (2, how.other_hand)):
            if rng.random() < share:
                seams += _lend(part, donors[rng.integers(len(donors))], motion.height, p, q, yaw, rng)
    dt = 1 / (motion.rate * rng.uniform(*how.time))
    for hand in (1, 2):
        if rng.random() < how.gesture:
            _gesture(hand, p, q, yaw, dt, motion.height, rng)
    size = rng.uniform(*how.size)
    p *= size
    if rng.random() < how.mirror:
        p, q, yaw = _mirrored(p, q, yaw)
    if rng.random() < how.reverse:
        p, q, yaw, seams = _reversed(p, q, yaw, seams)
    if rng.random() < how.crab:
        angle = np.radians(how.crab_deg) * rng.uniform(-1, 1)
        _crab(angle, p, q, yaw)
        if rng.random() < how.crab_looks:
            _look_along(rng.uniform(0.3, 1) * angle, q)
    times = np.arange(len(yaw)) * dt
    q[:, 0] = _head_with_loose_headset(q[:, 0], times, how, rng)
    p[:, 1:] = p[:, :1] + rng.uniform(*how.reach) * (p[:, 1:] - p[:, :1])
    p[:, 0] += rot.rotate(q[:, 0], HEADSET + how.headset_m * rng.normal(size=3))
    _grip(p, q, how, rng)
    v, w = sim.derivatives(p, q, 1 / dt)
    for seam in seams:
        v[seam - 1], w[seam - 1], v[seam], w[seam] = v[seam - 2], w[seam - 2], v[seam + 1], w[seam + 1]
    if rng.random() < how.wrong_past:
        p, q, v, w, yaw = _spliced(p, q, v, w, yaw, rng)
    if rng.random() < how.noise:
        p, q, v, w = _noisy(p, q, v, w, how, rng)
    state = _state(len(yaw), dt, how, rng)
    height = motion.height * size * (1 + how.height_error * rng.normal())
    return Variant(p, q, v, w, state, height, dt, yaw)


def _lend(part: int, donor: Motion, height: float, p: F64, q: F64, yaw: F64, rng: np.random.Generator) -> list[int]:
    """Copy a hand or the rotation of the head, relative to the body, from the motion `donor`. Return the frames at
    which the pose of the copied hand or head jumps.
    """
    n = len(yaw)
    at = (rng.integers(len(donor)) + np.arange(n)) % len(donor)
    turn = rot.from_yaw(yaw - donor.yaw[at])
    q[:, part] = rot.multiply(turn, donor.rotations[at, part])
    if part:
        reach = (donor.positions[at, part] - donor.positions[at, 0]) * (height / donor.height)
        p[:, part] = p[:, 0] + rot.rotate(turn, reach)
    starts = np.isin(at, [0, *donor.seams])
    return [int(i) for i in np.flatnonzero(starts) if 2 <= i < n - 2]


def _gesture(hand: int, p: F64, q: F64, yaw: F64, dt: float, height: float, rng: np.random.Generator) -> None:
    """Move a hand several times to a random pose in front of or beside the body, and back."""
    times = np.arange(len(yaw)) * dt
    back, body = rot.from_yaw(-yaw), rot.from_yaw(yaw)
    own = rot.rotate(back, p[:, hand] - p[:, 0])
    at = rng.uniform(0, 4)
    while at < times[-1]:
        length, soft = rng.uniform(0.8, 5.0), rng.uniform(0.25, 0.8)
        share = np.clip((times - at) / soft, 0, 1) * np.clip((at + length - times) / soft, 0, 1)
        share = smoothstep(share)
        side = 1.0 if hand == 1 else -1.0
        azimuth = np.radians(rng.normal(25 * side, 50))
        elevation = np.radians(rng.uniform(-70, 70))
        reach = rng.uniform(0.15, 0.38) * height
        shoulder = np.array([-0.05, 0.1 * side, -0.13]) * height
        point = shoulder + reach * np.array(
            [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)]
        )
        own += share[:, None] * (point - own)
        q[:, hand] = rot.multiply(
            rot.multiply(body, rot.exp(share[:, None] * rng.normal(size=3))), rot.multiply(back, q[:, hand])
        )
        at += length + rng.uniform(0.0, 4.0)
    p[:, hand] = p[:, 0] + rot.rotate(body, own)


def _crab(angle: float, p: F64, q: F64, yaw: F64) -> None:
    turn = rot.from_yaw(angle)
    p[:, 1:] = p[:, :1] + rot.rotate(turn, p[:, 1:] - p[:, :1])
    q[:] = rot.multiply(turn, q)
    yaw += angle


def _mirrored(p: F64, q: F64, yaw: F64) -> tuple[F64, F64, F64]:
    order = [0, 2, 1]
    return p[:, order] * [1, -1, 1], q[:, order] * [1, -1, 1, -1], -yaw


def _look_along(angle: float, q: F64) -> None:
    """Turn the head towards its path by up to `FARTHEST_LOOK`, because people look along their path."""
    q[:, 0] = rot.multiply(rot.from_yaw(-np.clip(angle, -FARTHEST_LOOK, FARTHEST_LOOK)), q[:, 0])


def _reversed(p: F64, q: F64, yaw: F64, seams: list[int]) -> tuple[F64, F64, F64, list[int]]:
    return p[::-1], q[::-1], yaw[::-1], [len(yaw) - seam for seam in seams]


def _head_with_loose_headset(head: Any, times: Any, how: Augmentation, rng: np.random.Generator) -> F64:
    if rng.random() < how.look_around:
        amplitude = np.radians(rng.uniform(*how.look_amplitude))
        head = rot.multiply(rot.from_yaw(glances(times, amplitude, rng)), head)
        if rng.random() < 0.5:
            head = rot.multiply(head, _pitch(glances(times, np.radians(rng.uniform(5, 35)), rng)))
    if rng.random() < how.look_sideways:
        head = rot.multiply(rot.from_yaw(np.radians(how.look_sideways_deg) * rng.uniform(-1, 1)), head)
    pitch, yaw = np.radians([how.head_pitch, how.head_yaw]) * rng.normal(size=2)
    return np.asarray(rot.multiply(head, rot.multiply(rot.from_yaw(yaw), _pitch(np.array(pitch)))))


def _pitch(angle: F64) -> F64:
    zero = np.zeros_like(angle)
    return np.stack([np.cos(angle / 2), zero, np.sin(angle / 2), zero], axis=-1)


def glances(times: F64, amplitude: float, rng: np.random.Generator) -> F64:
    """Return random angles (F,) [rad] of a head that looks to the sides and ahead in turn."""
    at, keys, angles, speeds = -rng.uniform(0, 3), [], [], []
    ahead = rng.uniform(0.1, 0.6)
    while at <= times[-1]:
        keys.append(at)
        angles.append(0.0 if rng.random() < ahead else rng.uniform(-amplitude, amplitude))
        speeds.append(rng.uniform(0.15, 0.8))
        at += rng.uniform(0.25, 2.5) if rng.random() < 0.8 else rng.uniform(2.5, 10)
    key, angle = np.array(keys), np.array(angles)
    i = np.searchsorted(key, times, side="right") - 1
    u = np.clip((times - key[i]) / np.array(speeds)[i], 0, 1)
    before = angle[np.maximum(i - 1, 0)]
    return np.asarray(before + (angle[i] - before) * u * u * (3 - 2 * u))


def _grip(p: F64, q: F64, how: Augmentation, rng: np.random.Generator) -> None:
    sd = np.radians(how.grip if rng.random() >= how.wild_grip else 120.0)
    for hand, side in ((1, 1.0), (2, -1.0)):
        offset = np.array([0.0, side * CONTROLLER_ALONG_HAND, 0.0]) + how.grip_m * rng.normal(size=3)
        p[:, hand] += rot.rotate(q[:, hand], offset)
        if how.grip:
            q[:, hand] = rot.multiply(q[:, hand], rot.exp(sd * rng.normal(size=3)))


def _spliced(p: F64, q: F64, v: F64, w: F64, yaw: F64, rng: np.random.Generator) -> tuple[F64, F64, F64, F64, F64]:
    first = int(rng.integers(len(yaw)))
    angle = rng.uniform(-np.pi, np.pi)
    turn = rot.from_yaw(angle)
    for a in (p, v, w):
        a[first:] = rot.rotate(turn, a[first:])
    q[first:] = rot.multiply(turn, q[first:])
    yaw[first:] += angle
    return p, q, v, w, yaw


def _noisy(p: F64, q: F64, v: F64, w: F64, how: Augmentation, rng: np.random.Generator) -> tuple[F64, F64, F64, F64]:
    m, rad = how.noise_m * rng.random(), np.radians(how.noise_deg) * rng.random()
    p = p + m * rng.normal(size=p.shape)
    q = rot.multiply(rot.exp(rad * rng.normal(size=p.shape)), q)
    return p, q, v + 15 * m * rng.normal(size=p.shape), w + 15 * rad * rng.normal(size=p.shape)


def _state(frames: int, dt: float, how: Augmentation, rng: np.random.Generator) -> NDArray[np.uint8]:
    state = np.full((frames, 3), 2, np.uint8)
    kind = rng.random()
    if kind < how.no_hands:
        state[:, 1:] = 0
    elif kind < how.no_hands + how.one_hand:
        state[:, rng.integers(1, 3)] = 0
    if rng.random() < how.dropouts:
        for hand in (1, 2):
            for _ in range(1 + rng.poisson(frames * dt / 6)):
                first = int(rng.integers(frames))
                state[first : first + 1 + int(rng.exponential(0.8) / dt), hand] = 0
    return state
