"""`mm_ros setup`: install optional Python packages for mm_ros; works for each way to install mm_ros."""

from __future__ import annotations

import argparse
import importlib
import shlex
import subprocess
import sys
from collections.abc import Sequence

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import extras, missing, resolved
from mm_ros.base.own_python import module_command
from mm_ros.cli import pose_setup
from mm_ros.cli.output import table

HELP = "install optional requirements (headset, viewer, camera, training); without a name: list them"

EPILOG = """examples:
  mm_ros setup                   list all extras, their purpose and whether they are installed
  mm_ros setup openxr viewer     install both into the Python that runs mm_ros
  mm_ros setup pose --dry-run    only print the pip command"""

PURPOSES = {
    "viewer": "viewer in the browser, pictures and films",
    "webxr": "headsets with a browser (Quest, Pico, Vision Pro)",
    "openxr": "headsets with OpenXR (SteamVR, Monado, WiVRn)",
    "steamvr": "SteamVR devices with OpenVR",
    "pose": "pose estimation from images (node pose_estimator), with its networks",
    "webcam": "pose estimation from a webcam or a video file",
    "robot": "humanoid robots that follow the avatar",
    "robot-out": "robot, and receivers of its commands: SONIC (ZeroMQ), TWIST2 (Redis)",
    "plot": "plots (option --plot)",
    "train": "mm_ros train",
    "tune": "mm_ros train orientation --tune",
    "bench": "libraries that mm_ros bench compares mm_ros with",
    "test": "development: tests",
    "test_pose": "development: tests of the pose estimator",
    "lint": "development: ruff, mypy, import contracts",
    "colcon": "development: colcon",
    "dev": "development: viewer, webxr, openxr, steamvr, robot-out, test, lint, colcon",
}
ESTIMATOR = "ai-edge-litert"  # With `ai-edge-litert`, `mm_ros setup` also installs the networks of `pose_estimator`.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("extra", nargs="*", help=f"extras to install: {', '.join(PURPOSES)}")
    parser.add_argument("--dry-run", action="store_true", help="only print the pip command")


def run(args: argparse.Namespace) -> int:
    known = extras()
    if not args.extra:
        rows = [(name, _state(resolved(known, [name])), purpose) for name, purpose in PURPOSES.items()]
        print(table(("extra", "status", "purpose"), rows))
        return 0
    lines = resolved(known, args.extra)
    words = ("pip", "install", "--disable-pip-version-check", *lines)
    print(f"{shlex.quote(sys.executable)} -m {shlex.join(words)}", flush=True)
    if args.dry_run:
        return 0
    if missing(lines):
        _install(module_command(*words), lines)
    if _needs_networks(lines):
        pose_setup.run(argparse.Namespace(wheel=None))
    print(f"installed: {', '.join(args.extra)}")
    return 0


def _state(lines: Sequence[str]) -> str:
    if missing(lines):
        return "–"
    return "networks missing" if _needs_networks(lines) else "installed"


def _needs_networks(lines: Sequence[str]) -> bool:
    if not any(line.startswith(ESTIMATOR) for line in lines):
        return False
    from mm_ros.facing.camera.model_file import model_paths

    try:
        model_paths()
    except MmRosError:
        return True
    return False


def _install(command: Sequence[str], lines: Sequence[str]) -> None:
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise MmRosError(_advice(done.stderr, lines))
    importlib.invalidate_caches()
    left = missing(lines)
    if left:
        raise MmRosError(f"pip ended without an error, but {', '.join(left)} cannot be found by {sys.executable}")


def _advice(stderr: str, lines: Sequence[str]) -> str:
    wanted = shlex.join(lines)
    if "externally-managed-environment" in stderr:
        return (
            f"{sys.executable} belongs to the system, so pip refuses to install into it. Either create a virtual "
            "environment with access to the system packages and run `mm_ros setup` there (docs/install.md, 'On a ROS 2 "
            "machine'), or install into your home folder:\n"
            f"  {sys.executable} -m pip install --user --break-system-packages {wanted}"
        )
    if "No module named pip" in stderr:
        return f"{sys.executable} has no pip. On Debian and Ubuntu: sudo apt install python3-pip; then run this again"
    reason = [line for line in stderr.strip().splitlines() if line.startswith("ERROR")] or ["it printed no error"]
    return f"pip could not install {wanted}: {reason[-1].removeprefix('ERROR: ')}"

