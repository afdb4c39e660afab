"""Import motion files in two passes: first measure all files of each recorded person, then convert the files."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.text import printable
from mm_ros.base.workers import mapped
from mm_ros.body.clip import Clip
from mm_ros.motion.bvh.reader import Bvh, read_bvh
from mm_ros.motion.cleaning.pipeline import FILE_STEPS, Assumption, Task, Work, run
from mm_ros.motion.importing.canonical import ActorModel, local_rotations, to_canonical
from mm_ros.motion.importing.doctor import Actor, actor_key, examine
from mm_ros.motion.importing.evidence import AXES, Evidence, gather
from mm_ros.motion.importing.file_tags import tags_of_name
from mm_ros.motion.importing.mapping import JointMap, map_joints
from mm_ros.motion.importing.options import ImportOptions, Overrides
from mm_ros.motion.importing.rate import FASTEST, SLOWEST, estimate, guesses
from mm_ros.motion.shared_data import is_archive, unpacked

# A function that reports progress; its arguments are the activity, the number of finished items, and their total number
Progress = Callable[[str, int, int], None]
CHUNK = 4  # number of files that a worker process gets at a time
_MOST_DOUBTS = 20  # maximum number of lines of `print_doubts`


@dataclass
class FileNotes:
    """Information about the import of one file, for the report."""

    path: str
    actor: str = ""
    frames: int = 0
    rate: float = 0.0
    seconds: float = 0.0  # total duration of the clips made from this file [s]
    clips: tuple[str, ...] = ()
    notes: tuple[Assumption, ...] = ()
    refused: str = ""  # reason why the motion file was refused; empty if it was imported


@dataclass
class Import:
    clips: list[Clip]
    actors: list[Actor] = field(default_factory=list)
    files: list[FileNotes] = field(default_factory=list)

    @property
    def refused(self) -> list[tuple[str, str]]:
        return [(f.path, f.refused) for f in self.files if f.refused]

    @property
    def licence(self) -> str:
        names = {f.actor: Path(f.path).name for f in self.files}
        lines = dict.fromkeys(licence_of(a.joints, names.get(a.key, "")) for a in self.actors)
        return " ".join(line for line in lines if line)


CMU_CREDIT = (
    "The data used in this project was obtained from mocap.cs.cmu.edu. "
    "The database was created with funding from NSF EIA-0196217."
)


def licence_of(joints: JointMap, file: str) -> str:
    """Return the acknowledgement that CMU demands of users of its motion files, or '' for other files.

    Files from CMU are recognized by names like '69_01.bvh', because other files also have the skeleton of CMU.
    """
    return CMU_CREDIT if joints.family.startswith("CMU") and re.fullmatch(r"\d+_\d+\.bvh", file) else ""


@dataclass
class _Seen:
    path: str
    key: str = ""
    joints: JointMap | None = None
    evidence: Evidence | None = None
    frames: int = 0
    first: int = 0
    motion: str = ""
    refused: str = ""
    notes: tuple[Assumption, ...] = ()


def load_clips(
    paths: Sequence[str | Path], options: ImportOptions | None = None, progress: Progress | None = None
) -> list[Clip]:
    """Import files, folders and archives as `import_files`, print all doubts to stderr, and return the clips only."""
    found = import_files(paths, options, progress)
    if progress is not None:
        progress("imported", 1, 1)  # ends the line of the progress bar
    print_doubts(found)
    return found.clips


def print_doubts(found: Import) -> None:
    """Print the refused files, warnings and doubtful assumptions of an import to stderr. All commands that read motion
    files call this function, except those that print the whole report."""
    notes = [(a.subject, n) for a in found.actors for n in a.assumptions]
    notes += [(Path(f.path).name, n) for f in found.files for n in f.notes]
    notes.sort(key=lambda row: not row[1].warning)
    lines = [f"refused: {sentence}" for _, sentence in found.refused]
    lines += [
        f"{'WARNING' if n.warning else 'doubtful'}: {name}: {n.what}: {n.value} ({n.why})"
        for name, n in notes
        if n.warning or n.doubtful
    ]
    if len(lines) > _MOST_DOUBTS:
        more = len(lines) - _MOST_DOUBTS
        lines[_MOST_DOUBTS:] = [f"{more} more lines like these are in the report of `mm_ros import PATH --report FILE`"]
    for line in lines:
        print(printable("mm_ros: " + line.replace("\n", " ")), file=sys.stderr)


def import_files(
    paths: Sequence[str | Path], options: ImportOptions | None = None, progress: Progress | None = None
) -> Import:
    """Import motion files, folders and archives as clips on the canonical skeleton.

    The field `refused` of the returned object lists the files that cannot be used. If `options.strict` is true, the
    first file that cannot be used raises MmRosError. MmRosError is also raised if no file contains usable motion.
    """
    options = options or ImportOptions()
    files = find_files(paths)
    jobs = options.jobs if len(files) >= 2 * CHUNK else 1
    report = progress or (lambda what, done, of: None)
    seen: list[_Seen] = []
    for i, found in enumerate(mapped(_look, [(f, options) for f in files], jobs, CHUNK, _look_lost)):
        if found.refused and options.strict:
            raise MmRosError(found.refused)
        seen.append(found)
        report("analyzing", i + 1, len(files))
    _refuse_twins(seen, options)
    actors = _examined(seen, options)
    good = [s for s in seen if not s.refused]
    order = list(actors)
    tasks = [(actors[s.key].model, _task(s, actors[s.key], order.index(s.key), options)) for s in good]
    out = Import([], list(actors.values()))
    notes = {s.path: FileNotes(s.path, s.key, s.frames, refused=s.refused) for s in seen}
    converted = mapped(_convert, tasks, jobs, CHUNK, _convert_lost)
    for i, (s, (_, task), done) in enumerate(zip(good, tasks, converted, strict=True)):
        clips, remarks, refused = done
        if refused and options.strict:
            raise MmRosError(refused)
        out.clips += clips
        notes[s.path] = replace(
            notes[s.path], rate=task.rate, seconds=sum(c.seconds for c in clips), clips=tuple(c.name for c in clips),
            notes=(*s.notes, *remarks), refused=refused,
        )  # fmt: skip
        report("converting", i + 1, len(good))
    out.files = list(notes.values())
    out.clips = _unique_names(out.clips)
    if not out.clips:
        sentences = [f.refused for f in out.files if f.refused]
        raise MmRosError("no motion could be imported" + "".join(f"\n  {s}" for s in sentences[:10]))
    return out


def find_files(paths: Sequence[str | Path]) -> list[str]:
    """Return the paths of the given files and of all BVH files in the given folders and archives."""
    out: list[str] = []
    for path in map(Path, paths):
        if path.is_dir() or (path.is_file() and is_archive(path)):
            folder = path if path.is_dir() else unpacked(path)
            out += sorted(str(p) for p in folder.rglob("*") if p.suffix.lower() == ".bvh")
        elif path.is_file():
            out.append(str(path))
        else:
            kind = "it is not a regular file" if path.exists() else "there is no such file or folder"
            raise MmRosError(f"{path}: {kind}")
    if not out:
        raise MmRosError(f"there are no .bvh files in {', '.join(map(str, paths))}")
    return list(dict.fromkeys(out))


def motion_hash(bvh: Bvh) -> str:
    """Return a hash of the motion in a file, which most differences below 0.01 in the file do not change."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(repr(bvh.motion.shape).encode())
    digest.update(np.round(bvh.motion * 100).astype(np.int64).tobytes())
    return digest.hexdigest()


