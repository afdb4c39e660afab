"""`mm_ros session from-bvh`: convert motion capture to a session that also contains the true poses."""

from __future__ import annotations

import argparse
from pathlib import Path

from mm_ros.base.errors import MmRosError
from mm_ros.cli import session_options

HELP = "convert motion capture to a session with simulated trackers and the true body"

EXAMPLE = """examples:
  mm_ros session from-bvh 69_01.bvh -o walk
  mm_ros session from-bvh cmu.tar.xz --only 69_ -o hard --look-around 60 --grips 28 --noise 0.001 --dropouts 4
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("motion", type=Path, nargs="+", help="BVH files, folders or archives of one person")
    parser.add_argument("--only", metavar="WORD", default="", help="use only clips with this word in their name")
    session_options.add_output(parser)
    session_options.add_devices(parser)


def run(args: argparse.Namespace) -> int:
    session_options.check_output(args)
    from mm_ros.cli.progress import Progress
    from mm_ros.motion.importing import load_clips
    from mm_ros.tracking.session_making import session_of_clips

    devices = session_options.simulation(args)
    progress = Progress()
    everything = load_clips(args.motion, progress=progress)
    progress.end()
    clips = [c for c in everything if args.only in c.name]
    if not clips:
        raise MmRosError(f"no clip has '{args.only}' in its name. Clips: {', '.join(c.name for c in everything[:20])}")
    made = session_of_clips(clips, devices, args.output.name, session_options.camera(args))
    return session_options.finish(made, args)
