"""Measure a step network on whole clips of people who are not in its training data, and choose among networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mm_ros.body.types import F64
from mm_ros.facing.model_file import OnnxModel
from mm_ros.motion.procedural.user import SyntheticUser
from mm_ros.steps import outputs as so
from mm_ros.steps.estimator import StepSettings, Touchdowns, in_room, standing_probability
from mm_ros.steps.inputs import CHANNELS, INPUTS, RATE, inputs_sequence, layout_hash
from mm_ros.steps.training.augment import shrink
from mm_ros.steps.training.data import ANKLES, Source, smoothed_speed, sources_of, touchdowns_of

# An estimated touchdown matches a true touchdown of the same foot if at most `TOLERANCE_S` lies between them, and a
# true touchdown of either foot if at most `ANY_FOOT_S` lies between them.
TOLERANCE_S, ANY_FOOT_S = 0.2, 0.3
STILL = 0.1  # an ankle that is slower than this [m/s] counts as still
WALKS = 0.4  # The user counts as walking if the mean speed of the head over one second exceeds `WALKS` [m/s].
# Networks are also measured on one minute of motion by each of two synthetic users, made from the random seeds 101
# and 102. The training data does not contain the motion of these users.
CHOOSING_USERS, CHOOSING_S = (101, 102), 60.0
# Networks are also measured on straight walks whose steps are shortened to `SHORT_STEPS` times their length.
SHORT_STEPS = 0.4


def choosing_sets(captured: Sequence[Source]) -> dict[str, list[Source]]:
    """Make three kinds of motion, on which networks are compared to choose how long the training lasts.

    A score on captured motion alone would not show that a network is overfitted to the people of its training data.
    """
    users = [SyntheticUser(seed, 0.95 + 0.1 * k).clip(CHOOSING_S) for k, seed in enumerate(CHOOSING_USERS)]
    short = [shrunk for s in captured if (shrunk := _shrunk(s)) is not s]
    return {"captured": list(captured), "short steps": short, "procedural": sources_of(users)}


def _shrunk(source: Source) -> Source:
    columns = source.columns.astype(np.float64)
    shrink(columns, np.ones(len(columns)), SHORT_STEPS)
    if np.array_equal(columns, source.columns):
        return source
    return replace(source, columns=columns.astype(np.float32))


def score(figures: Mapping[str, Mapping[str, float]]) -> float:
    """Compute the score of a network from its `figures` on each kind of motion; a larger score is better."""
    values = [f["footfall_f1"] + f["contact_agreement"] - f["walking_ankle_cm"] / 50 for f in figures.values() if f]
    return float(np.mean(values)) if values else 0.0


def measured(
    path: Path, sources: Sequence[Source], tell: Callable[[str, int, int], None] | None = None
) -> dict[str, float]:
    """Measure the step network in the file `path` on all clips; without clips, the returned dict is empty."""
    if not sources:
        return {}
    model = OnnxModel(path, "steps", layout_hash())
    errors, walking, counts, still = [], [], np.zeros(5), np.zeros(4)
    for k, source in enumerate(sources):
        c = source.columns.astype(np.float64)
        found, landed, moves = estimated(model, c[:, :CHANNELS], source.height)
        true = c[:, ANKLES].reshape(-1, 2, 3)
        speed = smoothed_speed(c[:, ANKLES])
        times = [
            np.flatnonzero(touchdowns_of(speed[:, f], np.ascontiguousarray(true[:, f]))) / RATE for f in range(2)
        ]
        counts += footfalls(times, landed)
        errors.append(np.linalg.norm(found - true, axis=-1))
        way = np.linalg.norm(c[np.minimum(np.arange(len(c)) + 30, len(c) - 1), :2]
                             - c[np.maximum(np.arange(len(c)) - 30, 0), :2], axis=1)  # fmt: skip
        walking.append(way > WALKS)
        stands, says = speed < STILL, moves < 0.5
        still += [(stands & says).sum(), stands.sum(), (~stands & ~says).sum(), (~stands).sum()]
        if tell is not None:
            tell("measure", k + 1, len(sources))
    error, walks = np.concatenate(errors), np.concatenate(walking)
    hits, true_count, found_count, same, near = counts
    walked = error[walks] if walks.any() else error
    return {
        "touchdowns": float(true_count),
        "found": float(found_count),
        "footfall_f1": _figure(2 * hits / max(true_count + found_count, 1)),
        "same_foot": _figure(same / max(near, 1)),
        "ankle_cm": _figure(100 * float(np.median(error))),
        "walking_ankle_cm": _figure(100 * float(np.median(walked))),
        "walking_ankle_p95_cm": _figure(100 * float(np.percentile(walked, 95))),
        "contact_agreement": _figure(0.5 * (still[0] / max(still[1], 1) + still[2] / max(still[3], 1))),
    }


def _figure(x: float) -> float:
    return float(f"{x:.3g}")


def estimated(model: OnnxModel, channels: F64, height: float) -> tuple[F64, list[F64], F64]:
    """Run the step network on the tracker data `channels` (T, CHANNELS) of one clip.

    Return the ankles (T, 2, 3) in the room, the touchdown times of both feet [s], and the probabilities (T, 2) that
    each foot moves.
    """
    inputs = np.empty((len(channels), INPUTS), np.float32)
    inputs_sequence(channels, height, inputs)
    state, events = model.nothing(), Touchdowns(StepSettings().touchdown_threshold)
    feet, ahead = np.empty((len(inputs), 2, 10)), np.empty((len(so.AHEAD_S), 5))
    times: list[list[float]] = [[], []]
    for t, row in enumerate(inputs):
        out, state = model.step(row[None], state, True)
        numbers = out[0].astype(np.float64)
        in_room(numbers, channels[t], height, 0.0, feet[t], ahead)
        for foot in range(2):
            if events.lands(foot, standing_probability(numbers, foot), round(t / RATE * 1e9)):
                times[foot].append(t / RATE)
    return feet[:, :, 3:6], [np.array(t) for t in times], feet[:, :, 2]


def footfalls(true: Sequence[F64], found: Sequence[F64]) -> F64:
    """Compare the times of true footfalls with those of footfalls that a network found, and return five counts.

    The first count is the number of pairs of a true and a found footfall of the same foot within `TOLERANCE_S`. The
    second count is the number of true footfalls, the third that of found footfalls. The fifth count is the number of
    found footfalls that have a true footfall of either foot within `ANY_FOOT_S`. The fourth count is the number of
    found footfalls whose nearest true footfall is of the same foot and within `ANY_FOOT_S`.
    """
    hits = same = near = 0
    both = [(float(t), foot) for foot in range(2) for t in true[foot]]
    for foot in range(2):
        pairs = sorted(
            (abs(a - b), i, j)
            for i, a in enumerate(true[foot])
            for j, b in enumerate(found[foot])
            if abs(a - b) <= TOLERANCE_S
        )
        used: tuple[set[int], set[int]] = (set(), set())
        for _, i, j in pairs:
            if i not in used[0] and j not in used[1]:
                used[0].add(i)
                used[1].add(j)
                hits += 1
        for t in found[foot]:
            away, other = min(((abs(t - a), f) for a, f in both), default=(np.inf, -1))
            if away <= ANY_FOOT_S:
                near += 1
                same += other == foot
    return np.array([hits, len(both), sum(map(len, found)), same, near], np.float64)
