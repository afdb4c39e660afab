"""From paths to the table: what `mm_ros evaluate` does, without the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mm_ros.core.avatar import AvatarSettings
from mm_ros.core.clip import Clip
from mm_ros.core.errors import MmRosError
from mm_ros.core.kinds import KINDS
from mm_ros.core.landmark_simulation import COMMON, LandmarkSimulation
from mm_ros.core.simulated_trackers import Simulation
from mm_ros.io.bag_paths import is_session
from mm_ros.io.database import read_database
from mm_ros.io.importing import load_clips
from mm_ros.io.session import read_session
from mm_ros.offline.evaluation import measure, run
from mm_ros.offline.evaluation.rows import DATABASE, GROUND_TRUTH, ROW_NAMES, Row
from mm_ros.offline.evaluation.table import fletcher_lines

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Evaluation:
    """`table` is what --json writes; `outcomes` hold the frames for reports."""

    table: dict[str, Any]
    outcomes: list[run.Outcome] = field(default_factory=list)


def evaluate(
    paths: Sequence[Path],
    database: Path,
    rows: tuple[Row, ...],
    settings: AvatarSettings,
    simulation: Simulation,
    jobs: int,
    tell: Progress,
    keep: bool = False,
    clips: Sequence[Clip] | None = None,
    camera: LandmarkSimulation = COMMON,
) -> Evaluation:
    whole, limit = run.measure_database(read_database(database))
    inputs: list[tuple[str, Any]] = [(c.name, c) for c in clips] if clips is not None else read_inputs(paths, tell)
    tasks = [
        replace(run.task_of(name, given, database, simulation, limit, rows, settings, keep), camera=camera)
        for name, given in inputs
    ]
    outcomes = run.run_all(tasks, jobs, tell)
    return Evaluation(table_of(outcomes, whole, rows), outcomes)


def read_inputs(paths: Sequence[Path], tell: Progress) -> list[tuple[str, Any]]:
    """Sessions are rosbag2 folders or files; all else goes through the importer."""
    sessions = [p for p in paths if is_session(p)]
    others = [p for p in paths if p not in sessions]
    for p in paths:
        if not p.exists():
            raise MmRosError(f"{p} does not exist; expected BVH files, folders, archives, or sessions")
    out: list[tuple[str, Any]] = [(p.name, read_session(p)) for p in sessions]
    if others:
        out += [(c.name, c) for c in load_clips(others, progress=tell) if c.seconds >= 1.0]
    if not out:
        raise MmRosError("nothing to evaluate: all clips are shorter than a second")
    for name, given in out:
        if not isinstance(given, Clip) and given.damage:
            print(f"mm_ros: {name}: {given.damage}", file=sys.stderr)
        if not isinstance(given, Clip) and len(given.frames) < 10:
            raise MmRosError(f"session {name} has {len(given.frames)} samples of trackers; at least 10 are needed")
    return out


def table_of(outcomes: list[run.Outcome], database: measure.Measured, rows: tuple[Row, ...]) -> dict[str, Any]:
    names = [n for n in ROW_NAMES if any(n in o.rows for o in outcomes)]
    summary: dict[str, Any] = {n: measure.pooled([o.rows[n] for o in outcomes if n in o.rows]) for n in names}
    summary[DATABASE] = measure.pooled([database])
    kinds = {}
    for n in names:
        if n == GROUND_TRUTH:
            continue
        with_kinds = [o for o in outcomes if len(o.kinds)]
        if with_kinds:
            kinds[n] = measure.by_kind([o.rows[n] for o in with_kinds], [o.kinds for o in with_kinds], KINDS)
    ours, brute = ([o.hashes.get(n) for o in outcomes] for n in ("ours", "brute"))
    return {
        "clips": [
            {"name": o.name, "seconds": o.seconds, "rows": {n: measure.pooled([r]) for n, r in o.rows.items()}}
            for o in outcomes
        ],
        "summary": summary,
        "beside_fletcher": fletcher_lines(summary),
        "kinds": kinds,
        "seconds": sum(o.seconds for o in outcomes),
        "hash": run.combined_hash(outcomes),
        "brute_equals_ours": ours == brute if any(r.name == "brute" for r in rows) else None,
    }
