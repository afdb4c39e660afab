"""`mm_ros synth motion`: generate walking motion from footsteps, and write BVH files or a database."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mm_ros.base.errors import MmRosError
from mm_ros.cli.arguments import add_number, add_output, new_folder
from mm_ros.cli.output import add_json, table, write_json

if TYPE_CHECKING:
    from mm_ros.body.clip import Clip

HELP = "generate procedural motion capture as BVH files or as a database"

EXAMPLE = """examples:
  mm_ros synth motion -o walks                 a folder of BVH files
  mm_ros synth motion -o walks.mmdb --seed 3   a database of another person's walks
  mm_ros synth motion -o user --user 120       two minutes of the synthetic user
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    add_output(parser, "folder for BVH files, or a file NAME.mmdb", required=True)
    add_number(
        parser, "--seed", default=0, help="random seed; the same seed gives identical files (default: %(default)s)"
    )
    parser.add_argument("--only", metavar="WORD", default="", help="use only clips with this word in their name")
    add_number(parser, "--user", default=0.0, help="generate the synthetic user for this time instead of walks")
    parser.add_argument(
        "--no-mirror", action="store_true", help="do not add mirrored clips: only left turns and left steps"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    new_folder(args.output)
    if args.seed < 0:
        raise MmRosError(f"--seed: expected 0 or more, came {args.seed}")
    clips = _clips(args)
    if args.output.suffix == ".mmdb":
        _write_database(clips, args)
    else:
        _write_files(clips, args)
    summary = _summary(clips)
    print(table(("kind", "minutes"), [(name, round(minutes, 2)) for name, minutes in summary["minutes"].items()]))
    print(f"{summary['clips']} clips, {summary['seconds'] / 60:.1f} minutes → {args.output}")
    write_json(args.json, summary)
    return 0


def _clips(args: argparse.Namespace) -> list[Clip]:
    from mm_ros.motion.cleaning.clips import mirror
    from mm_ros.motion.procedural import make_clips
    from mm_ros.motion.procedural.user import SyntheticUser

    clips = [SyntheticUser(args.seed).clip(args.user)] if args.user else make_clips(args.seed)
    chosen = [c for c in clips if args.only in c.name]
    if not chosen:
        raise MmRosError(f"no clip has '{args.only}' in its name. Clips: {', '.join(c.name for c in clips)}")
    return chosen if args.no_mirror or args.user else [x for c in chosen for x in (c, mirror(c))]


def _write_database(clips: list[Clip], args: argparse.Namespace) -> None:
    from mm_ros.motion.build import BuildOptions, build_database
    from mm_ros.motion.features import default_layout
    from mm_ros.motion.files import write_database

    options = BuildOptions(
        plant_feet=False, stooped=0.0, licence="procedural, made by mm_ros itself", progress=_progress(args.quiet)
    )
    write_database(build_database(clips, default_layout(), options), args.output)


def _write_files(clips: list[Clip], args: argparse.Namespace) -> None:
    from mm_ros.base.files import folder_whole
    from mm_ros.motion.bvh.reader import write_bvh
    from mm_ros.motion.importing.export import to_bvh

    progress = _progress(args.quiet)
    with folder_whole(args.output) as folder:
        for i, clip in enumerate(clips):
            progress("writing", i, len(clips))
            write_bvh(to_bvh(clip), folder / f"{clip.name.replace(' ', '_')}.bvh")
    progress("writing", len(clips), len(clips))


def _progress(quiet: bool) -> Any:
    def progress(what: str, done: int, of: int) -> None:
        print(f"\r{what} {done}/{of}", end="\n" if done == of else "", flush=True)

    return (lambda what, done, of: None) if quiet else progress


def _summary(clips: list[Clip]) -> dict[str, Any]:
    minutes: dict[str, float] = {}
    for clip in clips:
        for name, first, stop in clip.tags:
            minutes[name] = minutes.get(name, 0.0) + (stop - first) / clip.rate / 60
    return {
        "clips": len(clips),
        "seconds": sum(clip.seconds for clip in clips),
        "minutes": dict(sorted(minutes.items(), key=lambda item: -item[1])),
    }
