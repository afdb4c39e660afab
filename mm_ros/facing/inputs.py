"""Computes the inputs of the facing networks from trackers, by the same compiled code in training and in live use.

All inputs are in axes with x in the heading of the headset, so the axes of the room have no effect on a network.
The inputs contain averages of past frames over up to 15 s. The averages are stored in room axes, so that a turn of the
head does not change them, and rotated into the axes of the heading at each frame.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F32, F64
from mm_ros.maths.jit import njit

TAUS: tuple[float, ...] = (0.05, 0.15, 0.5, 1.5, 5.0, 15.0)  # time constants [s] of the averages in the network inputs
_TAUS = np.array(TAUS)

# The blocks of the network inputs in their order, each with its size. `layout_hash` hashes the texts of the blocks, so
# networks that were trained before the change of a text are refused.
BLOCKS: tuple[tuple[str, int], ...] = (
    ("head: forward and up axis (heading frame)", 6),
    ("head: velocity / height", 3),
    ("head: angular velocity, rad/s", 3),
    ("head: height / height", 1),
    ("left hand: (position from head, velocity) / height, angular velocity, forward, up, valid", 16),
    ("right hand: the same", 16),
    ("hands: horizontal unit vector right to left, its length / height", 3),
    ("hands: horizontal unit vector head to their middle", 2),
    ("averages: heading 2, velocity 2, height, speed, a hand: position 3, forward 2; other", 16 * len(TAUS)),
)
HEAD_CHANNELS, HAND_CHANNELS = 6, 5
CHANNELS = HEAD_CHANNELS + 2 * HAND_CHANNELS
INPUTS = 50 + CHANNELS * len(TAUS)
assert sum(n for _, n in BLOCKS) == INPUTS


def mirror() -> tuple[NDArray[np.int64], F32]:
    """Return `order` and `signs` (INPUTS,) with which `inputs[order] * signs` are the inputs of the mirrored motion."""
    order, signs = np.arange(INPUTS), np.ones(INPUTS, np.float32)
    left, right, lines, averages = 13, 29, 45, 50
    # in the mirrored motion, the y of vectors and the x and z of angular velocities change sign
    head_turned = [1, 4, 7, 9, 11]
    order[left:right], order[right:lines] = np.arange(right, lines), np.arange(left, right)
    hand_turned = [1, 4, 6, 8, 10, 13]
    flipped = [*head_turned, *(hand + i for hand in (left, right) for i in hand_turned)]
    # in the mirrored motion, x of the line between the hands and y of the line from head to their middle change sign
    flipped += [lines, lines + 4]
    for base in range(averages, INPUTS, CHANNELS):
        hands = [base + HEAD_CHANNELS, base + HEAD_CHANNELS + HAND_CHANNELS]
        flipped += [base + 1, base + 3, *(hand + i for hand in hands for i in (1, 4))]
        for own, other in (hands, hands[::-1]):
            order[own : own + HAND_CHANNELS] = np.arange(other, other + HAND_CHANNELS)
    signs[flipped] = -1
    return order, signs


# The network of Ponton 2022 reads the velocity (3), angular velocity (3) and rotation (two axes, 6) of three trackers,
# and the previous prediction (two axes, 6).
PAPER_INPUTS = 3 * 12 + 6

# The array `memory` holds the times [s] over which averages of head, left and right hand have been formed, the heading
# (2 numbers), 1 after the first frame, and the averages by time constant and channel.
MEMORY = 6 + len(TAUS) * CHANNELS
_AGE, _HEADING, _STARTED, _AVERAGES = 0, 3, 5, 6


def layout_hash() -> str:
    """Return the hash of the layout of the network inputs; networks for another layout have another hash."""
    text = f"facing inputs 1\n{TAUS}\n" + "\n".join(f"{name} {n}" for name, n in BLOCKS)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def paper_layout_hash() -> str:
    text = "paper inputs 1: velocity, angular velocity, x, z axis of head, left, right; previous x, z axis"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def new_memory() -> F64:
    return np.zeros(MEMORY)


@njit
def axes_of(q: F64, out: F64) -> None:
    """Write the x axis of the rotation `q` to out[0:3] and the z axis to out[3:6]."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    out[0] = 1 - 2 * (y * y + z * z)
    out[1] = 2 * (x * y + w * z)
    out[2] = 2 * (x * z - w * y)
    out[3] = 2 * (x * z + w * y)
    out[4] = 2 * (y * z - w * x)
    out[5] = 1 - 2 * (x * x + y * y)