def start_to_skip(bvh: Bvh) -> int:
    """Return the number of frames at the start of a file that are a T-pose which the software has added.

    At the end of an added T-pose, at least a quarter of the joints change their rotations suddenly.
    """
    _, q = bvh.globals(bvh.motion[:12])
    if len(q) < 6:
        return 0
    turns = np.degrees(2 * np.arccos(np.clip(np.abs((q[1:] * q[:-1]).sum(-1)), 0, 1)))
    turn = np.percentile(turns, 75, axis=1)
    jump = int(np.argmax(turn))
    return jump + 1 if turn[jump] > 10 and turn[jump] > 5 * float(np.median(turn)) + 3 else 0


def _look(item: tuple[str, ImportOptions]) -> _Seen:
    path, options = item
    given = options.of(path)
    out = _Seen(path)
    try:
        if given.leave_out:
            raise MmRosError(f"{path}: left out by an override (leave_out)")
        bvh = read_bvh(path)
        out.frames = len(bvh)
        out.joints = map_joints(bvh, given.joints, options.further)
        out.first = given.skip_start if given.skip_start is not None else start_to_skip(bvh)
        if len(bvh) - out.first - (given.skip_end or 0) < 2:
            raise MmRosError(f"{path}: {len(bvh)} frame(s) are too few; expected at least 2 after skipped frames")
        out.evidence, out.notes = _gathered(bvh, out.joints, given, out.first)
        out.key = actor_key(bvh, given.subject or subject_of(path))
        out.motion = motion_hash(bvh)
    except MmRosError as error:
        out.refused = str(error)
    return out


def _look_lost(item: tuple[str, ImportOptions]) -> _Seen:
    return _Seen(item[0], refused=f"{item[0]}: the process that read it was killed (is there enough memory?)")


