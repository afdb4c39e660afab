"""Measure the avatar and all baselines on clips and recorded sessions, in parallel processes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mm_ros.avatar import Avatar, AvatarSettings
from mm_ros.base.errors import MmRosError
from mm_ros.base.workers import mapped
from mm_ros.body.clip import Clip
from mm_ros.body.landmarks import Sighting
from mm_ros.body.skeleton import canonical_kinematics
from mm_ros.body.types import LOST, ROLES, Calibration, TrackerFrame
from mm_ros.evaluation import measure
from mm_ros.evaluation.footfalls import Landings
from mm_ros.evaluation.hand_pose_facing import Errors, facing_errors
from mm_ros.evaluation.measure import Measured, Truth
from mm_ros.evaluation.reference import (
    CARRIERS,
    FED,
    Device,
    Known,
    arm_of_skeleton,
    arm_of_user,
    devices_of_frames,
)
from mm_ros.evaluation.replay_chain import ChainResult, run_chain
from mm_ros.evaluation.rows import CHANCE, DATABASE, GROUND_TRUTH, OURS, STEPS, Row
from mm_ros.evaluation.still import StillStage
from mm_ros.evaluation.true_feet import TrueFeetStage
from mm_ros.facing.model_file import load_facing_model
from mm_ros.maths import rotations as rot
from mm_ros.motion import metrics as m
from mm_ros.motion.contacts import TOES, contacts, contacts_of
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.files import read_database
from mm_ros.motion.kinds import KINDS, kinds_of
from mm_ros.sessions.session import Session
from mm_ros.sessions.tables import Table
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.hand_poses import ESTIMATED
from mm_ros.tracking.landmark_simulation import COMMON, LandmarkSimulation, simulate_landmarks
from mm_ros.tracking.live import live_frames
from mm_ros.tracking.session_making import START_NS
from mm_ros.tracking.simulation import Simulation, TrackerTrack, simulate_clip


@dataclass(frozen=True)
class Task:
    """One clip, session or table to evaluate, with the settings that a worker process needs for the evaluation."""

    name: str
    database: Path
    rows: tuple[Row, ...]
    settings: AvatarSettings
    simulation: Simulation
    pop_limit: float
    given: Clip | Session | Table
    footfalls: Landings | None = None  # times [s] at which the user's feet landed, marked by hand
    feed_all: bool = False  # True if the avatar also uses the user's body trackers
    hand_pose: str = ESTIMATED  # convention of controller poses in a CSV table (docs/hand-poses.md)
    facing_by_hand_pose: bool = False  # True to measure the facing for each convention of controller poses
    keep: bool = False  # True to keep the poses of all frames for the HTML report
    camera: LandmarkSimulation = COMMON


def task_of(
    name: str, given: Clip | Session | Table, database: Path, simulation: Simulation, limit: float,
    rows: tuple[Row, ...] = (), settings: AvatarSettings | None = None, keep: bool = False,
) -> Task:  # fmt: skip
    return Task(name, database, rows, settings or AvatarSettings(), simulation, limit, given, keep=keep)


class Inputs(NamedTuple):
    """Input of the avatar's stages for one clip, session or table, and the true poses of the user."""

    track: TrackerTrack
    calibration: Calibration  # calibration of the user at the start of the recording
    truth: Truth | None
    kinds: NDArray[np.int8]
    known: Known
    # maps the index of a tracker sample to the calibration that takes effect before the sample
    calibrations: Mapping[int, Calibration] = MappingProxyType({})


@dataclass
class Outcome:
    name: str
    seconds: float
    rows: dict[str, Measured]
    kinds: NDArray[np.int8]
    hashes: dict[str, str]
    kept: dict[str, Any] = field(default_factory=dict)
    facing: Errors = field(default_factory=dict)  # facing errors for each convention of controller poses


