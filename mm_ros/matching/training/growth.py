"""Measure how the accuracy of the learned engine depends on the amount of motion and on the width of the networks.

Szkaradek 2024 (section 5.3.4) found that the accuracy decreases when only the amount of motion grows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.matching.training.networks import Sizes
from mm_ros.matching.training.train import STAGES, Options, Training, expected_s, finish
from mm_ros.motion.database import MotionDatabase

SHARES, WIDTHS = (0.25, 1.0), (128, 512)  # Networks of each width are trained with each share of the database.


def growth(database: MotionDatabase, effort: float, say: Callable[[str], None], seed: int = 0) -> list[dict[str, Any]]:
    """Train the networks with each share of the clips and each width for the same number of steps, and return the
    accuracy of each."""
    usual = Options()
    pose, stepper, projector = (max(1, round(usual.steps(s) * effort)) for s in STAGES)
    plans = []
    for share in SHARES:
        part = clips_of(database, share, seed)
        for width in WIDTHS:
            options = replace(
                usual, seed=seed, sizes=Sizes(width=width), pose_steps=pose, stepper_steps=stepper,
                projector_steps=projector,
            )  # fmt: skip
            plans.append((share, part, options))
    seconds = [expected_s(part, options) for _, part, options in plans]
    say(f"{len(plans)} trainings of {pose} + {stepper} + {projector} steps: about {sum(seconds) / 60:.0f} minutes here")
    rows = []
    for (share, part, options), took_s in zip(plans, seconds, strict=True):
        width = options.sizes.width
        say(f"{share:.0%} of the clips ({len(part)} frames), width {width}: about {took_s / 60:.1f} minutes")
        trained = Training(part, options, None, say).run()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            figures = finish(trained, path)
            size = path.stat().st_size / 1e6
        minutes = sum(trained.seconds.values()) / 60
        rows.append(
            {"share": share, "frames": len(part), "width": width, "file_mb": size, "minutes": minutes, **figures}
        )
    return rows


def clips_of(database: MotionDatabase, share: float, seed: int = 0) -> MotionDatabase:
    """Make a database of random whole clips, which have at least `share` of the frames together; normalization and tags
    do not change."""
    wanted, have = share * len(database), 0
    chosen: list[int] = []
    for clip in np.random.default_rng(seed).permutation(len(database.clip_names)):
        if have >= wanted:
            break
        chosen.append(int(clip))
        have += int(database.range_stops[clip] - database.range_starts[clip])
    return part_of_database(database, sorted(chosen))


def part_of_database(database: MotionDatabase, clips: Sequence[int]) -> MotionDatabase:
    d = database
    rows = np.concatenate([np.arange(d.range_starts[c], d.range_stops[c]) for c in clips])
    lengths = np.array([d.range_stops[c] - d.range_starts[c] for c in clips])
    stops = np.cumsum(lengths).astype(np.int32)
    names = ("positions", "rotations", "velocities", "angular_velocities", "contacts", "head_height_ratio", "tags",
             "features")  # fmt: skip
    arrays: dict[str, Any] = {n: np.ascontiguousarray(np.asarray(getattr(d, n))[rows]) for n in names}
    return replace(
        d, **arrays,
        range_starts=(stops - lengths).astype(np.int32), range_stops=stops,
        clip_names=tuple(d.clip_names[c] for c in clips), search_arrays={},
    )  # fmt: skip
