"""`mm_ros session from-csv`: convert a CSV table of tracker poses to a session."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mm_ros.cli import session_options
from mm_ros.cli.arguments import add_number
from mm_ros.tracking.hand_poses import ESTIMATED, HAND_POSES

HELP = "convert a table of poses (t, role, x, y, z, qx, qy, qz, qw) to a session"

EXAMPLE = """example:
  mm_ros session from-csv recording.csv -o recording

Each row has its own time t [s]. Roles: head, left_hand, right_hand, waist, chest, left_foot, right_foot, left_knee,
right_knee, left_forearm, right_forearm (or left_elbow, right_elbow). Axes as in ROS: x forward, y left, z up, in
metres. The samples pass the same gate as live trackers.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("table", type=Path, help="CSV file")
    add_number(parser, "--head-height", default=0.0, help="height of the headset when standing (default: measured)")
    parser.add_argument(
        "--hand-pose", default=ESTIMATED, choices=(ESTIMATED, *HAND_POSES),
        help="convention of the hand poses, see docs/hand-poses.md (default: estimated from the motion, and reported)",
    )  # fmt: skip
    session_options.add_output(parser)


def run(args: argparse.Namespace) -> int:
    session_options.check_output(args)
    from mm_ros.base.errors import MmRosError
    from mm_ros.sessions.tables import read_table
    from mm_ros.tracking.hands import HandSettings, HandStage
    from mm_ros.tracking.session_making import START_NS, session_of_table

    if not args.table.is_file():
        raise MmRosError(f"{args.table}: there is no such file")
    frames = read_table(args.table, START_NS)
    hands = HandStage(HandSettings(hand_pose=args.hand_pose))
    session = session_of_table(frames, args.output.name, args.head_height, hands)
    if hands.samples or hands.exchanged:
        print(f"{args.table}: {hands.report()}", file=sys.stderr)
    return session_options.finish(session, args)
