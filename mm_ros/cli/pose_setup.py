"""`mm_ros pose-setup`: download the networks of the node `pose_estimator` into the cache folder."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "download the networks of the pose estimator (webcam) into the cache"

EXAMPLE = """examples:
  mm_ros pose-setup                     download MediaPipe's wheel with pip (35 MB) and keep the networks (9 MB)
  mm_ros pose-setup --wheel FILE.whl    use a downloaded wheel"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--wheel", type=Path, help="downloaded wheel of MediaPipe, for machines without a connection")


def run(args: argparse.Namespace) -> int:
    from mm_ros.facing.camera.estimator import BlazePose, load_networks, warm_up
    from mm_ros.facing.camera.model_file import fetch_models

    folder = fetch_models(args.wheel)
    print(f"networks of the pose estimator: {folder} (from MediaPipe, Apache-2.0)")
    warm_up(BlazePose(load_networks()))
    print("The networks run. Start the node with `mm_ros up --camera 0`, or `pose_estimator:=true` in the launch file.")
    return 0
