"""`mm_ros bench webxr`: measure time stamps and delays of the headset page in a real Chromium browser."""

from __future__ import annotations

import argparse

from mm_ros.cli.arguments import add_database, add_number
from mm_ros.cli.output import add_json, write_json

HELP = "measure the headset page in Chromium: error of the stamps, time from a sample to its pose in the page"
EPILOG = """examples:
  mm_ros bench webxr --seconds 60 --json webxr.json
  mm_ros bench webxr --seconds 600     ten minutes; also the growth of memory after minute 2"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_number(parser, "--seconds", default=30.0, help="time that is measured (default: %(default)s)")
    add_number(parser, "--rate", default=90.0, help="frames per second of the simulated headset (default: %(default)s)")
    add_database(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.cli import warm
    from mm_ros.cli.demo import Processes, free_port
    from mm_ros.ros.bench.webxr import run_bench

    warm.run(argparse.Namespace(quiet=True, database=args.database, control="vr"))
    result = run_bench(
        Processes(), free_port(8190), args.rate, args.seconds, args.database, lambda text: print(text, flush=True)
    )
    for name, text in (
        ("sample_to_pose_ms", "sample in the page → its pose back in the page"),
        ("echo_ms", "the same bytes to a bare echo server and back"),
        ("stamp_error_ms", "error of the published stamps (size)"),
        ("page_logic_ms", "the page's own work for a frame, without drawing"),
    ):
        print(f"{text:52} " + "  ".join(f"{k} {v:.2f}" for k, v in result[name].items()) + " ms")
    print(
        f"frames sent {result['sent']}, lost on the way {result['missed']}, published {result['published']}, "
        f"poses back {result['poses_back']}"
    )
    print(f"processor time of the graph: {result['graph_cpu_percent']:.0f} %")
    for name, text in (("memory", "memory of the graph"), ("page_heap", "heap of the page")):
        grown = result["growth_mb" if name == "memory" else "page_heap_growth_mb"]
        after = "" if grown is None else f"; after minute 2 it grew by {grown:.2f} MB"
        print(f"{text} by minute [MB]: {', '.join(f'{v:.1f}' for v in result[f'{name}_by_minute_mb'])}{after}")
    write_json(args.json, result)
    return 0
