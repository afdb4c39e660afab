"""`mm_ros info`: print the contents of BVH files, a database, a session, a model or a calibration."""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.text import printable
from mm_ros.cli.arguments import picture_file
from mm_ros.cli.output import add_json, table, write_json
from mm_ros.cli.progress import Progress
from mm_ros.sessions.paths import is_session

if TYPE_CHECKING:
    from mm_ros.motion.features import FeatureLayout

HELP = "show the contents of a BVH file, database, session, model or calibration"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "examples:\n  mm_ros info walks/\n  mm_ros info mine.mmdb --plot mine.png"
    parser.add_argument("path", type=Path, help="BVH file, folder or archive; .mmdb, session, .onnx or user.yaml")
    parser.add_argument("--plot", type=picture_file, metavar="FILE", help="also draw the velocities of the motion")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    kind = kind_of(args.path)
    if args.plot is not None and kind not in ("database", "motion"):
        raise MmRosError(f"--plot draws the velocities of motion files and databases; {args.path} is a {kind}")
    show = {
        "database": _database, "session": _session, "model": _model, "calibration": _calibration, "motion": _motion
    }[kind]  # fmt: skip
    try:
        result = show(args)
    except (TypeError, LookupError, AttributeError, ArithmeticError, ValueError) as error:
        if isinstance(error, MmRosError) or kind == "motion":
            raise
        # The metadata of a model file can be malformed, because no other part of mm_ros reads or checks the metadata.
        raise MmRosError(f"{args.path} is broken: its metadata cannot be shown ({error})") from error
    write_json(args.json, {"kind": kind, **result})
    return 0


def kind_of(path: Path) -> str:
    if not path.exists():
        raise MmRosError(f"{path}: there is no such file or folder")
    if path.suffix == ".onnx":
        return "model"
    if is_session(path):
        return "session"
    if path.is_file():
        from mm_ros.motion.files import MAGIC, SUFFIX

        with path.open("rb") as handle:
            if handle.read(len(MAGIC)) == MAGIC or path.suffix == SUFFIX:
                return "database"
        if path.suffix in (".yaml", ".yml"):
            return "calibration"
    return "motion"


def _show(title: str, rows: list[tuple[str, Any]]) -> dict[str, Any]:
    print(table((title, ""), rows))
    return {name: value for name, value in rows}  # noqa: C416


def _motion(args: argparse.Namespace) -> dict[str, Any]:
    from mm_ros.motion.importing import import_files
    from mm_ros.motion.importing.report import short_report
    from mm_ros.motion.summary import of_clips

    progress = Progress()
    found = import_files([args.path], progress=progress)
    progress.end()
    print(printable(short_report(found)))
    print()
    return _summary(args, of_clips(found.clips), [])


def _database(args: argparse.Namespace) -> dict[str, Any]:
    from mm_ros.motion.files import file_version, read_database
    from mm_ros.motion.summary import coverage, doubts, of_database

    database = read_database(args.path)
    feet = database.provenance.get("feet", {})
    rows: list[tuple[str, Any]] = [
        ("file version", file_version(args.path)),
        ("frames", len(database)), ("rate, Hz", database.rate), ("megabytes", args.path.stat().st_size / 1e6),
        ("skeleton", f"{database.skeleton.hash:016x}"), ("leg, m", round(database.skeleton.leg_length, 3)),
        ("head joint, m", round(database.skeleton.head_height, 3)), ("features", database.layout.size),
        ("layout", database.layout.hash), ("hash", f"{database.hash:016x}"), *_weights(database.layout),
    ]  # fmt: skip
    copies = database.provenance.get("copies", {}).get("frames", 0)
    rows.append(("bent copies, minutes", round(copies / database.rate / 60, 2)))
    rows += [(name.replace("_", " "), value) for name, value in feet.items()]
    for name, low, high in database.provenance.get("bands", []):
        rows.append((f"band {name}", f"{'' if low is None else low} … {'' if high is None else high}"))
    if database.provenance.get("licence"):
        rows.append(("licence", database.provenance["licence"]))
    result = _summary(args, of_database(database), rows)
    print()
    result["coverage"] = _show("coverage, minutes", coverage(database))
    result["doubts"] = doubts(database)
    print("\n".join(f"? {d}" for d in result["doubts"]) or "no doubts")
    return result


