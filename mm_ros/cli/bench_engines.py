"""`mm_ros bench engines`: compare the three sources of poses, namely search, learned networks and state machine."""

import argparse
import os
import platform
from datetime import date
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.cli.arguments import add_database, add_learned_model, add_number
from mm_ros.cli.output import add_json, table, write_json

HELP = "compare search, learned engine and a plain state machine on the same users"
GROWTH_EFFORT = 0.1
COLUMNS = (  # Each row is one column of the printed table: metric, heading, factor, digits, statistic.
    ("frame_ms", "frame ms", 1, 3, "median"),
    ("frame_ms", "p99", 1, 2, "p99"),
    ("root_error_m", "root cm", 100, 2, "mean"),
    ("facing_error_deg", "facing °", 1, 1, "mean"),
    ("stance_drift_m", "drift cm", 100, 2, "median"),
    ("skate_ratio", "skate", 1, 3, ""),
    ("jitter", "jitter", 1, 0, ""),
    ("pops_per_min", "pops/min", 1, 1, ""),
    ("jumps_per_s", "jumps/s", 1, 1, ""),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  mm_ros bench engines walks/ --database my.mmdb --model my.onnx --effects --json out.json\n"
        "  mm_ros bench engines --growth --database my.mmdb"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "paths", nargs="*", type=Path, help="motion of the users: BVH files, folders or archives; sessions"
    )
    add_database(parser)
    add_learned_model(parser)
    add_number(
        parser,
        "--position-accuracy",
        default=0.1,
        help="maximum distance of the root from the desired position, α (default: %(default)s)",
    )
    parser.add_argument("--effects", action="store_true", help="also vary the search interval and the inertialization")
    add_number(
        parser,
        "--minutes",
        default=0.0,
        help="also run synthetic desired trajectories of this length, with and without noise",
    )
    add_number(
        parser, "--growth", nargs="?", default=0.0, const=GROWTH_EFFORT,
        help="train small and large networks on a quarter and on all of the clips, each with this factor of the usual "
        f"training steps (default {GROWTH_EFFORT:g}); first prints the estimated duration",
    )  # fmt: skip
    add_number(parser, "--seed", default=0, help="seed of the simulated trackers (default: %(default)s)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.cli.progress import Progress
    from mm_ros.evaluation.benchmarks import engines as bench
    from mm_ros.motion.default_database import default_database_path

    if not args.paths and args.growth <= 0 and args.minutes <= 0:
        raise MmRosError("bench engines needs users (BVH files, folders, archives, sessions), --minutes or --growth")
    progress = Progress()
    path = args.database or default_database_path(progress)
    out: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                           "load_1_min": os.getloadavg()[0], "date": date.today().isoformat()}  # fmt: skip
    if args.paths:
        out |= _compared(args, path, progress)
    if args.minutes > 0:
        out["endured"] = {f"noise {n:g}": bench.endurance(path, args.model, args.minutes, n) for n in (0.0, 0.3)}
        print(f"\n{args.minutes:g} minutes of synthetic input, first … last minute\n{_endured(out['endured'])}")
    if args.growth > 0:
        out["growth"] = _grown(path, args.growth)
    print(f"\n{len(args.paths)} paths; {out['machine']}, {out['cores']} cores, load {out['load_1_min']:.1f}")
    write_json(args.json, out)
    return 0


def _compared(args: argparse.Namespace, path: Path, progress: Any) -> dict[str, Any]:
    from mm_ros.avatar import AvatarSettings
    from mm_ros.evaluation.benchmarks import engines as bench
    from mm_ros.evaluation.evaluate import read_inputs
    from mm_ros.matching.matcher import MatcherSettings
    from mm_ros.tracking.simulation import Simulation

    base = AvatarSettings(matcher=MatcherSettings(model=args.model, position_accuracy=args.position_accuracy))
    inputs = read_inputs(args.paths, progress)
    results = bench.compare(inputs, path, bench.contenders(base, args.effects), Simulation(seed=args.seed), progress)
    memory = bench.memory(path, args.model)
    progress.end()
    rows = [[name, *(_cell(result, c) for c in COLUMNS)] for name, result in results.items()]
    print(table(("engine", *(c[1] for c in COLUMNS)), rows))
    print()
    print(table(
        ("engine", "MB counted", "MB file", "MB process", "of search", "paper's engine", "paper ms", "paper MB"),
        [[n, *(round(m[k], 2) for k in ("counted_mb", "file_mb", "process_grew_mb")),
          f"1/{memory['search']['counted_mb'] / m['counted_mb']:.1f}", *bench.PAPER[n]] for n, m in memory.items()],
    ))  # fmt: skip
    print(f"{len(inputs)} clips")
    return {"engines": results, "memory": memory, "paper": bench.PAPER}


def _endured(results: dict[str, Any]) -> str:
    keys = ("spread_m", "toe_speed_m_s", "target_error_m")
    rows = [
        [f"{name}, {noise}", str(r["finite"]), *(f"{r[k][0]:.3f} … {r[k][-1]:.3f}" for k in keys)]
        for noise, by_engine in results.items()
        for name, r in by_engine.items()
    ]
    return table(("engine", "finite", "joint spread m", "toes m/s", "root to target m"), rows)


def _grown(path: Path, effort: float) -> list[dict[str, Any]]:
    from mm_ros.matching.training.growth import growth
    from mm_ros.motion.files import read_database

    rows = growth(read_database(path), effort, lambda line: print(line, flush=True))
    lines = [
        [f"{r['share']:.0%}", r["frames"], r["width"], round(r["file_mb"], 2),
         round(r["minutes"], 1), *(round(r[k]["joints_cm_mean"], 2) for k in ("rebuilt", "after_1_s")),
         *(round(r["answers"][k], 2) for k in ("cost_median", "exact_cost_median", "cost_of_exact_answer_to_found"))]
        for r in rows
    ]  # fmt: skip
    header = ("clips", "frames", "width", "MB", "minutes", "rebuilt cm", "after 1 s cm", "result cost", "exact cost",
              "exact to result")  # fmt: skip
    print(f"\nmore motion, with networks of the same size and larger ones\n{table(header, lines)}")
    return rows


def _cell(row: dict[str, Any], column: tuple[str, str, float, int, str]) -> str:
    from mm_ros.evaluation.table import cell

    return cell(row, column)
