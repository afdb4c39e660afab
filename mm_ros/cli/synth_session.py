"""`mm_ros synth session`: write a session of a synthetic user, with the user's true poses."""

from __future__ import annotations

import argparse

from mm_ros.base.errors import MmRosError
from mm_ros.cli import session_options
from mm_ros.cli.arguments import add_number

HELP = "generate a session of a synthetic user: trackers, calibration and the true body"

EXAMPLE = """examples:
  mm_ros synth session -o user --seconds 120
  mm_ros synth session -o tall --seed 7 --scale 1.1 --noise 0.001 --dropouts 3
  mm_ros synth session -o seen --simulated-camera pitch=10    also landmarks of a simulated webcam
"""

LONGEST_S = 36000.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    add_number(parser, "--seconds", default=60.0, help="length of the session (default: %(default)s)")
    add_number(parser, "--scale", default=1.0, help="body scale; 1.1 is a person of 1.93 m (default: %(default)s)")
    session_options.add_output(parser)
    session_options.add_devices(parser, noise_m=0.0003)


def run(args: argparse.Namespace) -> int:
    if args.seconds > LONGEST_S:
        raise MmRosError(f"--seconds: a synthetic session has at most {LONGEST_S:g} s, came {args.seconds:g}")
    session_options.check_output(args)
    devices = session_options.simulation(args)
    from mm_ros.tracking.session_making import session_of_clips
    from mm_ros.tracking.sources.synthetic import user_clip

    clip = user_clip(args.seconds, args.seed, args.scale)
    made = session_of_clips([clip], devices, args.output.name, session_options.camera(args))
    return session_options.finish(made, args)
