"""Build the motion database from canonical clips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD, HIPS, Skeleton
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import continuous
from mm_ros.motion.bands import bands_of_frames, bands_to_plain, find_bands, smooth_ratios, torso_angles
from mm_ros.motion.cleaning.clips import MIRRORED, mirror, symmetric_skeleton
from mm_ros.motion.cleaning.legs import feet_figures
from mm_ros.motion.cleaning.pipeline import DATABASE_STEPS, Assumption, Fit, Work, run
from mm_ros.motion.contacts import ContactSettings, central_difference, contacts_of
from mm_ros.motion.database import MOST_TAGS, MotionDatabase
from mm_ros.motion.extreme import extreme_frames
from mm_ros.motion.feature_values import Functions, feature_values, normalization
from mm_ros.motion.features import FeatureLayout, default_layout
from mm_ros.motion.kinds import KINDS, kinds_of
from mm_ros.motion.stoop import bent_copies
from mm_ros.search import DEFAULT, make_engine

Array = Any


@dataclass(frozen=True)
class BuildOptions:
    rate: float = 60.0
    mirror: bool = False
    plant_feet: bool = True
    kinds: bool = True  # whether frames get tags for the kind of motion (walk, turn, …)
    stooped: float = 0.25  # maximum duration of bent copies (see stoop.py), as a share of the recorded motion
    contacts: ContactSettings = field(default_factory=ContactSettings)
    # End of each clip that the search does not return [s]; the default is that of the matcher's parameter `end_margin`.
    ends_excluded_s: float = 0.5
    licence: str = ""
    functions: Functions = field(default_factory=dict)  # maps a feature's name to the function that computes it
    progress: Callable[[str, int, int], None] | None = field(default=None, compare=False)
    # A function that is called with a clip and a note, for each note that the cleaning makes about the clip
    remark: Callable[[Clip, Assumption], None] = field(default=lambda clip, note: None, compare=False)


@dataclass
class _Piece:
    clip: Clip
    contacts: Array
    velocities: Array
    angular: Array
    ratio: Array
    torso: Array
    features: Array


def build_database(
    clips: Sequence[Clip], layout: FeatureLayout | None = None, options: BuildOptions | None = None
) -> MotionDatabase:
    """Build a motion database that contains the given clips. Equal clips give equal databases, byte for byte."""
    layout, options = layout or default_layout(), options or BuildOptions()
    if not clips:
        raise MmRosError("build: expected at least one clip")
    report = options.progress or (lambda what, done, of: None)
    skeleton = reference_skeleton([c.skeleton for c in clips], options.mirror)
    pieces, feet = [], []
    for i, clip in enumerate(clips):
        report("building", i, len(clips))
        for whole in [clip, mirror(clip)] if options.mirror else [clip]:
            piece, figures = _piece(whole, skeleton, layout, options)
            pieces.append(piece)
            feet.append(figures)
    recorded = len(pieces)
    heights = [smooth_ratios(p.ratio, options.rate) for p in pieces]
    for copy in bent_copies([p.clip for p in pieces], heights, options.stooped):
        piece = _piece_of(copy, contacts_of(copy, options.contacts), layout, options)
        pieces.append(piece)
        feet.append(feet_figures(copy, piece.contacts))
    report("building", len(clips), len(clips))
    return _assemble(pieces, recorded, feet, skeleton, layout, options)


def reference_skeleton(skeletons: Sequence[Skeleton], symmetric: bool = False) -> Skeleton:
    """Return a skeleton with the median bone lengths of all recorded people, whose rest pose has toes on the floor."""
    distinct = {s.hash: s for s in skeletons}
    counts = sorted({len(s) for s in skeletons})
    if len(counts) > 1:
        raise MmRosError(f"the clips have {counts[0]} and {counts[-1]} joints; import all with fingers or none")
    subjects = [distinct[h] for h in sorted(distinct)]
    if len(subjects) == 1 and not symmetric:
        return subjects[0]
    offsets = np.median([s.offsets for s in subjects], axis=0)
    out = symmetric_skeleton(subjects[0].with_offsets(offsets.astype(np.float32)))
    toes = [out.index("left_toes"), out.index("right_toes")]
    wanted = np.median([s.rest_positions()[toes, 2] for s in subjects])
    offsets = out.offsets.copy()
    offsets[HIPS, 2] += np.float32(wanted - out.rest_positions()[toes, 2].mean())
    return out.with_offsets(offsets)


def _piece(
    clip: Clip, skeleton: Skeleton, layout: FeatureLayout, options: BuildOptions
) -> tuple[_Piece, dict[str, Any]]:
    fit = Fit(skeleton, options.rate, options.contacts, options.plant_feet)
    work = run(DATABASE_STEPS, Work(clip.rate, fit=fit, clips=[clip]))
    if not clip.name.endswith(MIRRORED):  # The notes on a mirrored copy repeat those on its original.
        for note in work.notes:
            options.remark(clip, note)
    clip, touching = work.clips[0], work.contacts[0]
    return _piece_of(clip, touching, layout, options), feet_figures(clip, touching)


def _piece_of(clip: Clip, touching: Array, layout: FeatureLayout, options: BuildOptions) -> _Piece:
    velocities, angular = local_velocities(clip)
    positions, _ = clip.globals()
    ratio = positions[:, HEAD, 2] / clip.skeleton.head_height
    torso = torso_angles(positions)
    features = feature_values(clip, layout, options.functions)
    return _Piece(clip, touching, velocities, angular, ratio, torso, features)


def local_velocities(clip: Clip) -> tuple[Array, Array]:
    """Return the velocities of all joints in the axes of their parents, and of the root in the root's axes."""
    velocities = central_difference(clip.positions, clip.rate)
    q = continuous(clip.rotations.astype(np.float64))
    angular = np.zeros((*q.shape[:-1], 3))
    if len(q) > 1:
        angular[1:-1] = rot.log(rot.multiply(q[2:], rot.inverse(q[:-2]))) * (clip.rate / 2)
        angular[0] = rot.log(rot.multiply(q[1], rot.inverse(q[0]))) * clip.rate
        angular[-1] = rot.log(rot.multiply(q[-1], rot.inverse(q[-2]))) * clip.rate
    back = rot.inverse(q[:, 0])
    velocities[:, 0] = rot.rotate(back, velocities[:, 0])
    angular[:, 0] = rot.rotate(back, angular[:, 0])
    return velocities, angular


