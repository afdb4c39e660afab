"""`mm_ros bench viewer`: measure how much the viewer delays the graph, and its CPU time."""

import argparse

from mm_ros.cli.arguments import add_number
from mm_ros.cli.output import add_json, write_json

HELP = "measure the latency of the graph with and without the viewer (one browser connected)"
EPILOG = "example: mm_ros bench viewer --seconds 15 --rounds 3 --json viewer.json"
MODES = ("processes", "composed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_number(parser, "--seconds", default=20.0, help="length of each round (default 20)")
    add_number(parser, "--rounds", default=5, help="number of round pairs; results are medians (default 5)")
    add_number(parser, "--rate", default=90.0, help="tracker rate (default 90)")
    parser.add_argument(
        "--mode", choices=MODES, default="processes", help="one process per node (default), or one process"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.ros.bench.viewer import run_bench

    result = run_bench(args.mode, round(args.rate), args.seconds, args.rounds, lambda text: print(text, flush=True))
    for name in ("without", "with"):
        m = result[name]
        late = "  ".join(f"{k} {v:6.2f}" for k, v in m["latency_ms"].items())
        print(f"{name:8s} {late} ms   lost {m['lost']} of {m['samples']}   CPU {m['cpu_percent']:5.1f} %")
    print(f"p99 latency with the viewer is {result['p99_ratio']:.2f} times that without it ({result['cpus']} CPUs)")
    write_json(args.json, result)
    return 0
