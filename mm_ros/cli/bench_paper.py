"""`mm_ros bench paper`: measure what two published papers state in their tables, and compare the values."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from mm_ros.cli.arguments import CMU_DATA, add_motion, add_number
from mm_ros.cli.output import add_json, write_json

HELP = "reproduce tables of Ponton 2022 and Karst 2023 on the available motion"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"example: mm_ros bench paper --data cmu/69 --test cmu/16 cmu/35 --json paper.json\n\n{CMU_DATA}"
    add_motion(parser, "--data", "BVH files for the database (default: CMU subject 69)")
    add_motion(parser, "--test", "BVH files of other people (default: some of CMU subjects 16 and 136)")
    add_number(parser, "--jobs", default=2, help="number of processes (default: %(default)s)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.cli.progress import Progress
    from mm_ros.evaluation import table
    from mm_ros.evaluation.benchmarks import paper as paper_bench
    from mm_ros.motion.importing import ImportOptions, import_files, load_clips

    progress = Progress()
    data, test = args.data or _cmu("69_*.bvh"), args.test or _cmu("16_1*.bvh", "136_0[1-3].bvh")
    training = load_clips(data, progress=progress)
    raw = import_files(data, ImportOptions(smooth_root=False), progress).clips
    held_out = [c for c in load_clips(test, progress=progress) if c.seconds > 1]
    with tempfile.TemporaryDirectory() as folder:
        lines = paper_bench.run(training, raw, held_out, Path(folder), args.jobs, progress)
    progress.end()
    print(table.text(paper_bench.rows(lines)))
    for line in {x.table: x for x in lines}.values():
        print(f"{line.table}: {line.differs}")
    write_json(args.json, {"lines": [vars(x) for x in lines]})
    return 0


def _cmu(*patterns: str) -> list[Path]:
    from mm_ros.motion.shared_data import dataset

    folder = dataset("cmu_locomotion")
    return sorted(p for pattern in patterns for p in folder.rglob(pattern))
