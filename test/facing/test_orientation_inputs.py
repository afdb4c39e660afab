"""Inputs of the facing network: equal in live use and training, and as the layout describes."""

import numpy as np
import pytest
from orientation_toys import frames, walker

from mm_ros.body.types import LOST, Calibration
from mm_ros.facing import inputs as oi
from mm_ros.facing.orientation import OrientationSettings, OrientationStage
from mm_ros.maths import rotations as rot


def spoiled(seconds=5.0, seed=0):
    """Frames with drop-outs of both hands, a long one and short ones."""
    sequence = frames(walker(seconds, seed=seed))
    rng = np.random.default_rng(seed)
    for hand in (1, 2):
        for first in rng.integers(0, len(sequence), 4):
            for f in sequence[first : first + rng.integers(1, 80)]:
                f.state[hand] = LOST
    return sequence


def arrays(sequence):
    names = ("positions", "rotations", "velocities", "angular_velocities", "state")
    stack = {n: np.array([getattr(f, n)[:3] for f in sequence]) for n in names}
    stamps = np.array([f.stamp_ns for f in sequence])
    return stack, np.diff(stamps, prepend=stamps[:1]) * 1e-9


def sequence_inputs(sequence, height=1.68):
    stack, dt = arrays(sequence)
    out, headings = np.empty((len(dt), oi.INPUTS), np.float32), np.empty(len(dt))
    oi.inputs_sequence(*stack.values(), height, dt, out, headings)
    return out, headings


class Recorder:
    """A model that records its inputs."""

    layout, tick_s = oi.layout_hash(), 0.0

    def __init__(self):
        self.asked = []

    def nothing(self):
        return None

    def step(self, inputs, remembered, tick):
        self.asked.append(inputs[0].copy())
        return np.array([[0.0, 1.0, -2.0, 0.0]], np.float32), None


@pytest.mark.parametrize("seed", range(3))
def test_live_and_training_see_the_same(seed):
    sequence = spoiled(seed=seed)
    recorder = Recorder()
    stage = OrientationStage(OrientationSettings(), Calibration(), recorder)
    for f in sequence:
        stage.step(f)
    trained, _ = sequence_inputs(sequence)
    assert np.array_equal(np.array(recorder.asked), trained)


def advance(memory, f, dt):
    out = np.empty(oi.INPUTS)
    oi.inputs_step(f.positions, f.rotations, f.velocities, f.angular_velocities, f.state, 1.68, dt, memory, out)


def reference(sequence, height=1.68):
    """Reference implementation of the inputs for whole arrays, without compiled code."""
    s, dt = arrays(sequence)
    n, p, q = len(dt), s["positions"], s["rotations"]
    seen = s["state"] != LOST
    yaw = rot.yaw_of(q[:, 0])
    back = rot.from_yaw(-yaw)
    x, z = rot.rotate(q, np.array([1.0, 0, 0])), rot.rotate(q, np.array([0, 0, 1.0]))

    def turned(v):
        return rot.rotate(back, v)

    v, w = s["velocities"] / height, s["angular_velocities"]
    columns = [turned(a) for a in (x[:, 0], z[:, 0], v[:, 0], w[:, 0])] + [p[:, 0, 2:] / height]
    offsets, forwards = [], []
    for h in (1, 2):
        offset = (p[:, h] - p[:, 0]) / height
        own = [turned(a) for a in (offset, v[:, h], w[:, h], x[:, h], z[:, h])]
        columns.append(np.concatenate([*own, np.ones((n, 1))], 1) * seen[:, h, None])
        offsets.append(offset)
        forwards.append(x[:, h, :2])
    left, right = columns[5][:, :2], columns[6][:, :2]
    both = (seen[:, 1] & seen[:, 2])[:, None]
    length = np.linalg.norm(left - right, axis=1, keepdims=True)
    middle = left + right
    columns += [both * (left - right) / (length + 0.02), both * length]
    columns += [both * middle / (np.linalg.norm(middle, axis=1, keepdims=True) + 0.02)]

    v = v[:, 0, :2]
    ahead = np.stack([np.cos(yaw), np.sin(yaw)], 1)
    head_slow = np.concatenate([ahead, v, p[:, 0, 2:] / height, np.linalg.norm(v, axis=1, keepdims=True)], 1)
    groups = [(head_slow, np.ones(n, bool))]
    groups += [(np.concatenate([offsets[k], forwards[k]], 1), seen[:, k + 1]) for k in (0, 1)]
    for tau in oi.TAUS:
        slow = np.concatenate([averaged(a, dt, tau, when) for a, when in groups], 1)
        for i in (0, 2, 6, 9, 11, 14):
            flat = np.concatenate([slow[:, i : i + 2], np.zeros((n, 1))], 1)
            slow[:, i : i + 2] = turned(flat)[:, :2]
        columns.append(slow)
    return np.concatenate(columns, 1)


def averaged(a, dt, tau, when):
    out, state, age = np.zeros_like(a), np.zeros(a.shape[1]), 0.0
    for f in range(len(a)):
        if when[f]:
            share = 1.0 if age == 0 else max(1 - np.exp(-dt[f] / tau), dt[f] / (age + dt[f]))
            state = state + share * (a[f] - state)
            age += max(dt[f], 1e-9)
        out[f] = state
    return out


@pytest.mark.parametrize("seed", range(2))
def test_the_numbers_are_what_the_layout_says(seed):
    sequence = spoiled(3, seed)
    found, headings = sequence_inputs(sequence)
    assert np.abs(found - reference(sequence)).max() < 1e-5
    assert np.abs(rot.wrap_angle(headings - rot.yaw_of(np.array([f.rotations[0] for f in sequence])))).max() < 1e-9


def test_averages_are_exact_in_dt():
    """After motion, a user stands still: many short steps and few long steps give equal averages."""
    start = frames(walker(20, seed=1))
    memory = {}
    for parts in (1, 8):
        m = oi.new_memory()
        for i, f in enumerate(start):
            advance(m, f, 1 / 90 if i else 0.0)
        for _ in range(10 * parts):
            advance(m, start[-1], 0.04 / parts)
        memory[parts] = m
    assert np.abs(memory[1] - memory[8]).max() < 1e-9


def test_a_carried_memory_is_that_of_the_turned_room():
    plain, turned = frames(walker(3)), frames(walker(3), turned=1.1)
    memories = []
    for sequence in (plain, turned):
        m = oi.new_memory()
        for i, f in enumerate(sequence):
            advance(m, f, 1 / 90 if i else 0.0)
        memories.append(m)
    oi.carry_memory(memories[0], 1.1, 0.0)
    assert np.abs(memories[0] - memories[1]).max() < 1e-9


def test_size_does_not_matter():
    """A motion scaled together with the user's height gives the same inputs."""
    big = spoiled(2)
    small = spoiled(2)
    for f in small:
        f.positions *= 0.6
        f.velocities *= 0.6
    assert np.abs(sequence_inputs(big, 1.8)[0] - sequence_inputs(small, 1.08)[0]).max() < 1e-5


def test_hashes_name_the_layouts():
    assert oi.layout_hash() == oi.layout_hash() != oi.paper_layout_hash()
    assert sum(n for _, n in oi.BLOCKS) == oi.INPUTS
