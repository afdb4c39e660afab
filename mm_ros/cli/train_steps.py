"""`mm_ros train steps`: train the network that estimates the user's steps, and write one ONNX file."""

import argparse
import hashlib
from pathlib import Path
from typing import Any

from mm_ros.cli.arguments import add_number
from mm_ros.cli.output import write_json
from mm_ros.cli.progress import Progress
from mm_ros.cli.training import add_data, check, need_torch, print_amount, read_clips

HELP = "train the network that estimates the user's steps and measure it on people outside its training data"
CHOOSE, CLAIM = "07,16,82,83,120", "08,35"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example: mm_ros train steps --data cmu_locomotion.tar.xz cmu_general.tar.xz -o steps.onnx --seed 1\n\n"
        "Procedural motion is added to the data. To use the network:\n"
        "mm_ros up -p trajectory_predictor.steps_model=steps.onnx"
    )
    add_data(parser)
    parser.add_argument(
        "--choose", default=CHOOSE, metavar="SUBJECTS",
        help="subjects outside the training data. Every 500 batches the network is measured on these subjects, on "
             "their walks with short steps and on procedural users; the best network is written (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--leave-out", default=CLAIM, metavar="SUBJECTS",
        help="further subjects outside the training data, which are not used for choosing (default: %(default)s)",
    )  # fmt: skip
    add_number(parser, "--batches", default=2000, help="training steps; 1000 take about 5 minutes (default 2000)")
    add_number(parser, "--units", default=128, help="size of each of the two recurrent layers (default 128)")
    parser.add_argument(
        "--continue-from", type=Path, metavar="ONNX",
        help="train this step network further, for example on own motion (default: train a new one)",
    )  # fmt: skip
    parser.add_argument(
        "--no-procedural", action="store_true", help="do not add procedural motion to the training data"
    )


def run(args: argparse.Namespace) -> int:
    check(args, "batches", "units")
    need_torch()
    from mm_ros.steps.training.measure import choosing_sets, measured, score
    from mm_ros.steps.training.network import NetworkPlan, StepNetwork, network_of
    from mm_ros.steps.training.train import TrainOptions, fit, metadata_of, save

    start = network_of(args.continue_from) if args.continue_from else None
    sources, licence = _sources(args)
    choosing, claim = (_subjects(text) for text in (args.choose, args.leave_out))
    training = [s for s in sources if s.subject not in choosing + claim]
    sets = choosing_sets([s for s in sources if s.subject in choosing])
    plan = start.plan if start else NetworkPlan(units=args.units)
    options = TrainOptions(seed=args.seed, batches=args.batches, plan=plan)
    started = {"started_from_sha256": hashlib.sha256(args.continue_from.read_bytes()).hexdigest()} if start else {}
    progress = Progress()
    tried: dict[int, float] = {}  # score of the network after each measured number of training batches
    candidate = args.output.with_suffix(".candidate.onnx")
    best: dict[str, Any] = {}

    def checkpoint(network: StepNetwork, batches: int) -> None:
        about = {"batches": batches, "chosen_on": choosing, **started}
        save(network, candidate, metadata_of(network, options, training, choosing + claim, credit, about))
        figures = {kind: measured(candidate, group) for kind, group in sets.items() if group}
        tried[batches] = round(score(figures), 4)
        if tried[batches] == max(tried.values()):
            best.update(figures, batches=batches, scores=tried)
            save(network, args.output,
                 metadata_of(network, options, training, choosing + claim, credit, about | figures))  # fmt: skip

    credit = args.credit or licence
    try:
        fit(training, options, progress, checkpoint, start)
    finally:
        candidate.unlink(missing_ok=True)
        progress.end()
    for kind, figures in best.items():
        print(f"{kind:12} {figures}")
    print(f"wrote {args.output} ({args.output.stat().st_size / 1e3:.0f} kB)")
    write_json(args.json, best)
    return 0


def _subjects(text: str) -> list[str]:
    return [s.strip() for s in text.split(",") if s.strip()]


def _sources(args: argparse.Namespace) -> tuple[list[Any], str]:
    from mm_ros.steps.training.data import procedural_clips, sources_of

    clips, licence = read_clips(args)
    if not args.no_procedural:
        clips += procedural_clips()
        print_amount(clips)
    progress = Progress()
    sources = sources_of(clips, progress)
    progress.end()
    return sources, licence
