"""Measures what the tables of Ponton 2022 and Karst 2023 show, and puts the published values beside the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.avatar import AvatarSettings
from mm_ros.body.clip import Clip
from mm_ros.evaluation.benchmarks.thesis import ACCURACIES, SHARES, THESIS_CM, THESIS_POSES, part_of
from mm_ros.evaluation.evaluate import evaluate
from mm_ros.evaluation.rows import CHAIN_ROWS
from mm_ros.motion.build import BuildOptions, build_database
from mm_ros.motion.files import write_database
from mm_ros.tracking.simulation import Simulation

Progress = Callable[[str, int, int], None]
OURS = CHAIN_ROWS[:1]
SYNCHRONIZATIONS = (0.0, 0.5, 1.0)
INTERVALS = (1.0, 0.2, 0.1, 0.05)


@dataclass(frozen=True)
class Line:
    """One line of a published table that is measured again: variant of the method, measured values, published value."""

    table: str
    variant: str
    figures: dict[str, float]
    paper: str
    differs: str


def figures(clips: Sequence[Clip], database: Path, settings: AvatarSettings, jobs: int) -> dict[str, float]:
    result = evaluate([], database, OURS, settings, Simulation(), jobs, lambda *_: None, True, list(clips))
    ours = result.table["summary"]["ours"]
    played = {int(f) for o in result.outcomes for f in o.kept["result"].frame}
    return {
        "predicted_facing_deg": ours["predicted_facing_error_deg"]["mean"],
        "root_error_cm": 100 * ours["root_error_m"]["mean"],
        "target_error_cm": 100 * ours["target_error_m"]["mean"],
        "stance_drift_cm": 100 * ours["stance_drift_m"]["mean"] if "stance_drift_m" in ours else float("nan"),
        "skate_ratio": ours["skate_ratio"],
        "jumps_per_s": ours["jumps_per_s"],
        "poses_used": float(len(played)),
    }


AS_RECORDED = BuildOptions(stooped=0.0)  # as in the papers, the database has no copies of clips with a bent body


def run(
    training: Sequence[Clip], raw: Sequence[Clip], held_out: Sequence[Clip], folder: Path, jobs: int, tell: Progress
) -> list[Line]:
    """Measure all variants of motion matching in the tables of the papers. `training` holds the clips of the database,
    `raw` holds the clips of `training` with an unfiltered root, and the clips `held_out` drive the avatar."""
    base = AvatarSettings()
    database = folder / "full.mmdb"
    write_database(build_database(list(training), options=AS_RECORDED), database)
    work = list(_variants(base))
    out = []
    for i, (table, variant, settings, paper, differs) in enumerate(work):
        out.append(Line(table, variant, figures(held_out, database, settings, jobs), paper, differs))
        tell("variants", i + 1, len(work) + len(SHARES))
    unfiltered = folder / "raw.mmdb"
    write_database(build_database(list(raw), options=AS_RECORDED), unfiltered)
    for name, path in (("filtered", database), ("as recorded", unfiltered)):
        table, differs = "root of the database (Karst 2023)", "the paper uses LAFAN1 and gives no number"
        out.append(Line(table, name, figures(held_out, path, base, jobs), "fewer transitions when filtered", differs))
    for i, share in enumerate(SHARES):
        path = folder / f"share-{share:g}.mmdb"
        write_database(build_database(part_of(training, share), options=AS_RECORDED), path)
        f = figures(held_out, path, _accuracy(base, 0.3), jobs)
        differs = "other motion; the root error of the thesis corresponds to target_error"
        out.append(Line("database size (thesis)", f"{share:.0%} of the clips", f, f"{THESIS_CM[share]:g} cm", differs))
        tell("variants", len(work) + i + 1, len(work) + len(SHARES))
    return out


def _accuracy(base: AvatarSettings, accuracy: float) -> AvatarSettings:
    return replace(base, matcher=base.matcher.with_values(position_accuracy=accuracy))


def _variants(base: AvatarSettings) -> Any:
    predictors = (
        ("headset forward", {"predictor": "hmd_forward"}, "14.5°"),
        ("paper, r = 1", {"predictor": "paper", "paper_r": 1}, "15.0°"),
        ("paper, r = 50", {"predictor": "paper", "paper_r": 50}, "5.4°"),
        ("ours", {"predictor": "network"}, "–"),
    )
    for name, change, paper in predictors:
        settings = replace(base, orientation=base.orientation.with_values(**change))
        yield "predictors (Ponton 2022)", name, settings, paper, "the paper trains and tests in one studio"
    for accuracy in ACCURACIES:
        paper = f"{THESIS_POSES[accuracy]:,} poses used"
        yield "α (thesis)", f"α = {accuracy} m", _accuracy(base, accuracy), paper, "other database and other motion"
    for factor in SYNCHRONIZATIONS:
        matcher = base.matcher.with_values(root_mode="synchronization", synchronization=factor)
        words = {0.0: "lags and overshoots", 0.5: "compromise", 1.0: "no lag, feet slide"}[factor]
        yield "synchronization (Karst 2023)", f"{factor:g}", replace(base, matcher=matcher), words, "films only"
    for lock in (True, False):
        post = base.post.with_values(foot_lock=lock)
        yield "foot lock (Karst 2023)", "on" if lock else "off", replace(base, post=post), "less sliding with it", (
            "the paper gives no figure"
        )
    for interval in INTERVALS:
        matcher = base.matcher.with_values(search_interval=interval)
        words = "5 per second is the best trade-off" if interval == 0.2 else "–"
        yield "search frequency (Karst 2023)", f"{1 / interval:g} per second", replace(base, matcher=matcher), words, (
            "judged by eye"
        )


def rows(lines: list[Line]) -> list[list[str]]:
    names = list(lines[0].figures)
    head = ["table", "variant", *(n.replace("_", " ") for n in names), "the paper"]
    return [head, *([x.table, x.variant, *(_short(x.figures[n]) for n in names), x.paper] for x in lines)]


def _short(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"
