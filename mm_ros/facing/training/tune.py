"""Searches the best training options by the algorithm ASHA of Ray Tune, as in Ponton 2022.

If the environment variable `RAY_ADDRESS` names a Ray cluster, the search runs on this cluster.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.body.clip import Clip
from mm_ros.facing.training.data import Motion, motion_of, without_head_bias
from mm_ros.facing.training.train import Tell, TrainOptions, fit, folds_of
from mm_ros.facing.training.validate import Errors, measure

RUNGS = (1, 2, 4)  # numbers of training epochs after which the search method ASHA compares the trials
# the search ends with an error if no trial has reported a result for this time [s]; the longest trial takes minutes
PATIENCE = 1800.0


def tuned(clips: Sequence[Clip], options: TrainOptions, trials: int, tell: Tell) -> TrainOptions:
    """Return the best of `trials` random choices of training options.

    The options are compared by the mean facing error with bad trackers (condition "stress"), on subjects that are not
    in the training data.
    """
    if find_spec("ray") is None:
        raise MmRosError(f"--tune needs Ray Tune: {setup_command('tune')}. Without it the built-in values are used.")
    groups = folds_of(clips, 3)
    if len(groups) < 2:
        raise MmRosError("--tune compares trials on held-out subjects, so it needs two subjects or more")
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
        options, plan=replace(options.plan, width=int(choice["width"]), members=int(choice["members"])),
        learning_rate=float(choice["learning_rate"]), weight_decay=float(choice["weight_decay"]),
        jitter=float(choice["jitter"]),
    )  # fmt: skip


def stress_error(motions: list[Motion], held: Sequence[Clip], options: TrainOptions) -> float:
    """Return the mean facing error [deg] on the clips `held`, after training on `motions`."""
    silent: Tell = lambda what, done, of: None  # noqa: E731
    network = fit(motions, options, silent)
    errors: dict[str, Errors] = measure(held, network.sequence, {}, options.seed)["network"]
    return float(np.concatenate(errors["stress"].yaw).mean())


def _trial(config: dict[str, Any], motions: list[Motion], held: Sequence[Clip], options: TrainOptions) -> None:
    from ray import tune

    # A trial is trained anew for each number of epochs, because the learning rate depends on the number of epochs.
    for epochs in RUNGS:
        own = replace(with_choice(options, config), epochs=epochs)
        tune.report({"degrees": stress_error(motions, held, own), "epochs": epochs})


def patiently(search: Callable[[], Any], results: Callable[[], int], patience: float = PATIENCE) -> Any:
    """Return the result of `search()`, or raise MmRosError if `results()` does not increase for `patience` seconds.

    Ray waits without limit for frozen workers, so Ray runs in a daemon thread. `patiently` counts its waits instead of
    reading a clock, so that a time in which the process is frozen does not count.
    """
    found: list[Any] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(search())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    each = min(1.0, patience / 10)
    waited, last = 0.0, results()
    while thread.is_alive():
        thread.join(each)
        waited, last = (waited + each, last) if results() == last else (0.0, results())
        if waited >= patience:
            raise MmRosError(
                f"--tune: no trial has reported a result for {patience / 60:.3g} minutes ({last} came before). Ray's "
                "workers are frozen or dead. Search again on a machine without other load, or train without --tune."
            )
    if failed:
        raise failed[0]
    return found[0]


def _search(motions: list[Motion], held: Sequence[Clip], options: TrainOptions, trials: int) -> dict[str, Any]:
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    results: list[float] = []

    class Results(tune.Callback):
        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            results.append(result["degrees"])

    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
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
            run_config=tune.RunConfig(callbacks=[Results()]),
        )  # fmt: skip
        best = patiently(tuner.fit, lambda: len(results)).get_best_result()
        return dict(best.config or {})
    finally:
        ray.shutdown()
