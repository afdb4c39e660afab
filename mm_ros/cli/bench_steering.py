"""`mm_ros bench steering`: steer the avatar by scripted input and measure how the avatar responds."""

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
# Each row is one column of the printed table: measured quantity, heading, factor on this quantity, number of digits.
COLUMNS = (
    ("turn_45_s", "45° s", 1, 2), ("turn_90_s", "90° s", 1, 2), ("turn_90_s_worst", "worst", 1, 2),
    ("turn_180_s", "180° s", 1, 2), ("turn_90_overshoot_deg", "over °", 1, 1),
    ("steady_heading_error_deg_worst", "steady °", 1, 1), ("start_walk_s", "start s", 1, 2),
    ("stop_s", "stop s", 1, 2), ("stop_s_worst", "worst", 1, 2), ("start_walk_speed_error", "walk %", 100, 1),
    ("start_jog_speed_error", "jog %", 100, 1), ("standing_frames", "standing", 1, 0), ("skate_ratio", "skate", 1, 3),
    ("pops_per_min", "pops/min", 1, 1), ("database_pops_per_min", "database", 1, 1), ("jitter", "jitter", 1, 0),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from mm_ros.matching.engines.source import ENGINES

    parser.epilog = (
        "examples:\n"
        "  mm_ros bench steering --json steering.json\n"
        "  mm_ros bench steering --keys 0 --video steering   # steering-keys.gif, steering-keys.png, …"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="engines to measure (default: all)"
    )
    add_database(parser)
    add_learned_model(parser)
    add_number(
        parser, "--rounds", default=6,
        help="number of repeats of each change, at different moments (default: %(default)s)",
    )
    add_number(parser, "--seed", default=0, help="seed of these moments (default: %(default)s)")
    parser.add_argument("--paper", action="store_true", help="also measure the parameter variants of Szkaradek 2024")
    add_number(
        parser, "--keys", default=100, metavar="N",
        help="number of keys in a real Chromium for which the time to the pose is measured; 0 for none (default: "
             "%(default)s)",
    )
    parser.add_argument(
        "--video", type=output_file, metavar="FILE",
        help="also write a film and a contact sheet of each mode: FILE-keys.gif …",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.cli.progress import Progress
    from mm_ros.evaluation.benchmarks import steering as bench
    from mm_ros.matching.matcher import MatcherSettings
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.motion.feature_files import STEERED
    from mm_ros.motion.files import read_database

    if args.video and args.video.suffix:
        raise MmRosError(f"--video: expected a name without an ending, came '{args.video}'")
    progress = Progress()
    database = read_database(args.database or default_database_path(progress, STEERED))
    own = bench.reference(database)
    scripted = bench.streams(args.seed, args.rounds)
    out: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                           "load_1_min": os.getloadavg()[0], "date": date.today().isoformat(), "seed": args.seed,
                           "rounds": args.rounds, "database": own.numbers, "engines": {}}  # fmt: skip
    riders = {name: bench.Rider(database, MatcherSettings(engine=name, model=args.model)) for name in args.engines}
    for name, rider in riders.items():
        out["engines"][name] = bench.bench(rider, scripted, own, partial(progress, name))
    progress.end()
    _print(out["engines"], "engine", bench)
    numbers = own.numbers
    print(f"\nthe database itself: skate {numbers['skate_ratio']:.3f}, jitter {numbers['jitter']:.0f}, pops/min "
          f"{numbers['pops_per_min']:.1f} over all its clips (column database: at the speeds of the runs); "
          f"{out['cores']} cores, load {out['load_1_min']:.1f}")  # fmt: skip
    if args.paper:
        out["variants"] = _variants(args, database, scripted, own, progress, bench)
    if args.keys:
        out["key_to_pose_ms"] = _keys(args)
    if args.video:
        out["video"] = [file for name, show in bench.shows().items() for file in _film(args.video, name, riders, show)]
    write_json(args.json, out)
    return 0


def _print(results: dict[str, dict[str, Any]], what: str, bench: Any) -> None:
    print(table((what, *(c[1] for c in COLUMNS)), [_row(n, r) for n, r in results.items()]))
    rows = [
        [name, *(f"{100 * r['path_deviation_m'][k]:.1f}" for k in ("mean", "median", "p95")),
         *(f"{100 * r[k]:.1f}" for k in ("path_speed_error", "path_speed_error_worst")),
         *(f"{r['frame_ms'][k]:.3f}" for k in ("mean", "median", "p99")), f"{r['memory_mb']:.1f}", *_thesis(name)]
        for name, r in results.items()
    ]  # fmt: skip
    print(f"\npath at {bench.PATH_SPEED:g} m/s: distance from it, error of the speed at key points; time and memory\n"
          + table(("engine", "mean cm", "median cm", "p95 cm", "speed %", "worst %", "mean ms", "median ms", "p99 ms",
                   "MB", "thesis ms", "thesis MB"), rows))  # fmt: skip


def _thesis(engine: str) -> tuple[str, str]:
    """Return time and memory of an engine as published in Szkaradek 2024, for another machine and other motion data."""
    from mm_ros.evaluation.benchmarks.engines import PAPER

    if engine not in PAPER:
        return "", ""
    return f"{PAPER[engine][1]:g}", f"{PAPER[engine][2]:g}"


def _row(name: str, result: dict[str, Any]) -> list[str]:
    return [name, *(f"{factor * result[key]:.{digits}f}" for key, _, factor, digits in COLUMNS)]


def _variants(
    args: argparse.Namespace, database: Any, scripted: Any, own: Any, progress: Any, bench: Any
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for engine in (e for e in args.engines if e != "state_machine"):
        for name, (search, forced, decay) in bench.VARIANTS.items():
            matcher, post = bench.variant(name, engine, args.model)
            label = f"{engine}, {name}"
            found = bench.bench(bench.Rider(database, matcher, post), scripted, own, partial(progress, label))
            given = {"search_time_s": search, "forced_search_time_s": forced, "decay_s": decay,
                     "blend_halflife_s": post.blend_halflife}  # fmt: skip
            out[label] = {"parameters": given, **found}
    progress.end()
    print("\nvariants of Szkaradek 2024, table 5.2; half-life = decay time / "
          f"{bench.DECAY_PER_HALFLIFE:.1f} (99 % decayed)")  # fmt: skip
    _print(out, "variant", bench)
    return out


def _keys(args: argparse.Namespace) -> dict[str, Any]:
    from mm_ros.cli import warm
    from mm_ros.cli.demo import Processes, free_port
    from mm_ros.ros.bench.keys import key_latency

    warm.run(argparse.Namespace(quiet=True, database=args.database, control="keyboard"))
    found = key_latency(
        Processes(), free_port(8190), args.keys, args.seed, args.database, lambda text: print(text, flush=True)
    )
    print("key in the page → its pose back in the page: " + "  ".join(
        f"{k} {found[k]:.1f}" for k in ("p50", "p90", "p99", "max")) + f" ms, {found['answers']} answers, "
        f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    return found


def _film(path: Path, name: str, riders: dict[str, Any], show: Any) -> list[str]:
    import numpy as np

    from mm_ros.show.film import BODY, GHOST, Actor, film
    from mm_ros.show.render import contact_sheet, write_gif, write_png

    every, rate = 5, 12.0
    actors = [
        Actor(rider.database.skeleton, show(rider).poses[::every], BODY if i == 0 else GHOST)
        for i, rider in enumerate(riders.values())
    ]
    pictures = film(actors)
    gif, png = (path.with_name(f"{path.name}-{name}{ending}") for ending in (".gif", ".png"))
    write_gif(gif, pictures, rate)
    chosen = np.linspace(0, len(pictures) - 1, 16).astype(int)
    write_png(png, contact_sheet([pictures[i] for i in chosen], 4))
    print(f"{name}: film {gif}   picture {png}   from left: {', '.join(riders)}")
    return [str(gif), str(png)]
