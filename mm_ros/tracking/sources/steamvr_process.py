"""The process that runs the OpenVR library, and prints one line of JSON per sample until the pipe is closed.

OpenVR runs in a process of its own, because the libraries of OpenVR and ROS can conflict in one process, and because a
process that hangs can be killed. The open-source project vive_ros2 also runs OpenVR and ROS in separate processes.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from mm_ros.base.extras import setup_command
from mm_ros.body.types import LOST, TrackerFrame
from mm_ros.tracking.sources.base import UNKNOWN_GRIPS, Grips
from mm_ros.tracking.sources.steamvr_poses import Quit, SteamVrPoses, describe

RETRY_S = 1.0  # time between two attempts to connect to SteamVR [s]


def line_of(frame: TrackerFrame, grips: Grips = UNKNOWN_GRIPS) -> str:
    seen = [int(r) for r in np.flatnonzero(frame.state != LOST)]
    rows = [[r, int(frame.state[r]), *frame.positions[r].tolist(), *frame.rotations[r].tolist()] for r in seen]
    return json.dumps({"t": frame.stamp_ns, "epoch": frame.epoch, "devices": rows, "grips": grips})


def frame_of(line: str) -> tuple[TrackerFrame, Grips] | str:
    """Parse a line. Return a frame and the grip buttons, or a message about the state of SteamVR."""
    content = json.loads(line)
    if "status" in content:
        return str(content["status"])
    left, right = (None if grip is None else bool(grip) for grip in content["grips"])
    out = TrackerFrame(int(content["t"]), int(content["epoch"]))
    for r, state, *pose in content["devices"]:
        out.positions[r], out.rotations[r] = pose[:3], pose[3:]
        out.state[r], out.sampled_ns[r] = state, out.stamp_ns
    return out, (left, right)


def tell(status: str) -> None:
    print(json.dumps({"status": status}), flush=True)


def run(openvr: Any, rate: float, serials: dict[str, str]) -> None:
    while True:
        try:
            poses = SteamVrPoses(openvr, serials)
        except Exception as error:  # `Exception`, because OpenVR's base class differs between versions
            tell(describe(error))
            time.sleep(RETRY_S)
            continue
        try:
            stream(poses, rate)
        except Quit:
            tell("SteamVR was closed; waiting for it")
        finally:
            poses.close()
        time.sleep(RETRY_S)


def stream(poses: SteamVrPoses, rate: float) -> None:
    poses.sample()
    unnamed = poses.unnamed_trackers()
    words = f"trackers without a role: {', '.join(unnamed)}; assign it in SteamVR, or set steamvr_serials"
    tell(words if unnamed else "")
    due = time.monotonic()
    while True:
        print(line_of(poses.sample(), poses.grips), flush=True)
        due = max(due + 1.0 / rate, time.monotonic() - 1.0 / rate)
        time.sleep(max(0.0, due - time.monotonic()))


def main() -> int:
    rate, serials = float(sys.argv[1]), json.loads(sys.argv[2])
    try:
        import openvr
    except ImportError as error:
        tell(f"the source 'steamvr' needs openvr ({error}): {setup_command('steamvr')}")
        return 2
    try:
        run(openvr, rate, serials)
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
