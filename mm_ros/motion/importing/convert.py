"""Convert one file to canonical clips: cut T-poses and glitches, resample, find the floor, add the virtual root."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HIPS, LEFT_FOOT, LEFT_TOES, NAMES, RIGHT_FOOT, RIGHT_TOES
from mm_ros.maths.signals import cubic, spherical
from mm_ros.motion.bvh.reader import Bvh
from mm_ros.motion.cleaning import RootSettings, sample_times, with_virtual_root
from mm_ros.motion.contacts import TOES, central_difference
from mm_ros.motion.importing.canonical import ActorModel, local_rotations, to_canonical
from mm_ros.motion.importing.defects import Glitch, bridge, flickers, glitches, t_pose_frames
from mm_ros.motion.importing.doctor import Assumption
from mm_ros.motion.importing.file_tags import tags_of_name
from mm_ros.motion.retarget_legs import onto_skeleton

Array = Any
FEET = (LEFT_FOOT, LEFT_TOES, RIGHT_FOOT, RIGHT_TOES)


@dataclass(frozen=True)
class Task:
    """Arguments of one conversion, which runs in a worker process."""

    path: str
    model: ActorModel
    rate: float  # true frame rate, Hz
    first: int
    stop: int
    cut_t_pose: bool
    subject: str
    new_rate: float = 60.0
    floor: float | None = None
    smooth_root: bool = True
    shortest_s: float = 0.5
    tags: tuple[Any, ...] = ()


def subject_of(path: str, actor: int = 0) -> str:
    """Return the subject: '69_01.bvh' → '69', 'walk1_subject2.bvh' → 'subject2', else 'actor<number>'."""
    stem = Path(path).stem
    named = re.search(r"subject[_-]?\w*\d+", stem, re.IGNORECASE)
    if named:
        return named.group(0).lower()
    numbered = re.match(r"(\d{1,4})_\d+", stem)
    return numbered.group(1) if numbered else f"actor{actor + 1}"


def convert(bvh: Bvh, task: Task) -> tuple[list[Clip], list[Assumption]]:
    notes: list[Assumption] = []
    rate = task.rate
    if task.first:
        notes.append(Assumption("start", f"{task.first} frame(s) cut", "the posture jumps there: an added T-pose"))
    p, q = bvh.globals(bvh.motion[task.first : task.stop])
    hips, rotations = to_canonical(task.model, p, q)
    found = _glitches(task.model, p, rate)
    locals_ = local_rotations(task.model.skeleton, rotations)
    cuts = _mend(found, hips, locals_, task.first, notes)
    _calm(locals_, rate, task.first, notes)
    first, last = _t_poses(rotations, rate, task, notes)
    pieces = _pieces(len(hips), cuts, first, last, max(round(task.shortest_s * rate), 2))
    if not pieces:
        raise MmRosError(
            f"{task.path}: its {len(bvh)} frames contain only T-poses, glitches, or motion "
            f"shorter than {task.shortest_s:g} s"
        )
    moved = [
        (cubic(hips[a:b], at), spherical(locals_[a:b], at))
        for a, b in pieces
        for at in [sample_times(b - a, rate, task.new_rate)]
    ]
    floor = task.floor
    if floor is None:
        floor = floor_of(
            task.model, np.concatenate([h for h, _ in moved]), np.concatenate([r for _, r in moved]), task.new_rate
        )
        if abs(floor) > 0.02:
            notes.append(Assumption("floor", f"{floor:+.3f} m", "the height of the toes in stance", abs(floor) > 0.3))
    names = [Path(task.path).stem + (f"_part{i + 1}" if len(pieces) > 1 else "") for i in range(len(pieces))]
    clips = [_clip(task, n, h, r, floor, a / rate) for n, (h, r), (a, _) in zip(names, moved, pieces, strict=True)]
    return clips, notes


def _clip(task: Task, name: str, hips: Array, locals_: Array, floor: float, begins_s: float) -> Clip:
    model = task.model
    positions = np.broadcast_to(model.skeleton.offsets, (len(hips), len(model.skeleton), 3)).astype(np.float64)
    positions[:, 0] = 0
    positions[:, HIPS] = hips - np.array([0, 0, floor])
    clip = Clip(
        name, float(task.new_rate), model.skeleton, positions.astype(np.float32), locals_.astype(np.float32),
        tags=_tags(task, len(hips), begins_s), subject=task.subject, source=task.path,
    )  # fmt: skip
    return with_virtual_root(onto_skeleton(clip, model.fitted), RootSettings(smooth=task.smooth_root))


def _tags(task: Task, frames: int, begins_s: float) -> tuple[tuple[str, int, int], ...]:
    out = [(t, 0, frames) for t in tags_of_name(task.path)]
    for given in task.tags:
        if isinstance(given, str):
            out.append((given, 0, frames))
            continue
        name, a, b = given
        first, stop = (round((float(t) - begins_s) * task.new_rate) for t in (a, b))
        if first < frames and stop > 0:
            out.append((str(name), max(first, 0), min(stop, frames)))
    return tuple(dict.fromkeys(out))


def _glitches(model: ActorModel, p: Array, rate: float) -> list[Glitch]:
    have = [c for c in range(HIPS, len(NAMES)) if model.nodes[c] >= 0]
    return glitches(p[:, model.nodes[have]] * model.unit_to_m, [NAMES[c] for c in have], rate)


def _mend(
    found: list[Glitch], hips: Array, locals_: Array, first: int, notes: list[Assumption]
) -> list[tuple[int, int]]:
    """Bridge short glitches in place, and return the frame ranges of the others, which must be cut."""
    cuts = []
    for g in found:
        what = f"{g.joint} moves {g.speed:.0f} m/s at frame {g.first + first}"
        if g.bridgeable:
            bridge(hips, g, spherical=False)
            bridge(locals_, g, spherical=True)
            notes.append(Assumption("glitch", f"{g.stop - g.first} frame(s) bridged", what))
        else:
            cuts.append((g.first, g.stop))
            notes.append(Assumption("glitch", "clip cut there", what, True))
    return cuts


def _calm(locals_: Array, rate: float, first: int, notes: list[Assumption]) -> None:
    """Bridge flickering feet and toes in place. Markers that are lost in the swing cause the flicker."""
    for c in FEET:
        found = flickers(locals_[:, c], rate)
        for a, b in found:
            bridge(locals_[:, c], Glitch(a, b, NAMES[c], 0.0, True), spherical=True)
        if found:
            frames = sum(b - a for a, b in found)
            where = f"{NAMES[c]} flickers, first at frame {found[0][0] + first}"
            notes.append(Assumption("glitch", f"{frames} frame(s) bridged", where))


def _t_poses(rotations: Array, rate: float, task: Task, notes: list[Assumption]) -> tuple[int, int]:
    if not task.cut_t_pose:
        return 0, len(rotations)
    start, end = t_pose_frames(rotations, rate)
    for where, count in (("start", start), ("end", end)):
        if count:
            notes.append(
                Assumption(where, f"{count} frame(s) cut", f"{count / rate:.1f} s of standing still in a T-pose")
            )
    return start, len(rotations) - end


def _pieces(frames: int, cuts: list[tuple[int, int]], first: int, last: int, shortest: int) -> list[tuple[int, int]]:
    edges = [first, *(x for a, b in sorted(cuts) for x in (a, b)), last]
    pieces = [(max(a, first), min(b, last)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return [(a, b) for a, b in pieces if b - a >= min(shortest, frames)]


def floor_of(model: ActorModel, hips: Array, locals_: Array, rate: float) -> float:
    """Return the height of the floor (m): the median height of toes in stance, minus their height at rest."""
    positions = np.broadcast_to(model.skeleton.offsets, (len(hips), len(model.skeleton), 3)).astype(np.float64)
    positions[:, 0] = 0
    positions[:, HIPS] = hips
    p, _ = model.skeleton.kinematics(positions, locals_)
    toes = p[:, list(TOES)]
    heights = toes[..., 2] - model.skeleton.rest_positions()[list(TOES), 2]
    slow = np.linalg.norm(central_difference(toes, rate), axis=-1) < 0.15
    lowest = np.percentile(heights, 3)
    standing = heights[slow & (heights < lowest + 0.08)]
    return float(np.median(standing)) if len(standing) >= 5 else float(lowest)
