"""`mm_ros bench graph`."""

import argparse

from mm_ros.commands.arguments import picture_file, seconds
from mm_ros.commands.output import add_json, write_json

HELP = "measure the graph: latency from a tracker's stamp to /tf, losses, CPU, memory; beside bare transport"
EPILOG = "example: mm_ros bench graph --seconds 10 --rounds 1 --json graph.json --plot graph.png"
MODES = ("processes", "composed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--seconds", type=seconds, default=30.0, help="of each round (default 30)")
    parser.add_argument("--rounds", type=int, default=5, help="medians of so many (default 5)")
    parser.add_argument("--rates", type=int, nargs="*", default=[72, 90, 120], help="Hz (default 72 90 120)")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES), help="a process a node, or one")
    parser.add_argument("--avatars", type=int, nargs="*", default=[1, 2, 4], help="side by side, each a process")
    parser.add_argument("--plot", metavar="FILE", type=picture_file, help="draw latencies and what avatars cost")
    parser.add_argument(
        "--hour", type=float, default=0.0, metavar="RATE",
        help="instead: an hour of a session on simulated time, so many times faster than life; memory and latency",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.hour:
        from mm_ros.nodes.graph_hour import run_hour

        write_json(args.json, run_hour(1.0, args.hour, lambda text: print(text, flush=True)))
        return 0
    from mm_ros.nodes.graph_bench import Plan, run_bench

    plan = Plan(args.seconds, max(args.rounds, 1), args.rates, args.modes, args.avatars)
    result = run_bench(plan, lambda text: print(text, flush=True))
    print(f"{result['cpus']} CPUs, load {result['load_1_min']:.1f} before and {result['load_1_min_end']:.1f} after")
    write_json(args.json, result)
    if args.plot is not None:
        from mm_ros.offline.graph_plot import plot

        plot(result, args.plot)
        print(f"plot: {args.plot}")
    return 0
