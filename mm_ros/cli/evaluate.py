"""`mm_ros evaluate`: measure errors of the avatar on motion capture files or recorded sessions."""

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
from mm_ros.tracking.hand_poses import ESTIMATED, HAND_POSES

HELP = "run the avatar offline on clips or sessions and compare it with the truth and with baselines"

EXAMPLE = """examples:
  mm_ros evaluate take1.bvh take2.bvh --database my.mmdb
  mm_ros evaluate clips/ --jobs 2 --json table.json --html report.html
  mm_ros evaluate recordings/*.csv     tables of poses; body trackers in them are the truth
  mm_ros evaluate walk.csv --footfalls marks.csv
  mm_ros evaluate recording/           a session without truth: only the metrics that need no truth

A table has the columns t, role, x, y, z, qx, qy, qz, qw (ROS axes, metres). Roles: head, left_hand, right_hand; waist,
chest, left_foot, left_knee, left_forearm and the same on the right. Tables run through gate and calibration as live
trackers do. Marked footfalls are a table t, foot (left or right), also as NAME.footfalls.csv beside NAME.csv.

rows of the table, which docs/evaluation.md explains together with the metrics:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from mm_ros.evaluation.rows import MEANINGS

    parser.epilog = EXAMPLE + "\n".join(f"  {name:13} {meaning}" for name, meaning in MEANINGS.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("paths", nargs="+", type=Path, help="BVH files, folders or archives; sessions; tables (.csv)")
    parser.add_argument(
        "--feed", choices=("hands", "all"), default="hands",
        help="trackers of sessions and tables that the avatar follows: head and hands, or the body trackers too; all "
             "other trackers are only compared with the avatar (default: %(default)s)",
    )
    parser.add_argument(
        "--hand-pose", choices=(ESTIMATED, *HAND_POSES), default=ESTIMATED,
        help="convention of the hand poses of tables (default: %(default)s)",
    )
    parser.add_argument(
        "--facing-by-hand-pose", action="store_true",
        help="also measure the predicted facing of clips with controllers simulated in each convention of hand poses"
    )
    parser.add_argument(
        "--footfalls", type=Path, metavar="FILE", help="marked footfalls (t, foot) of the one recording"
    )
    add_database(parser)
    add_number(
        parser,
        "--position-accuracy",
        default=0.1,
        help="maximum distance of the root from the desired position, α (default: %(default)s)",
    )
    parser.add_argument(
        "--predictor",
        default="network",
        metavar="NAME",
        help="facing predictor: a value of the parameter predictor of orientation_predictor (default: %(default)s)",
    )
    parser.add_argument(
        "--facing", type=Path, metavar="FILE", help="ONNX file for --predictor (default: the included one)"
    )
    parser.add_argument(
        "--rows", default="", help="only these rows, separated by commas; the row 'ours' is always included"
    )
    add_learned_model(parser)
    add_faults(parser)
    add_simulated_camera(parser, "camera of the row 'fused'", default="")
    add_number(parser, "--jobs", default=1, help="number of processes (default: %(default)s)")
    parser.add_argument(
        "--html", type=output_file, metavar="FILE", help="also write a report with plots as one HTML file"
    )
    parser.add_argument(
        "--video",
        type=output_file,
        metavar="FILE",
        help="also write a GIF of the first clip: avatar and truth side by side",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.cli.progress import Progress
    from mm_ros.evaluation import hand_pose_facing, table
    from mm_ros.evaluation.evaluate import evaluate, expanded
    from mm_ros.evaluation.rows import chosen
    from mm_ros.motion.default_database import default_database_path

    rows = chosen(args.rows)
    if args.model and not any(row.name == "learned" for row in rows):
        raise MmRosError("--model applies only to the learned engine: it needs --rows learned")
    settings = _settings(args)
    paths = expanded(args.paths)  # Paths that do not exist are refused before the slow build of the default database.
    progress = Progress()
    database = args.database or default_database_path(progress)
    keep = bool(args.html or args.video)
    result = evaluate(paths, database, rows, settings, faults(args), args.jobs, progress, keep,
                      camera=camera_of(args.simulated_camera), footfalls=args.footfalls,
                      feed_all=args.feed == "all", hand_pose=args.hand_pose,
                      facing_by_hand_pose=args.facing_by_hand_pose)  # fmt: skip
    progress.end()
    print(table.text(table.lines(result.table["summary"])))
    offsets = table.offset_lines(result.table["summary"]["ours"])
    if offsets:
        print("\noffsets of the joints in the body trackers, fitted on the first 3 s of each recording")
        print(table.text(offsets))
    facing = result.table["summary"]["ours"].get("predicted_facing_by_hand_pose_deg")
    if facing:
        print("\nerror of the predicted facing for each convention of hand poses, declared and estimated")
        print(table.text(hand_pose_facing.table(facing)))
    within = table.interval_line(result.table["summary"]["ours"])
    if within:
        print(f"\nrow 'ours', 95 % of a bootstrap over the recordings: {within}")
    if result.table["missing"]:
        print(f"\nnot measured: {table.missing_line(result.table['missing'])}")
    if result.table["beside_fletcher"]:
        print("\nfacing error with a camera, compared with Fletcher 2023")
        print(table.text(result.table["beside_fletcher"]))
    if result.table["kinds"].get("ours"):
        print("\nrow 'ours' by kind of motion")
        print(table.text(table.kind_lines(result.table["kinds"]["ours"])))
    print(f"\n{result.table['seconds']:.0f} s of motion; hash of all poses of row 'ours': {result.table['hash']}")
    if result.table["brute_equals_ours"] is False:
        print("!!! rows 'brute' and 'ours' have different poses: the search is not exact")
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
            f"warning: {count} clips are part of the database: {names}. Their figures show how well the database "
            "reproduces its own motion, not how well it generalises to new motion.",
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
