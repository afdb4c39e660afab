"""How good is it, on your motion."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.cli.arguments import (
    add_database,
    add_learned_model,
    add_number,
    add_simulated_camera,
    camera_of,
    output_file,
)
from mm_ros.cli.output import add_json, write_json
from mm_ros.cli.session_options import add_faults, faults

HELP = "the chain offline over clips or sessions, against truth and baselines"

EXAMPLE = """examples:
  mm_ros evaluate take1.bvh take2.bvh --database my.mmdb
  mm_ros evaluate clips/ --jobs 2 --json table.json --html report.html
  mm_ros evaluate recording/           a session: what can be measured without a truth"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("paths", nargs="+", type=Path, help="BVH files, folders, archives; sessions")
    add_database(parser)
    add_number(parser, "--position-accuracy", default=0.1, help="α (default: %(default)s)")
    parser.add_argument("--predictor", default="network", choices=("network", "paper", "hmd_forward"))
    parser.add_argument(
        "--facing", type=Path, metavar="FILE", help="ONNX file of the network of --predictor (default: ours)"
    )
    parser.add_argument("--rows", default="", help="only these, with commas (ours is always there)")
    add_learned_model(parser)
    add_faults(parser)
    add_simulated_camera(parser, "the camera of row fused", default="")
    add_number(parser, "--jobs", default=1, help="processes (default: %(default)s)")
    parser.add_argument("--html", type=output_file, metavar="FILE", help="a report with plots, in one file")
    parser.add_argument("--video", type=output_file, metavar="FILE", help="a GIF of the first clip, truth beside ours")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.cli.progress import Progress
    from mm_ros.evaluation import table
    from mm_ros.evaluation.evaluate import evaluate
    from mm_ros.evaluation.rows import chosen
    from mm_ros.motion.default_database import default_database_path

    rows = chosen(args.rows)
    if args.model and not any(row.name == "learned" for row in rows):
        raise MmRosError("--model is the learned engine's file: it needs --rows learned")
    for path in args.paths:  # before a database is made
        if not path.exists():
            raise MmRosError(f"{path}: there is no such file or folder")
    tell = Progress()
    database = args.database or default_database_path(tell)
    keep = bool(args.html or args.video)
    result = evaluate(args.paths, database, rows, _settings(args), faults(args), args.jobs, tell, keep,
                      camera=camera_of(args.simulated_camera))  # fmt: skip
    tell.end()
    print(table.text(table.lines(result.table["summary"])))
    if result.table["beside_fletcher"]:
        print("\nfacing with a camera, beside the paper's")
        print(table.text(result.table["beside_fletcher"]))
    if result.table["kinds"].get("ours"):
        print("\nours, by kind of motion")
        print(table.text(table.kind_lines(result.table["kinds"]["ours"])))
    print(f"\n{result.table['seconds']:.0f} s of motion; hash of all poses of ours: {result.table['hash']}")
    if result.table["brute_equals_ours"] is False:
        print("!!! brute force gave other poses than ours: the search is not exact")
    _warn_of_known(result.table)
    write_json(args.json, result.table)
    _write_pictures(args, result)
    return 0


def _warn_of_known(result: dict[str, Any]) -> None:
    known = result["in_database"]
    if known:
        names = ", ".join(known[:5]) + (", …" if len(known) > 5 else "")
        count = f"{len(known)} of {len(result['clips'])}"
        print(
            f"warning: clips that are part of the database, {count}: {names}. Their figures say how well it plays its "
            "own motion, not how well it does on motion that is new to it.",
            file=sys.stderr,
        )


def _settings(args: argparse.Namespace) -> Any:
    from mm_ros.avatar import AvatarSettings
    from mm_ros.facing.orientation import OrientationSettings
    from mm_ros.matching.matcher import MatcherSettings

    return AvatarSettings(
        orientation=OrientationSettings(predictor=args.predictor, model=str(args.facing or "")),
        matcher=MatcherSettings(position_accuracy=args.position_accuracy, model=args.model),
    )


def _write_pictures(args: argparse.Namespace, result: Any) -> None:
    if args.html:
        from mm_ros.evaluation.report import write_report

        write_report(args.html, result)
        print(f"report: {args.html}")
    if args.video:
        from mm_ros.evaluation.report import write_video

        write_video(args.video, result.outcomes[0])
        print(f"film: {args.video}")
