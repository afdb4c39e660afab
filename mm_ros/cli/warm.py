"""`mm_ros warm`: whatever takes long the first time, done now and once."""

import argparse
import time
from pathlib import Path

from mm_ros.base.cache import forget_old_kernels, kernels_key, locked
from mm_ros.cli.arguments import add_database

HELP = "compile the kernels, so that no frame waits for it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: mm_ros warm"
    add_database(parser)
    parser.add_argument("--quiet", action="store_true", help="say nothing when all goes well")


def run(args: argparse.Namespace) -> int:
    start = time.monotonic()
    # Five nodes that start at once wait here for the first one instead of compiling five times.
    with locked(f"warm-{kernels_key()}"):  # another checkout has kernels of its own to compile
        frames = _make_database(args.database, args.quiet)
        if not args.quiet:
            print("compiling kernels …", flush=True)
        load_kernels(args.database)
        forget_old_kernels()
    if not args.quiet:
        print(f"ready after {time.monotonic() - start:.1f} s: {frames} frames of motion, kernels compiled")
    return 0


def _make_database(path: Path | None, quiet: bool) -> int:
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.motion.files import read_database

    return len(read_database(path or default_database_path(None if quiet else _Progress())))


def load_kernels(path: Path | None = None) -> None:
    """One avatar takes some steps: all that a frame needs is compiled, or found in the cache."""
    from mm_ros.avatar import Avatar
    from mm_ros.body.shape import room_joints
    from mm_ros.body.types import rest_pose
    from mm_ros.facing.model_file import load_facing_model
    from mm_ros.facing.orientation import OrientationSettings
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.motion.files import read_database
    from mm_ros.tracking import gate as tracker_gate

    database = read_database(path or default_database_path())
    Avatar(database, model=load_facing_model(OrientationSettings())).warm_up()
    tracker_gate.warm_up()
    room_joints(rest_pose(database.skeleton))  # for whoever draws


class _Progress:
    """One line that grows in tenths; nothing when quiet."""

    def __init__(self) -> None:
        self._last = ("", -1)

    def __call__(self, what: str, done: int, of: int) -> None:
        tenth = 10 * done // max(of, 1)
        if (what, tenth) != self._last:
            self._last = (what, tenth)
            print(f"  {what} {10 * tenth:3d} %", flush=True)
