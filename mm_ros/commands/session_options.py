"""What the verbs that make sessions share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mm_ros.commands.arguments import camera_of, new_folder
from mm_ros.commands.output import add_json, table, write_json
from mm_ros.core.simulated_trackers import Simulation
from mm_ros.io.bag import refuse_existing
from mm_ros.io.session import Session, write_session


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-o", "--output", type=Path, required=True, help="new folder (rosbag2)")
    parser.add_argument("--storage", choices=("mcap", "sqlite3"), default="mcap", help="(default: %(default)s)")
    parser.add_argument(
        "--compression",
        choices=("none", "message", "file", "storage"),
        default="none",
        help="zstd (default: %(default)s)",
    )
    add_json(parser)


def add_devices(parser: argparse.ArgumentParser, noise_m: float = 0.0) -> None:
    """How the simulated devices are worn, and how badly they work."""
    group = parser.add_argument_group("devices")
    group.add_argument("--rate", type=float, default=90.0, help="Hz (default: %(default)s)")
    group.add_argument("--seed", type=int, default=0, help="of all that is random (default: %(default)s)")
    group.add_argument("--noise", type=float, default=noise_m, help="of positions, m (default: %(default)s)")
    group.add_argument("--dropouts", type=float, default=0.0, help="of each controller, per minute")
    group.add_argument("--look-around", type=float, default=0.0, metavar="DEG", help="the head alone turns so far")
    group.add_argument("--grips", type=float, default=0.0, metavar="DEG", help="controllers are held turned, sd")
    group.add_argument("--headset", type=float, nargs=3, metavar=("X", "Y", "Z"), help="headset in head axes, m")
    group.add_argument("--waist", action="store_true", help="a tracker on the waist too")
    group.add_argument("--feet", action="store_true", help="trackers on the feet too")
    group.add_argument(
        "--camera", nargs="?", const="", metavar="NAME=VALUE,…",
        help="landmarks of a simulated camera too; names as in core/landmark_simulation.py: pitch=0.17,lost=0.3",
    )  # fmt: skip


def simulation(args: argparse.Namespace) -> Simulation:
    plain = Simulation()
    return Simulation(
        rate=args.rate,
        headset_in_head=tuple(args.headset) if args.headset else plain.headset_in_head,
        noise_m=args.noise,
        noise_rad=3 * args.noise,
        grip_sd_rad=args.grips * 0.017453292519943295,
        dropouts_per_minute=args.dropouts,
        look_around_rad=args.look_around * 0.017453292519943295,
        waist=args.waist,
        feet=args.feet,
        seed=args.seed,
    )


def camera(args: argparse.Namespace) -> Any:
    """A LandmarkSimulation, or None."""
    return None if args.camera is None else camera_of(args.camera)


def check_output(args: argparse.Namespace) -> None:
    """Before the work."""
    refuse_existing(args.output)
    new_folder(args.output)


def finish(session: Session, args: argparse.Namespace) -> int:
    write_session(args.output, session, args.storage, args.compression)
    calibration = session.calibration
    summary = {
        "path": args.output,
        "seconds": session.seconds,
        "frames": len(session.frames),
        "truth": len(session.truth),
        "landmarks": len(session.sightings),
        "epochs": len({f.epoch for f in session.frames}),
        "head_height_m": calibration.head_height if calibration else None,
        "calibrated": bool(calibration and calibration.calibrated),
    }
    print(table(("what", "value"), [(k, str(v) if not isinstance(v, float) else v) for k, v in summary.items()]))
    write_json(args.json, summary)
    return 0
