"""Data augmentation: draw random windows of motion as a headset and two controllers would report them.

The random tracker errors differ from those of `mm_ros.tracking.simulation`, which is used for validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mm_ros.body.types import F32, F64
from mm_ros.facing.training.augment import glances
from mm_ros.maths.signals import smoothstep
from mm_ros.steps.inputs import CHANNELS, HEADING, INPUTS, LEFT_VALID, RATE, inputs_sequence
from mm_ros.steps.outputs import AHEAD_S
from mm_ros.steps.training.data import (
    ANKLES,
    CONTACT,
    FACING,
    HIPS_XY,
    SLOW,
    Source,
    smoothed_speed,
    touchdowns_of,
)
from mm_ros.tracking.calibration import HEADSET_IN_HEAD

EVENT_HALF_TICKS = 2  # `EVENT_HALF_TICKS` time steps before and after a touchdown are labelled as a touchdown, too.


@dataclass(frozen=True)
class Augmentation:
    """Options of the data augmentation: probabilities per window of motion, ranges (two numbers) and standard
    deviations."""

    mirror: float = 0.5
    reverse: float = 0.12
    speed: tuple[float, float] = (0.6, 1.5)
    size: tuple[float, float] = (0.85, 1.2)
    head_lift: tuple[float, float] = (-0.03, 0.22)  # range of an upward shift of head and hands [m]; the legs stay
    height_error: float = 0.02
    shrink: float = 0.40  # share of straight walks that are shortened along the path, so that the steps become short
    shrink_to: tuple[float, float] = (0.0, 0.8)
    sway_bob: tuple[float, float] = (0.6, 1.6)
    look_around: float = 0.5
    look_deg: tuple[float, float] = (8.0, 70.0)
    head_pitch: float = 7.0  # standard deviation of the headset's constant pitch error in a window of motion [deg]
    head_yaw: float = 3.0
    frozen: float = 0.10  # share of windows in which both feet stand still from a random frame on
    body_moves: float = 0.25  # share of windows in which head and hands move as in bends, while the feet do not change
    other_hand: float = 0.25  # probability that a hand moves like the hand in another clip
    still_hand: float = 0.1
    no_hands: float = 0.5
    one_hand: float = 0.1
    dropouts: float = 0.2
    headset_m: float = 0.02
    noise: float = 0.5
    noise_m: float = 0.002
    noise_deg: float = 0.3
    low_rate: float = 0.4
    rates: tuple[float, float] = (15.0, 60.0)
    gaps: float = 0.15


@dataclass
class Window:
    """Inputs (T, INPUTS) and targets of one window of motion.

    The training loss ignores time steps at which `valid` (T,) is 0, and predictions at which `ahead_valid` (T, 3) is 0.
    """

    inputs: F32
    moves: F32  # (T, 2)
    contact: F32  # (T, 2)
    event: F32  # (T, 2)
    ankles: F32  # (T, 2, 3) ankles relative to the floor below the head, in heading axes, divided by standing height
    velocities: F32  # (T, 2, 3)
    ahead: F32  # (T, 3, 2) horizontal displacement of the hips, in heading axes, divided by the standing height
    turned: F32  # (T, 3) angle from the present heading to the facing at the predicted times [rad]
    valid: F32
    ahead_valid: F32


def window(
    sources: Sequence[Source], weights: F64, ticks: int, how: Augmentation, rng: np.random.Generator
) -> Window:
    """Make a randomly changed window of motion from one of `sources`, drawn with the probabilities `weights`."""
    source = sources[int(rng.choice(len(sources), p=weights))]
    c, valid = _cut(source, ticks, how, rng)
    height = source.height
    if rng.random() < how.reverse and valid.all():
        c = c[::-1].copy()
    if rng.random() < how.mirror:
        c = mirrored(c)
    if rng.random() < how.shrink:
        shrink(c, valid, rng.uniform(*how.shrink_to))
    if rng.random() < how.frozen:
        _freeze(c, rng)
    size = rng.uniform(*how.size)
    _scale(c, size)
    height *= size
    lift = rng.uniform(*how.head_lift)
    c[:, [2, 8, 11]] += lift
    height += lift
    _sway_bob(c, how, rng)
    for hand in range(2):
        if rng.random() < how.other_hand:
            _borrow(c, hand, sources[int(rng.integers(len(sources)))], height, rng)
        elif rng.random() < how.still_hand:
            _still_hand(c, hand, rng)
    if rng.random() < how.body_moves:
        _body_moves(c, height, rng)
    times = np.arange(len(c)) / RATE
    _device(c, times, how, rng)
    speed = smoothed_speed(c[:, ANKLES])
    shown = c[:, :CHANNELS].copy()
    shown[:, LEFT_VALID:] = _validity(len(c), how, rng)
    _sampled(shown, how, rng)
    believed = height * (1 + how.height_error * rng.normal())
    return _targets(shown, c, speed, believed, valid, ticks)


def _cut(source: Source, ticks: int, how: Augmentation, rng: np.random.Generator) -> tuple[F64, F64]:
    """Cut a window of motion and the second after the window from a clip, at a random playback speed; beyond the end of
    the clip, the last pose is repeated."""
    n = ticks + round(AHEAD_S[-1] * RATE) + 1
    step = rng.uniform(*how.speed)
    span = (n - 1) * step
    start = rng.uniform(0, max(len(source) - 1 - 0.75 * span, 1e-6))
    at = start + step * np.arange(n)
    valid = (at <= len(source) - 1).astype(np.float64)
    at = np.minimum(at, len(source) - 1.000001)
    i = at.astype(np.int64)
    u = (at - i)[:, None]
    c = source.columns
    return np.asarray((1 - u) * c[i] + u * c[np.minimum(i + 1, len(c) - 1)], np.float64), valid


def mirrored(c: F64) -> F64:
    out = c.copy()
    out[:, [6, 7, 8, 9, 10, 11, 12, 13]] = c[:, [9, 10, 11, 6, 7, 8, 13, 12]]
    a = ANKLES.start
    out[:, [a, a + 1, a + 2, a + 3, a + 4, a + 5]] = c[:, [a + 3, a + 4, a + 5, a, a + 1, a + 2]]
    k = CONTACT.start
    out[:, [k, k + 1]] = c[:, [k + 1, k]]
    out[:, [1, HEADING, 5, 7, 10, a + 1, a + 4, FACING, HIPS_XY.start + 1]] *= -1
    return out


def shrink(c: F64, valid: F64, factor: float) -> None:
    """Shorten the path of a straight walk by `factor`, in place, and leave other motion unchanged."""
    last = int(valid.sum()) - 1
    way = c[last, :2] - c[0, :2]
    length = float(np.hypot(*way))
    if length < 0.8:
        return
    d = way / length
    across = (c[: last + 1, :2] - c[0, :2]) @ np.array([-d[1], d[0]])
    if np.ptp(across) > 0.35 * length:
        return
    before = c[:, :2].copy()
    for at in (0, ANKLES.start, ANKLES.start + 3, HIPS_XY.start):
        along = (c[:, at : at + 2] - before[0]) @ d
        c[:, at : at + 2] -= ((1 - factor) * along)[:, None] * d
    moved = c[:, :2] - before
    c[:, 6:8] += moved
    c[:, 9:11] += moved


def _freeze(c: F64, rng: np.random.Generator) -> None:
    contact = np.flatnonzero(c[:, CONTACT].min(1) > 0.5)
    if not len(contact):
        return
    first = int(contact[rng.integers(len(contact))]) if rng.random() < 0.5 else int(contact[0])
    n = len(c) - first
    height = c[first, 2]
    hand = c[first:, 6:12] - np.tile(c[first:, :3], 2)
    yaw, pitch, roll = (c[first:, k] - c[first, k] for k in (HEADING, 4, 5))
    c[first:] = c[first]
    c[first:, 4] += pitch
    c[first:, 5] += roll
    c[first:, HEADING] += np.clip(yaw, -0.5, 0.5)
    sway = _slow_noise(n, rng.uniform(0.3, 1.2), rng) * rng.uniform(0.002, 0.02) * height
    sway -= sway[0]
    sway[:, 2] *= 0.3
    c[first:, :3] += sway
    if rng.random() < 0.5:
        c[first:, 6:12] = np.tile(c[first:, :3], 2) + hand
    else:
        c[first:, 6:9] += sway
        c[first:, 9:12] += sway
    c[first:, HIPS_XY] += 0.8 * sway[:, :2]


def _slow_noise(n: int, hz: float, rng: np.random.Generator) -> F64:
    """Return smooth random noise (n, 3) with a standard deviation near 1 and frequencies up to about `hz`."""
    keys = max(4, int(n / RATE * 2 * hz) + 4)
    at = np.linspace(0, keys - 3.001, n)
    k = rng.normal(size=(keys, 3))
    i = at.astype(int)
    u = (at - i)[:, None]
    u = u * u * (3 - 2 * u)
    return np.asarray((1 - u) * k[i] + u * k[i + 1])


def _scale(c: F64, size: float) -> None:
    c[:, [0, 1, 2, *range(6, 12), *range(ANKLES.start, ANKLES.stop), HIPS_XY.start, HIPS_XY.start + 1]] *= size


def _sway_bob(c: F64, how: Augmentation, rng: np.random.Generator) -> None:
    """Scale the fast part of the lateral and vertical motion of head and hands by random factors."""
    p = c[:, :3]
    slow = _smooth(p, 0.5)
    fast = p - slow
    yaw = _smooth(c[:, HEADING : HEADING + 1], 0.4)[:, 0]
    left = np.stack([-np.sin(yaw), np.cos(yaw)], -1)
    lateral = (fast[:, :2] * left).sum(-1)
    change = np.zeros_like(fast)
    change[:, :2] = (rng.uniform(*how.sway_bob) - 1) * lateral[:, None] * left
    change[:, 2] = (rng.uniform(*how.sway_bob) - 1) * np.clip(fast[:, 2], -0.06, 0.06)
    for at in (0, 6, 9):
        c[:, at : at + 3] += change


def _smooth(x: F64, seconds: float) -> F64:
    """Smooth `x` along its first axis by three moving averages, which together are close to a Gaussian filter."""
    n = max(1, int(seconds * RATE / 2))
    for _ in range(3):
        padded = np.concatenate([np.repeat(x[:1], n, 0), x, np.repeat(x[-1:], n, 0)])
        total = np.cumsum(np.concatenate([np.zeros((1, x.shape[1])), padded]), axis=0)
        x = (total[2 * n + 1 :] - total[: -2 * n - 1]) / (2 * n + 1)
    return x


def _borrow(c: F64, hand: int, donor: Source, height: float, rng: np.random.Generator) -> None:
    at = (rng.integers(len(donor)) + np.arange(len(c))) % (2 * len(donor))
    at = np.minimum(at, 2 * len(donor) - 1 - at)  # the donor's motion is played forward and then backward
    own = 6 + 3 * hand
    turn = c[:, HEADING] - donor.columns[at, HEADING]
    reach = (donor.columns[at, own : own + 3] - donor.columns[at, :3]) * (height / donor.height)
    cos, sin = np.cos(turn), np.sin(turn)
    c[:, own] = c[:, 0] + cos * reach[:, 0] - sin * reach[:, 1]
    c[:, own + 1] = c[:, 1] + sin * reach[:, 0] + cos * reach[:, 1]
    c[:, own + 2] = c[:, 2] + reach[:, 2]


def _still_hand(c: F64, hand: int, rng: np.random.Generator) -> None:
    own = 6 + 3 * hand
    f = int(rng.integers(len(c)))
    yaw = _smooth(c[:, FACING : FACING + 1], 0.3)[:, 0]
    turn = yaw - yaw[f]
    reach = c[f, own : own + 3] - c[f, :3]
    cos, sin = np.cos(turn), np.sin(turn)
    c[:, own] = c[:, 0] + cos * reach[0] - sin * reach[1]
    c[:, own + 1] = c[:, 1] + sin * reach[0] + cos * reach[1]
    c[:, own + 2] = c[:, 2] + reach[2]


def _body_moves(c: F64, height: float, rng: np.random.Generator) -> None:
    n = len(c)
    times = np.arange(n) / RATE
    at = rng.uniform(0.3, 3.0)
    squats = rng.random() < 0.6
    period = rng.uniform(0.8, 2.6)
    while at < times[-1]:
        down, up, stay = rng.uniform(0.25, 1.0), rng.uniform(0.25, 1.0), rng.uniform(0.0, 1.5) * (rng.random() < 0.5)
        share = np.clip((times - at) / down, 0, 1) * np.clip((at + down + stay + up - times) / up, 0, 1)
        share = smoothstep(share)
        yaw = c[min(int(at * RATE), n - 1), FACING] + rng.normal() * (0.3 if squats else 1.5)
        depth = (rng.uniform(0.05, 0.45) if squats else rng.uniform(0.0, 0.04)) * height
        ahead = (rng.normal() * 0.05 if squats else rng.uniform(0.02, 0.12)) * height
        pitch = rng.normal() * 0.3
        shift = np.stack([share * ahead * np.cos(yaw), share * ahead * np.sin(yaw), -share * depth], -1)
        for k in (0, 6, 9):
            c[:, k : k + 3] += shift
        c[:, 4] += share * pitch
        at += down + stay + up + rng.uniform(0.0, 0.6) * period


def _device(c: F64, times: F64, how: Augmentation, rng: np.random.Generator) -> None:
    """Add constant errors to the headset pose, and turn the head about its joint as if the user looked around.
    """
    before = c[:, HEADING : HEADING + 2].copy()
    if rng.random() < how.look_around:
        amplitude = np.radians(rng.uniform(*how.look_deg))
        c[:, HEADING] += glances(times, amplitude, rng)
        c[:, 4] += glances(times, np.radians(rng.uniform(3, 25)), rng)
    pitch, yaw = np.radians([how.head_pitch, how.head_yaw]) * rng.normal(size=2)
    c[:, 4] += pitch
    c[:, HEADING] += yaw
    for arm, heading, tilt in (
        (-np.array(HEADSET_IN_HEAD), before[:, 0], before[:, 1]),
        (np.array(HEADSET_IN_HEAD) + how.headset_m * rng.normal(size=3), c[:, HEADING], c[:, 4]),
    ):
        cos, sin = np.cos(heading), np.sin(heading)
        ahead = arm[0] * np.cos(tilt) + arm[2] * np.sin(tilt)
        c[:, 0] += cos * ahead - sin * arm[1]
        c[:, 1] += sin * ahead + cos * arm[1]
        c[:, 2] += arm[2] * np.cos(tilt) - arm[0] * np.sin(tilt)


def _validity(n: int, how: Augmentation, rng: np.random.Generator) -> F64:
    out = np.ones((n, 2))
    kind = rng.random()
    if kind < how.no_hands:
        out[:] = 0
    elif kind < how.no_hands + how.one_hand:
        out[:, rng.integers(2)] = 0
    if rng.random() < how.dropouts:
        for hand in range(2):
            first = int(rng.integers(n))
            out[first : first + int(rng.exponential(0.8) * RATE) + 1, hand] = 0
    return out


def _sampled(shown: F64, how: Augmentation, rng: np.random.Generator) -> None:
    """Add noise to the tracked poses, take fewer samples as from slow devices, and interpolate them to 60 Hz."""
    n = len(shown)
    if rng.random() < how.noise:
        m, rad = how.noise_m * rng.random(), np.radians(how.noise_deg) * rng.random()
        shown[:, [0, 1, 2, *range(6, 12)]] += m * rng.normal(size=(n, 9))
        shown[:, HEADING : HEADING + 3] += rad * rng.normal(size=(n, 3))
    if rng.random() >= how.low_rate:
        return
    dt = RATE / rng.uniform(*how.rates)
    steps = dt * rng.uniform(0.9, 1.1, size=int(n / (0.9 * dt)) + 3)
    if rng.random() < how.gaps:
        late = rng.random(len(steps)) < 0.03
        steps[late] = rng.uniform(dt, max(0.15 * RATE, 1.2 * dt), late.sum())
    at = np.concatenate([[0.0], np.cumsum(steps)])
    at = at[: np.searchsorted(at, n - 1) + 1]
    at[-1] = min(at[-1], n - 1)
    i = np.minimum(at.astype(np.int64), n - 2)
    u = (at - i)[:, None]
    samples = (1 - u) * shown[i] + u * shown[i + 1]
    grid = np.arange(n, dtype=np.float64)
    for k in range(12):
        shown[:, k] = np.interp(grid, at, samples[:, k])


def _targets(shown: F64, c: F64, speed: F64, height: float, valid: F64, ticks: int) -> Window:
    inputs = np.empty((ticks, INPUTS), np.float32)
    inputs_sequence(shown[:ticks], height, inputs)
    event = np.zeros((len(c), 2), np.float32)
    for foot in range(2):
        ankle = c[:, ANKLES.start + 3 * foot : ANKLES.start + 3 * foot + 3]
        for f in np.flatnonzero(touchdowns_of(speed[:, foot], np.ascontiguousarray(ankle))):
            event[max(f - EVENT_HALF_TICKS, 0) : f + EVENT_HALF_TICKS + 1, foot] = 1.0
    heading = shown[:ticks, HEADING]
    cos, sin = np.cos(heading)[:, None], np.sin(heading)[:, None]

    def turned(v: F64) -> F64:
        return np.stack([cos * v[..., 0] + sin * v[..., 1], -sin * v[..., 0] + cos * v[..., 1], v[..., 2]], -1)

    ankles = c[:, ANKLES].reshape(-1, 2, 3)
    floor = np.concatenate([shown[:, :2], np.zeros((len(c), 1))], axis=1)[:, None]
    relative = turned((ankles - floor)[:ticks]) / height
    velocities = turned(np.gradient(_smooth(c[:, ANKLES], 0.05), 1 / RATE, axis=0).reshape(-1, 2, 3)[:ticks]) / height
    later = np.arange(ticks)[:, None] + np.round(np.array(AHEAD_S) * RATE).astype(int)
    shift = c[later][..., HIPS_XY] - c[:ticks, None, HIPS_XY]
    flat = np.concatenate([shift, np.zeros((*shift.shape[:2], 1))], axis=-1)
    facing = c[later, FACING] - heading[:, None]
    # The loss ignores the first time steps, when the network's memory is still empty, and the ends of clips, where the
    # pose is repeated.
    judged = valid[:ticks].copy()
    judged[:10] = 0
    end = int(valid.sum())
    judged[max(end - 4, 0) :] = 0
    return Window(
        inputs, (speed[:ticks] > SLOW).astype(np.float32), c[:ticks, CONTACT].astype(np.float32), event[:ticks],
        relative.astype(np.float32), velocities.astype(np.float32), (turned(flat)[..., :2] / height).astype(np.float32),
        facing.astype(np.float32), judged.astype(np.float32), (valid[later] * judged[:, None]).astype(np.float32),
    )  # fmt: skip
