"""Repeats two experiments of the thesis of Ponton (2022) with other motion data.

The first experiment (figure 5.9) measures the mean distance between avatar and user with 100 %, 25 % and 10 % of the
database; the thesis states 19, 22 and 27 cm. The second experiment (figure 5.10) counts the different poses in five
minutes if the avatar may be 0.3 m or 0.1 m from the user; the thesis states 6,932 and 5,715 poses. A part of
our database with 18,120 poses is also measured, because the database of the thesis has 18,120 poses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mm_ros.avatar import Avatar, AvatarSettings
from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.evaluation.replay_chain import ChainResult, run_chain
from mm_ros.motion.build import BuildOptions, build_database
from mm_ros.motion.database import MotionDatabase
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.simulation import simulate_clip

SHARES = (1.0, 0.25, 0.1)
ACCURACIES = (0.3, 0.1)
THESIS_FRAMES = 18_120
THESIS_SECONDS = 300.0
THESIS_CM = {1.0: 19.0, 0.25: 22.0, 0.1: 27.0}
THESIS_POSES = {0.3: 6932, 0.1: 5715}


def part_of(clips: Sequence[Clip], share: float, seed: int = 0) -> list[Clip]:
    """Choose whole clips at random until the chosen clips contain the share `share` of all frames. The clips that are
    chosen for a small share of the frames are also chosen for each larger share."""
    if not 0 < share <= 1:
        raise MmRosError(f"share of the database: expected above 0, up to 1, came {share}")
    wanted = share * sum(len(c) for c in clips)
    out: list[Clip] = []
    for i in np.random.default_rng(seed).permutation(len(clips)):
        if out and sum(len(c) for c in out) >= wanted - 1:
            break
        out.append(clips[i])
    return out


def some_of(clips: Sequence[Clip], seconds: float) -> list[Clip]:
    """Choose whole clips at random, with a fixed seed, until their duration exceeds `seconds`."""
    out: list[Clip] = []
    for i in np.random.default_rng(0).permutation(len(clips)):
        if sum(c.seconds for c in out) > seconds:
            break
        out.append(clips[i])
    return out


def measure(
    database_clips: Sequence[Clip],
    users: Sequence[Clip],
    settings: AvatarSettings | None = None,
    seed: int = 0,
    tell: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> dict[str, Any]:
    """Run both experiments of the thesis. Head and hands of the clips `users` drive the avatar; no person should be
    both in `users` and in `database_clips`."""
    for clips, what in ((database_clips, "database"), (users, "users")):
        if not clips:
            raise MmRosError(f"no clips for the {what}: expected clips of at least 1 s, of other people than the rest")
    settings = settings or AvatarSettings()
    of_thesis = THESIS_FRAMES / sum(int(c.seconds * 60) for c in database_clips)
    shares = [*SHARES, *([of_thesis] if of_thesis < 1 else [])]
    rows = []
    for n, share in enumerate(shares):
        tell("building and replaying", n, len(shares))
        database = build_database(part_of(database_clips, share, seed), options=BuildOptions(stooped=0.0))
        for accuracy in ACCURACIES if share in (1.0, of_thesis) else ACCURACIES[:1]:
            results = [replay(database, user, settings, accuracy) for user in users]
            errors = np.concatenate([r.target_error_m for r in results])
            frames = np.concatenate([r.frame for r in results])
            rows.append(
                {
                    "share": round(share, 4),
                    "frames": len(database),
                    "position_accuracy_m": accuracy,
                    "root_error_cm": round(100 * float(errors.mean()), 2),
                    "at_the_clamp": round(float((errors > accuracy - 1e-3).mean()), 4),
                    "poses": len(np.unique(frames)),
                    "seconds": round(len(errors) / 90, 1),
                }
            )
    tell("building and replaying", len(shares), len(shares))
    return {"rows": rows, "thesis": {"root_error_cm": THESIS_CM, "poses": THESIS_POSES}}


def replay(database: MotionDatabase, user: Clip, settings: AvatarSettings, accuracy: float) -> ChainResult:
    matcher = settings.matcher.with_values(position_accuracy=accuracy)
    avatar = Avatar.load(database, from_skeleton(user.skeleton), replace(settings, matcher=matcher))
    return run_chain(simulate_clip(user), avatar)


def lines(result: dict[str, Any]) -> list[str]:
    """Return the results of both experiments of the thesis as lines of a text table."""
    out = ["database    frames   alpha   root error   at clamp   poses   seconds   thesis"]
    for r in result["rows"]:
        share, accuracy = r["share"], r["position_accuracy_m"]
        thesis = f"{THESIS_CM[share]:.0f} cm" if accuracy == 0.3 and share in THESIS_CM else ""
        thesis += f"  {THESIS_POSES[accuracy]} poses" if share == 1.0 else ""
        out.append(
            f"{share:8.1%} {r['frames']:9d} {accuracy:5.1f} m {r['root_error_cm']:9.1f} cm {r['at_the_clamp']:10.1%} "
            f"{r['poses']:7d} {r['seconds']:9.0f}   {thesis}"
        )
    return out
