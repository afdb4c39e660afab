"""Databases and queries of the search benchmark. The databases contain motion capture; the queries are made from the
desired trajectories of a simulated joystick and of recorded clips.

If the CMU motion data are not installed, procedural motion replaces them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mm_ros.base.cache import writable_root
from mm_ros.body.clip import Clip
from mm_ros.body.types import F32
from mm_ros.motion.cleaning.clips import mirror, resample
from mm_ros.motion.feature_values import feature_values, normalization
from mm_ros.motion.features import default_layout
from mm_ros.motion.importing import load_clips
from mm_ros.motion.procedural import make_clips
from mm_ros.motion.shared_data import dataset, has_data
from mm_ros.search import Engine, make_engine
from mm_ros.search.interface import I64

SIZES = {"small": 18_120, "medium": 28_271, "large": 500_000}
RATE = 60.0
ENDS_EXCLUDED = 60
EVERY = 10  # the simulated avatar searches every 10 frames, and at the end of a clip
TRAJECTORY = 12  # number of features of the desired trajectory, which come first in the default feature layout
PROCEDURAL = "procedural"
# Every 7th clip of CMU subject 69 is left out of the database, and is used as desired trajectory instead.
_HELD_OUT = 7
_LAYOUT = default_layout()
_VERSION = 1

Progress = Callable[[str, int, int], None]


@dataclass
class Stream:
    """Queries recorded from a running matcher, which plays the result of each query before it makes the next query."""

    queries: F32
    bounds: F32  # cost of continuing the current clip (inf at its end); a search returns only frames with a lower cost
    currents: I64


@dataclass
class Case:
    features: F32
    starts: I64
    stops: I64
    weights: F32
    made_of: str
    streams: dict[str, Stream] = field(default_factory=dict)

    def engine(self, name: str) -> Engine:
        return make_engine(
            name, self.features, self.starts, self.stops, None, ENDS_EXCLUDED, usual_weights=self.weights
        )


def motion_features(progress: Progress) -> dict[str, F32]:
    """Return the raw features of each CMU clip by the name of the clip; names of mirrored clips end in '~'. The
    features are stored in the cache folder. Without CMU motion data, procedural clips are used."""
    if not has_data():
        return _features_of(PROCEDURAL, make_clips(0), progress)
    path = writable_root() / "bench" / f"search-{_LAYOUT.hash}-{_VERSION}.npz"
    if not path.is_file():
        found: dict[str, F32] = {}
        for name in ("cmu_locomotion", "cmu_general"):
            found |= _features_of(name, load_clips([dataset(name)], progress=progress), progress)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **found)  # type: ignore[arg-type]
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def _features_of(name: str, clips: Sequence[Clip], progress: Progress) -> dict[str, F32]:
    found: dict[str, F32] = {}
    for i, clip in enumerate(clips):
        progress("features", i, len(clips))
        for each in (clip, mirror(clip)):
            key = f"{name}/{clip.name}" + ("~" if each is not clip else "")
            found[key] = feature_values(resample(each, RATE), _LAYOUT).astype(np.float32)
    return found


def make_case(rows: int, motion: dict[str, F32], seed: int = 7) -> Case:
    """Make a database of `rows` frames for the search benchmark. Clips are added in the order locomotion, mirrored
    locomotion, everyday motion, mirrored everyday motion."""
    walks = [n for n in motion if n.startswith(("cmu_locomotion", PROCEDURAL))]
    subject = [n for n in walks if ("69_" in n or n.startswith(PROCEDURAL)) and not n.endswith("~")]
    held = subject[::_HELD_OUT]
    order = [n for n in subject if n not in held]
    order += [n for n in walks if n not in order and n.rstrip("~") not in held and not n.endswith("~")]
    order += [n for n in walks if n.rstrip("~") not in held and n.endswith("~")]
    rest = [n for n in motion if n not in walks]
    order += [n for n in rest if not n.endswith("~")] + [n for n in rest if n.endswith("~")]
    parts, count = [], 0
    for name in order:
        if count < rows and len(motion[name]) > 2 * ENDS_EXCLUDED:
            parts.append(motion[name][: rows - count])
            count += len(parts[-1])
    source = "procedural motion" if order[0].startswith(PROCEDURAL) else "CMU"
    made_of = f"{count} frames of {source}" + (
        ", with mirror images" if any(n.endswith("~") for n in order[: len(parts)]) else ""
    )
    slower = 1
    while count < rows:  # if all clips have fewer than `rows` frames, copies with slightly scaled features are added
        slower += 1
        part = parts[slower % len(parts)] * np.float32(1 + 0.01 * np.sin(slower))
        parts.append(part[: rows - count])
        count += len(parts[-1])
    if slower > 1:
        made_of += f", {slower - 1} clips of them again, scaled by up to 1 % (no more motion is available)"
    raw = np.concatenate(parts)
    stops = np.cumsum([len(p) for p in parts])
    starts = stops - [len(p) for p in parts]
    mean, std = normalization(raw.astype(np.float64), _LAYOUT)
    features = np.ascontiguousarray((raw - mean) / std, np.float32)
    case = Case(features, starts, stops, _LAYOUT.column_weights(), made_of)
    engine = case.engine("tree")
    desired_rows = (stick_trajectories(20_000, seed) - mean[:TRAJECTORY]) / std[:TRAJECTORY]
    held_out = np.concatenate([motion[n][:-ENDS_EXCLUDED] for n in held if len(motion[n]) > ENDS_EXCLUDED])
    clips = (held_out[:, :TRAJECTORY] - mean[:TRAJECTORY]) / std[:TRAJECTORY]
    case.streams["stick10"] = _closed_loop(engine, case, desired_rows, EVERY)
    case.streams["clip10"] = _closed_loop(engine, case, clips, EVERY)
    case.streams["stick1"] = _closed_loop(engine, case, desired_rows[:2000], 1)
    return case


def _closed_loop(engine: Engine, case: Case, desired_rows: F32, every: int) -> Stream:
    stop_of = np.repeat(case.stops, case.stops - case.starts)
    queries, bounds, currents = [], [], []
    frame = 0
    for i, desired in enumerate(desired_rows.astype(np.float32)):
        if frame + 1 < stop_of[frame]:
            frame += 1
        at_end = frame + 1 >= stop_of[frame]
        if i % every and not at_end:
            continue
        query = case.features[frame].copy()
        query[:TRAJECTORY] = desired
        bound = np.inf if at_end else engine.cost(query, case.weights, frame)
        queries.append(query)
        bounds.append(bound)
        currents.append(frame)
        found, _ = engine.search(query, case.weights, bound=bound, current=frame)
        frame = found if found >= 0 else frame
    return Stream(np.array(queries, np.float32), np.array(bounds, np.float32), np.array(currents, np.int64))


def stick_trajectories(frames: int, seed: int) -> F32:
    """Return the features of the desired trajectories of a simulated joystick that moves at random. Critically damped
    springs smooth the desired velocity and facing."""
    rng = np.random.default_rng(seed)
    y, dt = 4 * np.log(2) / 0.27 / 2, 1 / RATE  # half-life of the springs for velocity and facing: 0.27 s
    velocity, acceleration, goal = np.zeros(2), np.zeros(2), np.zeros(2)
    yaw, turning, facing, left = 0.0, 0.0, 0.0, 0
    out = np.empty((frames, TRAJECTORY), np.float32)
    for frame in range(frames):
        if left == 0:
            left, direction = int(rng.uniform(0.5, 3) * RATE), rng.uniform(-np.pi, np.pi)
            speed = rng.choice(
                [0, 0.5, 0.9, 1.2, 1.5], p=[0.15, 0.15, 0.25, 0.3, 0.15]
            )  # possible speeds of the simulated user [m/s] and their probabilities
            goal = speed * np.array([np.cos(direction), np.sin(direction)])
            new = direction if rng.random() < 0.8 else rng.uniform(-np.pi, np.pi)
            facing = yaw + (new - yaw + np.pi) % (2 * np.pi) - np.pi if speed else facing
        left -= 1
        turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
        for i, t in enumerate((1 / 3, 2 / 3, 1.0)):
            j0, e = velocity - goal, np.exp(-y * t)
            j1 = acceleration + j0 * y
            ahead = e * (-j1 / y**2 + (-j0 - j1 * t) / y) + j1 / y**2 + j0 / y + goal * t
            k0 = yaw - facing
            then = e * (k0 + (turning + k0 * y) * t) + facing - yaw
            out[frame, 2 * i : 2 * i + 2] = turn @ ahead
            out[frame, 6 + 2 * i : 8 + 2 * i] = np.cos(then), np.sin(then)
        j0, e = velocity - goal, np.exp(-y * dt)
        j1 = acceleration + j0 * y
        velocity, acceleration = e * (j0 + j1 * dt) + goal, e * (acceleration - j1 * y * dt)
        k0 = yaw - facing
        k1 = turning + k0 * y
        yaw, turning = e * (k0 + k1 * dt) + facing, e * (turning - k1 * y * dt)
    return out
