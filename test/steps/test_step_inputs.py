"""Inputs of the step network: the same in every room, mirrored for mirrored motion, band-passes as specified."""

import math

import numpy as np
import pytest

from mm_ros.steps import inputs as si

HEIGHT = 1.7
ROOM_TURN = 1.1


def channels(seconds: float = 4.0) -> np.ndarray:
    """A head that walks, sways and looks around, and two hands."""
    rng = np.random.default_rng(3)
    t = np.arange(round(seconds * si.RATE)) / si.RATE
    c = np.zeros((len(t), si.CHANNELS))
    c[:, 0], c[:, 1] = 1.1 * t, 0.04 * np.sin(2 * math.pi * 0.9 * t)
    c[:, 2] = 1.6 + 0.02 * np.sin(2 * math.pi * 1.8 * t)
    c[:, 3], c[:, 4], c[:, 5] = 0.4 * np.sin(t), 0.1 * np.cos(t), 0.05 * np.sin(2 * t)
    for at, side in ((6, 0.3), (9, -0.3)):
        c[:, at : at + 3] = c[:, :3] + [0.2, side, -0.6] + 0.02 * rng.normal(size=3)
    c[:, si.LEFT_VALID :] = 1.0
    c[60:90, si.LEFT_VALID] = 0.0
    return c


def inputs(c: np.ndarray) -> np.ndarray:
    out = np.empty((len(c), si.INPUTS), np.float32)
    si.inputs_sequence(c, HEIGHT, out)
    return out


def mirrored_channels(channels: np.ndarray) -> np.ndarray:
    """Channels (T, CHANNELS) of the mirrored motion: y changes sign and the hands change places."""
    order = [0, 1, 2, 3, 4, 5, 9, 10, 11, 6, 7, 8, 13, 12]
    signs = np.array([1, -1, 1, -1, 1, -1, 1, -1, 1, 1, -1, 1, 1, 1.0])
    return np.asarray(channels[:, order] * signs)


def test_inputs_do_not_depend_on_place_and_axes_of_the_room() -> None:
    moved = channels()
    for row in moved:
        si.carry_channels(row, 3.0, -2.0, 0.0, ROOM_TURN)
    assert inputs(moved) == pytest.approx(inputs(channels()), abs=2e-5)


def test_a_memory_carried_with_the_room_continues_as_if_nothing_had_happened() -> None:
    c = channels()
    memory, row, out = si.new_memory(), np.empty(si.INPUTS), []
    for t, values in enumerate(c):
        now = values.copy()
        if t == 100:
            si.carry_memory(memory, 1.0, 2.0, 0.1, ROOM_TURN, HEIGHT)
        if t >= 100:
            si.carry_channels(now, 1.0, 2.0, 0.1, ROOM_TURN)
        si.inputs_step(now, HEIGHT, memory, row)
        out.append(row.copy())
    expected = inputs(c)
    expected[100:, 0] += 0.1 / HEIGHT  # the height of the head is absolute
    assert np.array(out) == pytest.approx(expected, abs=2e-5)


def test_mirrored_motion_gives_mirrored_inputs() -> None:
    own, other = inputs(channels()), inputs(mirrored_channels(channels()))
    flipped = [2, 5, 8, 10, 12, 13, 15, 20, 21, 22, 23]
    signs = np.ones(24)
    signs[flipped] = -1
    assert other[:, :24] == pytest.approx(own[:, :24] * signs, abs=1e-5)
    hand = np.array([1, -1, 1, 1, -1, 1, 1.0])
    assert other[:, 24:31] == pytest.approx(own[:, 31:38] * hand, abs=1e-5)


@pytest.mark.parametrize(("hz", "column", "band"), [(1.8, 16, si.BOB_HZ), (0.8, 20, si.SWAY_HZ)])
def test_a_band_pass_has_the_gain_and_phase_of_its_two_poles(hz: float, column: int, band: tuple[float, float]) -> None:
    t = np.arange(round(12 * si.RATE)) / si.RATE
    c = channels(12.0)
    c[:, :3], c[:, 3] = 0.0, 0.0
    c[:, 2 if column == 16 else 1] = 0.03 * np.sin(2 * math.pi * hz * t)
    found = inputs(c)[360:, column] * HEIGHT
    pole = [1j * hz / f for f in band]
    expected = 0.03 * (1 / (1 + pole[1])) * (1 - 1 / (1 + pole[0]))
    phasor = 2 * np.mean(found * np.exp(-2j * math.pi * hz * t[360:])) * 1j
    assert abs(phasor - expected) < 0.05 * abs(expected)