def _weights(layout: FeatureLayout) -> list[tuple[str, Any]]:
    """Return the feature weights that differ from the built-in weights; all benchmarks use the built-in weights."""
    from mm_ros.motion.features import default_layout, steered_layout

    same = [built_in for built_in in (default_layout(), steered_layout()) if built_in.hash == layout.hash]
    usual = {f.name: f.weight for f in (same or [default_layout()])[0].features}
    words = {name: f"{weight:g}" for name, weight in usual.items()}
    rows = [
        (f"weight {f.name}", f"{f.weight:g} (built-in: {words.get(f.name, 'no such feature')})")
        for f in layout.features
        if usual.get(f.name) != f.weight
    ]
    return rows or [("weights", "built-in")]


def _summary(args: argparse.Namespace, summary: Any, rows: list[tuple[str, Any]]) -> dict[str, Any]:
    from mm_ros.motion.summary import heat_text
    from mm_ros.motion.summary import rows as summary_rows

    result = _show(str(args.path), [*summary_rows(summary), *rows])
    print("\nTime spent at each velocity (forward is up):")
    print(heat_text(summary))
    if args.plot is not None:
        from mm_ros.evaluation.coverage_plot import plot_coverage

        plot_coverage(summary, args.plot, args.path.name)
        print(f"picture: {args.plot}")
    return result


def _session(args: argparse.Namespace) -> dict[str, Any]:
    from mm_ros.body.types import LOST, ROLES
    from mm_ros.sessions.session import read_session
    from mm_ros.sessions.versions import VERSION

    session = read_session(args.path)
    frames = session.frames
    rows: list[tuple[str, Any]] = [("seconds", round(session.seconds, 2)), ("samples", len(frames))]
    if session.seconds > 0:
        rows.append(("rate, Hz", round((len(frames) - 1) / session.seconds, 1)))
        gaps = [(b.stamp_ns - a.stamp_ns) * 1e-6 for a, b in pairwise(frames)]
        rows.append(("longest gap, ms", round(max(gaps), 1)))
        rows.append(("epochs", len({f.epoch for f in frames})))
    for r, role in enumerate(ROLES):
        share = sum(int(f.state[r]) != LOST for f in frames) / max(len(frames), 1)
        if share:
            rows.append((f"{role} present", f"{share:.1%}"))
    if session.calibration is not None:
        rows.append(("calibrated head height, m", round(session.calibration.head_height, 3)))
    rows.append(("truth", f"{len(session.truth)} poses" if session.truth else "none"))
    newer = "" if session.version == VERSION else f" (current: {VERSION}; converted while it is read)"
    rows.append(("message version", f"{session.version}{newer}"))
    rows.append(("landmarks", f"{len(session.sightings)} pictures" if session.sightings else "none"))
    if session.damage:
        rows.append(("damage", session.damage))
        rows += [(f"readable {topic}", f"{count} messages") for topic, count in _readable(args.path).items()]
    return _show(str(args.path), rows)


def _readable(path: Path) -> dict[str, int]:
    from mm_ros.sessions.bag import Bag

    return dict(Counter(message.topic for message in Bag(path).messages()))


def _model(args: argparse.Namespace) -> dict[str, Any]:
    from mm_ros.facing.model_file import session

    model = session(args.path)
    rows: list[tuple[str, Any]] = [("megabytes", round(args.path.stat().st_size / 1e6, 3))]
    rows += [(f"input {i.name}", f"{i.type} {i.shape}") for i in model.get_inputs()]
    rows += [(f"output {o.name}", f"{o.type} {o.shape}") for o in model.get_outputs()]
    meta = model.get_modelmeta().custom_metadata_map
    rows += [(k, v if len(v) < 100 or k == "credit" else v[:97] + "…") for k, v in sorted(meta.items())]
    return _show(str(args.path), rows)


def _calibration(args: argparse.Namespace) -> dict[str, Any]:
    from mm_ros.tracking.files import VERSION, read_calibration

    calibration = read_calibration("", args.path)  # reads only files of the version VERSION
    assert calibration is not None
    rows: list[tuple[str, Any]] = [
        ("user", printable(calibration.user)), ("file version", VERSION),
        ("calibrated", "yes" if calibration.calibrated else "no"), ("posture", printable(calibration.posture)),
    ]  # fmt: skip
    for words, name, sigma_name in (
        ("head height, m", "head_height", "head_height_sigma"),
        ("floor height, m", "floor_height", "floor_sigma"),
        ("arm span, m", "arm_span", "arm_span_sigma"),
    ):
        value, sigma = getattr(calibration, name), getattr(calibration, sigma_name)
        rows.append((words, f"{value:.3f} ± {sigma:.3f}" if sigma else round(value, 3)))
    rows.append(("body trackers", printable(", ".join(calibration.mountings)) or "none"))
    if calibration.note:
        rows.append(("note", printable(calibration.note)))
    return _show(str(args.path), rows)
