"""Functions that all `mm_ros train` commands share: they add options, check values and read motion."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.cli.arguments import add_motion, add_number, add_output
from mm_ros.cli.output import add_json
from mm_ros.cli.progress import Progress


def add_common(parser: argparse.ArgumentParser, credit: str = "the line in the database") -> None:
    """Add the options that all `mm_ros train` commands have to a parser."""
    add_output(parser, "ONNX file to write", required=True)
    parser.add_argument(
        "--credit", default="", metavar="TEXT", help=f"credit line for the data (default: {credit})"
    )
    add_number(parser, "--seed", default=0, help="random seed; the same seed gives the same network (default 0)")
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    add_json(parser)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add to a parser the options of those `mm_ros train` commands that read motion capture."""
    add_motion(parser, "--data", "BVH files, folders or archives", required=True)
    parser.add_argument("--options", type=Path, metavar="YAML", help="assumptions about the files (see mm_ros import)")
    add_common(parser, "built-in for CMU data")


def check(args: argparse.Namespace, *positive: str) -> None:
    """Raise MmRosError if the output file cannot be written, or if the value of an option in `positive` is below 1."""
    if not args.output.parent.is_dir():
        raise MmRosError(f"cannot write {args.output}: its folder does not exist")
    if args.output.exists() and not args.force:
        raise MmRosError(f"{args.output} exists. Choose another name, or overwrite it with --force.")
    for name in positive:
        if getattr(args, name) < 1:
            raise MmRosError(f"--{name}: expected 1 or more, came {getattr(args, name)}")


def need_torch() -> None:
    missing = [name for name in ("torch", "onnx") if find_spec(name) is None]
    if missing:
        raise MmRosError(f"training needs {' and '.join(missing)}: {setup_command('train')}")


def read_clips(args: argparse.Namespace) -> tuple[list[Any], str]:
    """Read the motion that the option --data names, and return its clips and its licence."""
    from mm_ros.motion.importing import ImportOptions, import_files, print_doubts, read_options

    options = read_options(args.options) if args.options else ImportOptions()
    progress = Progress()
    imported = import_files(args.data, options, progress)
    progress.end()
    print_doubts(imported)
    print_amount(imported.clips)
    return list(imported.clips), imported.licence


def print_amount(clips: list[Any]) -> None:
    minutes = sum(c.seconds for c in clips) / 60
    print(f"{len(clips)} clips, {minutes:.1f} minutes, {len({c.subject for c in clips})} subjects")
