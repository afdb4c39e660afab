"""Steer the avatar by scripted input of keys, stick and path, and measure how the avatar responds.

Each run of the avatar uses the stages of the ROS graph: input → desired trajectory → matcher → post-processing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mm_ros.body.skeleton import LEFT_FOOT, RIGHT_FOOT, ROOT
from mm_ros.body.types import F64, AvatarPose, Calibration
from mm_ros.evaluation import measure, run
from mm_ros.evaluation.benchmarks.engines import counted_mb
from mm_ros.evaluation.replay_chain import stack_poses
from mm_ros.matching.engines.state_machine import matcher_stage
from mm_ros.matching.matcher import MatcherSettings
from mm_ros.matching.model_file import load_learned
from mm_ros.maths import rotations as rot
from mm_ros.motion import metrics as m
from mm_ros.motion.database import MotionDatabase
from mm_ros.pose.postprocess import PostSettings, PostStage
from mm_ros.trajectory.joystick import JoystickSettings, JoystickStage
from mm_ros.trajectory.path import PathSettings, PathStage

RATE, DT = 60, 1 / 60
AHEAD_S, AFTER_S = 2.5, 2.5  # duration [s] of a run before and after the scripted input changes
TURNS_DEG, REPEATS = (45, 90, 180), 6
OVERSHOOTS_DEG = 30.0  # a turn's overshoot is measured from the moment at which the heading error first falls below 30°
FACING_DEG, STOPPED_M_S, STARTED = 5.0, 0.15, 0.9
STEADY_S = 1.5  # The motion counts as steady 1.5 s after the last change of the input.
GLIDE_M_S, GLIDES_S, MOVES_M_S = 0.2, 0.3, 0.5
NEVER_S = AFTER_S
PATH_SPEED = 1.2
KEY_S = 1.0  # The avatar is assumed to reach a key point of a path at most 1 s early or late.
SPEED_BANDS = np.array([0.2, 0.7, 1.6, 3.0])  # limits of the speed ranges in which the avatar's jerks are counted [m/s]
PATHS: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((0, 0), (4, 0), (4, 4), (0, 4), (0, 0)),
    "eight": ((0, 0), (2, 1.5), (4, 0), (6, -1.5), (8, 0), (6, 1.5), (4, 0), (2, -1.5), (0, 0)),
    "line": ((0, 0), (6, 0)),
}
SPEEDS = ((0.8, 0.8, 1.2, 1.2, 1.2), (1.2, 1.0, 0.8, 0.8, 1.2, 1.2, 1.0, 1.0, 1.2), (1.2, 1.2))


# Each variant of a matching engine has three times [s]: between searches, between forced searches, and until 99 % of a
# pose offset has decayed. All variants but "high search, forced at once" are those of Szkaradek 2024, table 5.2. The
# variant "high search, forced at once" differs from "high search" only in the time between forced searches.
VARIANTS = {
    "standard": (0.1, 0.1, 0.1), "no inertia": (0.1, 0.1, 0.0),
    "high search": (1.0, 1.0, 0.1), "low search": (0.01, 0.01, 0.01),
    "high decay": (0.1, 0.1, 1.0), "low decay": (0.1, 0.1, 0.01),
    "high search high decay": (1.0, 1.0, 1.0), "high search, forced at once": (1.0, 0.0, 0.1),
}  # fmt: skip
# A spring needs 3.3 half-lives (DECAY_PER_HALFLIFE) until 99 % of an offset has decayed.
DECAY_PER_HALFLIFE = math.log(100.0) / (2.0 * math.log(2.0))


def variant(name: str, engine: str, model: str = "") -> tuple[MatcherSettings, PostSettings]:
    """Return the settings of an engine with the parameters of a variant in VARIANTS."""
    search, forced, decay = VARIANTS[name]
    return (
        MatcherSettings(engine=engine, model=model, search_interval=search, abrupt_interval=forced),
        PostSettings(blend_halflife=decay / DECAY_PER_HALFLIFE),
    )


@dataclass(frozen=True)
class Input:
    """Scripted state of joystick and buttons at one time."""

    move: tuple[float, float] = (0.0, 0.0)
    gait: str = "walk"
    strafe: bool = False
    look: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Stream:
    """Scripted input of keys, stick or path for one run. `change_s` is the time [s] at which the input changes; `goal`
    is the desired heading [rad] or speed [m/s] after the change."""

    kind: str
    seconds: float
    at: Callable[[float], Input]
    change_s: float = 0.0
    goal: float = 0.0


@dataclass
class Ridden:
    """Result of one run at 60 Hz: root (x, y, yaw) of the desired trajectory and of the avatar, and the avatar's poses.
    """

    desired: F64
    velocity: F64  # (F, 2) velocity of the desired trajectory [m/s]
    root: F64
    poses: list[AvatarPose]
    positions: F64  # (F, J, 3) joint positions in the room [m]
    took_s: F64

    @property
    def speed(self) -> F64:
        return speed_of(self.root)


def speed_of(root: F64) -> F64:
    """Return the speed [m/s] of a root (F, 2 or more columns) with the columns x and y, averaged over 0.4 s."""
    half = 12
    at = np.arange(len(root))
    a, b = np.maximum(at - half, 0), np.minimum(at + half, len(root) - 1)
    return np.asarray(np.linalg.norm(root[b, :2] - root[a, :2], axis=1) / np.maximum((b - a) * DT, DT))


def heading(angle: float) -> tuple[float, float]:
    return math.cos(angle), math.sin(angle)


def streams(seed: int = 0, repeats: int = REPEATS) -> list[Stream]:
    """Return the scripted inputs for all runs of the benchmark. The seed determines the times of the changes, so that
    changes occur at different moments of a step."""
    rng = np.random.default_rng(seed)
    out: list[Stream] = []

    def changed(kind: str, before: Input, after: Input, goal: float) -> None:
        at = AHEAD_S + float(rng.uniform(0.0, 1.0))
        out.append(Stream(kind, at + AFTER_S, lambda t: before if t < at else after, at, goal))

    for degrees in TURNS_DEG:
        for i in range(repeats):
            angle = math.radians(degrees) * (1 if i % 2 else -1)
            changed(f"turn_{degrees}", Input((1, 0)), Input(heading(angle)), angle)
    for gait in ("walk", "jog", "sprint"):
        speed = getattr(JoystickSettings(), f"{gait}_speed")
        for _ in range(max(1, repeats // 2)):
            changed(f"start_{gait}", Input(), Input((1, 0), gait), speed)
    for gait in ("walk", "jog"):
        for _ in range(repeats):
            changed("stop" if gait == "walk" else "stop_jog", Input((1, 0), gait), Input(), 0.0)
    for k in range(8):
        way = heading(k * math.pi / 4)
        changed("strafe", Input(strafe=True), Input(way, strafe=True), JoystickSettings().walk_speed)
    for sign in (1, -1):
        rate = sign * math.radians(45)
        out.append(Stream("stick", 8.0, partial(_turning, rate), 2.0, rate))
        sideways = Input((1, 0), strafe=True, look=(0, sign))
        out.append(Stream("look_sideways", 6.0, partial(_always, sideways), 2.0, sign * math.pi / 2))
    return out


def shows() -> dict[str, Callable[[Rider], Ridden]]:
    """Return three functions that steer the avatar for films: by keys, by a turning stick, and along a path."""
    parts = ((1.0, Input()), (3.0, Input((1, 0))), (4.5, Input((0, 1))), (6.0, Input((0, -1))),
             (8.0, Input((-1, 0), "jog")), (9.5, Input((0, 1), strafe=True)), (11.0, Input()))  # fmt: skip
    keys = Stream("keys", 11.0, lambda t: next((asked for end, asked in parts if t < end), Input()))
    stick = Stream("stick", 9.0, partial(_turning, math.radians(60)))
    return {"keys": lambda rider: rider.steer(keys), "stick": lambda rider: rider.steer(stick), "path": _show_path}


def _show_path(rider: Rider) -> Ridden:
    path = PathStage(PathSettings(speed=PATH_SPEED), rider.times)
    path.set_path(PATHS["eight"], pauses=[0.0] * 6 + [1.0] + [0.0] * 2)
    return rider.walk(path)


def _turning(rate: float, t: float) -> Input:
    return Input(heading(rate * max(0.0, t - 2.0)))


def _always(asked: Input, _t: float) -> Input:
    return asked


class Rider:
    """An engine (search, learned or state machine) together with the stages before and after it."""

    def __init__(self, database: MotionDatabase, settings: MatcherSettings, post: PostSettings | None = None,
                 stick: JoystickSettings | None = None) -> None:  # fmt: skip
        learned = load_learned(settings)
        self.database = learned.digest if learned is not None else database
        self.memory_mb = counted_mb(settings.engine, database, learned)
        self.stage = matcher_stage(settings, self.database, learned=learned)
        self.post = PostStage(post or PostSettings(), self.database.skeleton, Calibration())
        self.times = self.database.layout.trajectory_times
        self.stick = stick or JoystickSettings()

    def steer(self, stream: Stream) -> Ridden:
        stick = JoystickStage(self.stick, self.times)
        asked = (stream.at(i * DT) for i in range(round(stream.seconds * RATE)))
        return self._ride(
            stick.step(round(1e9 + i * 1e9 / RATE), a.move, a.gait, a.strafe, a.look) for i, a in enumerate(asked)
        )

    def walk(self, path: PathStage, more_s: float = 1.5) -> Ridden:
        return self._ride(path.step(round(1e9 + i * 1e9 / RATE)) for i in range(round((path.seconds + more_s) * RATE)))

    def _ride(self, trajectories: Any) -> Ridden:
        self.stage.reset()
        self.post.reset()
        desired, velocity, poses, took = [], [], [], []
        for trajectory in trajectories:
            began = time.perf_counter()
            result = self.stage.step(trajectory)
            took.append(time.perf_counter() - began)
            assert result is not None
            poses.append(self.post.step(result[0], None))
            desired.append([*trajectory.position, trajectory.yaw])
            velocity.append(trajectory.velocity)
        roots = np.array([p.root for p in poses])
        yaw = 2 * np.arctan2(roots[:, 6], roots[:, 3])
        positions, _ = measure.room(stack_poses(poses))
        return Ridden(
            np.array(desired), np.array(velocity), np.column_stack([roots[:, :2], rot.wrap_angle(yaw)]), poses,
            positions, np.array(took),
        )  # fmt: skip


def _settled(error: F64, limit: float, at_s: float) -> float:
    """Return the time [s] from `at_s` until the error begins to stay within `limit` for at least 0.3 s."""
    inside = np.abs(error) <= limit
    for i in range(round(at_s * RATE), len(error)):
        if inside[i : i + 18].all():
            return i * DT - at_s
    return NEVER_S


def standing(ridden: Ridden) -> F64:
    """Return for each frame (F,) whether the body glides: the root moves, but for GLIDES_S seconds neither foot has
    moved relative to the root."""
    feet = ridden.positions[:, [LEFT_FOOT, RIGHT_FOOT], :2] - ridden.root[:, None, :2]
    speeds = np.linalg.norm(np.gradient(feet, DT, axis=0), axis=-1).max(-1)
    n = round(GLIDES_S * RATE)
    slow = np.convolve(speeds, np.ones(n) / n, "same") < GLIDE_M_S
    return np.asarray(slow & (ridden.speed > MOVES_M_S))


def _of_turn(r: Ridden, s: Stream) -> dict[str, float]:
    error = np.degrees(rot.wrap_angle(r.root[:, 2] - s.goal))
    body = np.degrees(rot.wrap_angle(m.facing_of_body(r.positions) - s.goal))
    near = np.flatnonzero(np.abs(error[round(s.change_s * RATE) :]) < OVERSHOOTS_DEG)
    way = np.sign(s.goal) * error[round(s.change_s * RATE) + int(near[0]) :] if len(near) else np.zeros(1)
    steady = error[round((s.change_s + STEADY_S) * RATE) :]
    half = 12
    way_of = np.arctan2(*(r.root[half:, k] - r.root[:-half, k] for k in (1, 0)))
    course = np.degrees(rot.wrap_angle(np.concatenate([way_of[:1].repeat(half), way_of]) - s.goal))
    return {
        f"{s.kind}_s": _settled(error, FACING_DEG, s.change_s),
        f"{s.kind}_body_s": _settled(body, 15.0, s.change_s),
        f"{s.kind}_course_s": _settled(course, 10.0, s.change_s),
        f"{s.kind}_overshoot_deg": max(0.0, float(way.max())),
        "steady_heading_error_deg": float(np.abs(steady).max()),
    }


def _of_speed(r: Ridden, s: Stream) -> dict[str, float]:
    speed, first = r.speed, round(s.change_s * RATE)
    if s.kind.startswith("stop"):
        return {f"{s.kind}_s": _settled(_now(r), STOPPED_M_S, s.change_s)}
    steady = slice(first + round(STEADY_S * RATE), None)
    went = np.linalg.norm(r.root[-1, :2] - r.root[steady.start, :2]) / ((len(r.root) - 1 - steady.start) * DT)
    out = {f"{s.kind}_speed_error": abs(float(went) / s.goal - 1)}
    if s.kind == "strafe":
        return {**out, "strafe_heading_error_deg": float(np.degrees(np.abs(r.root[steady, 2])).max())}
    reached = np.flatnonzero(speed[first:] >= STARTED * s.goal)
    return {**out, f"{s.kind}_s": float(reached[0] * DT) if len(reached) else NEVER_S}


def _now(r: Ridden) -> F64:
    moved = np.linalg.norm(np.gradient(r.root[:, :2], DT, axis=0), axis=1)
    return np.convolve(moved, np.ones(7) / 7, "same")


def figures_of(r: Ridden, s: Stream) -> dict[str, float]:
    if s.kind.startswith("turn"):
        return _of_turn(r, s)
    if s.kind.startswith(("start", "stop", "strafe")) and s.kind != "stick":
        return _of_speed(r, s)
    after = slice(round((s.change_s + 1.0) * RATE), None)
    if s.kind == "stick":
        goal = s.goal * (np.arange(len(r.root)) * DT - s.change_s)
        return {"stick_heading_error_deg": float(np.degrees(np.abs(rot.wrap_angle(r.root[:, 2] - goal)))[after].mean())}
    return {
        "look_sideways_heading_error_deg": float(np.degrees(np.abs(rot.wrap_angle(r.root[after, 2] - s.goal))).max()),
        "look_sideways_speed_error": float(abs(np.mean(r.speed[after]) / JoystickSettings().walk_speed - 1)),
    }


def deviation(points: F64, walked: F64) -> F64:
    """Return the distance [m] of each position in `walked` from a path that consists of the close points `points`."""
    return np.asarray(np.linalg.norm(walked[:, None] - points[None], axis=-1).min(1))


def ride_paths(rider: Rider) -> tuple[dict[str, Any], list[Ridden]]:
    """Measure how far the avatar deviates from paths at 1.2 m/s, and the error of its speed on paths with a different
    desired speed at each key point."""
    away, errors, rides = [], [], []
    for name, own in zip(PATHS, SPEEDS, strict=True):
        path = PathStage(PathSettings(speed=PATH_SPEED), rider.times)
        path.set_path(PATHS[name])
        rides.append(rider.walk(path))
        away.append(deviation(path.points[::2], rides[-1].root[:, :2]))
        path.reset()
        path.set_path(PATHS[name], own)
        rides.append(rider.walk(path))
        speed, asked = rides[-1].speed, np.linalg.norm(rides[-1].velocity, axis=1)
        # The position nearest to a key point is searched around the planned time, as a path can pass the point twice.
        for key, wanted, when in zip(PATHS[name][1:-1], own[1:-1], path.keys_when[1:-1], strict=True):
            first = max(0, round((when - KEY_S) * RATE))
            part = rides[-1].root[first : round((when + KEY_S) * RATE), :2]
            near = first + int(np.argmin(np.linalg.norm(part - key, axis=1)))
            goal = float(asked[max(0, near - 12) : near + 12].mean())  # mean desired speed near the key point
            errors.append(abs(float(speed[near]) / min(goal, wanted) - 1))
    all_of = np.concatenate(away)
    out = {"path_deviation_m": {"mean": float(all_of.mean()), "median": float(np.median(all_of)),
                                "p95": float(np.percentile(all_of, 95))},
           "path_speed_error": float(np.mean(errors)), "path_speed_error_worst": float(np.max(errors))}  # fmt: skip
    return out, rides


def of_rides(rides: Sequence[Ridden], own: Reference) -> dict[str, Any]:
    """Compute the metrics of the avatar's feet and smoothness over all runs of a matching engine."""
    parts = []
    for r in rides:
        contacts = np.array([p.contacts for p in r.poses])
        parts.append(measure.of_body(r.positions, contacts, len(r.root) * DT, own.pop_limit))
    seconds = np.array([p.seconds for p in parts])
    out: dict[str, Any] = {
        name: float(np.average([p.numbers[name] for p in parts], weights=seconds))
        for name in ("skate_ratio", "jitter", "pops_per_min")
    }
    glides = np.concatenate([standing(r) for r in rides])
    took = np.concatenate([r.took_s for r in rides]) * 1e3
    errors = np.concatenate([np.linalg.norm(r.root[:, :2] - r.desired[:, :2], axis=1) for r in rides])
    at = np.bincount(np.searchsorted(SPEED_BANDS, np.concatenate([r.speed for r in rides])), minlength=5)
    return out | {
        # Jerks (pops) per minute in the clips of the database, weighted by the share of each speed range in the runs.
        "database_pops_per_min": float((at / at.sum()) @ own.pops_by_speed),
        "standing_frames": int(glides.sum()), "frames": len(glides),
        "root_error_m": {"mean": float(errors.mean()), "p95": float(np.percentile(errors, 95))},
        "frame_ms": {"mean": float(took.mean()), "median": float(np.median(took)),
                     "p99": float(np.percentile(took, 99))},
    }  # fmt: skip


