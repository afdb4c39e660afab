"""The folder that contains launch/, config/ and rviz/: the checkout, or share/mm_ros of an installation."""

import os
import sys
from pathlib import Path

from mm_ros.base.errors import MmRosError


def ament_prefixes() -> list[str]:
    """Return the folders in which ROS packages are installed."""
    return [*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep))]


def share_folder() -> Path:
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "package.xml").is_file():
        return checkout
    # An installation in a virtual environment of Python is not in AMENT_PREFIX_PATH.
    prefixes = [*ament_prefixes(), sys.prefix]
    for prefix in prefixes:
        share = Path(prefix) / "share" / "mm_ros"
        if (share / "package.xml").is_file():
            return share
    raise MmRosError(
        f"share/mm_ros is in none of {', '.join(prefixes)}: source the workspace's install/setup.bash, "
        "or run the Python of the venv that mm_ros was installed into"
    )
