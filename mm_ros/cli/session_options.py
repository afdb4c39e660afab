"""Command-line options and output that the verbs for making sessions share."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import Any

from mm_ros.cli import arguments
from mm_ros.cli.arguments import add_number, add_simulated_camera, camera_of, new_folder
from mm_ros.cli.output import add_json, table, write_json
from mm_ros.sessions.bag import refuse_existing
from mm_ros.sessions.session import Session, write_session
from mm_ros.tracking.simulation import Simulation


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    arguments.add_output(parser, "new folder (rosbag2)", required=True)
    arguments.add_storage(parser)
    add_json(parser)


BODY_TRACKERS = {
    "waist": "a waist tracker", "feet": "foot trackers", "chest": "a chest tracker", "knees": "knee trackers",
    "forearms": "forearm trackers",
}  # fmt: skip


def add_devices(parser: argparse.ArgumentParser, noise_m: float = 0.0) -> None:
    """Add the options for the mounting and the tracking errors of simulated trackers to a parser."""
    group = parser.add_argument_group("devices")
    add_faults(group, noise_m)
    add_number(group, "--headset", nargs=3, metavar=("X", "Y", "Z"), help="headset position in head axes [m]")
    for name, what in BODY_TRACKERS.items():
        group.add_argument(f"--{name}", action="store_true", help=f"add {what}")
    group.add_argument(
        "--straps", action="store_true",
        help="put body trackers on straps, turned and shifted at random (--seed), instead of exactly on their joints",
    )  # fmt: skip
    add_simulated_camera(group, "add landmarks of a simulated camera", nargs="?", const="")


def add_faults(parser: Any, noise_m: float = 0.0) -> None:
    """Add the options for tracking errors of simulated trackers to a parser; the function `faults` reads the
    options."""
    add_number(parser, "--rate", default=90.0, help="sample rate of the simulated trackers (default: %(default)s)")
    add_number(parser, "--seed", default=0, help="seed of the random numbers (default: %(default)s)")
    add_number(
        parser, "--noise", default=noise_m,
        help="standard deviation of position noise; rotation noise is three times as many radians "
        "(default: %(default)s)",
    )  # fmt: skip
    add_number(
        parser, "--dropouts", default=0.0, help="tracking losses of each controller per minute (default: %(default)s)"
    )
    add_number(
        parser, "--look-around", default=0.0, help="amplitude of head turns without the body (default: %(default)s)"
    )
    add_number(
        parser, "--grips", default=0.0,
        help="standard deviation of the controllers' rotation in the hands, about each axis (default: %(default)s)",
    )  # fmt: skip


def faults(args: argparse.Namespace) -> Simulation:
    return Simulation(
        rate=args.rate,
        noise_m=args.noise,
        noise_rad=3 * args.noise,
        grip_sd_rad=math.radians(args.grips),
        dropouts_per_minute=args.dropouts,
        look_around_rad=math.radians(args.look_around),
        seed=args.seed,
    )


def simulation(args: argparse.Namespace) -> Simulation:
    headset = tuple(args.headset) if args.headset else Simulation().headset_in_head
    body_trackers = {name: getattr(args, name) for name in (*BODY_TRACKERS, "straps")}
    return replace(faults(args), headset_in_head=headset, **body_trackers)


def camera(args: argparse.Namespace) -> Any:
    """Return the camera simulation that the option `--simulated-camera` describes, or None if the option is missing."""
    return None if args.simulated_camera is None else camera_of(args.simulated_camera)


def check_output(args: argparse.Namespace) -> None:
    """Raise MmRosError before any work starts if the output folder or file exists or cannot be written."""
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