def run_all(tasks: list[Task], jobs: int, tell: Callable[[str, int, int], None]) -> list[Outcome]:
    out = []
    for i, outcome in enumerate(mapped(run_one, tasks, jobs)):
        out.append(outcome)
        tell("evaluating", i + 1, len(tasks))
    return out


def run_one(task: Task) -> Outcome:
    database = _database(task.database)
    track, calibration, truth, kinds, known, calibrations = input_of(task)
    limit = pop_limit(task.pop_limit, truth)
    rows: dict[str, Measured] = {}
    hashes: dict[str, str] = {}
    kept: dict[str, Any] = {}
    for row in task.rows:
        seen = sightings(task, track) if row.camera else []
        if (row.camera and not seen) or (row.needs_truth and truth is None):
            continue  # skips a baseline that needs camera landmarks or true poses which the recording lacks
        avatar = make_avatar(row, task.settings, database, calibration)
        if row.true_feet and truth is not None:
            avatar.trajectory.steps = TrueFeetStage(avatar.trajectory.steps, truth, int(track.stamps_ns[0]))
        facing = true_facing(truth, track) if row.true_facing and truth is not None else None
        result = run_chain(track, avatar, facing, sightings=seen, calibrations=calibrations)
        taken = taken_of(track, result)
        rows[row.name] = measure.of_chain(result, taken, truth, limit, known)
        hashes[row.name] = pose_hash(result)
        if row.name == OURS:
            more = {STEPS: measure.of_estimate(result, truth, known), CHANCE: measure.of_chance(rows[OURS])}
            rows |= {name: measured for name, measured in more.items() if measured is not None}
        if task.keep and row.name == OURS:
            kept = {"result": result, "skeleton": avatar.skeleton, "truth": truth}
    if truth is not None:
        rows[GROUND_TRUTH] = measure.of_truth(truth, limit)
    seconds = (track.stamps_ns[-1] - track.stamps_ns[0]) * 1e-9
    return Outcome(task.name, float(seconds), rows, kinds, hashes, kept, _facing(task, track, truth, calibration))


def _facing(task: Task, track: TrackerTrack, truth: Truth | None, calibration: Calibration) -> Errors:
    settings = task.settings.orientation
    model = load_facing_model(settings)
    if not task.facing_by_hand_pose or truth is None or model is None or not isinstance(task.given, Clip):
        return {}
    return facing_errors(track, truth, calibration, settings, model)


_DATABASES: dict[Path, MotionDatabase] = {}


def _database(path: Path) -> MotionDatabase:
    if path not in _DATABASES:
        _DATABASES[path] = read_database(path)
    return _DATABASES[path]


def make_avatar(row: Row, base: AvatarSettings, database: MotionDatabase, calibration: Calibration) -> Avatar:
    avatar = Avatar.load(database, calibration, row.settings(base))
    if row.drag:
        avatar.matcher = StillStage(avatar.database, avatar.scale)  # type: ignore[assignment]
    return avatar


def input_of(task: Task) -> Inputs:
    given = task.given
    if isinstance(given, Clip):
        kinds, _ = kinds_of(given)
        known = Known({}, task.footfalls, arm_of_skeleton(given.skeleton))
        calibration = from_skeleton(given.skeleton)
        return Inputs(simulate_clip(given, task.simulation), calibration, truth_of(given), kinds, known)
    if isinstance(given, Table):
        return _input_of_table(given, task)
    return _input_of_session(given, task)


def _input_of_table(table: Table, task: Task) -> Inputs:
    """Return the tracker samples of a table after the filter, calibration and placement in the room that the node
    `tracker_bridge` applies to a user without a stored calibration."""
    fed = ROLES if task.feed_all else FED
    live = live_frames(table.frames(START_NS, fed), hand_pose=task.hand_pose)
    if not live.frames:
        raise MmRosError(f"{task.name}: the headset is not tracked in any sample, so there is no pose")
    devices = {}
    for role, rows in table.devices.items():
        if role in CARRIERS and len(rows) > 1:
            stamps = START_NS + np.round(rows[:, 0] * 1e9).astype(np.int64)
            devices[role] = Device(stamps, *live.to_map(stamps, rows[:, 1:4], rows[:, 4:]))
    arm = arm_of_user(live.frames, live.calibrations[max(live.calibrations)])
    return Inputs(
        track_of_frames(live.frames, live.repeated), live.calibrations[0], None, np.zeros(0, np.int8),
        Known(devices, task.footfalls, arm, START_NS), live.calibrations,
    )  # fmt: skip


