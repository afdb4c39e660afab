"""Compute the inputs of the step network at 60 Hz, with the same compiled code in training and in live use.

The function `channels_of` converts one tracker frame to 14 numbers, called channels. The channels are interpolated
linearly to time steps of 1/60 s, so that tracker sources of 15 to 120 Hz give the same inputs. All inputs are in the
axes of the headset's heading, and lengths are divided by the standing height. The rotation of the controllers is not an
input, so it does not matter how the user holds them.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from mm_ros.body.types import F32, F64
from mm_ros.facing.inputs import axes_of, heading_of
from mm_ros.maths.jit import njit

RATE = 60.0  # Rate at which the step network runs [Hz].
TICK_S = 1.0 / RATE  # Time between two runs of the step network.

# The channels of a frame are, in this order: head (x, y, z), unwrapped heading, pitch and roll of the headset, left
# hand (x, y, z), right hand (x, y, z), validity of the left hand, validity of the right hand.
CHANNELS = 14
HEADING, LEFT_VALID = 3, 12

AVERAGES_S = (0.35, 1.5)  # Time constants of the two moving averages that are subtracted from the head position.
YAW_AVERAGE_S = 1.0  # Time constant of the moving average that is subtracted from the headset's heading.
# Frequencies that the filters pass [Hz]: `BOB_HZ` for the head's height, `SWAY_HZ` for the head's lateral position.
BOB_HZ, SWAY_HZ = (0.8, 4.0), (0.35, 1.8)
AXES_TAU_S = 0.5  # Time constant of the smoothed heading, which is the forward direction for lateral motion.
LEVEL_TAU_S = 1.0  # Time constant of the mean amplitudes of the head's vertical and lateral oscillation.
# `LEAST_LEVEL` times the standing height is added to the mean amplitudes of the oscillations, so that small
# oscillations are not amplified.
LEAST_LEVEL = 0.0015

BLOCKS: tuple[tuple[str, int], ...] = (
    ("head: height / height - 0.9", 1),
    ("head: velocity / height, difference of two ticks", 3),
    ("head: position less its averages of 0.35 and 1.5 s, / height", 6),
    ("head: yaw less its average of 1 s; pitch; roll", 3),
    ("head: rates of yaw, pitch and roll", 3),
    ("bob and sway: band-pass / height, its rate, both over the mean amplitude", 8),
    ("left hand: position from head, velocity, / height; valid", 7),
    ("right hand: the same", 7),
)
INPUTS = sum(n for _, n in BLOCKS)

# Indices in the array `memory`, in which `inputs_step` stores numbers for the next time step.
_STARTED, _LAST, _EMA = 0, 1, 1 + CHANNELS
_YAW_MEAN = _EMA + 6
_AXES_YAW = _YAW_MEAN + 1
_LATERAL = _AXES_YAW + 1  # index of the integral of the head's lateral velocity
# Each band-pass filter stores 5 numbers: two states, its last output, and the mean amplitudes of output and rate.
_BOB = _LATERAL + 1
_SWAY = _BOB + 5
_VALID = _SWAY + 5
MEMORY = _VALID + 2
# Velocities are limited to `FASTEST` standing heights per second, because faster motion is a tracking error.
FASTEST = 5.0


def layout_hash() -> str:
    """Return the hash of the input layout; a network file with another hash is refused."""
    text = f"steps inputs 1\n{RATE} {AVERAGES_S} {YAW_AVERAGE_S} {BOB_HZ} {SWAY_HZ} {AXES_TAU_S} {LEVEL_TAU_S}\n"
    text += "\n".join(f"{name} {n}" for name, n in BLOCKS)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@njit
def channels_of(positions: F64, rotations: F64, state: Any, last: F64, out: F64) -> None:
    """Write the channels of a tracker frame to `out` (CHANNELS,).

    The first three rows of `positions`, `rotations` and `state` are those of the head, the left and the right hand. The
    channels `last` of the previous frame are used to unwrap the heading. A lost hand keeps its last position relative
    to the head.
    """
    c, s = heading_of(rotations[0], math.cos(last[HEADING]), math.sin(last[HEADING]))
    axes = np.empty(6)
    axes_of(rotations[0], axes)
    out[:3] = positions[0]
    turned = math.atan2(s, c) - last[HEADING]
    out[HEADING] = last[HEADING] + (turned + math.pi) % (2 * math.pi) - math.pi
    out[4] = math.asin(min(max(-axes[2], -1.0), 1.0))
    # The left axis of the headset is up × forward, and the z component of this axis is the sine of the roll.
    left_z = axes[3] * axes[1] - axes[4] * axes[0]
    out[5] = math.asin(min(max(left_z, -1.0), 1.0))
    for hand in range(2):
        valid = 1.0 if state[1 + hand] != 0 else 0.0
        out[LEFT_VALID + hand] = valid
        for i in range(3):
            here = positions[1 + hand, i] if valid else positions[0, i] + last[6 + 3 * hand + i] - last[i]
            out[6 + 3 * hand + i] = here


@njit
def _band(memory: F64, at: int, x: float, low_hz: float, high_hz: float, dt: float, first: bool, out: F64) -> None:
    """Apply to `x` a first-order Butterworth band-pass filter (bilinear transform) that uses only past values.

    Write to `out` the filtered value, its rate [1/s], and both divided by their mean amplitudes.
    """
    if first:
        memory[at], memory[at + 1], memory[at + 2], memory[at + 3], memory[at + 4] = x, x, 0.0, 0.0, 0.0
    low = math.tan(math.pi * low_hz * dt)
    high = math.tan(math.pi * high_hz * dt)
    # `memory[at]` and `memory[at + 1]` are the states of two low-pass filters with trapezoidal integration, which is
    # stable for any `dt`.
    v = (x - memory[at]) * high / (1.0 + high)
    smooth = memory[at] + v
    memory[at] = smooth + v
    v = (smooth - memory[at + 1]) * low / (1.0 + low)
    slow = memory[at + 1] + v
    memory[at + 1] = slow + v
    value = smooth - slow
    rate = 0.0 if first else (value - memory[at + 2]) / dt
    memory[at + 2] = value
    share = 1.0 - math.exp(-dt / LEVEL_TAU_S)
    memory[at + 3] += share * (abs(value) - memory[at + 3])
    memory[at + 4] += share * (abs(rate) - memory[at + 4])
    out[0], out[1] = value, rate
    out[2] = value / (memory[at + 3] + LEAST_LEVEL)
    out[3] = rate / (memory[at + 4] + 8.0 * LEAST_LEVEL)


@njit
def inputs_step(channels: F64, height: float, memory: F64, out: F64) -> None:
    """Write the inputs of the step network for one time step to `out` (INPUTS,), and update `memory` (MEMORY,)."""
    dt = TICK_S
    first = memory[_STARTED] == 0.0
    scale = 1.0 / height
    if first:
        memory[_STARTED] = 1.0
        memory[_LAST : _LAST + CHANNELS] = channels
        for k in range(2):
            memory[_EMA + 3 * k : _EMA + 3 * k + 3] = channels[:3]
        memory[_YAW_MEAN] = memory[_AXES_YAW] = channels[HEADING]
        memory[_LATERAL] = 0.0
        memory[_VALID], memory[_VALID + 1] = 0.0, 0.0
    yaw = channels[HEADING]
    c, s = math.cos(yaw), math.sin(yaw)
    out[:] = 0.0
    out[0] = channels[2] * scale - 0.9
    dx, dy = channels[0] - memory[_LAST], channels[1] - memory[_LAST + 1]
    vx, vy, vz = dx / dt * scale, dy / dt * scale, (channels[2] - memory[_LAST + 2]) / dt * scale
    out[1], out[2] = _limited(c * vx + s * vy), _limited(-s * vx + c * vy)
    out[3] = _limited(vz)
    for k in range(2):
        share = 1.0 - math.exp(-dt / AVERAGES_S[k])
        for i in range(3):
            memory[_EMA + 3 * k + i] += share * (channels[i] - memory[_EMA + 3 * k + i])
        ax = (channels[0] - memory[_EMA + 3 * k]) * scale
        ay = (channels[1] - memory[_EMA + 3 * k + 1]) * scale
        out[4 + 3 * k], out[5 + 3 * k] = c * ax + s * ay, -s * ax + c * ay
        out[6 + 3 * k] = (channels[2] - memory[_EMA + 3 * k + 2]) * scale
    memory[_YAW_MEAN] += (1.0 - math.exp(-dt / YAW_AVERAGE_S)) * (yaw - memory[_YAW_MEAN])
    out[10], out[11], out[12] = min(max(yaw - memory[_YAW_MEAN], -3.0), 3.0), channels[4], channels[5]
    for i in range(3):
        out[13 + i] = min(max((channels[3 + i] - memory[_LAST + 3 + i]) / dt, -15.0), 15.0)
    memory[_AXES_YAW] += (1.0 - math.exp(-dt / AXES_TAU_S)) * (yaw - memory[_AXES_YAW])
    ac, as_ = math.cos(memory[_AXES_YAW]), math.sin(memory[_AXES_YAW])
    memory[_LATERAL] += (-as_ * dx + ac * dy) * scale
    _band(memory, _BOB, channels[2] * scale, BOB_HZ[0], BOB_HZ[1], dt, first, out[16:20])
    _band(memory, _SWAY, memory[_LATERAL], SWAY_HZ[0], SWAY_HZ[1], dt, first, out[20:24])
    for hand in range(2):
        if channels[LEFT_VALID + hand] < 0.5:
            memory[_VALID + hand] = 0.0
            continue
        at, own = 24 + 7 * hand, 6 + 3 * hand
        hx, hy = (channels[own] - channels[0]) * scale, (channels[own + 1] - channels[1]) * scale
        out[at], out[at + 1] = c * hx + s * hy, -s * hx + c * hy
        out[at + 2] = (channels[own + 2] - channels[2]) * scale
        if memory[_VALID + hand] > 0.0:
            hx = (channels[own] - memory[_LAST + own]) / dt * scale
            hy = (channels[own + 1] - memory[_LAST + own + 1]) / dt * scale
            out[at + 3], out[at + 4] = _limited(c * hx + s * hy), _limited(-s * hx + c * hy)
            out[at + 5] = _limited((channels[own + 2] - memory[_LAST + own + 2]) / dt * scale)
        out[at + 6] = 1.0
        memory[_VALID + hand] = 1.0
    memory[_LAST : _LAST + CHANNELS] = channels


@njit
def _limited(x: float) -> float:
    return min(max(x, -FASTEST), FASTEST)


@njit
def inputs_sequence(channels: F64, height: float, out: F32) -> None:
    """Write the inputs of the step network for a sequence of `channels` (T, CHANNELS) at 60 Hz to `out` (T, INPUTS)."""
    memory, row = np.zeros(MEMORY), np.empty(INPUTS)
    for t in range(channels.shape[0]):
        inputs_step(channels[t], height, memory, row)
        out[t] = row


@njit
def carry_channels(channels: F64, x: float, y: float, z: float, yaw: float) -> None:
    """Transform the positions and the heading in `channels` (CHANNELS,) when the room is re-centred."""
    c, s = math.cos(yaw), math.sin(yaw)
    for at in (0, 6, 9):
        px, py = channels[at], channels[at + 1]
        channels[at], channels[at + 1] = c * px - s * py + x, s * px + c * py + y
        channels[at + 2] += z
    channels[HEADING] += yaw


@njit
def carry_memory(memory: F64, x: float, y: float, z: float, yaw: float, height: float) -> None:
    """Transform `memory` (MEMORY,), which `inputs_step` keeps, when the user makes a snap turn or re-centres the room.
    """
    if memory[_STARTED] == 0.0:
        return
    carry_channels(memory[_LAST : _LAST + CHANNELS], x, y, z, yaw)
    c, s = math.cos(yaw), math.sin(yaw)
    for k in range(2):
        px, py = memory[_EMA + 3 * k], memory[_EMA + 3 * k + 1]
        memory[_EMA + 3 * k], memory[_EMA + 3 * k + 1] = c * px - s * py + x, s * px + c * py + y
        memory[_EMA + 3 * k + 2] += z
    memory[_YAW_MEAN] += yaw
    memory[_AXES_YAW] += yaw
    memory[_BOB] += z / height
    memory[_BOB + 1] += z / height


def new_memory() -> F64:
    return np.zeros(MEMORY)
