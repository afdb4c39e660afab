"""`mm_ros robot show`: write a film of a robot that follows a session or a clip, beside the avatar."""

from __future__ import annotations

import argparse
from pathlib import Path

from mm_ros.base.errors import MmRosError
from mm_ros.cli.arguments import add_database, add_number, add_output
from mm_ros.cli.output import add_json, write_json

HELP = "write a film of a robot that follows a session or a motion file, or its motion for another program"

EPILOG = """examples:
  mm_ros robot show g1.urdf recording/ -o film.mp4
  mm_ros robot show g1.urdf walk.bvh -o film.gif --seconds 5
  mm_ros robot show g1.urdf walk.bvh -o walk.csv    for BeyondMimic: 30 Hz, 29 joints
  mm_ros robot show g1.urdf walk.bvh -o walk.pkl    for GMR's readers: 30 Hz"""

FORMATS = (".mp4", ".gif", ".png", ".csv", ".pkl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", type=Path, metavar="FILE", help="URDF, xacro or MJCF file")
    parser.add_argument("path", type=Path, metavar="SESSION", help="session or BVH file (only its first clip)")
    add_output(
        parser, f"film or motion file; the ending of the name selects the format: {', '.join(FORMATS)}", required=True
    )
    parser.add_argument(
        "--overrides",
        type=Path,
        metavar="YAML",
        help="robot.yaml (default: robot.yaml in the folder of the robot file, if there is one)",
    )
    add_number(parser, "--seconds", default=0.0, help="stop after this time (default: the whole motion)")
    add_database(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    suffix = args.output.suffix.lower()
    if suffix not in FORMATS:
        raise MmRosError(f"{args.output}: expected one of the endings {', '.join(FORMATS)}")
    from mm_ros.cli.progress import Progress
    from mm_ros.evaluation.benchmarks.robots import walks_of
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.robot.figure import read_figure
    from mm_ros.robot.follow import Follower
    from mm_ros.show.robot import check_film, write_film

    check_film(args.output)
    progress = Progress()
    figure = read_figure(args.file, args.overrides)
    database = args.database or default_database_path(progress)
    walk = walks_of([args.path], database, args.seconds, progress)[0]
    follower = Follower(figure, walk.skeleton)
    states = [follower.step(pose) for pose in walk.poses]
    if suffix in (".csv", ".pkl"):
        from mm_ros.evaluation.robot_files import write_motion

        frames = write_motion(args.output, figure, states)
    else:
        frames = write_film(args.output, figure, walk.skeleton, walk.poses, states, progress)
    print(f"{args.output}: {frames} frames of {walk.name}")
    write_json(args.json, {"output": str(args.output), "frames": frames, "motion": walk.name})
    return 0
