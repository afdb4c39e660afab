"""Reports about the assumptions of an import: a text for the terminal, and a Markdown file with a picture."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mm_ros.base.files import write_whole
from mm_ros.body.skeleton import NAMES
from mm_ros.motion.bvh.reader import Bvh
from mm_ros.motion.cleaning.pipeline import Assumption
from mm_ros.motion.importing.doctor import Actor
from mm_ros.motion.importing.load import FileNotes, Import
from mm_ros.motion.importing.mapping import node_name
from mm_ros.motion.importing.picture import skeleton_picture

# Control characters in names of files and joints, which the report replaces
_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MOST = 40  # maximum number of notes and of refused files in the terminal report; the Markdown report lists all


def short_report(found: Import) -> str:
    lines = []
    for actor in found.actors:
        mine = [f for f in found.files if f.actor == actor.key and not f.refused]
        seconds = sum(f.seconds for f in mine)
        skeleton = actor.model.fitted
        lines.append(
            f"{actor.subject}: {len(mine)} file(s), {seconds / 60:.1f} min; leg {skeleton.leg_length:.2f} m, "
            f"head joint at {skeleton.head_height:.2f} m"
        )
        lines += [_line(a) for a in actor.assumptions]
    remarks = [(f, n) for f in found.files for n in f.notes if n.what not in ("start", "floor") or n.doubtful]
    lines += [f"  {mark(n)} {Path(f.path).name}: {n.what}: {n.value} ({n.why})" for f, n in remarks[:_MOST]]
    if len(remarks) > _MOST:
        lines.append(f"  … and {len(remarks) - _MOST} more (the Markdown report lists all)")
    lines += [f"  ✗ {sentence}" for _, sentence in found.refused[:_MOST]]
    doubts = sum(n.doubtful for a in found.actors for n in a.assumptions) + sum(n.doubtful for _, n in remarks)
    lines.append(
        f"{len(found.clips)} clips, {sum(c.seconds for c in found.clips) / 60:.1f} min; "
        f"{len(found.refused)} file(s) refused, {doubts} doubtful assumption(s)"
    )
    warnings = [(a.subject, n) for a in found.actors for n in a.assumptions if n.warning]
    lines += [f"WARNING: {name}: {n.what}: {n.value} ({n.why}). Check the result before use" for name, n in warnings]
    return "\n".join(lines)


def with_remarks(found: Import, remarks: Mapping[str, Sequence[Assumption]]) -> None:
    """Append `remarks`, the notes of each file from the construction of the database, to its notes from the import."""
    found.files = [replace(f, notes=(*f.notes, *remarks.get(f.path, ()))) for f in found.files]


def mark(note: Assumption) -> str:
    return "?" if note.doubtful else "·"


def _line(a: Assumption) -> str:
    return f"  {mark(a)} {a.what}: {a.value} ({a.why})"


def markdown(found: Import, picture_name: str = "") -> str:
    lines = ["# Import report", ""]
    minutes = sum(c.seconds for c in found.clips) / 60
    lines.append(f"{len(found.clips)} clips, {minutes:.1f} minutes, from {len(found.files)} files.")
    lines.append("Doubtful assumptions are marked **?**. A YAML file (`--options`) can override each; see the end.")
    if found.licence:
        lines += ["", f"> {found.licence}"]
    if picture_name:
        lines += ["", f"![skeleton from the front and from the left side]({picture_name})"]
    for actor in found.actors:
        lines += ["", *_actor(actor, [f for f in found.files if f.actor == actor.key and not f.refused])]
    if found.refused:
        lines += ["", "## Refused", ""] + [f"- {sentence}" for _, sentence in found.refused]
    lines += ["", *_yaml_help(found)]
    return _UNSAFE.sub("\ufffd", "\n".join(lines)) + "\n"


def _actor(actor: Actor, files: Sequence[FileNotes]) -> list[str]:
    skeleton = actor.model.fitted
    lines = [f"## Actor {actor.subject}", ""]
    lines.append(f"Leg {skeleton.leg_length:.3f} m, head joint at {skeleton.head_height:.3f} m.")
    lines += ["", "| | property | assumed value | reason |", "|---|---|---|---|"]
    lines += [f"| {'**?**' if a.doubtful else ''} | {a.what} | {a.value} | {a.why} |" for a in actor.assumptions]
    lines += ["", "| file | frames | Hz | seconds kept | remarks |", "|---|---|---|---|---|"]
    for f in files:
        remarks = "; ".join(f"{'**?** ' if n.doubtful else ''}{n.what}: {n.value} ({n.why})" for n in f.notes)
        lines.append(f"| {Path(f.path).name} | {f.frames} | {f.rate:g} | {f.seconds:.1f} | {remarks} |")
    return lines


def _yaml_help(found: Import) -> list[str]:
    actor = found.actors[0] if found.actors else None
    file = Path(next((f.path for f in found.files if not f.refused), "walk_01.bvh")).name
    values: dict[str, Any] = {a.what: a.value for a in actor.assumptions} if actor else {}
    return [
        "## Overrides", "", "```yaml", "# options.yaml, for mm_ros import --options options.yaml",
        f"up: {values.get('up', 'Y+')}", f"unit_to_m: {actor.model.unit_to_m if actor else 0.01:.6g}", "# rate: 60",
        "# swap_left_right: true", "# reference: zero pose  # first frame, mean posture",
        "files:  # for single files, by pattern",
        f'  "{file}": {{skip_start: 1, floor_m: 0.0, tags: [walk, [turn, 1.5, 3.0]]}}', "```",
    ]  # fmt: skip


def write_report(found: Import, path: Path) -> None:
    """Write the Markdown report to `path`, and a picture of the skeleton to a file with the suffix .svg beside it."""
    picture = path.with_suffix(".svg")
    longest = max(found.clips, key=len)
    write_whole(picture, skeleton_picture(longest.skeleton, longest, f"skeleton of {longest.subject}").encode())
    write_whole(path, markdown(found, os.path.basename(picture)).encode(errors="backslashreplace"))


def map_draft(bvh: Bvh, guessed: dict[str, int]) -> str:
    """Return the draft of a joint map as YAML text, which the user completes."""
    lines = [f"# Canonical joint: joint of {Path(bvh.path).name}. Leave out missing joints. Joints of the file:"]
    for j, name in enumerate(bvh.names):
        depth, p = 0, int(bvh.parents[j])
        while p >= 0:
            depth, p = depth + 1, int(bvh.parents[p])
        lines.append(f"#   {'  ' * depth}{name}")
    for canonical in NAMES[1:]:
        node = guessed.get(canonical)
        named = node is not None and node < len(bvh.names)
        lines.append(f"{canonical}: {node_name(bvh, node)}" if named and node is not None else f"# {canonical}: ?")
    return "\n".join(lines) + "\n"
