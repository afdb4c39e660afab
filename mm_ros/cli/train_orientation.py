"""`mm_ros train orientation`: train the facing network on motion capture, and write one ONNX file."""

import argparse
import sys
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.cli.arguments import add_number
from mm_ros.cli.output import table, write_json
from mm_ros.cli.progress import Progress
from mm_ros.cli.training import add_data, check, need_torch, read_clips

FIGURES = ("mean", "median", "p95", "root_mean", "rate_mean")
HELP = "train the network that predicts the facing and validate it on people outside its training data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example: mm_ros train orientation --data cmu_locomotion.tar.xz -o facing.onnx --seed 1\n\n"
        "Writes FILE.onnx and, for comparison, FILE_paper_r1.onnx and FILE_paper_r50.onnx.\n"
        "To use it: mm_ros up -p orientation_predictor.model=facing.onnx"
    )
    add_data(parser)
    add_number(
        parser,
        "--folds",
        default=2,
        help="number of groups of subjects for cross-validation; 0 for no validation (default 2)",
    )
    add_number(parser, "--variants", default=8, help="random variants of all motion per epoch (default 8)")
    add_number(parser, "--epochs", default=6, help="training epochs, each with new variants (default 6)")
    add_number(parser, "--width", default=128, help="units in each of the two layers (default 128)")
    add_number(parser, "--members", default=4, help="networks of each kind that one file averages (default 4)")
    add_number(
        parser,
        "--memory",
        default=48,
        help="size of the memory of the recurrent networks; 0 for no recurrent networks (default 48)",
    )
    parser.add_argument("--no-paper", action="store_true", help="do not train the network of the paper")
    add_number(parser, "--tune", default=0, help="first search hyper-parameters with N trials (Ray)")


def run(args: argparse.Namespace) -> int:
    check(args, "variants", "epochs", "width", "members")
    if args.memory < 0:
        raise MmRosError(f"--memory: expected 0 (none) or more, came {args.memory}")
    need_torch()
    from mm_ros.facing.training.network import NetworkPlan
    from mm_ros.facing.training.train import Outcome, TrainOptions, save, train

    clips, licence = read_clips(args)
    options = TrainOptions(
        seed=args.seed, variants=args.variants, epochs=args.epochs, folds=args.folds,
        plan=NetworkPlan(args.width, 2, args.members, args.memory),
        paper_steps=0 if args.no_paper else TrainOptions.paper_steps,
    )  # fmt: skip
    progress = Progress()
    if args.tune:
        from mm_ros.facing.training.tune import tuned

        options = tuned(clips, options, args.tune, progress)
    credit = args.credit or licence

    # The network is written before its validation, so that a Ctrl-C during the slow validation does not lose the file.
    def early(outcome: Outcome) -> None:
        save(outcome, args.output, options, clips, credit)

    outcome = train(clips, options, progress, early)
    progress.end()
    print(report(outcome.figures))
    for line in doubts(outcome.figures):
        print(line, file=sys.stderr)
    for path in save(outcome, args.output, options, clips, credit):
        print(f"wrote {path} ({path.stat().st_size / 1e3:.0f} kB)")
    write_json(args.json, outcome.figures)
    return 0


def report(figures: dict[str, Any]) -> str:
    """Return two tables of facing errors [deg] for each way to treat the constant yaw error of the head markers."""
    parts = []
    for title, results in figures.items():
        rows = [
            [p, c, *(round(s[k], 2) for k in FIGURES), round(s["mean"] / results["hmd_forward"][c]["mean"], 3)]
            for p, by_condition in results.items()
            for c, s in by_condition.items()
        ]
        header = ["predictor", "trackers", "mean", "median", "p95", "to root", "deg/s", "of headset's"]
        kinds = list(results["network"]["as is"]["kinds"])
        by_kind = [[p, *(round(c["as is"]["kinds"][k], 2) for k in kinds)] for p, c in results.items()]
        parts.append(
            f"Cross-validation, head {title}; error against hips and shoulders, degrees\n{table(header, rows)}\n\n"
            f"By kind of motion, unmodified trackers, mean error in degrees\n{table(['predictor', *kinds], by_kind)}\n"
        )
    return "\n".join(parts)


def doubts(figures: dict[str, Any]) -> list[str]:
    """Return warnings if the network was not validated or is not better than using the headset's yaw as the facing."""
    if not figures:
        return ["warning: the network was not validated (--folds 0) and may be worse than headset-forward"]
    worse = [
        f"head {title}, {condition}: {s['mean']:.1f}° against {results['hmd_forward'][condition]['mean']:.1f}°"
        for title, results in figures.items()
        for condition, s in results["network"].items()
        if s["mean"] >= results["hmd_forward"][condition]["mean"]
    ]
    if not worse:
        return []
    return [
        "!!! THE NETWORK IS NO BETTER THAN HEADSET-FORWARD on people outside its training data:",
        *(f"!!!   {line}" for line in worse),
        "!!! Do not use it: set `predictor: hmd_forward`, or train with more motion and more subjects.",
    ]
