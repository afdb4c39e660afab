"""Explain why a search has chosen its winner, by the query and by the costs of the winner and other candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.avatar import Avatar
from mm_ros.base.errors import MmRosError
from mm_ros.body.types import Calibration, Match
from mm_ros.motion.database import MotionDatabase
from mm_ros.tracking.simulation import TrackerTrack


@dataclass(frozen=True)
class Candidate:
    frame: int
    clip: str
    time: float
    cost: float
    by_feature: dict[str, float]


@dataclass(frozen=True)
class Explanation:
    at: float  # time of the explained search after the start of the recording [s]
    match: Match
    winner: Candidate
    runners_up: tuple[Candidate, ...]
    current: Candidate | None  # the frame that was played just before this search
    query: dict[str, list[float]]


def explain(
    track: TrackerTrack, avatar: Avatar, at: float, k: int = 5, calibrations: Mapping[int, Calibration] | None = None
) -> Explanation:
    """Explain the last search that runs at most `at` seconds after the start of the recording `track`.

    `calibrations` maps the index of a tracker sample to the calibration that takes effect before the sample.
    """
    last = (track.stamps_ns[-1] - track.stamps_ns[0]) * 1e-9
    if not 0 <= at <= last:
        raise MmRosError(f"--at: expected 0 to {last:.2f} s, came {at:g}")
    avatar.warm_up()
    avatar.matcher.explain = True
    found: Explanation | None = None
    before = -1
    for i in range(len(track)):
        t = (track.stamps_ns[i] - track.stamps_ns[0]) * 1e-9
        if t > at and found is not None:
            break
        if calibrations and i in calibrations:
            avatar.set_calibration(calibrations[i])
        if avatar.step(track.frame(i)) is None or avatar.last is None:
            continue
        match = avatar.last.match
        if match.searched and match.query.size:
            found = _explained(avatar, match, float(t), before, k)
        before = match.frame
    if found is None:
        raise MmRosError("no search ran up to that time")
    return found


def _explained(avatar: Avatar, match: Match, t: float, before: int, k: int) -> Explanation:
    database = avatar.matcher.database
    layout, others = database.layout, [int(f) for f in match.runner_up_frames if f >= 0][:k]
    # The played time of a clip can lie between two frames: the search compares the nearer frame, but `match.frame` is
    # rounded down.
    shown = match.frame + int(not np.array_equal(database.features[match.frame], match.winner))
    physical = match.query * database.feature_std + database.feature_mean
    return Explanation(
        t, match, _candidate(database, match, shown),
        tuple(_candidate(database, match, f) for f in others),
        _candidate(database, match, before) if before >= 0 else None,
        {name: [float(v) for v in physical[where]] for name, where in layout.offsets.items()},
    )  # fmt: skip


def _candidate(database: MotionDatabase, match: Match, frame: int) -> Candidate:
    terms = match.weights * (np.asarray(database.features[frame]) - match.query) ** 2
    clip = database.clip_of(frame)
    return Candidate(
        frame, database.clip_names[clip], float((frame - database.range_starts[clip]) / database.rate),
        float(terms.sum()), {n: float(terms[s].sum()) for n, s in database.layout.offsets.items()},
    )  # fmt: skip


def lines(e: Explanation) -> list[list[str]]:
    """Return a table of costs with one row per candidate and one column per feature; row 0 contains the headings."""
    names = list(e.winner.by_feature)
    out = [["", "clip", "at s", "frame", "cost", *names]]
    rows: list[tuple[str, Candidate]] = [("winner", e.winner)]
    rows += [("continue", e.current)] if e.current else []
    rows += [(f"{i + 2}.", c) for i, c in enumerate(e.runners_up)]
    for label, c in rows:
        costs = [f"{c.by_feature[n]:.2f}" for n in names]
        out.append([label, c.clip, f"{c.time:.2f}", str(c.frame), f"{c.cost:.2f}", *costs])
    return out


def as_json(e: Explanation) -> dict[str, Any]:
    return {
        "at": e.at, "reason": e.match.reason, "band": e.match.band, "continue_cost": e.match.continue_cost,
        "query": e.query, "winner": vars(e.winner), "runners_up": [vars(c) for c in e.runners_up],
        "played_on": vars(e.current) if e.current else None,
    }  # fmt: skip