def _input_of_session(session: Session, task: Task) -> Inputs:
    frames, calibrations = session.frames, dict[int, Calibration]()
    devices = devices_of_frames(frames)
    if not task.feed_all:
        frames = [_only(f, FED) for f in frames]
    calibration = session.calibration
    if calibration is None:
        live = live_frames(frames, gated=True)
        frames, calibrations, calibration = live.frames, live.calibrations, live.calibrations[0]
        for role, d in devices.items():
            devices[role] = Device(d.stamps_ns, *live.to_map(d.stamps_ns, d.positions, d.rotations))
    truth = truth_of_session(session)
    skeleton = session.truth_skeleton
    arm = arm_of_skeleton(skeleton) if skeleton is not None else arm_of_user(frames, calibration)
    known = Known(devices, task.footfalls, arm, session.frames[0].stamp_ns)
    return Inputs(track_of_frames(frames), calibration, truth, np.zeros(0, np.int8), known, calibrations)


def _only(frame: TrackerFrame, roles: tuple[str, ...]) -> TrackerFrame:
    kept = np.isin(ROLES, roles)
    if (frame.state[~kept] == LOST).all():
        return frame
    return replace(frame, state=np.where(kept, frame.state, LOST).astype(np.uint8))


def sightings(task: Task, track: TrackerTrack) -> list[Sighting]:
    """Return the camera landmarks of a task: simulated ones for a clip, recorded ones for a session."""
    if isinstance(task.given, Session):
        return task.given.sightings
    if not isinstance(task.given, Clip):
        return []
    camera = replace(task.camera, seed=task.camera.seed + task.simulation.seed)
    return simulate_landmarks(task.given, camera, int(track.stamps_ns[0]), track)


def true_facing(truth: Truth, track: TrackerTrack) -> Any:
    """Return the true yaw (F,) of the pelvis [rad] at the times of the tracker samples, as a waist tracker without
    error would measure it."""
    seconds = (track.stamps_ns - track.stamps_ns[0]) * 1e-9
    yaw = np.unwrap(m.facing_of_pelvis(truth.positions))
    return np.interp(seconds, np.arange(len(yaw)) * measure.DT, yaw)


def truth_of(clip: Clip) -> Truth:
    positions, rotations = clip.globals()
    return Truth(
        positions.astype(np.float64),
        rotations.astype(np.float64),
        np.asarray(rot.yaw_of(clip.rotations[:, 0].astype(np.float64))),
        contacts_of(clip),
    )


def truth_of_session(session: Session) -> Truth | None:
    """Return the true poses of a session at 60 Hz, or None if fewer than 90 % of the samples have a true pose."""
    if len(session.truth) < 0.9 * len(session.frames) or session.truth_skeleton is None:
        return None
    from mm_ros.evaluation.replay_chain import stack_poses

    track = stack_poses(session.truth)
    times = np.array([(p.stamp_ns - session.frames[0].stamp_ns) * 1e-9 for p in session.truth])
    wanted = np.arange(0.0, times[-1], measure.DT)
    positions, rotations, _, _ = measure.at_60(track, times, wanted)
    yaw = np.interp(wanted, times, np.unwrap(rot.yaw_of(track.root[:, 3:])))
    rest = session.truth_skeleton.rest_positions()[list(TOES), 2]
    return Truth(positions, rotations, yaw, contacts(positions[:, list(TOES)], rest, measure.RATE))


