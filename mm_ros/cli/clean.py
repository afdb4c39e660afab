"""`mm_ros clean`: remove what mm_ros can make again; list what else stays on the disk."""

import argparse
import os
import shutil
from pathlib import Path

from mm_ros.base.cache import TAG, cache_root, is_ours
from mm_ros.base.errors import MmRosError

HELP = "remove the cache (compiled kernels, default database, networks of the pose estimator)"

EPILOG = """example: mm_ros clean --dry-run

Kept, because it is yours or because other programs use the folder too; `mm_ros clean` lists what there is of it:
  ~/.config/mm_ros       measures of users (mm_ros calibrate)
  ~/.ros/log             a log file of each ROS process
  ~/.cache/Microsoft/DeveloperTools/.onnxruntime
                         identifier of this device, written by onnxruntime for earlier versions of mm_ros
Recordings, databases, networks and films are only where you had them written to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def run(args: argparse.Namespace) -> int:
    _remove_cache(args.dry_run)
    for path, what in kept():
        print(f"kept: {what}; remove it by: rm -r '{path}'")
    return 0


def _remove_cache(dry_run: bool) -> None:
    root = cache_root()
    if not root.exists():
        print(f"nothing to remove: {root} does not exist")
        return
    if not is_ours(root):
        raise MmRosError(
            f"{root} (MM_ROS_CACHE) was there before mm_ros and holds no {TAG} of mm_ros: not removed. "
            "Remove by hand what is no longer wanted in it"
        )
    size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())
    if not dry_run:
        # A process that still has a database mapped keeps its pages: removing a name takes nothing from it.
        shutil.rmtree(root)
    print(f"{'would remove' if dry_run else 'removed'} {root} ({size / 1e6:.1f} MB)")


def kept() -> list[tuple[Path, str]]:
    """Folders outside of the cache that this user's mm_ros may have written to, those that are there."""
    from mm_ros.tracking.files import users_folder

    home = Path(os.environ.get("HOME", "/nonexistent"))
    ros_logs = Path(os.environ.get("ROS_LOG_DIR") or Path(os.environ.get("ROS_HOME") or home / ".ros") / "log")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    try:
        users = [(users_folder(), "measures of users")]
    except MmRosError:
        users = []
    places = [
        *users,
        (ros_logs, "log files of ROS, also of other packages"),
        (caches / "Microsoft" / "DeveloperTools" / ".onnxruntime", "identifier of this device, written by onnxruntime"),
    ]
    return [(path, what) for path, what in places if path.is_dir()]
