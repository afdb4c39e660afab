"""`mm_ros warm`: build the default database and compile the functions of numba in advance."""

import argparse
import time
from importlib.util import find_spec
from pathlib import Path

from mm_ros.base.cache import forget_old_code, kernels_key, locked
from mm_ros.cli.arguments import add_database
from mm_ros.trajectory import CONTROLS

HELP = "build the default database and compile the kernels, so that later starts are fast"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: mm_ros warm"
    add_database(parser)
    parser.add_argument(
        "--control", default="vr", choices=CONTROLS, help="input whose default database is built (default: vr)"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing on success")


def run(args: argparse.Namespace) -> int:
    start = time.monotonic()
    # The lock makes nodes that start together wait for the first node, so that functions are compiled only once.
    with locked(f"warm-{kernels_key()}"):
        path = args.database or _make_database(args.control, args.quiet)
        frames = _frames(path)
        if not args.quiet:
            print("compiling kernels …", flush=True)
        load_kernels(path)
        forget_old_code()
    if not args.quiet:
        print(f"ready after {time.monotonic() - start:.1f} s: {frames} frames of motion, kernels compiled")
    return 0


def _make_database(control: str, quiet: bool) -> Path:
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.motion.feature_files import features_for

    return default_database_path(None if quiet else _Progress(), features_for(control))


def _frames(path: Path) -> int:
    from mm_ros.motion.files import read_database

    return len(read_database(path))


def load_kernels(path: Path | None = None) -> None:
    """Run an avatar for some steps, so that all functions of a step are compiled or loaded from the cache folder."""
    from mm_ros.avatar import Avatar
    from mm_ros.body.shape import room_joints
    from mm_ros.body.types import rest_pose
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.motion.files import read_database
    from mm_ros.tracking import gate as tracker_gate
    from mm_ros.tracking.room import Room

    database = read_database(path or default_database_path())
    avatar = Avatar.load(database)
    avatar.warm_up()
    avatar.facing.fusion.warm_up()
    tracker_gate.warm_up()
    Room()
    room_joints(rest_pose(database.skeleton))  # `room_joints` is compiled for the nodes `viewer` and `visualizer`.
    if find_spec("daqp") is not None:  # The package daqp is installed only with the extra 'robot'.
        from mm_ros.robot import follow

        follow.warm_up()


class _Progress:
    def __init__(self) -> None:
        self._last = ("", -1)

    def __call__(self, what: str, done: int, of: int) -> None:
        tenth = 10 * done // max(of, 1)
        if (what, tenth) != self._last:
            self._last = (what, tenth)
            print(f"  {what} {10 * tenth:3d} %", flush=True)
