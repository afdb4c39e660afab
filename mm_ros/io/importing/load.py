"""All files of an import: read twice, once for evidence and once to convert (reading is quick)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.core.clip import Clip
from mm_ros.core.errors import MmRosError
from mm_ros.io.bvh import Bvh, read_bvh
from mm_ros.io.importing.convert import convert, subject_of
from mm_ros.io.importing.doctor import Actor, actor_key, examine
from mm_ros.io.importing.evidence import AXES, Evidence, gather
from mm_ros.io.importing.mapping import JointMap, map_joints
from mm_ros.io.importing.options import ImportOptions

Progress = Callable[[str, int, int], None]  # what, done, of


@dataclass
class Import:
    clips: list[Clip]
    actors: list[Actor] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)  # file, sentence


@dataclass
class _Seen:
    path: str
    key: str
    joints: JointMap
    evidence: Evidence
    first: int
    stop: int


def load_clips(paths: Sequence[str | Path], options: ImportOptions | None = None, progress: Progress | None = None) -> list[Clip]:
    return import_files(paths, options, progress).clips


def import_files(paths: Sequence[str | Path], options: ImportOptions | None = None, progress: Progress | None = None) -> Import:
    options = options or ImportOptions()
    files = find_files(paths)
    tell = progress or (lambda what, done, of: None)
    out = Import([])
    seen: list[_Seen] = []
    for i, path in enumerate(files):
        tell("looking", i, len(files))
        try:
            seen.append(_look(path, options))
        except MmRosError as error:
            if options.strict:
                raise
            out.refused.append((path, str(error)))
    actors: dict[str, Actor] = {}
    for key in dict.fromkeys(s.key for s in seen):
        mine = [s for s in seen if s.key == key]
        actors[key] = examine(read_bvh(mine[0].path), mine[0].joints, [s.evidence for s in mine], options.of(mine[0].path))
        actors[key].key = key
    order = list(actors)
    for i, s in enumerate(seen):
        tell("converting", i, len(seen))
        out.clips.append(_convert(s, actors[s.key], order.index(s.key), options))
    tell("converting", len(seen), len(seen))
    out.actors = list(actors.values())
    if not out.clips:
        raise MmRosError("no motion could be read" + "".join(f"\n  {sentence}" for _, sentence in out.refused[:10]))
    return out


def find_files(paths: Sequence[str | Path]) -> list[str]:
    out: list[str] = []
    for path in map(Path, paths):
        if path.is_dir():
            out += sorted(str(p) for p in path.rglob("*") if p.suffix.lower() == ".bvh")
        elif path.is_file():
            out.append(str(path))
        else:
            raise MmRosError(f"{path}: there is no such file or folder")
    if not out:
        raise MmRosError(f"no .bvh files in {', '.join(map(str, paths))}")
    return out


def _look(path: str, options: ImportOptions) -> _Seen:
    given = options.of(path)
    bvh = read_bvh(path)
    joints = map_joints(bvh, given.joints)
    first = given.skip_start if given.skip_start is not None else start_to_skip(bvh)
    up = AXES.index(given.up) if given.up else None
    evidence = gather(bvh, joints, up, first)
    return _Seen(path, actor_key(bvh, given.subject or subject_of(path)), joints, evidence, first, len(bvh) - (given.skip_end or 0))


def start_to_skip(bvh: Bvh) -> int:
    """Frames before the largest jump among the first ones: an added T-pose."""
    _, q = bvh.globals(bvh.motion[:12])
    if len(q) < 6:
        return 0
    turn = np.degrees(2 * np.arccos(np.clip(np.abs((q[1:] * q[:-1]).sum(-1)), 0, 1))).max(axis=1)
    jump = int(np.argmax(turn))
    usual = float(np.median(turn))
    return jump + 1 if turn[jump] > 20 and turn[jump] > 10 * usual + 5 else 0


def _convert(s: _Seen, actor: Actor, number: int, options: ImportOptions) -> Clip:
    given = options.of(s.path)
    bvh = read_bvh(s.path)
    clip, _ = convert(
        bvh, actor.model, given.rate or bvh.rate, s.first, s.stop, Path(s.path).stem, given.subject or subject_of(s.path, number),
        options.rate, given.floor_m, options.smooth_root,
    )  # fmt: skip
    return clip


def describe(clip: Clip) -> dict[str, Any]:
    return {"name": clip.name, "seconds": clip.seconds, "leg_m": clip.skeleton.leg_length}