def track_of_frames(f: list[TrackerFrame], repeated: list[NDArray[np.bool_]] | None = None) -> TrackerTrack:
    """Convert tracker frames to arrays. The result also contains the tracker frames, because each frame has its own
    epoch number, whose change, for example when a session starts again, resets the stages."""
    return SessionTrack(
        np.array([x.stamp_ns for x in f]),
        np.stack([x.positions for x in f]),
        np.stack([x.rotations for x in f]),
        np.stack([x.velocities for x in f]),
        np.stack([x.angular_velocities for x in f]),
        np.stack([x.state for x in f]),
        f[0].epoch,
        tuple(f),
        np.stack(repeated) if repeated else None,
    )


@dataclass(frozen=True)
class SessionTrack(TrackerTrack):
    frames: tuple[TrackerFrame, ...] = ()
    repeated: NDArray[np.bool_] | None = None  # (F, R) True for a device that repeats its last pose

    def frame(self, i: int) -> TrackerFrame:
        return self.frames[i]


def taken_of(track: TrackerTrack, result: ChainResult) -> Any:
    """Return the tracker samples of `track` for which `result` contains a pose."""
    rows = np.searchsorted(track.stamps_ns, result.stamps_ns)
    repeated = getattr(track, "repeated", None)
    return SessionTrack(
        track.stamps_ns[rows], track.positions[rows], track.rotations[rows], track.velocities[rows],
        track.angular_velocities[rows], track.state[rows], repeated=None if repeated is None else repeated[rows],
    )  # fmt: skip


def pose_hash(result: ChainResult) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for name in ("root", "positions", "rotations", "contacts", "locked"):
        digest.update(np.ascontiguousarray(getattr(result.pose, name)).tobytes())
    return digest.hexdigest()


def combined_hash(outcomes: list[Outcome], row: str = "ours") -> str:
    digest = hashlib.blake2b(digest_size=8)
    for o in outcomes:
        digest.update(f"{o.name} {o.hashes[row]}".encode())
    return digest.hexdigest()


def database_clips(database: MotionDatabase) -> Iterator[tuple[Any, Any]]:
    """Yield the joint positions in the room (F, J, 3) and the foot contacts (F, 2) of each clip in the database."""
    for a, b in zip(database.range_starts, database.range_stops, strict=True):
        p, _ = canonical_kinematics(np.array(database.positions[a:b]), np.array(database.rotations[a:b]))
        yield p.astype(np.float64), np.asarray(database.contacts[a:b])


def measure_database(database: MotionDatabase) -> tuple[Measured, float]:
    """Return the metrics of the clips in the database, and the joint acceleration above which a motion counts as a pop.
    """
    limit = m.acceleration_limit([p for p, _ in database_clips(database)], measure.DT)
    parts = [
        measure.of_body(p, c, len(p) * measure.DT, limit) for p, c in database_clips(database) if len(p) >= 30
    ]
    for part in parts:
        part.values.update({k: v for k, v in part.by_frame.items() if k in measure.VALUES})
    whole = Measured(sum(p.seconds for p in parts))
    for name in measure.VALUES:
        have = [p.values[name] for p in parts if name in p.values]
        if have:
            whole.values[name] = np.concatenate(have)
    for name in measure.NUMBERS:
        have_numbers = [(p.numbers[name], p.seconds) for p in parts if name in p.numbers]
        if have_numbers:
            value, weight = np.array(have_numbers).T
            whole.numbers[name] = float(np.average(value, weights=weight))
    return whole, limit


def pop_limit(database_limit: float, truth: Truth | None) -> float:
    """Return the joint acceleration above which a motion counts as a pop: the larger of the limits of true body and
    database."""
    own = m.acceleration_limit([truth.positions], measure.DT) if truth is not None else 0.0
    return max(database_limit, own)


__all__ = ["DATABASE", "GROUND_TRUTH", "KINDS", "Outcome", "Task", "combined_hash", "measure_database", "run_all"]
