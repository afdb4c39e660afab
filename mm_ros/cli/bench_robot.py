"""`mm_ros bench robot`: measure how well each robot of a set follows the same motion of the avatar."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from datetime import date
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.text import printable
from mm_ros.cli.arguments import add_database, add_number
from mm_ros.cli.output import add_json, table, write_json

HELP = "measure how well robots follow the same motion: limbs, feet, limits, balance, time"
ROBOTS = (".urdf", ".xacro", ".xml", ".mjcf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n  mm_ros bench robot g1.urdf talos.urdf walk.bvh --json out.json\n"
        "  mm_ros bench robot g1.urdf recording/ --methods follow"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="FILE", help="robot files (.urdf, .xacro, .xml), sessions and BVH files"
    )
    parser.add_argument(
        "--methods", default="follow,decompose", help="methods to compare, separated by commas (default: %(default)s)"
    )
    add_number(parser, "--seconds", default=0.0, help="stop after this time (default: the whole motion)")
    add_database(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.cli.progress import Progress
    from mm_ros.evaluation.benchmarks.robots import METHODS, ROWS, measure, medians, walks_of
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.robot.figure import read_figure

    methods = [m.strip() for m in args.methods.split(",") if m.strip()]
    wrong = [m for m in methods if m not in METHODS]
    if wrong or not methods:
        raise MmRosError(f"--methods: expected some of {', '.join(METHODS)}, came '{args.methods}'")
    robots = [p for p in args.paths if p.suffix.lower() in ROBOTS]
    motions = [p for p in args.paths if p not in robots]
    if not robots or not motions:
        raise MmRosError("expected at least one robot file (.urdf, .xacro, .xml) and one session or BVH file")
    progress = Progress()
    walks = walks_of(motions, args.database or default_database_path(progress), args.seconds, progress)
    results: list[dict[str, Any]] = []
    refused = {}
    for path in robots:
        try:
            figure = read_figure(path)
        except MmRosError as error:
            refused[str(path)] = str(error)
            print(f"mm_ros: {printable(str(error))}", file=sys.stderr)
            continue
        for walk in walks:
            for method in methods:
                row = {"robot": path.stem, "motion": walk.name, "method": method, **measure(figure, walk, method)}
                results.append(row)
    if not results:
        raise MmRosError("no robot could be measured")
    summary = {m: medians([r for r in results if r["method"] == m]) for m in methods}
    columns = [(r["robot"], r["motion"], r["method"], r) for r in results]
    columns += [("median", f"{sum(r['method'] == m for r in results)} runs", m, summary[m]) for m in methods]
    for first in range(0, len(columns), 6):
        some = columns[first : first + 6]
        heads = ["", *(printable(f"{robot[:16]} {motion[:12]}") for robot, motion, _, _ in some)]
        rows = [["", *(method for _, _, method, _ in some)]]
        rows += [
            [f"{name} [{unit}]" if unit else name, *(_shown(values[name]) for *_, values in some)]
            for name, unit in ROWS.items()
        ]
        print(table(heads, rows))
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "date": date.today().isoformat()}
    write_json(args.json, {"machine": machine, "results": results, "medians": summary, "refused": refused})
    return 0


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:.2f}"
