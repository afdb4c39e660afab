"""Errors of the predicted path of the user, compared with the assumption that the headset keeps its velocity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F64, HEAD_ROLE
from mm_ros.evaluation.replay_chain import ChainResult
from mm_ros.motion.features import HORIZON_S
from mm_ros.tracking.simulation import TrackerTrack

# The user counts as standing at a sample if the hips stay within STANDING_M for STANDING_S before and after the sample.
STANDING_M, STANDING_S = 0.05, 1.0
SUFFIXES = tuple(f"{round(1000 * t)}ms" for t in HORIZON_S)
ERRORS = tuple(f"ahead_{s}_error_m" for s in SUFFIXES)
RAW_ERRORS = tuple(f"ahead_{s}_raw_error_m" for s in SUFFIXES)
# A metric in SHARES is the mean error of the predicted path, divided by that of a headset with constant velocity.
SHARES = tuple(f"ahead_{s}_share" for s in SUFFIXES)
STANDING = "standing_ahead_m"  # displacement [m] predicted for the latest time while the user stands, which should be 0


def values(r: ChainResult, trackers: TrackerTrack, times: F64, hips: F64, dt: float) -> dict[str, F64]:
    """Return the values of all metrics of the prediction of the user's path. `hips` (F, 2) holds the true positions of
    the hips on the floor every `dt` seconds; `times` holds the times [s] of the samples."""
    own: F64 = np.arange(len(hips), dtype=np.float64) * dt
    out: dict[str, F64] = {}
    for seconds, error, raw in zip(HORIZON_S, ERRORS, RAW_ERRORS, strict=True):
        seen = times + seconds <= own[-1]
        then = _at(own, hips, times[seen] + seconds)
        headset = trackers.positions[seen, HEAD_ROLE, :2] + seconds * trackers.velocities[seen, HEAD_ROLE, :2]
        out[error] = np.linalg.norm(predicted_position(r, seconds)[seen] - then, axis=1)
        out[raw] = np.linalg.norm(headset - then, axis=1)
    still = standing(hips, dt)[np.clip(np.round(times / dt).astype(int), 0, len(hips) - 1)]
    way = np.linalg.norm(predicted_position(r, HORIZON_S[-1]) - r.desired_position, axis=1)
    out[STANDING] = way[still]
    return out


def predicted_position(r: ChainResult, seconds: float) -> F64:
    """Return the position (F, 2) that is predicted for `seconds` after each sample, interpolated between the predicted
    times."""
    known = np.concatenate([[0.0], r.desired_times.astype(np.float64)])
    places = np.concatenate([r.desired_position[:, None], r.desired_ahead], axis=1)
    k = int(np.clip(np.searchsorted(known, seconds - 1e-6), 1, len(known) - 1))
    share = (seconds - known[k - 1]) / (known[k] - known[k - 1])
    return np.asarray(places[:, k - 1] + share * (places[:, k] - places[:, k - 1]))


def standing(hips: F64, dt: float) -> NDArray[np.bool_]:
    """Return for each frame (F,) whether the user stands; False in the first and last STANDING_S seconds of a clip."""
    reach = round(STANDING_S / dt)
    out = np.zeros(len(hips), bool)
    inner = slice(reach, len(hips) - reach)
    out[inner] = True
    for shift in range(1, reach + 1) if out.any() else ():
        for k in (shift, -shift):
            away = np.linalg.norm(np.roll(hips, k, axis=0) - hips, axis=1)
            out[inner] &= away[inner] < STANDING_M
    return out


def _at(own: F64, hips: F64, wanted: F64) -> F64:
    return np.stack([np.interp(wanted, own, hips[:, i]) for i in (0, 1)], axis=-1)
