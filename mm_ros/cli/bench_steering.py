"""`mm_ros bench steering`: steer the avatar by scripted input and measure how it responds."""

from __future__ import annotations

import argparse
import os
import platform
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.cli.arguments import add_database, add_learned_model, add_number, output_file
from mm_ros.cli.output import add_json, table, write_json

HELP = "measure the response to scripted keys, stick and path: turns, starts, stops, deviation, feet"
ENGINES = ("search", "learned", "state_machine")
# Figure, heading, factor, digits.
COLUMNS = (
    ("turn_45_s", "45° s", 1, 2), ("turn_90_s", "90° s", 1, 2), ("turn_90_s_worst", "worst", 1, 2),
    ("turn_180_s", "180° s", 1, 2), ("turn_90_overshoot_deg", "over °", 1, 1),
    ("steady_heading_error_deg_worst", "steady °", 1, 1), ("start_walk_s", "start s", 1, 2),
    ("stop_s", "stop s", 1, 2), ("stop_s_worst", "worst", 1, 2), ("start_walk_speed_error", "walk %", 100, 1),
    ("start_jog_speed_error", "jog %", 100, 1), ("standing_frames", "standing", 1, 0), ("skate_ratio", "skate", 1, 3),
    ("pops_per_min", "pops/min", 1, 1), ("database_pops_per_min", "database", 1, 1), ("jitter", "jitter", 1, 0),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  mm_ros bench steering --json steering.json\n"
        "  mm_ros bench steering --engines search --video steering   # steering.gif, steering.png"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="engines to measure (default: all)"
    )
    add_database(parser)
    add_learned_model(parser)
    add_number(parser, "--rounds", default=6, help="repeats of each change, at other moments (default: %(default)s)")
    add_number(parser, "--seed", default=0, help="seed of these moments (default: %(default)s)")
    parser.add_argument("--video", type=output_file, metavar="FILE", help="also write FILE.gif and FILE.png")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.cli.progress import Progress
    from mm_ros.evaluation.benchmarks import steering as bench
    from mm_ros.matching.matcher import MatcherSettings
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.motion.files import read_database

    if args.video and args.video.suffix not in ("", ".gif", ".png"):
        raise MmRosError(f"--video: expected a name without an ending, or .gif, came '{args.video}'")
    progress = Progress()
    database = read_database(args.database or default_database_path(progress))
    own = bench.reference(database)
    scripted = bench.streams(args.seed, args.rounds)
    out: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                           "load_1_min": os.getloadavg()[0], "date": date.today().isoformat(), "seed": args.seed,
                           "rounds": args.rounds, "database": own.numbers, "engines": {}}  # fmt: skip
    riders = {}
    for name in args.engines:
        settings = MatcherSettings(engine=name, model=args.model)
        riders[name] = bench.Rider(database, settings)
        out["engines"][name] = bench.bench(
            riders[name], scripted, own, partial(progress, name)
        )  # fmt: skip
    progress.end()
    print(table(("engine", *(c[1] for c in COLUMNS)), [_row(n, r) for n, r in out["engines"].items()]))
    rows = [
        [name, *(f"{100 * r['path_deviation_m'][k]:.1f}" for k in ("mean", "median", "p95")),
         f"{100 * r['path_speed_error']:.1f}", f"{r['frame_ms']['median']:.3f}", f"{r['frame_ms']['p99']:.2f}"]
        for name, r in out["engines"].items()
    ]  # fmt: skip
    print(f"\npath at {bench.PATH_SPEED:g} m/s: distance from it, error of the speed at key points\n" + table(
        ("engine", "mean cm", "median cm", "p95 cm", "speed %", "frame ms", "p99"), rows))  # fmt: skip
    numbers = own.numbers
    print(f"\nthe database itself: skate {numbers['skate_ratio']:.3f}, jitter {numbers['jitter']:.0f}, pops/min "
          f"{numbers['pops_per_min']:.1f} over all its clips (column database: at the speeds of the runs); "
          f"{out['cores']} cores, load {out['load_1_min']:.1f}")  # fmt: skip
    if args.video:
        out["video"] = _film(args.video, riders, bench)
    write_json(args.json, out)
    return 0


def _row(name: str, result: dict[str, Any]) -> list[str]:
    return [name, *(f"{factor * result[key]:.{digits}f}" for key, _, factor, digits in COLUMNS)]


def _film(path: Path, riders: dict[str, Any], bench: Any) -> list[str]:
    """Write a film and a contact sheet of the engines side by side under the same input."""
    import numpy as np

    from mm_ros.show.film import BODY, GHOST, Actor, film
    from mm_ros.show.render import contact_sheet, write_gif, write_png

    every, rate = 5, 12.0
    stream = bench.show_stream()
    actors = [
        Actor(rider.database.skeleton, rider.steer(stream).poses[::every], BODY if i == 0 else GHOST)
        for i, rider in enumerate(riders.values())
    ]
    pictures = film(actors)
    gif, png = path.with_suffix(".gif"), path.with_suffix(".png")
    write_gif(gif, pictures, rate)
    chosen = np.linspace(0, len(pictures) - 1, 12).astype(int)
    write_png(png, contact_sheet([pictures[i] for i in chosen], 4))
    print(f"film: {gif}   picture: {png}   from left: {', '.join(riders)}")
    return [str(gif), str(png)]
