"""Estimate the axes, unit, frame rate and reference posture of motion files, and check the names of left and right.

Each estimate has a reason, which the report prints. The evidence of all files of an actor (files with equal skeletons)
is combined, because a short file may not have enough evidence.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.proportions import ADULT_LEG_M, corrected, implausible
from mm_ros.maths import rotations as rot
from mm_ros.motion.bvh.kernels import IN_ROOM
from mm_ros.motion.bvh.reader import Bvh, usual_rates
from mm_ros.motion.cleaning.pipeline import Assumption
from mm_ros.motion.importing.canonical import ActorModel, make_model, posed, t_likeness
from mm_ros.motion.importing.evidence import AXES, Evidence, mean_rotations, on_fours, room_from_axis
from mm_ros.motion.importing.mapping import JointMap
from mm_ros.motion.importing.options import Overrides
from mm_ros.motion.importing.rate import Rhythm, contradiction, judge, misfit

Array = Any
T_LIKE_DEG = 38.0  # maximum angle [°] of each limb from a T-pose in a posture that counts as a T-pose

LEG_M = (0.34, 1.15)  # range of leg lengths (thigh and shin) of people with a height of 0.9 to 2.2 m
USUAL_LEG_M = 0.85  # leg length [m] of an average adult
CLEARLY = 2.0  # the unit of a file is doubtful if the costs of the two best units differ by less than this
# A child may be read as an adult. Therefore a unit in which the person is a child makes the unit doubtful even if it
# costs more, by less than CHILD_MARGIN. For a child of 0.9 m that is read as an adult, the costs differ by at most 2.4
# (5.4 if the joints have CMU's names: CHILD_MARGIN_OF_CMU). For CMU's own files, they differ by at least 6.5.
CHILD_MARGIN, CHILD_MARGIN_OF_CMU = 2.4, 5.7

DOUBTFUL_CHANGE = 0.15  # A correction is doubtful if the body part is outside the range of people by a larger share.
LEVELLED_DEG = 15.0  # the report calls a correction of the head's pitch by more than this doubtful
LEVELLED_MOST_DEG = 50.0  # A larger pitch is not corrected, because it is probably an error of the file.
MOSTLY = 0.6  # An animal's skeleton is assumed if the body is on hands and feet in more than this share of frames.


class Unit(NamedTuple):
    name: str
    metres: float
    cost: float  # cost of the unit, which is larger for units that are rare in motion files


CMU_UNIT = "inch / 0.45 (CMU)"
# Units of length that motion files may use
UNITS = (
    Unit("m", 1.0, 0.0), Unit("cm", 0.01, 0.0), Unit(CMU_UNIT, 0.0254 / 0.45, 4.0), Unit("mm", 0.001, 1.0),
    Unit("inch", 0.0254, 2.5), Unit("dm", 0.1, 4.5), Unit("foot", 0.3048, 3.0),
)  # fmt: skip


@dataclass
class Actor:
    key: str
    joints: JointMap
    model: ActorModel
    assumptions: list[Assumption] = field(default_factory=list)
    header_over_true: float = 1.0  # frame rate in the header divided by the true frame rate
    subject: str = ""


def actor_key(bvh: Bvh, subject: str) -> str:
    """Return a hash of the skeleton and the name of the recorded person, which is equal for all files of an actor.

    The hash does not include the offsets of root joints, which are the first position of the motion in some files.
    """
    digest = hashlib.blake2b(digest_size=6)
    digest.update(repr((bvh.names, bvh.parents.tolist(), subject)).encode(errors="surrogatepass"))
    digest.update(np.round(bvh.node_offsets[bvh.node_parents >= 0], 3).tobytes())
    return digest.hexdigest()


def examine(bvh: Bvh, joints: JointMap, evidence: list[Evidence], given: Overrides) -> Actor:
    """Estimate the properties of a recorded person from the skeleton in one file and the evidence from all files."""
    notes = [
        Assumption(
            "joints", joints.family, f"{len(joints.nodes)} of 22 joints found" + _missing(joints), bool(joints.doubts)
        )
    ]
    in_room = [bvh.names[j] for j in np.flatnonzero(bvh.position_meanings == IN_ROOM)]
    if in_room:
        why = "they are far longer than the bones, but close to the parent joints in room axes"
        notes.append(Assumption("positions", f"of {', '.join(in_room)} in room axes", why, True))
    axis = _up(evidence, given, notes)
    joints = _sides(joints, evidence, given, notes)
    scale = _unit(bvh, joints, evidence, given, notes)
    _species(bvh, joints, evidence, given, notes)
    local_offsets = np.median([e.local_offsets for e in evidence], axis=0)
    reference, rotations = _reference(bvh, joints, evidence, local_offsets, axis, given, notes)
    drops = [(e.stance_drop, e.stance_frames) for e in evidence if e.stance_frames > 10]
    drop = _weighted_median(drops) * scale if drops else float("nan")
    if reference != "mean posture":
        rotations = _level_head(rotations, joints, evidence, notes)
    model = make_model(bvh, joints, room_from_axis(axis), scale, local_offsets, rotations, reference, drop)
    factor = _rate(bvh, joints, evidence, given, notes, model.skeleton.leg_length)
    model = _proportions(model, given, notes)
    return Actor("", joints, model, notes, factor)


def _missing(joints: JointMap) -> str:
    lost = joints.missing()
    return f"; added: {', '.join(lost)}" if lost else ""


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
            "up", AXES[axis], f"the head is above the feet along this axis in {share:.0%} of frames", bool(share < 0.8)
        )
    )
    return axis


# Frame rate in the header divided by the true frame rate, for files whose header is known to be wrong. The keys are the
# family of the skeleton and the number of the recorded person.
KNOWN_FACTORS = {("CMU", "143"): 2.0}


def _known_factor(bvh: Bvh, joints: JointMap) -> float:
    numbered = re.match(r"(\d+)_\d+\.bvh$", Path(bvh.path).name, re.IGNORECASE)
    subject = numbered.group(1) if numbered else ""
    return KNOWN_FACTORS.get((joints.family.split(" ")[0], subject), 1.0)


def _rate(
    bvh: Bvh, joints: JointMap, evidence: list[Evidence], given: Overrides, notes: list[Assumption], leg: float
) -> float:
    if given.rate is not None:
        notes.append(Assumption("rate", f"{given.rate:g} Hz", "given"))
        return 1.0
    known = _known_factor(bvh, joints)
    rhythms = [e.rhythm for e in evidence]
    size = 1.0 if ADULT_LEG_M[0] <= leg <= ADULT_LEG_M[1] else leg / USUAL_LEG_M
    factor, why, doubtful = judge(rhythms, float(np.median([e.rate for e in evidence])), size)
    if factor == 1 and known != 1 and not any(e.rhythm.falls or e.rhythm.walk_ratios for e in evidence):
        factor, why = known, "the headers of this subject are known to be wrong and all motion is too fast"
    rates = sorted({e.rate for e in evidence})
    stated = " and ".join(f"{r:g}" for r in rates)
    if factor != 1:
        true = " and ".join(f"{r / factor:g}" for r in rates)
        notes.append(Assumption("rate", f"{true} Hz", f"the header states {stated} Hz, but {why} at that rate", True))
    else:
        better = contradiction(rhythms, rates[0], _others(bvh, rates), size)
        if better is not None:
            why, doubtful = f"'{bvh.frame_time_text}' may also mean {better:g} Hz, which fits better: {why}", True
        notes.append(Assumption("rate", f"{stated} Hz", why, doubtful))
    return factor


def _others(bvh: Bvh, rates: list[float]) -> list[float]:
    return [r for r in usual_rates(bvh.frame_time, bvh.frame_time_text) if r != rates[0]] if len(rates) == 1 else []


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
    return replace(joints, nodes=nodes)


def _unit(bvh: Bvh, joints: JointMap, evidence: list[Evidence], given: Overrides, notes: list[Assumption]) -> float:
    leg = float(np.median([e.leg for e in evidence]))
    if given.unit_to_m is not None:
        notes.append(
            Assumption("unit", f"{given.unit_to_m:g} m", f"given; the leg is {leg * given.unit_to_m:.2f} m long")
        )
        return given.unit_to_m
    if not (leg > 0 and np.isfinite(leg)):
        raise MmRosError(f"{bvh.path}: the legs have length 0; expected bones from hip to ankle")
    trunk = float(np.median([e.trunk for e in evidence])) / leg
    rhythms = [e.rhythm for e in evidence]
    fitting = sorted(
        (_unit_cost(u, leg * u.metres, trunk, joints.family, rhythms), u)
        for u in UNITS
        if LEG_M[0] <= leg * u.metres <= LEG_M[1]
    )
    if not fitting:
        metres = USUAL_LEG_M / leg
        why = f"no common unit fits a leg of {leg:.4g}; assumed a leg of {USUAL_LEG_M:g} m"
        notes.append(Assumption("unit", f"{metres:.4g} m", why, True))
        return metres
    cost, best = fitting[0]
    margin = CHILD_MARGIN_OF_CMU if best.name == CMU_UNIT and joints.family.startswith("CMU") else CHILD_MARGIN
    others = [
        u for c, u in fitting[1:] if c < cost + (margin if leg * u.metres < ADULT_LEG_M[0] else CLEARLY)
    ]
    length = leg * best.metres
    why = f"the leg is {length:.2f} m long in this unit"
    for u in others:
        why += f"; with {u.name} it would be {leg * u.metres:.2f} m"
    unusual = not ADULT_LEG_M[0] <= length <= ADULT_LEG_M[1]
    notes.append(Assumption("unit", f"{best.name} ({best.metres:g} m)", why, unusual or bool(others)))
    return best.metres


def _unit_cost(u: Unit, leg: float, trunk: float, family: str, rhythms: list[Rhythm]) -> float:
    """Return the cost of a unit of length, which is large if legs, trunk, falls or walks are unusual in this unit."""
    cost = 0.0 if u.name == CMU_UNIT and family.startswith("CMU") else u.cost
    if leg < ADULT_LEG_M[0]:
        cost += 1 + 3 * math.log(ADULT_LEG_M[0] / leg)
    elif leg > ADULT_LEG_M[1]:
        cost += 1 + 15 * math.log(leg / ADULT_LEG_M[1])
    if trunk > 0:
        # The ratio of trunk to leg is larger in children: it is 1.0 for legs of 0.4 m and 0.79 for legs of 0.8 m.
        cost += math.log(trunk / (0.78 * (0.82 / leg) ** 0.35)) ** 2 / (2 * 0.25**2)
    factors = np.array([0.5, 1.0, 2.0])
    return cost + float((misfit(rhythms, factors, leg / USUAL_LEG_M) + np.array([2.5, 0.0, 2.5])).min())


def _species(bvh: Bvh, joints: JointMap, evidence: list[Evidence], given: Overrides, notes: list[Assumption]) -> None:
    """Refuse skeletons of four-legged animals, whose joints often have the same names as those of people."""
    share = float(np.average([e.on_fours for e in evidence], weights=[e.frames for e in evidence]))
    ratio = float(np.median([e.arm for e in evidence]) / max(np.median([e.leg for e in evidence]), 1e-12))
    words = animal_words(bvh.names)
    signs = [f"on all fours in {share:.0%} of the frames"] if share > MOSTLY / 2 else []
    if ratio > 0.85:
        signs.append(f"arms {ratio:.2f} times as long as the legs")
    if words:
        signs.append(f"joints {', '.join(words[:5])}")
    standing = bool(on_fours(bvh.zero_pose()[None], joints.nodes)[0])
    if share > MOSTLY and (ratio > 0.85 or words or standing) and not given.joints:
        raise MmRosError(
            f"{bvh.path}: this skeleton is a four-legged animal ({'; '.join(signs)}). Only people can be "
            "imported. A joint map (--map) overrides this check"
        )
    if signs:
        notes.append(Assumption("species", "a person", "; ".join(signs) + "; it may be an animal", True, True))


_ANIMAL = r"tail|paw|hoof|hooves|fetlock|pastern|hock|stifle|withers|croup|snout|muzzle|wing|claw"


def animal_words(names: Sequence[str]) -> list[str]:
    """Return the joint names that contain a word for a part of an animal, such as 'tail' (but not 'ponytail')."""
    apart = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", n).lower() for n in names]
    return [n for n, low in zip(names, apart, strict=True) if re.search(rf"(?<![a-z])(?:{_ANIMAL})s?(?![a-z])", low)]


def _proportions(model: ActorModel, given: Overrides, notes: list[Assumption]) -> ActorModel:
    for value, why in implausible(model.skeleton):
        notes.append(Assumption("proportions", f"{value:.2f}", why, True, True))
    skeleton, changes = (model.skeleton, []) if given.keep_proportions else corrected(model.skeleton)
    notes += [Assumption("proportions", "corrected", c.why, c.outside > DOUBTFUL_CHANGE) for c in changes]
    return replace(model, fitted=skeleton)


def _reference(
    bvh: Bvh,
    joints: JointMap,
    evidence: list[Evidence],
    local_offsets: Array,
    axis: int,
    given: Overrides,
    notes: list[Assumption],
) -> tuple[str, Array]:
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
            f"neither the zero pose ({worst:.0f}°) nor the first frame is a T-pose; mean of {count} upright frames",
            count < 30,
        )
    )  # fmt: skip
    mean = mean_rotations(posture)
    return "mean posture", _facing(mean, local_offsets, parents, joints)


def _level_head(g: Array, joints: JointMap, evidence: list[Evidence], notes: list[Assumption]) -> Array:
    """Correct the pitch of the head so that its mean over upright frames is 0, because people usually look ahead."""
    head = joints.nodes["head"]
    used = [e for e in evidence if e.upright_frames >= 5]
    count = sum(e.upright_frames for e in used)
    if count < 100:
        return g
    mean = mean_rotations(np.sum([e.posture[head] for e in used], axis=0))
    up = rot.rotate(rot.multiply(mean, rot.inverse(g[head])), np.array([0.0, 0, 1]))
    pitch = float(np.arctan2(up[0], up[2]))
    if abs(pitch) < np.radians(3):
        return g
    degrees = float(np.degrees(pitch))
    why = f"mean of {count} upright frames"
    if abs(degrees) > LEVELLED_MOST_DEG:
        why += f"; only up to {LEVELLED_MOST_DEG:g}° is levelled"
        notes.append(Assumption("head", f"pitched by {degrees:+.0f}°, not levelled", why, True))
        return g
    notes.append(Assumption("head", f"levelled by {degrees:+.0f}°", why, abs(degrees) > LEVELLED_DEG))
    out = g.copy()
    out[head] = rot.multiply(np.array([np.cos(pitch / 2), 0, np.sin(pitch / 2), 0]), g[head])
    return out


def _facing(g: Array, local_offsets: Array, parents: Array, joints: JointMap) -> Array:
    p = posed(local_offsets, parents, g)
    left = rot.unit(p[joints.nodes["left_upper_leg"]] - p[joints.nodes["right_upper_leg"]])
    back = rot.from_yaw(-np.arctan2(-left[0], left[1]))
    return rot.multiply(np.broadcast_to(back, g.shape), g)
