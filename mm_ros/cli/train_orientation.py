"""`mm_ros train orientation`: train the facing network on motion capture as one ONNX file."""

import argparse
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.cli.arguments import add_motion, add_number, add_output
from mm_ros.cli.output import add_json, table, write_json

FIGURES = ("mean", "median", "p95", "root_mean", "rate_mean")
HELP = "train the network that predicts the facing and validate it on people outside its training data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example: mm_ros train orientation --data cmu_locomotion.tar.xz -o facing.onnx --seed 1\n\n"
        "Writes FILE.onnx and, for comparison, FILE_paper_r1.onnx and FILE_paper_r50.onnx.\n"
        "To use it: mm_ros up -p orientation_predictor.model=facing.onnx"
    )
    add_motion(parser, "--data", "BVH files, folders or archives", required=True)
    add_output(parser, "ONNX file to write", required=True)
    parser.add_argument("--options", type=Path, metavar="YAML", help="assumptions about the files (see mm_ros import)")
    parser.add_argument(
        "--credit", default="", metavar="TEXT", help="credit line for the data (default for CMU data: built-in)"
    )
    add_number(parser, "--seed", default=0, help="random seed; the same seed gives the same network (default 0)")
    add_number(
        parser, "--folds", default=2, help="groups of subjects for cross-validation; 0: no validation (default 2)"
    )
    add_number(parser, "--variants", default=8, help="random variants of all motion per epoch (default 8)")
    add_number(parser, "--epochs", default=6, help="training epochs, each with new variants (default 6)")
    add_number(parser, "--width", default=128, help="units in each of the two layers (default 128)")
    add_number(parser, "--members", default=4, help="networks of each kind that one file averages (default 4)")
    add_number(parser, "--memory", default=48, help="size of the memory of the second kind; 0: none (default 48)")
    parser.add_argument("--no-paper", action="store_true", help="do not train the network of the paper")
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    add_number(parser, "--tune", default=0, help="first search hyper-parameters with N trials (Ray)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    _check_output(args)
    need_torch()
    from mm_ros.facing.training.network import NetworkPlan
    from mm_ros.facing.training.train import Outcome, TrainOptions, save, train

    clips, licence = _clips(args)
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

    def early(outcome: Outcome) -> None:  # validation is slower than training, so Ctrl-C during it keeps the network
        save(outcome, args.output, options, clips, credit)

    outcome = train(clips, options, progress, early)
    progress.close()
    print(report(outcome.figures))
    for line in doubts(outcome.figures):
        print(line, file=sys.stderr)
    for path in save(outcome, args.output, options, clips, credit):
        print(f"wrote {path} ({path.stat().st_size / 1e3:.0f} kB)")
    write_json(args.json, outcome.figures)
    return 0


def _check_output(args: argparse.Namespace) -> None:
    if not args.output.parent.is_dir():
        raise MmRosError(f"cannot write {args.output}: its folder does not exist")
    if args.output.exists() and not args.force:
        raise MmRosError(f"{args.output} exists. Choose another name, or overwrite it with --force.")
    for name in ("variants", "epochs", "width", "members"):
        if getattr(args, name) < 1:
            raise MmRosError(f"--{name}: expected 1 or more, came {getattr(args, name)}")
    if args.memory < 0:
        raise MmRosError(f"--memory: expected 0 (none) or more, came {args.memory}")


def need_torch() -> None:
    missing = [name for name in ("torch", "onnx") if find_spec(name) is None]
    if missing:
        raise MmRosError(f"training needs {' and '.join(missing)}: {setup_command('train')}")


def _clips(args: argparse.Namespace) -> tuple[list[Any], str]:
    from mm_ros.motion.importing import ImportOptions, import_files, read_options

    options = read_options(args.options) if args.options else ImportOptions()
    progress = Progress()
    imported = import_files(args.data, options, progress)
    clips = imported.clips
    progress.close()
    minutes = sum(c.seconds for c in clips) / 60
    print(f"{len(clips)} clips, {minutes:.1f} minutes, {len({c.subject for c in clips})} subjects")
    return clips, imported.licence


def report(figures: dict[str, Any]) -> str:
    """Tables of facing errors in degrees, one for each treatment of the head marker bias."""
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
    """Warnings about a network that is unvalidated or not better than headset-forward; empty for a good one."""
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


class Progress:
    """One progress line on stderr, updated every second on a terminal and every ten seconds elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last = time.monotonic()
        self._what = ""

    def __call__(self, what: str, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self._last < (1.0 if self._terminal else 10.0):
            return
        self._last = now
        print(f"\r{what} {done}/{of}".ljust(60), end="" if self._terminal else "\n", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._terminal:
            print("\r".ljust(61), end="\r", file=sys.stderr)
