"""The gate on 17 real recordings."""

import os
from pathlib import Path

import numpy as np
import pytest

from mm_ros.body.types import EXTRAPOLATED, LEFT_HAND_ROLE, LOST, ROLES, TRACKED
from mm_ros.sessions.tables import read_table
from mm_ros.tracking.gate import TrackerGate

DATA = Path(os.environ.get("MM_ROS_DATA") or Path(__file__).parents[3] / "shared" / "data")
FILES = sorted(f for f in (DATA / "vr_sessions").glob("*.csv") if f.name != "manifest.csv")
pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {DATA}/vr_sessions; set MM_ROS_DATA")


def pairs(path, spoil=None):
    gate = TrackerGate()
    raws = read_table(path, start_ns=10**9)
    for i, raw in enumerate(raws):
        if spoil:
            spoil(i, raw)
    return raws, [gate.step(raw) for raw in raws], gate


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_recording(path):
    raws, outs, _ = pairs(path)
    assert all(out is not None for out in outs)  # every sample comes out: the rate is the input's
    p = np.array([f.positions for f in raws])
    q = np.array([f.positions for f in outs])
    seen = np.array([f.state for f in outs]) == TRACKED
    error = np.linalg.norm(q - p, axis=-1)
    assert error[seen].max() < 1e-3
    assert seen[:, 0].all()
    came = np.array([f.state for f in raws]) == TRACKED
    assert seen[came].mean() > 0.985  # what is missing is frozen
    steps = np.linalg.norm(np.diff(q, axis=0), axis=-1)
    moves = np.linalg.norm(np.diff(p, axis=0), axis=-1)
    around = np.maximum(np.roll(moves, 1, 0), np.roll(moves, -1, 0))
    around[[0, -1]] = 1
    assert not ((steps > 0.05) & (around < 0.005)).any()


@pytest.mark.parametrize("name", ["laserhands", "leftoverHover"])
def test_headset_alone(name):
    path = next(f for f in FILES if f.stem.endswith(name))
    _, outs, _ = pairs(path)
    assert all((f.state[1:] == LOST).all() and f.state[0] == TRACKED for f in outs)


def test_injected_spikes_are_taken_out():
    """Single wrong samples are inserted into each recording while the hand is at rest; the gate refuses all."""
    rng = np.random.default_rng(5)
    path = next(f for f in FILES if "tracked-recording" in f.stem)
    clean, _, plain = pairs(path)
    p = np.array([f.positions[LEFT_HAND_ROLE] for f in clean])
    still = np.linalg.norm(np.diff(p, axis=0), axis=-1) < 0.005
    bad = {int(i): rng.normal(size=3) for i in rng.integers(50, len(p) - 50, 40) if still[i - 3 : i + 3].all()}
    assert len(bad) > 10

    def spoil(i, raw):
        if i in bad:
            raw.positions[LEFT_HAND_ROLE] += 0.3 * bad[i] / np.linalg.norm(bad[i])

    _, outs, gate = pairs(path, spoil)
    q = np.array([f.positions[LEFT_HAND_ROLE] for f in outs])
    assert np.linalg.norm(np.diff(q, axis=0), axis=-1)[list(bad)].max() < 0.03
    assert gate.refused["jump"] == plain.refused["jump"] + len(bad)
    assert all(outs[i].state[LEFT_HAND_ROLE] == EXTRAPOLATED for i in bad)


def test_a_frozen_controller_is_found():
    path = next(f for f in FILES if "tracked-recording" in f.stem)
    _, outs, gate = pairs(path)  # its right controller stands perfectly still for 0.8 s
    assert gate.refused["frozen"] > 10
    assert any(f.state[ROLES.index("right_hand")] == LOST for f in outs)