def _assemble(
    pieces: list[_Piece], recorded: int, feet: list[dict[str, Any]], skeleton: Skeleton, layout: FeatureLayout,
    options: BuildOptions,
) -> MotionDatabase:  # fmt: skip
    """Join clips to a database; the first `recorded` pieces are recorded clips, all others copies with a bent back."""
    lengths = [len(p.clip) for p in pieces]
    stops = np.cumsum(lengths).astype(np.int32)
    starts = (stops - lengths).astype(np.int32)
    raw = np.concatenate([p.features for p in pieces])
    mean, std = normalization(raw[: sum(lengths[:recorded])], layout)
    features = ((raw - mean) / std).astype(np.float32)
    smooth = [smooth_ratios(p.ratio, options.rate) for p in pieces]
    bands = find_bands(np.concatenate(smooth[:recorded]), made=np.concatenate([np.zeros(0), *smooth[recorded:]]))
    names, tags = _tags(pieces, bands, options)
    excluded = round(options.ends_excluded_s * options.rate)
    index = make_engine(
        DEFAULT, features, starts, stops, tags, ends_excluded_frames=excluded, usual_weights=layout.column_weights()
    ).to_arrays()
    provenance = {
        "bands": bands_to_plain(bands),
        "clips": [{"source": _file_name(p.clip.source), "subject": p.clip.subject} for p in pieces],
        "feet": _feet(feet),
        "licence": options.licence,
        "options": {
            "rate": options.rate, "mirror": options.mirror, "plant_feet": options.plant_feet,
            "stooped": options.stooped,
            "contact_speed": options.contacts.speed, "contact_height": options.contacts.height,
        },
        "copies": {"clips": len(pieces) - recorded, "frames": sum(lengths[recorded:])},
        "search": {"engine": DEFAULT, "ends_excluded_frames": excluded},
    }  # fmt: skip
    return MotionDatabase(
        skeleton=skeleton,
        rate=float(options.rate),
        positions=_joined([p.clip.positions for p in pieces]),
        rotations=_joined([continuous(p.clip.rotations) for p in pieces]),
        velocities=_joined([p.velocities for p in pieces]),
        angular_velocities=_joined([p.angular for p in pieces]),
        contacts=np.concatenate([p.contacts for p in pieces]).astype(np.uint8),
        head_height_ratio=_joined([p.ratio for p in pieces]),
        range_starts=starts,
        range_stops=stops,
        clip_names=tuple(p.clip.name for p in pieces),
        tag_names=names,
        tags=tags,
        layout=layout,
        features=features,
        feature_mean=mean,
        feature_std=std,
        search_arrays={k: np.ascontiguousarray(v) for k, v in index.items()},
        provenance=provenance,
    )


