"""The steps that clean recorded motion. The lists `FILE_STEPS` and `DATABASE_STEPS` show the order of the steps.

Each step is a function that changes a `Work` object and adds notes to the report of the import. The steps in
`FILE_STEPS` turn the frames of a file into clips on the skeleton of the recorded person (the actor). The steps in
`DATABASE_STEPS` transfer each clip to the skeleton of the database. The command `mm_ros evaluate` uses `FILE_STEPS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HIPS, LEFT_FOOT, LEFT_TOES, NAMES, RIGHT_FOOT, RIGHT_TOES, Skeleton
from mm_ros.maths.signals import cubic, spherical
from mm_ros.motion.cleaning.clips import RootSettings, resample, sample_times, with_virtual_root
from mm_ros.motion.cleaning.defects import Glitch, bridge, flickers, glitches, t_pose_frames
from mm_ros.motion.cleaning.legs import onto_skeleton, plant_feet
from mm_ros.motion.cleaning.markers import mended
from mm_ros.motion.contacts import TOES, ContactSettings, central_difference, contacts_of

Array = Any
FEET = (LEFT_FOOT, LEFT_TOES, RIGHT_FOOT, RIGHT_TOES)


@dataclass(frozen=True)
class Assumption:
    """An estimated property of a file or of a recorded person: its value and the reason for this value."""

    what: str  # up, unit, rate, …
    value: str
    why: str
    doubtful: bool = False
    warning: bool = False  # whether the value is probably wrong, so that the import report repeats it at the end


@dataclass(frozen=True)
class Task:
    """Arguments of the function that converts one file, possibly in a worker process."""

    path: str
    skeleton: Skeleton  # skeleton of the recorded person, as in the motion file
    fitted: Skeleton  # skeleton of the recorded person with corrected proportions, for the clips
    nodes: Array  # (J,) for each canonical joint, index of a joint or end site in the motion file; −1 if it has none
    unit_to_m: float
    rate: float  # true frame rate of the file [Hz]
    first: int
    stop: int
    cut_t_pose: bool
    subject: str
    new_rate: float = 60.0
    floor: float | None = None
    smooth_root: bool = True
    shortest_s: float = 0.5
    tags: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Fit:
    """Arguments of the cleaning steps in `DATABASE_STEPS`."""

    skeleton: Skeleton
    rate: float
    contacts: ContactSettings
    pin_feet: bool


@dataclass
class Work:
    """The motion that one step passes to the next step: first frames of a file, later the clips made from them."""

    rate: float  # frame rate [Hz]
    task: Task | None = None
    fit: Fit | None = None
    positions: Array = None  # (F, N, 3) positions of joints and end sites in the file
    hips: Array = None  # (F, 3) m
    rotations: Array = None  # (F, J, 4) global
    local: Array = None  # (F, J, 4)
    cuts: list[tuple[int, int]] = field(default_factory=list)  # ranges of frames that are removed from the motion
    kept: tuple[int, int] = (0, 0)  # range of frames without the T-poses at the start and the end of the file
    begins: list[int] = field(default_factory=list)  # first frame of each piece into which the motion is cut
    pieces: list[tuple[Array, Array]] = field(default_factory=list)  # hip positions and joint rotations of each piece
    clips: list[Clip] = field(default_factory=list)
    contacts: list[Array] = field(default_factory=list)  # foot contacts (F, 2) in each clip
    notes: list[Assumption] = field(default_factory=list)

    @property
    def of_file(self) -> Task:
        assert self.task is not None
        return self.task

    @property
    def to_database(self) -> Fit:
        assert self.fit is not None
        return self.fit

    def note(self, what: str, value: str, why: str, doubtful: bool = False) -> None:
        self.notes.append(Assumption(what, value, why, doubtful))


def run(steps: Sequence[Callable[[Work], None]], work: Work) -> Work:
    for step in steps:
        step(work)
    return work


def report_start(work: Work) -> None:
    """Report how many frames at the start of the file are left out as an added T-pose."""
    if work.of_file.first:
        work.note("start", f"{work.of_file.first} frame(s) cut", "the posture jumps there: an added T-pose")


def bridge_glitches(work: Work) -> None:
    """Interpolate short glitches (motion that is too fast for a person), and mark long glitches to be cut out."""
    first = work.of_file.first
    for g in _glitches(work.of_file, work.positions, work.rate):
        what = f"{g.joint} moves {g.speed:.0f} m/s at frame {g.first + first}"
        if g.bridgeable:
            bridge(work.hips, g, spherical=False)
            bridge(work.local, g, spherical=True)
            work.note("glitch", f"{g.stop - g.first} frame(s) bridged", what)
        else:
            work.cuts.append((g.first, g.stop))
            work.note("glitch", "clip cut there", what, True)


def bridge_flickers(work: Work) -> None:
    """Interpolate feet and toes whose rotations flicker, because markers were lost while the foot moved."""
    for c in FEET:
        found = flickers(work.local[:, c], work.rate)
        for a, b in found:
            bridge(work.local[:, c], Glitch(a, b, NAMES[c], 0.0, True), spherical=True)
        if found:
            frames = sum(b - a for a, b in found)
            where = f"{NAMES[c]} flickers, first at frame {found[0][0] + work.of_file.first}"
            work.note("glitch", f"{frames} frame(s) bridged", where)


def cut_t_poses(work: Work) -> None:
    """Leave out frames at the start and at the end of the file in which the person stands still in a T-pose."""
    start, end = t_pose_frames(work.rotations, work.rate) if work.of_file.cut_t_pose else (0, 0)
    for where, count in (("start", start), ("end", end)):
        if count:
            still = f"{count / work.rate:.1f} s of standing still in a T-pose"
            work.note(where, f"{count} frame(s) cut", still)
    work.kept = start, len(work.rotations) - end


def split(work: Work) -> None:
    """Cut the motion into pieces at long glitches, and resample the pieces to the frame rate of the clips."""
    task, frames = work.of_file, len(work.hips)
    ranges = _pieces(frames, work.cuts, *work.kept, max(round(task.shortest_s * work.rate), 2))
    if not ranges:
        raise MmRosError(
            f"{task.path}: its {task.stop - task.first} frames contain only T-poses, glitches, or motion "
            f"shorter than {task.shortest_s:g} s"
        )
    for a, b in ranges:
        at = sample_times(b - a, work.rate, task.new_rate)
        work.begins.append(a)
        work.pieces.append((cubic(work.hips[a:b], at), spherical(work.local[a:b], at)))


def stand_on_floor(work: Work) -> None:
    """Make clips of the pieces, and move them vertically so that the floor is at height 0."""
    task, floor = work.of_file, work.of_file.floor
    if floor is None:
        hips, local = (np.concatenate(parts) for parts in zip(*work.pieces, strict=True))
        floor = floor_of(task.skeleton, hips, local, task.new_rate)
        if abs(floor) > 0.02:
            work.note("floor", f"{floor:+.3f} m", "the height of the toes in stance", abs(floor) > 0.3)
    for i, ((hips, local), first) in enumerate(zip(work.pieces, work.begins, strict=True)):
        name = Path(task.path).stem + (f"_part{i + 1}" if len(work.pieces) > 1 else "")
        work.clips.append(_clip(task, name, hips - np.array([0, 0, floor]), local, first / work.rate))


def correct_proportions(work: Work) -> None:
    """Retarget the clips to the skeleton of the recorded person with corrected proportions."""
    work.clips = [onto_skeleton(clip, work.of_file.fitted) for clip in work.clips]


def add_root(work: Work) -> None:
    settings = RootSettings(smooth=work.of_file.smooth_root)
    work.clips = [with_virtual_root(clip, settings) for clip in work.clips]


def repair_markers(work: Work) -> None:
    """Repair rotations of joints that are wrong because of wrong or lost markers; see markers.py."""
    for i, clip in enumerate(work.clips):
        work.clips[i] = mended(clip)
        frames = int((work.clips[i].rotations != clip.rotations).any(axis=(1, 2)).sum())
        if frames:
            work.note("markers", f"{frames} frame(s) repaired", f"{clip.name}: faster than muscles, or bent backward")


def resample_clips(work: Work) -> None:
    """Resample clips with another frame rate to the frame rate of the database."""
    work.clips = [resample(clip, work.to_database.rate) for clip in work.clips]


def use_database_skeleton(work: Work) -> None:
    work.clips = [onto_skeleton(clip, work.to_database.skeleton) for clip in work.clips]


def pin_feet(work: Work) -> None:
    """Find the contacts of the feet with the floor, and keep the toes in one place during each contact."""
    work.contacts = [contacts_of(clip, work.to_database.contacts) for clip in work.clips]
    if work.to_database.pin_feet:
        work.clips = [plant_feet(clip, touching) for clip, touching in zip(work.clips, work.contacts, strict=True)]


FILE_STEPS = (
    report_start, bridge_glitches, bridge_flickers, cut_t_poses, split, stand_on_floor, correct_proportions, add_root,
)  # fmt: skip
DATABASE_STEPS = (repair_markers, resample_clips, use_database_skeleton, pin_feet)


def _clip(task: Task, name: str, hips: Array, local: Array, begins_s: float) -> Clip:
    positions = np.broadcast_to(task.skeleton.offsets, (len(hips), len(task.skeleton), 3)).astype(np.float64)
    positions[:, 0] = 0
    positions[:, HIPS] = hips
    return Clip(
        name, float(task.new_rate), task.skeleton, positions.astype(np.float32), local.astype(np.float32),
        tags=_tags(task, len(hips), begins_s), subject=task.subject, source=task.path,
    )  # fmt: skip


def _tags(task: Task, frames: int, begins_s: float) -> tuple[tuple[str, int, int], ...]:
    out: list[tuple[str, int, int]] = []
    for given in task.tags:
        if isinstance(given, str):
            out.append((given, 0, frames))
            continue
        name, a, b = given
        first, stop = (round((float(t) - begins_s) * task.new_rate) for t in (a, b))
        if first < frames and stop > 0:
            out.append((str(name), max(first, 0), min(stop, frames)))
    return tuple(dict.fromkeys(out))


def _glitches(task: Task, p: Array, rate: float) -> list[Glitch]:
    have = [c for c in range(HIPS, len(NAMES)) if task.nodes[c] >= 0]
    return glitches(p[:, task.nodes[have]] * task.unit_to_m, [NAMES[c] for c in have], rate)


def _pieces(frames: int, cuts: list[tuple[int, int]], first: int, last: int, shortest: int) -> list[tuple[int, int]]:
    edges = [first, *(x for a, b in sorted(cuts) for x in (a, b)), last]
    pieces = [(max(a, first), min(b, last)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return [(a, b) for a, b in pieces if b - a >= min(shortest, frames)]


def floor_of(skeleton: Skeleton, hips: Array, locals_: Array, rate: float) -> float:
    """Return the height of the floor [m]: the median height of the toes while they stand still, minus their height in
    the rest pose."""
    positions = np.broadcast_to(skeleton.offsets, (len(hips), len(skeleton), 3)).astype(np.float64)
    positions[:, 0] = 0
    positions[:, HIPS] = hips
    p, _ = skeleton.kinematics(positions, locals_)
    toes = p[:, list(TOES)]
    heights = toes[..., 2] - skeleton.rest_positions()[list(TOES), 2]
    slow = np.linalg.norm(central_difference(toes, rate), axis=-1) < 0.15
    lowest = np.percentile(heights, 3)
    standing = heights[slow & (heights < lowest + 0.08)]
    return float(np.median(standing)) if len(standing) >= 5 else float(lowest)
