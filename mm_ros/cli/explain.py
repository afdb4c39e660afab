"""`mm_ros explain`: show the winner and the other candidates of one search in a session or a clip."""

from __future__ import annotations

import argparse
from pathlib import Path

from mm_ros.cli.arguments import add_database, add_number, output_file
from mm_ros.cli.output import add_json, write_json

HELP = "show why the matcher chose a pose: query, winner and runners-up with their costs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: mm_ros explain recording/ --at 12.3 --picture why.png"
    parser.add_argument("path", type=Path, help="session or BVH file (only its first clip)")
    add_number(parser, "--at", required=True, help="explain the last search up to this time from the start")
    add_database(parser)
    add_number(parser, "-k", default=5, help="number of runners-up (default: %(default)s)")
    parser.add_argument("--picture", type=output_file, help="also write a PNG: winner and runners-up side by side")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.avatar import AvatarSettings
    from mm_ros.cli.progress import Progress
    from mm_ros.evaluation import evaluate, explain, run, table
    from mm_ros.evaluation.explain_picture import write_picture
    from mm_ros.evaluation.rows import CHAIN_ROWS
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.motion.files import read_database
    from mm_ros.tracking.simulation import Simulation

    progress = Progress()
    name, given, _ = evaluate.read_inputs([args.path], progress)[0]
    path = args.database or default_database_path(progress)
    inputs = run.input_of(run.task_of(name, given, path, Simulation(), 0.0))
    database = read_database(path)
    avatar = run.make_avatar(CHAIN_ROWS[0], AvatarSettings(), database, inputs.calibration)
    e = explain.explain(inputs.track, avatar, args.at, args.k, inputs.calibrations)
    print(f"search at {e.at:.2f} s, reason: {e.match.reason}; height band {e.match.band or '–'}")
    print("query, in root space (m, m/s):")
    for name, values in e.query.items():
        print(f"  {name:<22} " + "  ".join(f"{v:6.2f}" for v in values))
    print("cost of each feature (weighted squared distance):")
    print(table.text(explain.lines(e)))
    if args.picture:
        write_picture(args.picture, database, e)
        print(f"picture: {args.picture}")
    write_json(args.json, explain.as_json(e))
    return 0