def _joined(parts: list[Array]) -> Array:
    return np.ascontiguousarray(np.concatenate(parts), np.float32)


def _file_name(source: str) -> str:
    return source.replace("\\", "/").rsplit("/", 1)[-1]


def _tags(pieces: list[_Piece], bands: Sequence[Any], options: BuildOptions) -> tuple[tuple[str, ...], Array]:
    kinds_seen: dict[str, None] = {}
    per_piece = []
    for p in pieces:
        own = [*_own_tags(p.clip, options.kinds), *((n, f) for n, f in extreme_frames(p.clip).items() if f.any())]
        kinds_seen.update(dict.fromkeys(n for n, _ in own))
        per_piece.append(own)
    names_all = tuple(sorted(kinds_seen)) + tuple(f"band_{b.name}" for b in bands)
    if len(names_all) > MOST_TAGS:
        raise MmRosError(f"{len(names_all)} different tags; expected at most {MOST_TAGS}: {', '.join(names_all)}")
    bit = {n: np.uint64(1 << i) for i, n in enumerate(names_all)}
    columns = []
    for p, own in zip(pieces, per_piece, strict=True):
        out = np.zeros(len(p.clip), np.uint64)
        for name, flags in own:
            out[flags] |= bit[name]
        index = bands_of_frames(p.ratio, p.torso, options.rate, bands)
        out |= np.array([bit[f"band_{b.name}"] for b in bands], np.uint64)[index]
        columns.append(out)
    return names_all, np.concatenate(columns)


def _own_tags(clip: Clip, kinds: bool) -> list[tuple[str, Array]]:
    """Return the tags of a clip; kinds of motion are detected if the user has not tagged parts of it with kinds."""
    whole = [name for name, first, stop in clip.tags if first == 0 and stop == len(clip)]
    parts = [t for t in clip.tags if t[0] not in whole]
    motion_decides = kinds and not any(name in KINDS for name, _, _ in parts)
    out = []
    for name, first, stop in clip.tags:
        if not (motion_decides and name in KINDS):
            flags = np.zeros(len(clip), np.bool_)
            flags[first:stop] = True
            out.append((name, flags))
    if motion_decides:
        found, names = kinds_of(clip)
        out += [(n, found == k) for k, n in enumerate(names) if (found == k).any()]
    return out


def _feet(feet: list[dict[str, Any]]) -> dict[str, float]:
    drifts = np.array([d for f in feet for d in f["drifts_m"]] or [0.0])
    frames = max(sum(f["frames"] for f in feet), 1)
    return {
        "stances": len(drifts),
        "stance_drift_median_m": round(float(np.median(drifts)), 5),
        "stance_drift_p95_m": round(float(np.percentile(drifts, 95)), 5),
        "skate_ratio": round(sum(f["skating"] for f in feet) / frames, 5),
    }