@njit
def heading_of(q: F64, last_cos: float, last_sin: float) -> tuple[float, float]:
    """Return the heading (cos, sin) of a headset with the rotation `q`.

    The heading is the projection of the forward axis of the headset on the floor. If the headset looks steeply up or
    down, this projection is blended with the projection of the up axis. If neither axis gives a direction, the heading
    of the last frame is returned.
    """
    axes = np.empty(6)
    axes_of(q, axes)
    fx, fy, fz, ux, uy, uz = axes[0], axes[1], axes[2], axes[3], axes[4], axes[5]
    steep = min(max((abs(fz) - 0.85) / 0.13, 0.0), 1.0)
    steep = steep * steep * (3 - 2 * steep)
    upright = min(max((uz + 1 - abs(fz)) / 0.2, -1.0), 1.0)
    x = upright * fx - steep * fz * ux
    y = upright * fy - steep * fz * uy
    n = math.hypot(x, y)
    if n < 1e-3:
        return last_cos, last_sin
    return x / n, y / n


@njit
def _turned(out: F64, at: int, v: F64, c: float, s: float) -> None:
    """Write the vector `v`, rotated from room axes to axes with x in the heading, to out[at : at + 3]."""
    out[at] = c * v[0] + s * v[1]
    out[at + 1] = -s * v[0] + c * v[1]
    out[at + 2] = v[2]


@njit
def _average(memory: F64, group: int, first: int, count: int, values: F64, dt: float) -> None:
    """Update the averages over past frames that describe the head or a hand. Until an average covers its time constant,
    it is the plain mean of all frames so far, so that inputs are useful from the first frame on."""
    age = memory[_AGE + group]
    for k in range(_TAUS.shape[0]):
        share = 1.0
        if age > 0:
            share = max(1 - math.exp(-dt / _TAUS[k]), dt / (age + dt))
        base = _AVERAGES + k * CHANNELS + first
        for i in range(count):
            memory[base + i] += share * (values[i] - memory[base + i])
    memory[_AGE + group] = age + max(dt, 1e-9)


@njit
def inputs_step(
    positions: F64, rotations: F64, velocities: F64, angular_velocities: F64, state: NDArray[np.uint8],
    height: float, dt: float, memory: F64, out: F64,
) -> tuple[float, float]:  # fmt: skip
    """Write the inputs of one frame to `out` (INPUTS,), update `memory`, and return the heading (cos, sin).

    Rows 0 to 2 of each array are head, left hand and right hand. `dt` is the time since the last frame [s], and 0 for
    the first frame.
    """
    if memory[_STARTED] == 0:
        memory[_HEADING], memory[_HEADING + 1], memory[_STARTED] = 1.0, 0.0, 1.0
    c, s = heading_of(rotations[0], memory[_HEADING], memory[_HEADING + 1])
    memory[_HEADING], memory[_HEADING + 1] = c, s
    scale = 1.0 / height
    out[:] = 0.0
    axes = np.empty(6)
    values = np.empty(HEAD_CHANNELS)

    axes_of(rotations[0], axes)
    _turned(out, 0, axes[:3], c, s)
    _turned(out, 3, axes[3:], c, s)
    _turned(out, 6, velocities[0] * scale, c, s)
    _turned(out, 9, angular_velocities[0], c, s)
    out[12] = positions[0, 2] * scale
    values[0], values[1] = c, s
    values[2], values[3] = velocities[0, 0] * scale, velocities[0, 1] * scale
    values[4] = out[12]
    values[5] = math.hypot(values[2], values[3])
    _average(memory, 0, 0, HEAD_CHANNELS, values, dt)

    for hand in range(1, 3):
        if state[hand] == 0:
            continue
        at = 13 + (hand - 1) * 16
        offset = (positions[hand] - positions[0]) * scale
        axes_of(rotations[hand], axes)
        _turned(out, at, offset, c, s)
        _turned(out, at + 3, velocities[hand] * scale, c, s)
        _turned(out, at + 6, angular_velocities[hand], c, s)
        _turned(out, at + 9, axes[:3], c, s)
        _turned(out, at + 12, axes[3:], c, s)
        out[at + 15] = 1.0
        values[:3] = offset
        values[3], values[4] = axes[0], axes[1]
        _average(memory, hand, HEAD_CHANNELS + (hand - 1) * HAND_CHANNELS, HAND_CHANNELS, values, dt)

    if state[1] != 0 and state[2] != 0:
        x, y = out[13] - out[29], out[14] - out[30]
        n = math.hypot(x, y)
        out[45], out[46], out[47] = x / (n + 0.02), y / (n + 0.02), n
        x, y = out[13] + out[29], out[14] + out[30]
        n = math.hypot(x, y)
        out[48], out[49] = x / (n + 0.02), y / (n + 0.02)
    _averages_turned(memory, c, s, out)
    return c, s


