"""`mm_ros import`: convert BVH files of any software into a database, and report what was assumed about the files."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.text import printable
from mm_ros.cli.arguments import add_number, add_output, output_file
from mm_ros.cli.output import add_json, table, write_json
from mm_ros.cli.progress import Progress

HELP = "convert BVH files into a database and report the assumptions made about them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  mm_ros import walks/ more.zip -o mine.mmdb\n"
        "  mm_ros import odd.bvh --draft-map odd.yaml      # then complete it by hand\n"
        "  mm_ros import odd.bvh --map odd.yaml -o odd.mmdb"
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="BVH files, folders, .zip or .tar archives")
    add_output(parser, "database to write (.mmdb); without it, only print the report", type=output_file)
    parser.add_argument(
        "--options", type=Path, metavar="YAML", help="overrides of detected properties, for all or single files"
    )
    parser.add_argument(
        "--map", type=Path, metavar="YAML", help="joint map: canonical joint → joint of the file"
    )
    parser.add_argument(
        "--draft-map", type=output_file, metavar="YAML", help="write a draft joint map for the first file, and stop"
    )
    parser.add_argument(
        "--features", default="vr", metavar="YAML",
        help="feature layout: vr (27 numbers), steered (for keys, gamepad and path) or a YAML file (default: vr)",
    )
    parser.add_argument("--up", metavar="AXIS", help="up axis: X+, X-, Y+, Y-, Z+ or Z- (default: detected)")
    add_number(parser, "--unit", help="length of one unit of the files (default: detected)")
    add_number(parser, "--true-rate", help="frame rate of the files (default: from the header, checked)")
    add_number(parser, "--rate", default=60.0, help="frame rate of the database (default: %(default)s)")
    parser.add_argument("--mirror", action="store_true", help="add a mirrored copy of every clip")
    parser.add_argument(
        "--fingers", action="store_true",
        help="also import the motion of fingers: a skeleton of 53 instead of 23 joints",
    )  # fmt: skip
    parser.add_argument("--raw-root", action="store_true", help="do not smooth the virtual root")
    parser.add_argument(
        "--keep-proportions", action="store_true", help="do not correct implausible positions of joints",
    )
    parser.add_argument("--keep-feet", action="store_true", help="do not lock stance feet to the floor")
    add_number(
        parser, "--stooped", default=0.25,
        help="maximum share of bent copies of upright motion, which are added where bent motion is rare; 0 for none "
             "(default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="stop at the first file that cannot be read")
    parser.add_argument(
        "--licence", default="", metavar="TEXT", help="licence line to store in the database"
    )
    parser.add_argument(
        "--report", type=output_file, metavar="MD", help="path of the report (default: beside the database)"
    )
    add_number(parser, "--jobs", default=min(2, os.cpu_count() or 1), help="number of processes (default: %(default)s)")
    parser.add_argument("--force", action="store_true", help="replace an existing database, report or map")
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from mm_ros.motion.feature_files import layout_of, read_functions
    from mm_ros.motion.importing import find_files, import_files
    from mm_ros.motion.importing.report import short_report, with_remarks, write_report

    report = args.report or (args.output.with_suffix(".report.md") if args.output is not None else None)
    _keep_what_is_there(args, report)
    if args.draft_map is not None:
        return _draft(find_files(args.paths)[0], args.draft_map)
    layout = layout_of(args.features)
    functions = read_functions(args.features, layout)
    progress = Progress(args.quiet)
    found = import_files(args.paths, _options(args), progress)
    progress.end()
    remarks: dict[str, list[Any]] = {}
    try:
        built = _build(args, found, layout, functions, remarks) if args.output is not None else None
    finally:  # The report of the import is also written if the build fails, because it then explains the failure.
        with_remarks(found, remarks)
        print(printable(short_report(found)))
        if report is not None:
            write_report(found, report)
            print(printable(f"report: {report}"))
    result: dict[str, Any] = {
        "clips": len(found.clips),
        "refused": [s for _, s in found.refused],
        "actors": _actors(found),
        "files": _files(found) if args.json is not None else [],
    }
    if built is not None:
        result["database"] = _print_database(args, *built)
    write_json(args.json, result)
    return 0


def _keep_what_is_there(args: argparse.Namespace, report: Path | None) -> None:
    """Raise MmRosError before any work starts if an output would overwrite an input or a file that exists.

    Without `--force`, the only file that may be overwritten is the default report beside the database.
    """
    inputs = [p.resolve() for p in args.paths]
    for path in (args.output, args.draft_map, report):
        if path is not None and path.resolve() in inputs:
            raise MmRosError(f"{path} is one of the files to import; choose another name for the output")
    for path in (args.output, args.draft_map, args.report):
        if path is not None and path.is_file() and not args.force:
            raise MmRosError(f"{path} exists already; choose another name, or replace it with --force")


def _options(args: argparse.Namespace) -> Any:
    from mm_ros.motion.importing import ImportOptions, read_options

    options = read_options(args.options) if args.options is not None else ImportOptions()
    every = options.every
    if args.map is not None:
        every = replace(every, joints=_read_map(args.map))
    given = {"up": args.up, "unit_to_m": args.unit, "rate": args.true_rate}
    every = replace(every, **{k: v for k, v in given.items() if v is not None})
    if args.keep_proportions:
        every = replace(every, keep_proportions=True)
    return replace(
        options, every=every, rate=args.rate, smooth_root=not args.raw_root, strict=args.strict, jobs=args.jobs,
        further=args.fingers,
    )  # fmt: skip


def _read_map(path: Path) -> dict[str, str]:
    from mm_ros.base.files import read_yaml

    value = read_yaml(path)
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise MmRosError(f"{path}: expected lines such as 'hips: Pelvis'")
    return {str(k): v for k, v in value.items()}


def _draft(file: str, path: Path) -> int:
    from mm_ros.base.files import write_whole
    from mm_ros.motion.bvh.reader import read_bvh
    from mm_ros.motion.importing.mapping import guess_joints
    from mm_ros.motion.importing.report import map_draft

    bvh = read_bvh(file)
    guessed = guess_joints(bvh)
    write_whole(path, map_draft(bvh, guessed).encode(errors="backslashreplace"))
    then = f"check the map, then run: mm_ros import {file} --map {path} -o DB"
    print(printable(f"{path}: {len(guessed)} of 22 joints guessed; {then}"))
    return 0


def _actors(found: Any) -> list[dict[str, Any]]:
    return [
        {
            "subject": a.subject,
            "leg_m": a.model.fitted.leg_length,
            "head_m": a.model.fitted.head_height,
            "assumptions": [
                {"what": n.what, "value": n.value, "why": n.why, "doubtful": n.doubtful} for n in a.assumptions
            ],
        }
        for a in found.actors
    ]


def _files(found: Any) -> list[dict[str, Any]]:
    return [
        {
            "file": f.path,
            "frames": f.frames,
            "rate": f.rate,
            "seconds": f.seconds,
            "refused": f.refused,
            "notes": [{"what": n.what, "value": n.value, "why": n.why, "doubtful": n.doubtful} for n in f.notes],
            "clips": [_clip(c) for c in found.clips if c.source == f.path],
        }
        for f in found.files
    ]


def _clip(clip: Any) -> dict[str, Any]:
    """Return the entry of a clip in the JSON report. `facing_to_way_deg` is the angle between facing and walking
    direction; if it is large in a clip of forward walking, the facing was recognized wrongly."""
    import numpy as np

    from mm_ros.motion.kinds import root_motion

    velocity, _ = root_motion(clip)
    moves = np.linalg.norm(velocity, axis=1) > 0.4
    angles = np.degrees(np.abs(np.arctan2(velocity[moves, 1], velocity[moves, 0])))
    return {
        "name": clip.name,
        "seconds": clip.seconds,
        "leg_m": clip.skeleton.leg_length,
        "facing_to_way_deg": float(np.median(angles)) if len(angles) else None,
    }


def _build(
    args: argparse.Namespace, found: Any, layout: Any, functions: Any, remarks: dict[str, list[Any]]
) -> tuple[Any, str]:
    """Build and write the database of the import, and return the database and its licence. The dict `remarks` receives
    for each file a list of what the cleaning of the motion has changed."""
    from mm_ros.motion.build import BuildOptions, build_database
    from mm_ros.motion.files import write_database

    progress = Progress(args.quiet)
    licence = " ".join(x for x in (args.licence, found.licence) if x)
    options = BuildOptions(
        rate=args.rate, mirror=args.mirror, plant_feet=not args.keep_feet, stooped=args.stooped, licence=licence,
        functions=functions, progress=progress,
        remark=lambda clip, note: remarks.setdefault(clip.source, []).append(note),
    )  # fmt: skip
    database = build_database(found.clips, layout, options)
    progress.end()
    write_database(database, args.output)
    return database, licence


def _print_database(args: argparse.Namespace, database: Any, licence: str) -> dict[str, Any]:
    feet = database.provenance["feet"]
    rows = [
        ("frames", len(database)), ("minutes", len(database) / database.rate / 60), ("clips", len(database.clip_names)),
        ("bent copies among them", database.provenance["copies"]["clips"]),
        ("megabytes", args.output.stat().st_size / 1e6),
        ("stance drift, median, mm", feet["stance_drift_median_m"] * 1000),
        ("stance drift, p95, mm", feet["stance_drift_p95_m"] * 1000), ("skating frames, %", feet["skate_ratio"] * 100),
    ]  # fmt: skip
    print(table(("database", str(args.output)), rows))
    if licence:
        print(printable(licence))
    return dict(rows)
