"""Measure the accuracy of a model file: the errors of the decompressor, the stepper and the projector."""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.matching.model_file import LearnedModel
from mm_ros.matching.training.data import QuerySampler, motion_data
from mm_ros.matching.training.networks import Body
from mm_ros.matching.training.pose import measured
from mm_ros.matching.training.train import Trained

SEED = 31
FRAMES, WALKS, QUESTIONS = 8000, 150, 3000


def validate(trained: Trained, model: LearnedModel) -> dict[str, Any]:
    """Measure the networks on random frames of the whole database, with errors relative to the root of the body."""
    rng = np.random.default_rng(SEED)
    data, states = motion_data(trained.database), trained.states
    body = Body(trained.database.skeleton)
    rows = rng.integers(len(states), size=FRAMES)
    rebuilt = np.stack([model.pose(states[r]) for r in rows])
    out: dict[str, Any] = {"rebuilt": measured(data, body, rows, rebuilt)}
    frames = min(round(data.rate), int((trained.database.range_stops - trained.database.range_starts).max()) - 1)
    starts = data.starts_of_windows(frames + 1)
    firsts = starts[rng.integers(len(starts), size=WALKS)]
    ends = np.stack([_stepped(model, states[r], frames) for r in firsts])
    out["after_1_s"] = measured(data, body, firsts + frames, ends)
    out["answers"] = _answer_costs(trained, model, data)
    return out


def _stepped(model: LearnedModel, state: Any, frames: int) -> Any:
    for _ in range(frames):
        state, code = model.step(state)
    return code


def _answer_costs(trained: Trained, model: LearnedModel, data: Any) -> dict[str, float]:
    asking = QuerySampler(data, model.weights, SEED)
    questions = asking.pool(0, QUESTIONS)
    width = data.features.shape[1]
    found = np.stack([model.project(q) for q in questions.inputs])
    queries = questions.inputs[:, :width]
    costs = (model.weights * (found[:, :width] - queries) ** 2).sum(1)
    exact = (model.weights * (trained.states[questions.answers, :width] - queries) ** 2).sum(1)
    return {
        "cost_median": float(np.median(costs)),
        "exact_cost_median": float(np.median(exact)),
        "cost_of_exact_answer_to_found": float(
            np.median((model.weights * (found[:, :width] - trained.states[questions.answers, :width]) ** 2).sum(1))
        ),
    }
