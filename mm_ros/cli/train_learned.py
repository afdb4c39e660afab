"""`mm_ros train learned`: train the networks that replace the search in a database, and write one ONNX file."""

import argparse
import time
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.cli.arguments import add_database, add_number
from mm_ros.cli.output import table, write_json
from mm_ros.cli.training import add_common, check, need_torch

HELP = "train the networks that replace a database (Learned Motion Matching) and print their errors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example:\n"
        "  mm_ros train learned --database my.mmdb -o my.onnx\n"
        "\n"
        "To use the file, set the parameters of motion_matcher: model to my.onnx, then engine to learned.\n"
        "Ctrl-C stops the training; the same command continues from FILE.checkpoint. Printed losses are\n"
        "position errors of the joints in character space [cm] and rotation errors [degrees]."
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_database(parser, "database to learn (default: the built-in procedural database)")
    add_common(parser)
    add_number(parser, "--effort", default=1.0, help="factor on the usual number of training steps (default 1)")
    add_number(parser, "--latent", default=32, help="size of the latent vector (default 32)")
    add_number(parser, "--width", default=512, help="units per layer (default 512)")
    add_number(parser, "--threads", default=1, help="threads of torch (default 1)")
    parser.add_argument("--fresh", action="store_true", help="ignore the checkpoint and start again")


def run(args: argparse.Namespace) -> int:
    check(args, "latent", "width", "threads")
    if not 0 < args.effort < 1000:
        raise MmRosError(f"--effort: expected more than 0, came {args.effort:g}")
    need_torch()
    from mm_ros.matching.training.networks import Sizes
    from mm_ros.matching.training.train import Options, Training, finish
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.motion.files import read_database

    database = read_database(args.database or default_database_path())
    checkpoint = args.output.with_suffix(".checkpoint")
    if args.fresh:
        checkpoint.unlink(missing_ok=True)
    usual = Options()
    options = Options(
        seed=args.seed, sizes=Sizes(latent=args.latent, width=args.width), threads=args.threads,
        **{f"{s}_steps": max(1, round(getattr(usual, f"{s}_steps") * args.effort))
           for s in ("pose", "stepper", "projector")},
    )  # fmt: skip
    began = time.monotonic()
    length = f"{len(database)} frames, {len(database) / database.rate / 60:.1f} minutes"
    print(f"{length}; checkpoint {checkpoint}", flush=True)
    try:
        trained = Training(database, options, checkpoint, lambda line: print(line, flush=True)).run()
    except KeyboardInterrupt:
        print(f"\nstopped; the same command continues from {checkpoint}")
        raise
    figures = finish(trained, args.output, args.credit)
    checkpoint.unlink(missing_ok=True)
    print(report(figures))
    minutes = (time.monotonic() - began) / 60
    print(f"wrote {args.output} ({args.output.stat().st_size / 1e6:.2f} MB) after {minutes:.1f} minutes")
    write_json(args.json, figures)
    return 0


def report(figures: dict[str, Any]) -> str:
    rows = [
        [title, *(round(figures[key][k], 2) for k in
                  ("joints_cm_mean", "joints_cm_p95", "rotations_deg_mean", "rotations_deg_p95")),
         round(100 * figures[key]["contacts_right"], 1)]
        for key, title in (("rebuilt", "decoded from features and latents"), ("after_1_s", "after stepping for 1 s"))
    ]  # fmt: skip
    header = ["errors of the ONNX file", "joints cm", "p95", "rotations °", "p95", "correct contacts %"]
    answers = figures["answers"]
    return (
        f"{table(header, rows)}\n"
        f"median cost of the results: {answers['cost_median']:.2f}; of the exact search: "
        f"{answers['exact_cost_median']:.2f}"
    )
