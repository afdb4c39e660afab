"""`mm_ros bench thesis`."""

import argparse

from mm_ros.commands.arguments import add_motion
from mm_ros.commands.output import add_json, write_json

HELP = "the thesis' figures: root error by the size of the database, poses used by the position accuracy"
USERS = ("09", "35", "82", "83", "91", "127", "143")  # not in the database; the facing network knows them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: mm_ros bench thesis --data cmu/69 cmu/16 --test cmu/35 --json thesis.json"
    add_motion(parser, "--data", "BVH that becomes the database (default: CMU locomotion)")
    add_motion(parser, "--test", "BVH of other people (default: five minutes of seven)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.commands.progress import Progress
    from mm_ros.io.data import dataset
    from mm_ros.io.importing import load_clips
    from mm_ros.offline import thesis_bench as bench

    tell = Progress()
    every = load_clips([dataset("cmu_locomotion")], progress=tell) if not (args.data and args.test) else []
    users = load_clips(args.test, progress=tell) if args.test else []
    for subject in () if args.test else USERS:
        own = [c for c in every if c.subject == subject and c.seconds >= 1]
        users += bench.some_of(own, bench.THESIS_SECONDS / len(USERS))
    known = {c.subject for c in users}
    data = load_clips(args.data, progress=tell) if args.data else [c for c in every if c.subject not in known]
    result = bench.measure(data, [c for c in users if c.seconds >= 1], tell=tell)
    tell.end()
    print("\n".join(bench.lines(result)))
    write_json(args.json, result)
    return 0
