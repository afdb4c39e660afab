"""Compare memory, time per frame and evaluation metrics of the three engines: search, learned and state machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.avatar import Avatar, AvatarSettings
from mm_ros.base.workers import in_its_own
from mm_ros.evaluation import measure, run
from mm_ros.evaluation.replay_chain import run_chain
from mm_ros.matching.engines.source import ENGINES, LEARNED, STATE_MACHINE
from mm_ros.matching.engines.state_machine import StateMachineStage
from mm_ros.matching.matcher import MatcherStage
from mm_ros.matching.model_file import LearnedModel, load_learned
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.files import read_database
from mm_ros.tracking.simulation import Simulation

Tell = Callable[[str, int, int], None]
INTERVALS = (0.01, 0.1, 1.0)
HALFLIVES = (0.01, 0.1, 1.0)
# PAPER holds the name, the time per frame [ms] and the memory [MB] of each engine in Szkaradek 2024, tables 5.5 and
# 5.6.
PAPER = {"search": ("MM", 0.13, 557.0), "learned": ("LMM_Big", 0.37, 7.4), "state_machine": ("FSM", 0.12, 1.6)}
PARTS = ("positions", "rotations", "velocities", "angular_velocities", "contacts", "tags", "features")


@dataclass(frozen=True)
class Contender:
    name: str
    settings: AvatarSettings


def contenders(base: AvatarSettings, effects: bool) -> list[Contender]:
    """Return the avatar's settings for the three matching engines (`search`, `learned`, `state_machine`). If `effects`
    is true, also return variants with the search intervals and blend half-lives of Szkaradek 2024."""
    learned = replace(base, matcher=base.matcher.with_values(engine="learned"))
    out = [Contender("search", base), Contender("learned", learned)]
    loops = replace(base, matcher=base.matcher.with_values(engine="state_machine"))
    out.append(Contender("state_machine", loops))
    for name, own in (("search", base), ("learned", learned)) if effects else ():
        for s in INTERVALS:
            changed = replace(own, matcher=own.matcher.with_values(search_interval=s))
            out.append(Contender(f"{name}, every {s:g} s", changed))
        for s in (*HALFLIVES, 0.0):
            what = f"half-life {s:g} s" if s else "no inertialization"
            out.append(Contender(f"{name}, {what}", replace(own, post=own.post.with_values(blend_halflife=s))))
    return out


class _Timed:
    def __init__(self, stage: Any) -> None:
        self.stage, self.took_s = stage, list[float]()

    def step(self, desired: Any) -> Any:
        began = time.perf_counter()
        out = self.stage.step(desired)
        self.took_s.append(time.perf_counter() - began)
        return out

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)


def make_avatar(contender: Contender, database: MotionDatabase, calibration: Any) -> Avatar:
    return Avatar.load(database, calibration, contender.settings)


def compare(
    inputs: Sequence[Any], path: Path, chosen: Sequence[Contender], simulation: Simulation, tell: Tell
) -> dict[str, dict[str, Any]]:
    """Return for each engine the summary of `mm_ros evaluate`, in which `frame_ms` is the time of the matcher alone."""
    database = read_database(path)
    whole, limit = run.measure_database(database)
    parts: dict[str, list[measure.Measured]] = {c.name: [] for c in chosen}
    truths, done = [], 0
    frame_ms: dict[str, list[float]] = {c.name: [] for c in chosen}
    for name, given in inputs:
        task = run.task_of(name, given, path, simulation, limit)
        track, calibration, truth, _, known, changes = run.input_of(task)
        own_limit = run.pop_limit(limit, truth)
        for c in chosen:
            tell("running", done, len(inputs) * len(chosen))
            done += 1
            avatar = make_avatar(c, database, calibration)
            avatar.warm_up()
            timed = _Timed(avatar.matcher)
            avatar.matcher = timed  # type: ignore[assignment]
            result = run_chain(track, avatar, warm=False, calibrations=changes)
            taken = run.taken_of(track, result)
            parts[c.name].append(measure.of_chain(result, taken, truth, own_limit, known))
            frame_ms[c.name] += [1e3 * s for s in timed.took_s]
        if truth is not None:
            truths.append(measure.of_truth(truth, own_limit))
    out: dict[str, dict[str, Any]] = {name: measure.pooled(p) for name, p in parts.items()}
    for name, ms in frame_ms.items():
        out[name]["frame_ms"] = {"mean": float(np.mean(ms)), "median": float(np.median(ms)),
                                 "p99": float(np.percentile(ms, 99))}  # fmt: skip
    if truths:
        out["ground truth"] = measure.pooled(truths)
    out["database"] = measure.pooled([whole])
    return out


def memory(path: Path, model: str) -> dict[str, dict[str, float]]:
    """Return the memory of each engine in MB: the sum of its arrays, the size of its file and the growth of its
    process."""
    database, learned = read_database(path), LearnedModel(model)
    stored = {"search": path.stat().st_size, "learned": learned.path.stat().st_size}
    grown = {engine: in_its_own(_grown, (engine, path, model)) for engine in ("search", "learned")}
    return {
        engine: {
            "counted_mb": counted_mb(engine, database, learned),
            "file_mb": stored.get(engine, float("nan")) / 1e6,
            "process_grew_mb": grown.get(engine, float("nan")),
        }
        for engine in ENGINES
    }


def counted_mb(engine: str, database: MotionDatabase, learned: LearnedModel | None) -> float:
    """Return the size of all arrays that an engine needs [MB]; `learned` is the model of the learned engine."""
    if engine == STATE_MACHINE:
        return StateMachineStage(database).memory_bytes / 1e6
    if engine == LEARNED:
        assert learned is not None
        kept, motion = learned.weight_bytes, learned.digest
    else:
        kept, motion = sum(a.nbytes for a in database.search_arrays.values()), database
    return float(kept + sum(np.asarray(getattr(motion, n)).nbytes for n in PARTS)) / 1e6


def endurance(path: Path, model: str, minutes: float, noise: float) -> dict[str, dict[str, Any]]:
    """Return the results of the endurance test (`endurance.py`) for the search and the learned engine."""
    from mm_ros.evaluation.endurance import endure
    from mm_ros.matching.matcher import MatcherSettings

    learned, database = LearnedModel(model), read_database(path)
    out = {}
    for name, motion, settings in (
        ("search", database, MatcherSettings()), ("learned", learned.digest, MatcherSettings(engine="learned")),
    ):  # fmt: skip
        stage = MatcherStage(settings, motion, learned=learned if name == "learned" else None)
        out[name] = endure(stage, motion.layout.trajectory_times, minutes, noise=noise)
    return out


def _grown(asked: tuple[str, Path, str]) -> float:
    """Return by how many MB the memory of the process grows, apart from libraries, when an engine is loaded and all
    data of the engine are read."""
    from mm_ros.body.types import still_trajectory
    from mm_ros.matching.matcher import MatcherSettings

    engine, path, model = asked
    settings = MatcherSettings(engine=engine, model=model)
    LearnedModel()  # onnxruntime is loaded before the measurement, so that the memory of this library is not counted
    MatcherStage(MatcherSettings(engine="learned"), LearnedModel().digest, learned=LearnedModel()).warm_up()
    before = _resident_mb()
    learned = load_learned(settings)
    database = learned.digest if learned is not None else read_database(path)
    stage = MatcherStage(settings, database, learned=learned)
    stage.warm_up()
    if learned is None:
        for name in PARTS:
            np.asarray(getattr(database, name)).sum()
    for _ in range(100):
        stage.step(still_trajectory(database.layout.trajectory_times))
    return _resident_mb() - before


def _resident_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1e3
    return float("nan")
