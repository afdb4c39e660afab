"""Evaluation of clips and sessions as a function for Python programs; `mm_ros evaluate` calls this function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.avatar import AvatarSettings
from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD, LEFT_LOWER_ARM, LEFT_UPPER_ARM, NECK, RIGHT_LOWER_ARM, RIGHT_UPPER_ARM
from mm_ros.body.types import F32
from mm_ros.evaluation import hand_pose_facing, measure, run
from mm_ros.evaluation.footfalls import Landings
from mm_ros.evaluation.rows import CHANCE, DATABASE, GROUND_TRUTH, OURS, ROW_NAMES, STEPS, Row
from mm_ros.evaluation.table import fletcher_lines
from mm_ros.motion.cleaning.clips import resample
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.files import read_database
from mm_ros.motion.importing import load_clips
from mm_ros.motion.kinds import KINDS
from mm_ros.sessions.paths import is_session
from mm_ros.sessions.session import Session, read_session
from mm_ros.sessions.tables import FOOTFALLS, Table, is_table, read_devices, read_footfalls
from mm_ros.tracking.hand_poses import ESTIMATED
from mm_ros.tracking.landmark_simulation import COMMON, LandmarkSimulation
from mm_ros.tracking.simulation import Simulation

# Two clips count as copies if the rotations of the joints in COMPARED agree. The median difference of the rotations is
# about 0.001° for copies of one recording, and at least 1° for two recordings of one person.
COMPARED = [HEAD, NECK, LEFT_UPPER_ARM, LEFT_LOWER_ARM, RIGHT_UPPER_ARM, RIGHT_LOWER_ARM]
SAME_RAD = 0.003

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Evaluation:
    """Result of an evaluation: `table` holds what `mm_ros evaluate --json` writes; `outcomes` holds the results of each
    clip."""

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
    footfalls: Path | None = None,
    feed_all: bool = False,
    hand_pose: str = ESTIMATED,
    facing_by_hand_pose: bool = False,
) -> Evaluation:
    motion = read_database(database)
    whole, limit = run.measure_database(motion)
    inputs: list[tuple[str, Any, Landings | None]] = [(c.name, c, None) for c in clips or ()]
    if clips is None:
        inputs = read_inputs(paths, tell)
    if footfalls is not None:
        if len(inputs) != 1:
            raise MmRosError(f"--footfalls applies to one recording, came {len(inputs)}; name files NAME{FOOTFALLS}")
        inputs = [(name, given, footfalls_of(given, footfalls)) for name, given, _ in inputs]
    tasks = [
        replace(run.task_of(name, given, database, simulation, limit, rows, settings, keep),
                camera=camera, footfalls=marks, feed_all=feed_all, hand_pose=hand_pose,
                facing_by_hand_pose=facing_by_hand_pose)
        for name, given, marks in inputs
    ]  # fmt: skip
    outcomes = run.run_all(tasks, jobs, tell)
    known = clips_in(motion, [given for _, given, _ in inputs if isinstance(given, Clip)])
    return Evaluation({**table_of(outcomes, whole, rows), "in_database": known}, outcomes)


def clips_in(database: MotionDatabase, clips: Sequence[Clip]) -> list[str]:
    """Return the names of the clips of which the database contains about half of the frames or more.

    The rotations of arms and head are compared, because they are equal in the motion file and in the database.
    """
    known = np.asarray(database.rotations)[:, COMPARED]
    return [c.name for c in clips if _is_in(known, resample(c, database.rate).rotations[:, COMPARED])]


def _is_in(known: F32, own: F32) -> bool:
    for probe in (len(own) // 4, len(own) // 2, 3 * len(own) // 4):
        row = int(np.abs(np.einsum("nkc,kc->nk", known, own[probe])).sum(axis=1).argmax())
        rows = np.clip(row - probe + np.arange(len(own)), 0, len(known) - 1)
        half_angles = np.arccos(np.clip(np.abs((known[rows] * own).sum(axis=-1, dtype=np.float64)), 0, 1))
        if 2 * np.median(half_angles) < SAME_RAD:
            return True
    return False


def expanded(paths: Sequence[Path]) -> list[Path]:
    """Return all files that the patterns and folders in `paths` contain; refuse a pattern or folder without a file."""
    out: list[Path] = []
    for p in paths:
        found = [p] if p.exists() else [Path(name) for name in sorted(glob(str(p), recursive=True))]
        if not found:
            raise MmRosError(f"{p}: there is no such file or folder")
        for path in found:
            tables = sorted(path.glob("*.csv")) if path.is_dir() and not is_session(path) else []
            tables = [t for t in tables if is_table(t)]
            motion = path.is_dir() and any(path.rglob("*.[bB][vV][hH]"))
            out += [*([path] if motion or not tables else []), *tables]
    return [p for p in out if len(out) == 1 or not p.name.endswith(FOOTFALLS)]


def read_inputs(paths: Sequence[Path], tell: Progress) -> list[tuple[str, Any, Landings | None]]:
    """Read CSV tables and sessions (rosbag2), each with the file of marked footfalls in its folder, and read all other
    paths as motion files."""
    paths = expanded(paths)
    sessions = [p for p in paths if is_session(p)]
    tables = [p for p in paths if p.suffix.lower() == ".csv" and p.is_file()]
    others = [p for p in paths if p not in sessions and p not in tables]
    out: list[tuple[str, Any, Landings | None]] = []
    for p in (*sessions, *tables):
        given = read_session(p) if p in sessions else read_devices(p)
        name = p.name if p in sessions else p.stem
        marks = p.with_name(name + FOOTFALLS)
        out.append((name, given, footfalls_of(given, marks) if marks.is_file() else None))
        samples = len(given.frames if isinstance(given, Session) else given.devices["head"])
        if isinstance(given, Session) and given.damage:
            print(f"mm_ros: {p.name}: {given.damage}", file=sys.stderr)
        if samples < 10:
            raise MmRosError(f"{p.name} has {samples} samples of the headset; at least 10 are needed")
    if others:
        out += [(c.name, c, None) for c in load_clips(others, progress=tell) if c.seconds >= 1.0]
    if not out:
        raise MmRosError("nothing to evaluate: all clips are shorter than a second")
    return out


def footfalls_of(given: Any, path: Path) -> Landings:
    """Return the times [s] of marked footfalls: in the clock of a table, or from the first sample of a session."""
    return read_footfalls(path, given.began if isinstance(given, Table) else 0.0)


def table_of(outcomes: list[run.Outcome], database: measure.Measured, rows: tuple[Row, ...]) -> dict[str, Any]:
    names = [n for n in ROW_NAMES if any(n in o.rows for o in outcomes)]
    summary: dict[str, Any] = {n: measure.pooled([o.rows[n] for o in outcomes if n in o.rows]) for n in names}
    for name in (r.name for r in rows if r.name in summary):
        summary[name] = {**dict.fromkeys(measure.NEEDS), **summary[name]}
    summary[DATABASE] = measure.pooled([database])
    facing = hand_pose_facing.pooled([o.facing for o in outcomes if o.facing])
    if facing:
        summary[OURS]["predicted_facing_by_hand_pose_deg"] = facing
    within = measure.intervals([o.rows[OURS] for o in outcomes if OURS in o.rows])
    if within:
        summary[OURS]["interval_95"] = within
    kinds = {}
    for n in names:
        if n in (GROUND_TRUTH, STEPS, CHANCE):
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
        "missing": {k: f"needs {why}" for k, why in measure.NEEDS.items() if summary[OURS].get(k) is None},
        "beside_fletcher": fletcher_lines(summary),
        "kinds": kinds,
        "seconds": sum(o.seconds for o in outcomes),
        "hash": run.combined_hash(outcomes),
        "brute_equals_ours": ours == brute if any(r.name == "brute" for r in rows) else None,
    }
