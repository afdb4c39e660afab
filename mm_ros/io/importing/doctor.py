"""The import doctor: finds out what files mean, and says what it assumed.

Evidence is pooled over the files of one actor (equal skeleton): a short clip may say nothing about sides or posture.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.core import rotations as rot
from mm_ros.core.errors import MmRosError
from mm_ros.io.bvh import Bvh
from mm_ros.io.importing.canonical import ActorModel, make_model, posed, t_likeness
from mm_ros.io.importing.evidence import AXES, Evidence, mean_rotations, room_from_axis, unit
from mm_ros.io.importing.mapping import JointMap
from mm_ros.io.importing.options import Overrides
from mm_ros.io.importing.rate import judge

Array = Any
T_LIKE_DEG = 38.0

# unit → metres, in the order in which they are believed when two fit
UNITS = (
    ("m", 1.0), ("cm", 0.01), ("inch / 0.45 (CMU)", 0.0254 / 0.45), ("mm", 0.001),
    ("inch", 0.0254), ("dm", 0.1), ("foot", 0.3048),
)  # fmt: skip
LEG_M = (0.70, 1.0)
WIDE_LEG_M = (0.55, 1.15)


@dataclass(frozen=True)
class Assumption:
    what: str  # up, unit, rate, …
    value: str
    why: str
    doubtful: bool = False


@dataclass
class Actor:
    key: str
    joints: JointMap
    model: ActorModel
    assumptions: list[Assumption] = field(default_factory=list)
    header_over_true: float = 1.0  # of the frame rate
    subject: str = ""


def actor_key(bvh: Bvh, subject: str) -> str:
    """Equal for files with the same skeleton of the same subject. A root's own offset may hold its first position."""
    digest = hashlib.blake2b(digest_size=6)
    digest.update(repr((bvh.names, bvh.parents.tolist(), subject)).encode())
    digest.update(np.round(bvh.node_offsets[bvh.node_parents >= 0], 3).tobytes())
    return digest.hexdigest()


def examine(bvh: Bvh, joints: JointMap, evidence: list[Evidence], given: Overrides) -> Actor:
    """One file of the actor for the skeleton, the evidence of all."""
    notes = [
        Assumption(
            "joints", joints.family, f"{len(joints.nodes)} of 22 joints found" + _missing(joints), bool(joints.doubts)
        )
    ]
    axis = _up(evidence, given, notes)
    joints = _sides(joints, evidence, given, notes)
    scale = _unit(bvh, evidence, given, notes)
    local_offsets = np.median([e.local_offsets for e in evidence], axis=0)
    reference, rotations = _reference(bvh, joints, evidence, local_offsets, axis, given, notes)
    drops = [(e.stance_drop, e.stance_frames) for e in evidence if e.stance_frames > 10]
    drop = _weighted_median(drops) * scale if drops else float("nan")
    if reference != "mean posture":
        rotations = _level_head(rotations, joints, evidence, notes)
    model = make_model(bvh, joints, room_from_axis(axis), scale, local_offsets, rotations, reference, drop)
    factor = _rate(bvh, joints, evidence, given, notes)
    return Actor("", joints, model, notes, factor)


def _missing(joints: JointMap) -> str:
    lost = joints.missing()
    return f"; put in: {', '.join(lost)}" if lost else ""


def _weighted_median(pairs: list[tuple[float, int]]) -> float:
    values, weights = (np.array(x, np.float64) for x in zip(*sorted(pairs), strict=True))
    return float(values[np.searchsorted(np.cumsum(weights), weights.sum() / 2)])


def _up(evidence: list[Evidence], given: Overrides, notes: list[Assumption]) -> int:
    votes = np.sum([e.up_votes for e in evidence], axis=0)
    axis = int(np.argmax(votes))
    share = votes[axis] / max(votes.sum(), 1)
    if given.up is not None:
        notes.append(Assumption("up", given.up, "given"))
        return AXES.index(given.up)
    notes.append(
        Assumption(
            "up", AXES[axis], f"the head is above the feet along it in {share:.0%} of the frames", bool(share < 0.8)
        )
    )
    return axis


# Headers that are known to lie, for files without a fall or an even walk: family, subject → header over truth
KNOWN_LIES = {("CMU", "143"): 2.0}


def _known_lie(bvh: Bvh, joints: JointMap) -> float:
    numbered = re.match(r"(\d+)_\d+\.bvh$", Path(bvh.path).name, re.IGNORECASE)
    subject = numbered.group(1) if numbered else ""
    return KNOWN_LIES.get((joints.family.split(" ")[0], subject), 1.0)


def _rate(bvh: Bvh, joints: JointMap, evidence: list[Evidence], given: Overrides, notes: list[Assumption]) -> float:
    if given.rate is not None:
        notes.append(Assumption("rate", f"{given.rate:g} Hz", "given"))
        return 1.0
    known = _known_lie(bvh, joints)
    factor, why, doubtful = judge([e.rhythm for e in evidence], float(np.median([e.rate for e in evidence])))
    if factor == 1 and known != 1 and not any(e.rhythm.falls or e.rhythm.walk_ratios for e in evidence):
        factor, why = known, "this subject is known for it; everything is too fast"
    rates = sorted({e.rate for e in evidence})
    stated = " and ".join(f"{r:g}" for r in rates)
    if factor != 1:
        true = " and ".join(f"{r / factor:g}" for r in rates)
        notes.append(Assumption("rate", f"{true} Hz", f"the header says {stated}, but {why} at that rate", True))
    else:
        notes.append(Assumption("rate", f"{stated} Hz", why, doubtful))
    return factor


