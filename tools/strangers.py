"""Compute the table of docs/pose.md: the pose errors of subjects of CMU, each with a database of all other subjects.

`python tools/strangers.py [--subjects 09,35,82,83,91,127,143] [--seconds 45] [--alpha 0.1] [--stooped 0]`: ten minutes.
The training data of the shipped facing network contains these subjects; use other data to measure the error of the
facing.
"""

import argparse
import tempfile
from pathlib import Path

from mm_ros.avatar import AvatarSettings
from mm_ros.cli.progress import Progress
from mm_ros.evaluation import measure, run, table
from mm_ros.evaluation.benchmarks.thesis import some_of
from mm_ros.evaluation.evaluate import table_of
from mm_ros.evaluation.rows import DATABASE, chosen
from mm_ros.matching.matcher import MatcherSettings
from mm_ros.motion.build import BuildOptions, build_database
from mm_ros.motion.files import write_database
from mm_ros.motion.importing import load_clips
from mm_ros.motion.shared_data import dataset
from mm_ros.tracking.simulation import Simulation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subjects", default="09,35,82,83,91,127,143")
    parser.add_argument("--seconds", type=float, default=45.0, help="motion of each subject [s] (default: %(default)s)")
    parser.add_argument("--alpha", type=float, default=0.1, help="position accuracy [m] (default: %(default)s)")
    stooped = BuildOptions().stooped
    parser.add_argument("--stooped", type=float, default=stooped, help="share of bent copies (default: %(default)s)")
    args = parser.parse_args()
    settings = AvatarSettings(matcher=MatcherSettings(position_accuracy=args.alpha))
    progress, rows = Progress(), chosen("ours,true_facing")
    every = load_clips([dataset("cmu_locomotion")], progress=progress)
    outcomes, databases = [], []
    with tempfile.TemporaryDirectory() as folder:
        for subject in args.subjects.split(","):
            own = [c for c in every if c.subject == subject and c.seconds >= 1]
            database = build_database(
                [c for c in every if c.subject != subject], options=BuildOptions(stooped=args.stooped)
            )
            path = Path(folder) / f"without_{subject}.mmdb"
            write_database(database, path)
            whole, limit = run.measure_database(database)
            databases.append(whole)
            tasks = [
                run.task_of(c.name, c, path, Simulation(), limit, rows, settings) for c in some_of(own, args.seconds)
            ]
            outcomes += run.run_all(tasks, 1, progress)
    progress.end()
    result = table_of(outcomes, databases[0], rows)
    result["summary"][DATABASE] = measure.pooled(databases)
    print(table.text(table.lines(result["summary"])))
    for row, kinds in result["kinds"].items():
        print(f"\n{row}, by kind of motion")
        print(table.text(table.kind_lines(kinds)))
    print(f"\n{result['seconds']:.0f} s of motion in {len(outcomes)} clips")


if __name__ == "__main__":
    main()
