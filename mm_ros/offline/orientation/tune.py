"""Hyper-parameters by Ray Tune's ASHA, as the paper's authors did; on a Ray cluster when RAY_ADDRESS names one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from mm_ros.core.clip import Clip
from mm_ros.core.errors import MmRosError
from mm_ros.offline.orientation.data import Motion, motion_of, without_head_bias
from mm_ros.offline.orientation.network import NetworkPlan
from mm_ros.offline.orientation.train import Tell, TrainOptions, callable_of, fit, folds_of
from mm_ros.offline.orientation.validate import Errors, measure

RUNGS = (1, 2, 4)  # epochs at which ASHA asks how a trial does


def tuned(clips: Sequence[Clip], options: TrainOptions, trials: int, tell: Tell) -> TrainOptions:
    """The best of `trials` by the mean error under stress on one held-out group of subjects."""
    if find_spec("ray") is None:
        raise MmRosError("--tune needs Ray Tune: pip install 'mm_ros[tune]'. Without it the built-in values are used.")
    groups = folds_of(clips, 3)
    if len(groups) < 2:
        raise MmRosError("--tune chooses by people not seen: it needs two subjects or more")
    motions = without_head_bias([motion_of(c) for c in clips if c.subject not in groups[0]])
    held = [c for c in clips if c.subject in groups[0]]
    tell("tune", 0, trials)
    best = _search(motions, held, options, trials)
    return with_choice(options, best)


def space() -> dict[str, Any]:
    from ray import tune

    return {
        "width": tune.choice([64, 128, 192]),
        "members": tune.choice([1, 2, 4]),
        "learning_rate": tune.loguniform(5e-4, 5e-3),
        "weight_decay": tune.loguniform(1e-2, 1e1),
        "jitter": tune.loguniform(5e-3, 1e-1),
    }


def with_choice(options: TrainOptions, choice: dict[str, Any]) -> TrainOptions:
    return replace(
        options, plan=NetworkPlan(int(choice["width"]), 2, int(choice["members"])),
        learning_rate=float(choice["learning_rate"]), weight_decay=float(choice["weight_decay"]),
        jitter=float(choice["jitter"]),
    )  # fmt: skip


def stress_error(motions: list[Motion], held: Sequence[Clip], options: TrainOptions) -> float:
    """Mean degrees on `held` after training on `motions`."""
    silent: Tell = lambda what, done, of: None  # noqa: E731
    network = fit(motions, options, silent)
    errors: dict[str, Errors] = measure(held, callable_of(network), {}, options.seed)["network"]
    return float(np.concatenate(errors["stress"].yaw).mean())


def _trial(config: dict[str, Any], motions: list[Motion], held: Sequence[Clip], options: TrainOptions) -> None:
    from ray import tune

    # One-cycle schedules cannot be stopped half way and compared: each rung is a short training of its own.
    for epochs in RUNGS:
        own = replace(with_choice(options, config), epochs=epochs)
        tune.report({"degrees": stress_error(motions, held, own), "epochs": epochs})


def _search(motions: list[Motion], held: Sequence[Clip], options: TrainOptions, trials: int) -> dict[str, Any]:
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    ray.init(address=os.environ.get("RAY_ADDRESS"), include_dashboard=False, log_to_driver=False)
    try:
        run = partial(_trial, motions=motions, held=held, options=options)
        tuner = tune.Tuner(
            tune.with_resources(run, {"cpu": 1}),
            param_space=space(),
            tune_config=tune.TuneConfig(
                metric="degrees", mode="min", num_samples=trials,
                scheduler=ASHAScheduler(time_attr="epochs", max_t=RUNGS[-1], grace_period=RUNGS[0], reduction_factor=2),
            ),
        )  # fmt: skip
        best = tuner.fit().get_best_result()
        return dict(best.config or {})
    finally:
        ray.shutdown()
