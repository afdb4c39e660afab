"""`mm_ros bench search`: compare the exact search of mm_ros with nearest-neighbour searches of other libraries."""

import argparse
import os
import sys
from typing import Any

from mm_ros.cli.arguments import CMU_DATA, add_number, picture_file
from mm_ros.cli.output import add_json, table, write_json
from mm_ros.cli.progress import Progress

HELP = "compare the exact search with the classic bounding boxes and all installed libraries"
EPILOG = "example: mm_ros bench search --sizes small medium --json search.json --plot search.png\n\n" + CMU_DATA


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--sizes", nargs="+", choices=("small", "medium", "large"), default=["small", "medium", "large"],
        help="database sizes (default: all)",
    )
    parser.add_argument(
        "--stream", choices=("stick10", "clip10", "stick1"), default="stick10",
        help="set of recorded queries (default: %(default)s)",
    )
    add_number(parser, "--rounds", default=5, help="rounds; each contender runs once per round (default 5)")
    parser.add_argument("--only-ours", action="store_true", help="skip the other libraries")
    parser.add_argument("--no-growth", action="store_true", help="skip the growth test (16 thousand to 1 million rows)")
    parser.add_argument("--plot", metavar="FILE", type=picture_file, help="plot recall over time, and growth")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    # numpy reads the environment variables with the number of threads only while numpy is imported.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    from mm_ros.evaluation.benchmarks.search import plot, run_bench
    from mm_ros.motion.shared_data import PROCEDURAL_NOTE, has_data

    if not has_data():
        print(PROCEDURAL_NOTE, file=sys.stderr)
    progress = Progress(args.quiet)
    say = (lambda text: None) if args.quiet else print
    result = run_bench(
        args.sizes, args.rounds, not args.only_ours, not args.no_growth, args.stream, progress, say
    )
    progress.end()
    for size in args.sizes:
        print(f"\n{size}: {result[size]['_data']['made_of']}")
        print(_table(result[size]))
    if "growth" in result:
        print(f"\ngrowth exponent: {result['growth']['exponent']}")
    print(f"\n{result['cpu']}, load {result['load_1_min']:.1f}")
    write_json(args.json, result)
    if args.plot is not None:
        plot(result, args.plot)
        print(f"plot: {args.plot}")
    return 0


def _table(figures: dict[str, dict[str, Any]]) -> str:
    keys = ("median_us", "p99_us", "recall", "regret", "memory_mb", "build_ms")
    reference = figures["ours"]["median_us"]
    rows = [
        [name, *(f[k] for k in keys), round(f["median_us"] / reference, 1)]
        for name, f in figures.items()
        if not name.startswith("_")
    ]
    return table(("contender", *keys, "× ours"), rows)
