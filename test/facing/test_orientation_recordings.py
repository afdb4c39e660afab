"""Recordings of real headsets: the facing is finite, smooth, and near the headset. They have no truth."""

from pathlib import Path

import numpy as np
import pytest
from orientation_toys import degrees_apart

from mm_ros.body.types import Calibration
from mm_ros.facing.model_file import load_facing_model
from mm_ros.facing.orientation import OrientationSettings, OrientationStage
from mm_ros.maths import rotations as rot
from mm_ros.sessions.tables import read_table
from mm_ros.tracking.gate import TrackerGate


@pytest.fixture(scope="module")
def recordings(data_dir: Path) -> list[Path]:
    found = sorted(p for p in (data_dir / "vr_sessions").glob("*.csv") if p.name != "manifest.csv")
    if not found:
        pytest.skip(f"no recordings in {data_dir}/vr_sessions")
    return found


def predicted(path: Path, predictor: str = "network") -> np.ndarray:
    """(F, 3): seconds, yaw, sigma."""
    settings = OrientationSettings(predictor=predictor)
    gate, stage = TrackerGate(), OrientationStage(settings, Calibration(), load_facing_model(settings))
    rows = []
    for raw in read_table(path, start_ns=10**9):
        frame = gate.step(raw)
        if frame is not None:
            out = stage.step(frame)
            rows.append((out.stamp_ns * 1e-9, out.yaw, out.sigma))
    return np.array(rows)


def test_real_recordings_give_a_finite_and_smooth_facing(recordings):
    rates = []
    for path in recordings:
        found = predicted(path)
        assert np.isfinite(found).all(), path.name
        turned = np.degrees(np.abs(rot.wrap_angle(np.diff(found[:, 1]))))
        assert turned.max() <= 10, path.name
        rates.append(turned / np.maximum(np.diff(found[:, 0]), 1e-3))
    assert np.percentile(np.concatenate(rates), 99.9) < 400


def test_the_facing_stays_with_the_user(recordings):
    """A neck turns by about 80°, so 95 % of the angles between body and headset are smaller."""
    apart = [degrees_apart(predicted(p)[:, 1], predicted(p, "hmd_forward")[:, 1]) for p in recordings]
    assert np.percentile(np.concatenate(apart), 95) < 75
