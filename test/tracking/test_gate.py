"""The gate: good samples pass unchanged, bad samples are extrapolated, and the output blends back afterwards."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import reference_gate

from mm_ros.body.types import EXTRAPOLATED, LEFT_HAND_ROLE, LOST, TRACKED, TrackerFrame, identity_pose
from mm_ros.maths import rotations as rot
from mm_ros.tracking.gate import GateSettings, TrackerGate

HAND = LEFT_HAND_ROLE
DT_NS = 11_111_111


def user(i: int, rate: float = 90.0) -> TrackerFrame:
    """A head that sways, hands that wave at up to half a metre a second."""
    t = i / rate
    out = TrackerFrame(1_000_000_000 + round(i * 1e9 / rate))
    out.positions[:3] = [
        (0.02 * np.sin(t), 0.02 * np.cos(1.3 * t), 1.65),
        (0.3 + 0.1 * np.sin(5 * t), 0.3, 1.1 + 0.05 * np.cos(4 * t)),
        (0.3, -0.3 + 0.1 * np.cos(5 * t), 1.1),
    ]
    out.rotations[:3] = rot.exp(np.array([[0, 0.2 * np.sin(t), 0.5 * np.sin(2 * t)]] * 3))
    out.state[:3] = TRACKED
    out.sampled_ns[:3] = out.stamp_ns
    return out


def steps_m(frames, role=HAND):
    p = np.array([f.positions[role] for f in frames])
    return np.linalg.norm(np.diff(p, axis=0), axis=1)


def test_good_samples_pass_unchanged_and_at_once():
    gate = TrackerGate()
    for i in range(200):
        raw = user(i)
        out = gate.step(raw)
        np.testing.assert_array_equal(out.positions, raw.positions)
        np.testing.assert_array_equal(out.rotations, raw.rotations)
        np.testing.assert_array_equal(out.state, raw.state)
        assert out.stamp_ns == raw.stamp_ns


@pytest.mark.parametrize("rate", [60.0, 72.0, 90.0, 120.0, 144.0])
def test_velocities_from_stamps_do_not_lag(rate):
    gate = TrackerGate()
    frames = [gate.step(user(i, rate)) for i in range(int(3 * rate))]
    t = np.arange(len(frames)) / rate
    true = 0.5 * np.cos(5 * t)
    seen = np.array([f.velocities[HAND, 0] for f in frames])
    warm = t > 0.2
    # A delay of 5 ms would already make an error of 12 mm/s.
    assert np.abs(seen - true)[warm].max() < 0.012
    turn = np.array([f.angular_velocities[0, 2] for f in frames])
    assert np.abs(turn - np.cos(2 * t))[warm].max() < 0.03


def test_isaac_teleop_731():
    """Out of sight, a runtime extrapolates with the flag "tracked", and jumps 73 cm when tracking returns."""
    gate = TrackerGate()
    raws, outs = [], []
    away = np.zeros(3)
    for i in range(700):
        raw = user(i)
        if 90 <= i < 180:  # accelerated drift to 73 cm
            away = np.array([0.73, 0, 0]) * ((i - 89) / 90) ** 2
        if i >= 180:
            away = np.zeros(3)
        raw.positions[HAND] += away
        raws.append(raw)
        outs.append(gate.step(raw))
    assert steps_m(raws).max() > 0.7
    assert steps_m(outs[179:]).max() <= 0.01
    assert steps_m(outs[:180]).max() <= steps_m(raws[:180]).max() + 1e-9
    np.testing.assert_allclose(outs[600].positions[HAND], raws[600].positions[HAND], atol=1e-9)


@pytest.mark.parametrize("rate", [72.0, 90.0, 120.0])
@pytest.mark.parametrize("gap_s", [0.1, 0.5, 1.5])
def test_isaac_teleop_731_with_honest_flags(rate, gap_s):
    gate = TrackerGate()
    outs = []
    for i in range(int(5 * rate)):
        raw = user(i, rate)
        if 1.0 <= i / rate < 1.0 + gap_s:
            raw.state[HAND] = EXTRAPOLATED
            raw.positions[HAND] += (0.73, 0, 0)
        outs.append(gate.step(raw))
    assert steps_m(outs).max() <= 0.01
    assert outs[-1].state[HAND] == TRACKED


@pytest.mark.parametrize("bad", ["zero", "nan", "far", "rotation", "no_rotation"])
def test_one_bad_sample_leaves_no_trace(bad):
    gate = TrackerGate()
    for i in range(120):
        raw = user(i)
        if i == 60:
            if bad == "zero":
                raw.positions[HAND] = 0
            elif bad == "nan":
                raw.positions[HAND, 1] = np.nan
            elif bad == "far":
                raw.positions[HAND] += (0, 0.5, 0)
            elif bad == "rotation":
                raw.rotations[HAND] = rot.multiply(raw.rotations[HAND], rot.exp(np.array([0, 2.0, 0])))
            else:
                raw.rotations[HAND] = 0
        out = gate.step(raw)
        good = user(i)
        assert np.linalg.norm(out.positions[HAND] - good.positions[HAND]) < 0.003
        assert rot.log(rot.multiply(out.rotations[HAND], rot.inverse(good.rotations[HAND]))).max() < 0.02
        assert out.state[HAND] == (EXTRAPOLATED if i == 60 else TRACKED)


def test_one_bad_sample_in_a_fast_movement_is_over_with_it():
    """With a hand at 3 m/s, the sample after a bad sample is the raw sample, without a blend."""
    gate = TrackerGate()
    for i in range(80):
        raw = user(i)
        raw.positions[HAND] = (0.03 * i - 1.0, 0.3, 1.2)
        good = raw.positions[HAND].copy()
        if i == 40:
            raw.positions[HAND] = (1.4, 0.3, 1.2)
        out = gate.step(raw)
        if i != 40:
            np.testing.assert_array_equal(out.positions[HAND], good)


def test_a_loss_is_bridged_comes_to_rest_and_is_lost():
    gate = TrackerGate()
    outs = []
    for i in range(150):
        raw = user(i)
        if i >= 60:
            raw.state[HAND] = LOST
        outs.append(gate.step(raw))
    speed = [np.linalg.norm(f.velocities[HAND]) for f in outs]
    assert outs[60].state[HAND] == EXTRAPOLATED and outs[-1].state[HAND] == LOST
    assert (np.diff(speed[59:]) <= 0).all()
    assert speed[-1] == 0
    assert steps_m(outs)[60:].max() <= steps_m(outs)[55:60].max() * 1.05
    assert outs[-1].state[0] == TRACKED


def test_frozen_but_tracked_is_lost_and_comes_back_without_a_step():
    gate = TrackerGate()
    outs = []
    for i in range(400):
        raw = user(i)
        if 60 <= i < 200:
            frozen = user(60)
            raw.positions[HAND], raw.rotations[HAND] = frozen.positions[HAND], frozen.rotations[HAND]
        outs.append(gate.step(raw))
    assert outs[199].state[HAND] == LOST and outs[199].state[2] == TRACKED
    assert steps_m(outs).max() < 0.01
    assert outs[-1].state[HAND] == TRACKED


def test_a_headset_that_repeats_its_pose_is_extrapolated_then_lost_once():
    gate = TrackerGate()
    outs = []
    for i in range(90 * 12):
        raw = user(i if i < 90 else 90)
        raw.stamp_ns = user(i).stamp_ns
        raw.sampled_ns[:] = raw.stamp_ns
        outs.append(gate.step(raw))
    states = [int(f.state[0]) for f in outs]
    changes = [b for a, b in pairwise(states) if a != b]
    assert changes == [EXTRAPOLATED, LOST]
    assert {f.epoch for f in outs} == {outs[0].epoch}
    moved = user(90 * 12)  # the headset is back after a long time: one new epoch
    assert gate.step(moved).epoch == outs[0].epoch + 1


def test_frozen_can_be_switched_off():
    gate = TrackerGate(GateSettings(frozen_s=0.0))
    raw = user(0)
    for i in range(200):
        out = gate.step(replace(raw, stamp_ns=raw.stamp_ns + i * DT_NS))
    assert (out.state[:3] == TRACKED).all()


def test_a_new_place_is_believed_after_a_while():
    gate = TrackerGate()
    for i in range(300):
        raw = user(i)
        if i >= 60:
            raw.positions[:3] += (0.5, 0, 0)
        out = gate.step(raw)
        if i == 62:
            assert (out.state[:3] == EXTRAPOLATED).all()
    np.testing.assert_allclose(out.positions, raw.positions, atol=1e-9)


def test_a_fast_punch_passes():
    """A punch of 8 m/s after 80 ms with a sudden stop is fast, but human."""
    gate = TrackerGate()
    for i in range(60):
        raw = user(i)
        s = np.clip((i - 30) / 90 / 0.08, 0, 1)
        raw.positions[HAND] = (0.2 + 0.32 * s * s, 0.2, 1.3)
        out = gate.step(raw)
        np.testing.assert_array_equal(out.positions[HAND], raw.positions[HAND])


def test_a_stream_that_begins_in_the_middle_of_a_run_passes():
    gate = TrackerGate()
    for i in range(40):
        raw = user(i)
        raw.positions[:3, 0] += 4.5 * i / 90
        np.testing.assert_array_equal(gate.step(raw).positions, raw.positions)
    assert gate.refused["jump"] == 0


def test_a_controller_left_behind_is_lost():
    gate = TrackerGate()
    for i in range(200):
        raw = user(i)
        raw.positions[0, 0] -= 0.02 * i  # walks away at 1.8 m/s
        raw.positions[2, 0] -= 0.02 * i
        out = gate.step(raw)
    assert out.state[HAND] == LOST and out.state[2] == TRACKED


def test_duplicates_and_stragglers_say_nothing():
    gate = TrackerGate()
    gate.step(user(0)), gate.step(user(1)), gate.step(user(2))
    assert gate.step(user(2)) is None
    assert gate.step(user(1)) is None
    assert gate.step(user(3)).stamp_ns == user(3).stamp_ns


def test_a_clock_that_goes_back_starts_a_new_epoch():
    gate = TrackerGate()
    for i in range(50):
        out = gate.step(user(i))
    back = gate.step(user(3))
    assert back.epoch == out.epoch + 1 and not back.velocities.any()


def test_a_new_epoch_of_the_source_is_one_of_the_gate():
    gate = TrackerGate()
    gate.step(user(0))
    out = gate.step(replace(user(1), epoch=1))
    assert out.epoch == 1


def test_recentring_carries_everything_along():
    """The play space turns by 90° and moves: no sample is refused as a jump, and velocities turn."""
    moved = identity_pose()
    moved[:3], moved[3:] = (2.0, -1.0, 0.0), rot.from_yaw(np.pi / 2)
    for epoch in (0, 1):  # stick locomotion, re-centre
        gate = TrackerGate()
        for i in range(120):
            raw = user(i)
            plain = raw.positions.copy()
            if i >= 60:
                raw.positions[:3] = rot.rotate(moved[3:], raw.positions[:3]) + moved[:3]
                raw.rotations[:3] = rot.multiply(moved[3:], raw.rotations[:3])
                raw.epoch = epoch
                if i == 60:
                    raw.new_from_old = moved
            out = gate.step(raw)
            np.testing.assert_allclose(out.positions, raw.positions, atol=1e-12)
            assert (out.state[:3] == TRACKED).all()
            if i == 62:
                before = 0.5 * np.cos(5 * i / 90)
                assert out.velocities[HAND, 1] == pytest.approx(before, abs=0.02)
            assert plain.shape == out.positions.shape
        assert gate.refused["jump"] == 0


def test_a_long_loss_of_the_head_starts_anew_without_walking_over():
    gate = TrackerGate()
    for i in range(400):
        raw = user(i)
        if 60 <= i < 300:
            raw.state[0] = LOST
        if i >= 300:
            raw.positions[:3] += (3.0, 0, 0)
        out = gate.step(raw)
        if i == 299:
            assert out.state[0] == LOST and out.epoch == 0
        if i == 300:
            assert out.epoch == 1
            np.testing.assert_array_equal(out.positions[0], raw.positions[0])


def test_one_controller_is_enough():
    gate = TrackerGate()
    for i in range(100):
        raw = user(i)
        raw.state[2] = LOST
        out = gate.step(raw)
    assert list(out.state[:3]) == [TRACKED, TRACKED, LOST] and out.sampled_ns[2] == 0


def test_slow_device_in_fast_frames_keeps_its_velocity():
    """A controller at 45 Hz in frames at 90 Hz: each pose occurs twice, with one sample time."""
    gate = TrackerGate()
    for i in range(180):
        raw = user(i)
        held = user(i - i % 2)
        raw.positions[HAND], raw.rotations[HAND] = held.positions[HAND], held.rotations[HAND]
        raw.sampled_ns[HAND] = held.stamp_ns
        out = gate.step(raw)
        np.testing.assert_array_equal(out.positions[HAND], raw.positions[HAND])
    at = (i - i % 2) / 90
    assert out.velocities[HAND, 0] == pytest.approx(0.5 * np.cos(5 * at), abs=0.02)


def damaged(seed: int, frames: int = 500):
    """Samples with losses, jumps, frozen and impossible poses, moves of the room, gaps and repeated stamps."""
    rng = np.random.default_rng(seed)
    stamp_ns, epoch, before = 0, 0, None
    for i in range(frames):
        stamp_ns += int(rng.choice([DT_NS, DT_NS, DT_NS, 2_000_000, 30_000_000, 0, 700_000_000, 3 * 10**9, -(10**9)],
                                   p=[0.9, 0, 0, 0.04, 0.03, 0.01, 0.01, 0.005, 0.005]))  # fmt: skip
        epoch += rng.random() < 0.005
        out = replace(user(i), stamp_ns=10**10 + stamp_ns, epoch=epoch)
        out.sampled_ns[:] = out.stamp_ns - rng.integers(0, 3_000_000) * (rng.random() < 0.3)
        if rng.random() < 0.01:
            out.new_from_old = np.array([*rng.normal(0, 0.3, 3), *rot.from_yaw(rng.normal())])
        for r in range(3):
            part = i // 40 + r + seed
            if part % 7 == 1 and rng.random() < 0.7:
                out.state[r] = rng.choice([LOST, EXTRAPOLATED])
            if part % 7 == 2 and rng.random() < 0.2:
                out.positions[r] += rng.normal(0, rng.choice([0.05, 0.5, 3.0]), 3)
            if part % 7 == 3 and before is not None:
                out.positions[r], out.rotations[r] = before.positions[r], before.rotations[r]
            if part % 7 == 4 and rng.random() < 0.2:
                out.positions[r] = rng.choice([0.0, np.nan, np.inf])
            if part % 7 == 5 and rng.random() < 0.3:
                out.rotations[r] = rot.exp(rng.normal(0, 2, 3)) * rng.choice([1.0, 0.5])
        before = out
        yield out


@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_equals_the_readable_form_on_damaged_samples(seed):
    settings = GateSettings(frozen_s=0.3 if seed % 2 else 0.0)
    gate, reference = TrackerGate(settings), reference_gate.TrackerGate(settings)
    for raw in damaged(seed):
        out, expected = gate.step(raw), reference.step(raw)
        assert (out is None) == (expected is None)
        if out is not None:
            assert (out.stamp_ns, out.epoch) == (expected.stamp_ns, expected.epoch)
            for name in ("positions", "rotations", "velocities", "angular_velocities", "state", "sampled_ns"):
                np.testing.assert_array_equal(getattr(out, name), getattr(expected, name))
    assert gate.refused == reference.refused
    assert min(gate.refused[k] for k in ("flag", "zero", "jump")) > 10