def _gathered(bvh: Bvh, joints: JointMap, given: Overrides, first: int) -> tuple[Evidence, tuple[Assumption, ...]]:
    """Measure a motion file; if its header states an implausible frame rate, estimate the rate and return a note."""
    up = AXES.index(given.up) if given.up else None
    if SLOWEST <= bvh.rate <= FASTEST:
        return gather(bvh, joints, up, first), ()
    if given.rate is not None:
        return gather(bvh, joints, up, first, given.rate), ()
    tried = 60.0
    found = estimate([gather(bvh, joints, up, first, tried).rhythm], tried, guesses(bvh.frame_time))
    absurd = f"'Frame Time: {bvh.frame_time_text or bvh.frame_time}' means {bvh.rate:.4g} frames per second"
    if found is None:
        raise MmRosError(
            f"{bvh.path}: {absurd}; expected {SLOWEST:g} to {FASTEST:g}. The motion has no falls or even steps to "
            "estimate the rate. Set it with --true-rate"
        )
    rate, why = found
    return gather(bvh, joints, up, first, rate), (Assumption("rate", f"{rate:g} Hz", f"{absurd}; {why}", True),)


def _refuse_twins(seen: list[_Seen], options: ImportOptions) -> None:
    first: dict[str, str] = {}
    for s in seen:
        if not s.refused:
            other = first.setdefault(s.motion, s.path)
            if other != s.path:
                s.refused = f"{s.path}: holds the same motion as {other}; left out"


def _examined(seen: list[_Seen], options: ImportOptions) -> dict[str, Actor]:
    actors: dict[str, Actor] = {}
    for key in dict.fromkeys(s.key for s in seen if not s.refused):
        mine = [s for s in seen if s.key == key and not s.refused]
        evidence = [s.evidence for s in mine if s.evidence is not None]
        joints = mine[0].joints
        assert joints is not None
        try:
            actors[key] = examine(read_bvh(mine[0].path), joints, evidence, options.of(mine[0].path))
        except MmRosError as error:
            if options.strict:
                raise
            for s in mine:
                s.refused = str(error)
            continue
        actors[key].key = key
        actors[key].subject = options.of(mine[0].path).subject or subject_of(mine[0].path, len(actors) - 1)
    return actors


def _task(s: _Seen, actor: Actor, number: int, options: ImportOptions) -> Task:
    given = options.of(s.path)
    model: ActorModel = actor.model
    return Task(
        path=s.path,
        skeleton=model.skeleton,
        fitted=model.fitted,
        nodes=model.nodes,
        unit_to_m=model.unit_to_m,
        rate=given.rate or (s.evidence.rate if s.evidence else 0.0) / actor.header_over_true,
        first=s.first,
        stop=s.frames - (given.skip_end or 0),
        cut_t_pose=given.skip_start is None and given.skip_end is None,
        subject=given.subject or subject_of(s.path, number),
        new_rate=options.rate,
        floor=given.floor_m,
        smooth_root=options.smooth_root,
        shortest_s=options.shortest_s,
        tags=(*tags_of_name(s.path), *given.tags),
    )


def _convert(item: tuple[ActorModel, Task]) -> tuple[list[Clip], list[Assumption], str]:
    model, task = item
    try:
        bvh = read_bvh(task.path)
        p, q = bvh.globals(bvh.motion[task.first : task.stop])
        hips, rotations = to_canonical(model, p, q)
        local = local_rotations(model.skeleton, rotations)
        work = run(FILE_STEPS, Work(task.rate, task, None, p, hips, rotations, local))
    except MmRosError as error:
        return [], [], str(error)
    return work.clips, work.notes, ""


def _convert_lost(item: tuple[ActorModel, Task]) -> tuple[list[Clip], list[Assumption], str]:
    return [], [], f"{item[1].path}: the process that converted it was killed (is there enough memory?)"


def subject_of(path: str, actor: int = 0) -> str:
    """Return the recorded person's name from a file name: '69' for '69_01.bvh', 'subject2' for 'walk1_subject2.bvh'."""
    stem = Path(path).stem
    named = re.search(r"subject[_-]?\w*\d+", stem, re.IGNORECASE)
    if named:
        return named.group(0).lower()
    numbered = re.match(r"(\d{1,4})_\d+", stem)
    return numbered.group(1) if numbered else f"actor{actor + 1}"


def _unique_names(clips: list[Clip]) -> list[Clip]:
    count: dict[str, int] = {}
    out = []
    for c in clips:
        n = count[c.name] = count.get(c.name, 0) + 1
        out.append(c if n == 1 else replace(c, name=f"{c.name}_{n}"))
    return out
