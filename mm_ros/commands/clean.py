"""`mm_ros clean`: remove what mm_ros keeps outside of its installation."""

import argparse
import shutil

from mm_ros.cache import TAG, cache_root, is_ours
from mm_ros.core.errors import MmRosError

HELP = "remove the cache (compiled kernels, the default database)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: mm_ros clean --dry-run"
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def run(args: argparse.Namespace) -> int:
    root = cache_root()
    if not root.exists():
        print(f"nothing to remove: {root} does not exist")
        return 0
    if not is_ours(root):
        raise MmRosError(
            f"{root} (MM_ROS_CACHE) was there before mm_ros and holds {TAG} of nobody: not removed. "
            "Remove by hand what is no longer wanted in it"
        )
    size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())
    verb = "would remove" if args.dry_run else "removed"
    if not args.dry_run:
        # A process that still has a database mapped keeps its pages: removing a name takes nothing from it.
        shutil.rmtree(root)
    print(f"{verb} {root} ({size / 1e6:.1f} MB)")
    return 0
