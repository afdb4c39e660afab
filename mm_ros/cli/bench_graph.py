"""`mm_ros bench graph`: measure latency, lost messages, CPU time and memory of the running ROS graph."""

import argparse
from pathlib import Path

from mm_ros.cli.arguments import add_number, picture_file
from mm_ros.cli.output import add_json, write_json

HELP = "measure latency (tracker stamp to /tf), losses, CPU and memory of the graph"
EPILOG = "examples: mm_ros bench graph --rounds 5 --avatars 4 --json graph.json --plot graph.png; "
EPILOG += "mm_ros bench graph --minutes 30 --avatars 12"
MODES = ("composed", "processes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_number(parser, "--seconds", default=5.0, help="length of each measurement (default 5)")
    add_number(parser, "--rounds", default=2, help="number of rounds; results are medians (default 2)")
    add_number(parser, "--rates", nargs="*", default=[90], help="tracker rates (default 90)")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES), help="one process, or one per node")
    add_number(parser, "--avatars", nargs="*", default=[], help="also measure these numbers of avatars at 90 Hz")
    parser.add_argument("--record", action="store_true", help="also measure while a recorder records all topics")
    parser.add_argument(
        "--disturb", action="store_true",
        help="also measure while parameters and database are changed and a node is reset",
    )
    parser.add_argument(
        "--against", metavar="CHECKOUT", type=Path,
        help="also measure the graph of another version, alternately: path of a checkout with its .venv",
    )
    parser.add_argument("--plot", metavar="FILE", type=picture_file, help="plot latencies and the cost of avatars")
    add_number(
        parser, "--hour", default=0.0,
        help="instead, measure memory and latency for one hour of simulated time, at this speed factor",
    )
    add_number(
        parser, "--minutes", default=0.0,
        help="instead, run the first number of --avatars (default 1) for this number of minutes, and print memory, "
             "losses and latency of each sixth of the time",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.hour:
        from mm_ros.ros.bench.hour import run_hour

        write_json(args.json, run_hour(1.0, args.hour, lambda text: print(text, flush=True)))
        return 0
    if args.minutes:
        from mm_ros.ros.bench.minutes import run_minutes

        avatars = args.avatars[0] if args.avatars else 1
        write_json(args.json, run_minutes(args.minutes, avatars, 90, lambda text: print(text, flush=True)))
        return 0
    from mm_ros.ros.bench.graph import Plan, ratios, run_bench

    plan = Plan(
        args.seconds, args.rounds, [round(rate) for rate in args.rates], args.modes, args.avatars,
        record=args.record, disturb=args.disturb, against=args.against,
    )  # fmt: skip
    result = run_bench(plan, lambda text: print(text, flush=True))
    print(*ratios(result), sep="\n")
    print(f"{result['cpus']} CPUs, load {result['load_1_min']:.1f} before and {result['load_1_min_end']:.1f} after")
    write_json(args.json, result)
    if args.plot is not None:
        from mm_ros.evaluation.benchmarks.graph_plot import plot

        plot(result, args.plot)
        print(f"plot: {args.plot}")
    return 0
