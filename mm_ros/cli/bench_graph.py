"""`mm_ros bench graph`: measure latency, losses, CPU and memory of the graph."""

import argparse

from mm_ros.cli.arguments import add_number, picture_file
from mm_ros.cli.output import add_json, write_json

HELP = "measure latency (tracker stamp to /tf), losses, CPU and memory of the graph"
EPILOG = "example: mm_ros bench graph --seconds 10 --rounds 1 --json graph.json --plot graph.png"
MODES = ("processes", "composed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_number(parser, "--seconds", default=30.0, help="length of each round (default 30)")
    add_number(parser, "--rounds", default=5, help="number of rounds; results are medians (default 5)")
    add_number(parser, "--rates", nargs="*", default=[72, 90, 120], help="tracker rates (default 72 90 120)")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES), help="one process per node, or one")
    add_number(parser, "--avatars", nargs="*", default=[1, 2, 4], help="numbers of avatars to measure (default 1 2 4)")
    parser.add_argument("--plot", metavar="FILE", type=picture_file, help="plot latencies and the cost of avatars")
    add_number(
        parser, "--hour", default=0.0,
        help="instead, measure memory and latency for one hour of simulated time, at this speed factor",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.hour:
        from mm_ros.ros.bench.hour import run_hour

        write_json(args.json, run_hour(1.0, args.hour, lambda text: print(text, flush=True)))
        return 0
    from mm_ros.ros.bench.graph import Plan, run_bench

    plan = Plan(args.seconds, args.rounds, [round(rate) for rate in args.rates], args.modes, args.avatars)
    result = run_bench(plan, lambda text: print(text, flush=True))
    print(f"{result['cpus']} CPUs, load {result['load_1_min']:.1f} before and {result['load_1_min_end']:.1f} after")
    write_json(args.json, result)
    if args.plot is not None:
        from mm_ros.evaluation.benchmarks.graph_plot import plot

        plot(result, args.plot)
        print(f"plot: {args.plot}")
    return 0
