"""`mm_ros bench viewer`."""

import argparse

from mm_ros.commands.output import add_json, write_json

HELP = "measure what the viewer costs the graph: latency with and without it, a browser connected"
EPILOG = "example: mm_ros bench viewer --seconds 15 --rounds 3 --json viewer.json"
MODES = ("processes", "composed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round (default 20)")
    parser.add_argument("--rounds", type=int, default=5, help="medians of so many pairs (default 5)")
    parser.add_argument("--rate", type=int, default=90, help="of the trackers, Hz (default 90)")
    parser.add_argument("--mode", choices=MODES, default="processes", help="a process a node (default), or one")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.nodes.viewer_bench import run_bench

    result = run_bench(args.mode, args.rate, args.seconds, max(args.rounds, 1), lambda text: print(text, flush=True))
    for name in ("without", "with"):
        m = result[name]
        late = "  ".join(f"{k} {v:6.2f}" for k, v in m["latency_ms"].items())
        print(f"{name:8s} {late} ms   lost {m['lost']} of {m['samples']}   CPU {m['cpu_percent']:5.1f} %")
    print(f"p99 with the viewer is {result['p99_ratio']:.2f} times that without ({result['cpus']} CPUs)")
    write_json(args.json, result)
    return 0