def bench(
    rider: Rider, scripted: Sequence[Stream], own: Reference, tell: Callable[[int, int], None] = lambda i, n: None
) -> dict[str, Any]:
    """Steer the avatar by all scripted inputs with one matching engine. Return the median of each measured quantity
    over the repeats, and the worst repeat under the name of the quantity with the ending `_worst`."""
    found: dict[str, list[float]] = {}
    rides = []
    for i, stream in enumerate(scripted):
        tell(i, len(scripted) + 1)
        rides.append(rider.steer(stream))
        for name, value in figures_of(rides[-1], stream).items():
            found.setdefault(name, []).append(value)
    out: dict[str, Any] = {name: float(np.median(values)) for name, values in found.items()}
    out |= {f"{name}_worst": float(np.max(values)) for name, values in found.items()}
    paths, walked = ride_paths(rider)
    return out | paths | of_rides([*rides, *walked], own) | {"memory_mb": rider.memory_mb}


@dataclass(frozen=True)
class Reference:
    """Metrics of the clips in the database, for comparison with the avatar; `pops_by_speed` holds the jerks per minute
    in each speed range of SPEED_BANDS."""

    numbers: dict[str, float]
    pop_limit: float  # joint acceleration [m/s²] above which a motion counts as a pop (a jerk)
    pops_by_speed: F64


def reference(database: MotionDatabase) -> Reference:
    whole, limit = run.measure_database(database)
    frames, pops = np.zeros(len(SPEED_BANDS) + 1), np.zeros(len(SPEED_BANDS) + 1)
    for positions, _ in run.database_clips(database):
        band = np.searchsorted(SPEED_BANDS, speed_of(positions[:, ROOT]))
        frames += np.bincount(band, minlength=len(frames))
        at = np.minimum(m.pop_frames(positions, limit), len(band) - 1)
        pops += np.bincount(band[at], minlength=len(frames))
    numbers = {name: float(whole.numbers[name]) for name in ("skate_ratio", "jitter", "pops_per_min")}
    return Reference(numbers, limit, pops / np.maximum(frames * DT / 60, DT))
