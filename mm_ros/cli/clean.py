"""`mm_ros clean`: remove the cache folder and list the other files of mm_ros, which stay on the disk."""

import argparse
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from mm_ros.base.cache import TAG, cache_root, is_ours
from mm_ros.base.errors import MmRosError

HELP = "remove the cache (compiled kernels, default database, networks of the pose estimator)"

EPILOG = """example: mm_ros clean --dry-run

The command keeps these folders, which hold your data or belong to other programs too, and lists those that exist:
  ~/.config/mm_ros/users    body measures of users (mm_ros calibrate)
  ~/.config/mm_ros/headset  certificates, private keys and token of the headset page
  ~/.local/state/mm_ros     body measures of users, measured without a request
  ~/.ros/log                log files of ROS processes
  ~/.cache/Microsoft/DeveloperTools/.onnxruntime
                            device identifier, written by onnxruntime under earlier versions of mm_ros
Recordings, databases, networks and films exist only at the paths that you gave."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")


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
            f"{root} (MM_ROS_CACHE) is not removed: mm_ros did not create it, and it contains no {TAG} of mm_ros. "
            "Remove files in it by hand"
        )
    size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())
    if not dry_run:
        # Nodes that have mapped a database file into memory can still read the database after the file is removed.
        sys.dont_write_bytecode = True  # Later imports must not create the removed folder again.
        shutil.rmtree(root)
    print(f"{'would remove' if dry_run else 'removed'} {root} ({size / 1e6:.1f} MB)")


def kept() -> list[tuple[Path, str]]:
    """Return the folders outside the cache folder in which mm_ros may have stored files, each with a description."""
    from mm_ros.tracking.files import state_folder, users_folder
    from mm_ros.web.headset import certificates

    home = Path(os.environ.get("HOME", "/nonexistent"))
    ros_logs = Path(os.environ.get("ROS_LOG_DIR") or Path(os.environ.get("ROS_HOME") or home / ".ros") / "log")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    own = []
    for folder, what in (
        (users_folder, "body measures of users"),
        (state_folder, "automatic measurements of users"),
        (certificates.folder, "certificates, private keys and token of the headset page"),
    ):
        with suppress(MmRosError):  # without a home folder, only folders that a variable names can exist
            own.append((folder(), what))
    places = [
        *own,
        (ros_logs, "log files of ROS, including other packages"),
        (caches / "Microsoft" / "DeveloperTools" / ".onnxruntime", "device identifier, written by onnxruntime"),
    ]
    return [(path, what) for path, what in places if path.is_dir()]