def _sides(joints: JointMap, evidence: list[Evidence], given: Overrides, notes: list[Assumption]) -> JointMap:
    weights = np.array([e.side_frames for e in evidence], np.float64)
    score = float(np.average([e.side for e in evidence], weights=weights)) if weights.sum() else 0.0
    swapped = given.swap_left_right if given.swap_left_right is not None else score < 0
    why = (
        "given" if given.swap_left_right is not None else f"toes and knees point ahead of the hips: cosine {score:+.2f}"
    )
    notes.append(
        Assumption("left and right", "swapped" if swapped else "as named", why, bool(swapped or abs(score) < 0.5))
    )
    return swap_sides(joints) if swapped else joints


def swap_sides(joints: JointMap) -> JointMap:
    words = {"left": "right", "right": "left"}
    nodes = {}
    for name, node in joints.nodes.items():
        side, _, rest = name.partition("_")
        nodes[f"{words[side]}_{rest}" if side in words else name] = node
    return JointMap(joints.family, nodes, joints.doubts)


def _unit(bvh: Bvh, evidence: list[Evidence], given: Overrides, notes: list[Assumption]) -> float:
    leg = float(np.median([e.leg for e in evidence]))
    if given.unit_to_m is not None:
        notes.append(
            Assumption("unit", f"{given.unit_to_m:g} m", f"given; the leg is {leg * given.unit_to_m:.2f} m long")
        )
        return given.unit_to_m
    if not leg > 0:
        raise MmRosError(f"{bvh.path}: the legs have no length; expected bones from hip to ankle")
    for low, high in (LEG_M, WIDE_LEG_M):
        for name, metres in UNITS:
            if low <= leg * metres <= high:
                notes.append(
                    Assumption(
                        "unit", f"{name} ({metres:g} m)", f"the leg is then {leg * metres:.2f} m long", low != LEG_M[0]
                    )
                )
                return metres
    metres = 0.85 / leg
    notes.append(Assumption("unit", f"{metres:.4g} m", f"no usual unit fits a leg of {leg:.4g}; taken as 0.85 m", True))
    return metres


def _reference(
    bvh: Bvh,
    joints: JointMap,
    evidence: list[Evidence],
    local_offsets: Array,
    axis: int,
    given: Overrides,
    notes: list[Assumption],
) -> tuple[str, Array]:
    """Name of the reference posture and the nodes' rotations in it, room axes, facing +x."""
    parents = bvh.node_parents
    still = np.tile([1.0, 0, 0, 0], (len(parents), 1))
    worst, turn = t_likeness(posed(local_offsets, parents, still), joints.nodes)
    first_p, first_q = bvh.globals(bvh.motion[:1])
    first_worst, first_turn = t_likeness(first_p[0], joints.nodes)
    wanted = given.reference
    if wanted == "zero pose" or (wanted is None and worst < T_LIKE_DEG):
        notes.append(Assumption("reference", "zero pose", f"the zero pose is a T- or A-pose (worst limb {worst:.0f}°)"))
        return "zero pose", np.broadcast_to(turn, still.shape).copy()
    if wanted == "first frame" or (wanted is None and first_worst < T_LIKE_DEG):
        notes.append(
            Assumption("reference", "first frame", f"the first frame is a T- or A-pose (worst limb {first_worst:.0f}°)")
        )
        return "first frame", rot.multiply(np.broadcast_to(first_turn, first_q[0].shape), first_q[0])
    count = sum(e.upright_frames for e in evidence)
    posture = np.sum([e.posture for e in evidence if e.upright_frames >= 5 or not count], axis=0)
    notes.append(
        Assumption(
            "reference", "mean posture",
            f"neither zero pose ({worst:.0f}°) nor first frame is a T-pose; mean of {count} upright frames",
            count < 30,
        )
    )  # fmt: skip
    mean = mean_rotations(posture)
    return "mean posture", _facing(mean, local_offsets, parents, joints)


def _level_head(g: Array, joints: JointMap, evidence: list[Evidence], notes: list[Assumption]) -> Array:
    """People look ahead on average: a head that nods in the reference by a constant is levelled, in pitch only."""
    head = joints.nodes["head"]
    used = [e for e in evidence if e.upright_frames >= 5]
    count = sum(e.upright_frames for e in used)
    if count < 100:
        return g
    mean = mean_rotations(np.sum([e.posture[head] for e in used], axis=0))
    up = rot.rotate(rot.multiply(mean, rot.inverse(g[head])), np.array([0.0, 0, 1]))
    pitch = float(np.arctan2(up[0], up[2]))
    if abs(pitch) < np.radians(3) or abs(pitch) > np.radians(50):
        return g
    notes.append(Assumption("head", f"levelled by {np.degrees(pitch):+.0f}°", f"mean of {count} upright frames"))
    out = g.copy()
    out[head] = rot.multiply(np.array([np.cos(pitch / 2), 0, np.sin(pitch / 2), 0]), g[head])
    return out


def _facing(g: Array, local_offsets: Array, parents: Array, joints: JointMap) -> Array:
    """Turned so that the line of the hip joints lies along y exactly."""
    p = posed(local_offsets, parents, g)
    left = unit(p[joints.nodes["left_upper_leg"]] - p[joints.nodes["right_upper_leg"]])
    back = rot.from_yaw(-np.arctan2(-left[0], left[1]))
    return rot.multiply(np.broadcast_to(back, g.shape), g)
