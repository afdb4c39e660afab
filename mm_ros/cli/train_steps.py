"""`mm_ros train steps`: train the network that estimates the user's steps as one ONNX file."""

import argparse
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.cli.arguments import add_motion, add_number, add_output
from mm_ros.cli.output import add_json, write_json
from mm_ros.cli.train_orientation import Progress, need_torch

HELP = "train the network that estimates the user's steps and measure it on people outside its training data"
CHOOSE, CLAIM = "07,16,82,83,120", "08,35"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example: mm_ros train steps --data cmu_locomotion.tar.xz cmu_general.tar.xz -o steps.onnx --seed 1\n\n"
        "Procedural motion is added to the data. To use the network:\n"
        "mm_ros up -p trajectory_predictor.steps_model=steps.onnx"
    )
    add_motion(parser, "--data", "BVH files, folders or archives", required=True)
    add_output(parser, "ONNX file to write", required=True)
    parser.add_argument("--options", type=Path, metavar="YAML", help="assumptions about the files (see mm_ros import)")
    parser.add_argument(
        "--credit", default="", metavar="TEXT", help="credit line for the data (default for CMU data: built-in)"
    )
    parser.add_argument(
        "--leave-out", default=f"{CHOOSE},{CLAIM}", metavar="SUBJECTS",
        help="subjects that are kept out of training and measured afterwards (default: %(default)s)",
    )  # fmt: skip
    add_number(parser, "--seed", default=0, help="random seed; the same seed gives the same network (default 0)")
    add_number(parser, "--batches", default=3000, help="training steps; 1000 take about 5 minutes (default 3000)")
    add_number(parser, "--units", default=128, help="size of each of the two recurrent layers (default 128)")
    parser.add_argument("--no-procedural", action="store_true", help="train on the files alone")
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if not args.output.parent.is_dir():
        raise MmRosError(f"cannot write {args.output}: its folder does not exist")
    if args.output.exists() and not args.force:
        raise MmRosError(f"{args.output} exists. Choose another name, or overwrite it with --force.")
    need_torch()
    from mm_ros.steps.training.measure import measured
    from mm_ros.steps.training.network import NetworkPlan
    from mm_ros.steps.training.train import TrainOptions, fit, metadata_of, save

    sources, licence = _sources(args)
    left_out = [s.strip() for s in args.leave_out.split(",") if s.strip()]
    training = [s for s in sources if s.subject not in left_out]
    options = TrainOptions(seed=args.seed, batches=args.batches, plan=NetworkPlan(units=args.units))
    progress = Progress()
    network = fit(training, options, progress)
    credit = args.credit or licence
    save(network, args.output, metadata_of(network, options, training, left_out, credit, {}))  # kept if measuring fails
    figures = measured(args.output, [s for s in sources if s.subject in left_out], progress)
    progress.close()
    save(network, args.output, metadata_of(network, options, training, left_out, credit, figures))
    for name, value in figures.items():
        print(f"{name:24} {value:g}")
    print(f"wrote {args.output} ({args.output.stat().st_size / 1e3:.0f} kB)")
    write_json(args.json, figures)
    return 0


def _sources(args: argparse.Namespace) -> tuple[list[Any], str]:
    from mm_ros.motion.importing import ImportOptions, import_files, read_options
    from mm_ros.steps.training.data import procedural_clips, sources_of

    options = read_options(args.options) if args.options else ImportOptions()
    progress = Progress()
    imported = import_files(args.data, options, progress)
    clips = list(imported.clips) + ([] if args.no_procedural else procedural_clips())
    sources = sources_of(clips, progress)
    progress.close()
    minutes = sum(c.seconds for c in clips) / 60
    print(f"{len(clips)} clips, {minutes:.1f} minutes, {len({c.subject for c in clips})} subjects")
    return sources, imported.licence