@njit
def _averages_turned(memory: F64, c: float, s: float, out: F64) -> None:
    for k in range(_TAUS.shape[0]):
        m, o = _AVERAGES + k * CHANNELS, 50 + k * CHANNELS
        for i in range(CHANNELS):
            out[o + i] = memory[m + i]
        for i in (0, 2, 6, 9, 11, 14):  # indices of the x components of horizontal vectors in the averages
            x, y = memory[m + i], memory[m + i + 1]
            out[o + i], out[o + i + 1] = c * x + s * y, -s * x + c * y


@njit
def carry_memory(memory: F64, yaw: float, dz_over_height: float) -> None:
    """Rotate the averages by `yaw` after a snap turn or a re-centring of the room.

    `dz_over_height` is added to the averages of the head height, which are shares of the standing head height.
    """
    c, s = math.cos(yaw), math.sin(yaw)
    x, y = memory[_HEADING], memory[_HEADING + 1]
    memory[_HEADING], memory[_HEADING + 1] = c * x - s * y, s * x + c * y
    for k in range(_TAUS.shape[0]):
        m = _AVERAGES + k * CHANNELS
        for i in (0, 2, 6, 9, 11, 14):
            x, y = memory[m + i], memory[m + i + 1]
            memory[m + i], memory[m + i + 1] = c * x - s * y, s * x + c * y
        memory[m + 4] += dz_over_height


@njit
def inputs_sequence(
    positions: F64, rotations: F64, velocities: F64, angular_velocities: F64, state: NDArray[np.uint8],
    height: float, dt: F64, out: F32, headings: F64,
) -> None:  # fmt: skip
    """Write the inputs of a whole clip to `out` (F, INPUTS) and the headings [rad] to `headings` (F,).

    The arguments have F frames; `dt` (F,) holds the times [s] since the frame before.
    """
    memory = np.zeros(MEMORY)
    row = np.empty(INPUTS)
    for f in range(positions.shape[0]):
        c, s = inputs_step(
            positions[f], rotations[f], velocities[f], angular_velocities[f],
            state[f], height, dt[f], memory, row,
        )  # fmt: skip
        out[f] = row
        headings[f] = math.atan2(s, c)


@njit
def paper_inputs_step(
    rotations: F64, velocities: F64, angular_velocities: F64, state: NDArray[np.uint8],
    c: float, s: float, previous_yaw: float, out: F64,
) -> None:  # fmt: skip
    """Write the inputs of the paper's network (Ponton 2022) to `out` (42,). The inputs that describe a lost hand are
    zero.

    `previous_yaw` [rad] is the facing of the frame before, relative to the heading with cosine `c` and sine `s`.
    """
    out[:] = 0.0
    axes = np.empty(6)
    for r in range(3):
        if r > 0 and state[r] == 0:
            continue
        axes_of(rotations[r], axes)
        _turned(out, 3 * r, velocities[r], c, s)
        _turned(out, 9 + 3 * r, angular_velocities[r], c, s)
        _turned(out, 18 + 6 * r, axes[:3], c, s)
        _turned(out, 21 + 6 * r, axes[3:], c, s)
    out[36], out[37], out[41] = math.cos(previous_yaw), math.sin(previous_yaw), 1.0


def warm_up() -> None:
    memory, out = new_memory(), np.zeros(INPUTS)
    p, q = np.zeros((3, 3)), np.zeros((3, 4))
    q[:, 0] = 1
    state = np.ones(3, np.uint8)
    for _ in range(2):
        c, s = inputs_step(p, q, p, p, state, 1.7, 0.01, memory, out)
    carry_memory(memory, 0.1, 0.0)
    paper_inputs_step(q, p, p, state, c, s, 0.0, np.zeros(PAPER_INPUTS))
