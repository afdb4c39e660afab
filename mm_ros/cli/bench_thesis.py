"""`mm_ros bench thesis`: measure what two figures of a published thesis show."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from mm_ros.cli.arguments import CMU_DATA, add_motion
from mm_ros.cli.output import add_json, write_json

if TYPE_CHECKING:
    from mm_ros.body.clip import Clip

HELP = "reproduce the thesis figures: root error by database size, poses used by position accuracy"
# People of the CMU motion data who are not in the database; the facing network was trained with their motion.
USERS = ("09", "35", "82", "83", "91", "127", "143")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"example: mm_ros bench thesis --data cmu/69 cmu/16 --test cmu/35 --json thesis.json\n\n{CMU_DATA}"
    add_motion(parser, "--data", "BVH files for the database (default: CMU locomotion)")
    add_motion(parser, "--test", "BVH files of other people (default: five minutes of seven people)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.cli.progress import Progress
    from mm_ros.evaluation.benchmarks import thesis as bench
    from mm_ros.motion.importing import load_clips
    from mm_ros.motion.shared_data import PROCEDURAL_NOTE, dataset, has_data

    progress = Progress()
    every: list[Clip] = []
    if not (args.data and args.test):
        if has_data():
            every = load_clips([dataset("cmu_locomotion")], progress=progress)
        else:
            print(PROCEDURAL_NOTE, file=sys.stderr)
            every = _procedural_people()
    users = load_clips(args.test, progress=progress) if args.test else []
    for subject in () if args.test else USERS:
        own = [c for c in every if c.subject == subject and c.seconds >= 1]
        users += bench.some_of(own, bench.THESIS_SECONDS / len(USERS))
    known = {c.subject for c in users}
    data = load_clips(args.data, progress=progress) if args.data else [c for c in every if c.subject not in known]
    result = bench.measure(data, [c for c in users if c.seconds >= 1], tell=progress)
    progress.end()
    print("\n".join(bench.lines(result)))
    write_json(args.json, result)
    return 0


def _procedural_people() -> list[Clip]:
    """Return procedural clips of two people: the first is recorded in the database, the second is the user."""
    from mm_ros.motion.procedural import make_clips

    users = [replace(c, subject=USERS[i % len(USERS)]) for i, c in enumerate(make_clips(1))]
    return [*make_clips(0), *users]
