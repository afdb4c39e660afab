"""Find the role of each joint of a humanoid robot from geometry, supplemented by the words in the names of the joints.

The rules for the roles use origins, axes and limits of the joints at zero joint angles. The class `Tree` finds chains
of joints, and pairs of chains that are mirror images of each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import NAMES
from mm_ros.body.types import F64
from mm_ros.robot.model import Robot
from mm_ros.robot.names import vote
from mm_ros.robot.tree import Pair, Tree

LATERAL_AXIS = 0.8  # minimum cosine between the axis of a knee joint and the lateral axis of the robot
ALONG = 0.9  # A joint twists its limb if the cosine between its axis and the limb is at least this.
CLEARLY_BETTER = 2.0  # A joint with this many times the score of the joint that is named knee or elbow replaces it.
NO_END = 0.3  # factor on the score (as knee or elbow) of the last joint of a limb, if nothing follows this joint
TOES_AHEAD = 0.12  # A joint that is ahead of the ankle by more than this share of the leg length is a toe joint.
CLAVICLE = 0.12  # A clavicle joint's axis is at least this share of the upper arm's length from the shoulder.
PLACEHOLDER_RAD = 6.0  # If the limits of a joint are this far apart, they do not show in which direction it flexes.
LIMITS_DIFFER_RAD = 0.35  # A warning is shown if the limits of a left and a right joint differ by more than this.
# Confidence of a joint's role if name and geometry agree, if the name states no role, and if name and geometry differ.
AGREED, SILENT, DISPUTED = 1.0, 0.8, 0.5
# Weights of the facts that show where the robot's front is: joint names, knees, elbows, feet, toes, and the x axis.
FACING_NAMES, FACING_KNEE, FACING_ELBOW, FACING_FOOT, FACING_TOES, FACING_X = 4.0, 2.0, 1.0, 1.0, 2.0, 0.5

LEG, ARM = ("upper_leg", "lower_leg", "foot", "toes"), ("shoulder", "upper_arm", "lower_arm", "hand")
WAIST, NECK = "upper_chest", "head"  # joints of the avatar that waist and neck joints of a robot follow
SAME_PART = {"neck": "head", "spine": "upper_chest", "chest": "upper_chest"}


class NotHumanoidError(MmRosError):
    """Error for a readable robot file whose robot does not have the limbs of a humanoid."""


@dataclass(frozen=True)
class Roles:
    """Roles of the joints of a robot: which joint of the avatar each joint follows. `chains` maps each canonical joint
    to the robot's joints that follow it, from the base outward; waist joints follow `upper_chest`, neck joints `head`.
    `confidence` holds the certainty of each joint's role from 0 to 1. `unmapped` maps each joint without a role to the
    reason. `facing` is the yaw of the robot's front in the axes of its base [rad]. `pelvis`, `chest` and `head` are
    names of links; `head` is "" if the robot has no head. `missing` lists the limbs that the robot does not have."""

    chains: dict[str, tuple[str, ...]]
    confidence: dict[str, float]
    unmapped: dict[str, str]
    facing: float
    pelvis: str
    chest: str
    head: str
    missing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def joints(self) -> tuple[str, ...]:
        return tuple(j for chain in self.chains.values() for j in chain)

    def has(self, side: str, limb: str) -> bool:
        return f"{side} {limb}" not in self.missing


@dataclass
class _Finder:
    tree: Tree
    chains: dict[str, tuple[str, ...]] = field(default_factory=dict)
    confidence: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def find_roles(robot: Robot) -> Roles:
    """Find out which joint of the avatar each of the robot's joints follows. Raise NotHumanoidError with the reason if
    the robot does not have the limbs of a humanoid."""
    tree = Tree(robot)
    if not tree.points:
        raise NotHumanoidError(f"robot '{robot.name}' is not a humanoid: it has no joint that turns")
    legs, arms = _legs_and_arms(tree)
    if legs is not None and arms is not None and legs.lateral @ arms.lateral < 0:
        arms = replace(arms, first=arms.second, second=arms.first, lateral=-arms.lateral, middle=-arms.middle)
    f = _Finder(tree)
    leg = _bends(f, legs, True) if legs else None
    arm = _bends(f, arms, False) if arms else None
    forward, swapped = _facing(f, legs, leg, arms, arm)
    for pair, bend, is_leg in ((legs, leg, True), (arms, arm, False)):
        if pair is None or bend is None:
            continue
        sides = (pair.second, pair.first) if swapped else (pair.first, pair.second)
        for side, chain in zip(("left", "right"), sides, strict=True):
            _assign(f, side, chain, bend, is_leg, forward)
    pelvis, chest = _waist(f, legs, arms)
    head = _neck(f, arms, chest)
    _check_mirror(f, forward)
    used = {j for chain in f.chains.values() for j in chain}
    unmapped = {
        j: tree.dropped.get(j, "no role was found") for j in (*tree.dropped, *tree.points) if j not in used
    }
    yaw = math.atan2(forward[1], forward[0])
    return Roles(
        {n: f.chains[n] for n in NAMES if f.chains.get(n)}, f.confidence, unmapped, yaw, _link(tree, pelvis),
        _link(tree, chest), _link(tree, head) if head is not None else "", missing_limbs(f.chains), tuple(f.warnings),
    )  # fmt: skip


def missing_limbs(chains: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names of the limbs in which no knee or elbow, or no hip or shoulder joint, was found."""
    return tuple(
        f"{side} {limb}"
        for limb in ("leg", "arm")
        for side in ("left", "right")
        if not (chains.get(f"{side}_lower_{limb}") and chains.get(f"{side}_upper_{limb}"))
    )


def _link(tree: Tree, group: int) -> str:
    return tree.members[group][0]


def _legs_and_arms(tree: Tree) -> tuple[Pair | None, Pair | None]:
    pairs = tree.pairs()
    name = tree.robot.name
    if not pairs:
        raise NotHumanoidError(f"robot '{name}' is not a humanoid: no two limbs of it mirror each other")
    low = min(pairs, key=lambda p: _end_height(tree, p))
    others = [p for p in pairs if not _shares(p, low)]
    size = tree.reach(low.first[0])
    feet = [p for p in others if _end_height(tree, p) - _end_height(tree, low) < 0.15 * size]
    beside = [p for p in feet if abs(_start_height(tree, p) - _start_height(tree, low)) < 0.3 * size]
    if beside and not {_limb_words(tree, p) for p in beside} & {"arm"}:
        raise NotHumanoidError(f"robot '{name}' is not a humanoid: it stands on {2 * len(beside) + 2} legs")
    if not others:
        return (low, None) if _is_leg(tree, low) else (None, low)
    arms = max(others, key=lambda p: (_limb_words(tree, p) == "arm", _start_height(tree, p)))
    if _limb_words(tree, low) == "arm" and _limb_words(tree, arms) != "leg":
        return None, low  # The names say that the lowest limbs are arms, so a pair above is not arms, but e.g. eyes.
    if _start_height(tree, arms) < _start_height(tree, low):
        return (low, None) if _is_leg(tree, low) else (None, low)
    return low, arms


def _shares(a: Pair, b: Pair) -> bool:
    return bool({*a.first, *a.second} & {*b.first, *b.second})


def _end_height(tree: Tree, pair: Pair) -> float:
    return min(float(tree.end_of(c)[2]) for c in (pair.first, pair.second))


def _start_height(tree: Tree, pair: Pair) -> float:
    return float(tree.points[pair.first[0]][2])


def _limb_words(tree: Tree, pair: Pair) -> str:
    votes = [v for j in (*pair.first, *pair.second) if (v := vote(j).limb)]
    return max(sorted(set(votes)), key=votes.count) if votes else ""


def _is_leg(tree: Tree, pair: Pair) -> bool:
    """Return whether the only pair of limbs of a robot is its legs, first by the joint names. If the joint names do not
    state the kind of limb, the pair is legs unless parts of the robot rise between the limbs, a limb has twist joints,
    or the limbs flex forward."""
    words = _limb_words(tree, pair)
    if words:
        return words == "leg"
    start = _start_height(tree, pair)
    rising = [j for j in tree.below[pair.group] if j not in (pair.first[0], pair.second[0])]
    if any(max(float(p[2]) for p in tree.tips[tree.child_group(j)]) > start for j in rising):
        return False
    bend = _bends(_Finder(tree), pair, False)
    if bend is None:
        return True
    # If joints beyond the knee or elbow twist the limb, the limb is an arm. Knees bend a leg backward (−x).
    if any(_twists(tree, pair.first, bend, j) for j in pair.first[bend + 1 :]):
        return False
    return float(_flexion(tree, pair.first, bend)[0]) <= 0


def meeting_point(points: Sequence[F64], axes: Sequence[F64]) -> F64:
    """Return the point that is nearest to all joint axes and, if the axes are parallel, also nearest to `points`."""
    a, b = np.zeros((3, 3)), np.zeros(3)
    for p, axis in zip(points, axes, strict=True):
        m = np.eye(3) - np.outer(axis, axis) + 0.01 * np.eye(3)
        a, b = a + m, b + m @ p
    return np.asarray(np.linalg.solve(a, b))


def _near(tree: Tree, chain: Sequence[str]) -> F64:
    return meeting_point([tree.points[j] for j in chain], [tree.axes[j] for j in chain])


def _distance(tree: Tree, joint: str, point: F64) -> float:
    way = point - tree.points[joint]
    return float(np.linalg.norm(way - (way @ tree.axes[joint]) * tree.axes[joint]))


def _bends(f: _Finder, pair: Pair, is_leg: bool) -> int | None:
    """Return the index of the knee or elbow in the chain of joints of a limb, which is the same for left and right."""
    tree, n = f.tree, min(len(pair.first), len(pair.second))
    scores = np.zeros(n)
    for chain in (pair.first, pair.second):
        far = tree.end_of(chain)
        unknown = float(np.linalg.norm(far - tree.points[chain[-1]])) < 1e-6
        for k in range(1, n):
            near = _near(tree, chain[max(0, k - 3) : k] if is_leg else chain[: min(3, k)])
            score, beyond = _distance(tree, chain[k], near), _distance(tree, chain[k], far)
            score = NO_END * score if unknown and k == len(chain) - 1 else min(score, beyond)
            if is_leg and abs(tree.axes[chain[k]] @ pair.lateral) < LATERAL_AXIS:
                score *= 0.01
            scores[k] += score / 2
    if scores.max() < 1e-3:
        return None
    best = int(scores.argmax())
    part = "lower_leg" if is_leg else "lower_arm"
    named = [k for k in range(1, n) if all(vote(c[k]).part == part for c in (pair.first, pair.second))]
    if not named or best in named:
        return best
    chosen = max(named, key=lambda k: scores[k])
    word, a, b = ("knee" if is_leg else "elbow"), pair.first[chosen], pair.first[best]
    if scores[best] > CLEARLY_BETTER * scores[chosen]:
        f.warn(f"{word}: names state '{a}', geometry '{b}'; geometry was used")
        return best
    f.warn(f"{word}: geometry prefers '{b}', names state '{a}'; the name was used")
    return chosen


def _facing(
    f: _Finder, legs: Pair | None, leg: int | None, arms: Pair | None, arm: int | None
) -> tuple[F64, bool]:
    """Return a unit vector to the robot's front, and whether the first chain of each pair is the right limb."""
    tree, pair = f.tree, legs or arms
    assert pair is not None
    front = np.array([pair.lateral[1], -pair.lateral[0], 0.0])  # If `lateral` points left, `front` points forward.
    votes: dict[str, float] = {"+x": FACING_X * float(np.sign(round(front[0], 3)))}
    names = 0.0
    for p in (legs, arms):
        for sign, chain in () if p is None else ((1, p.first), (-1, p.second)):
            for j in chain:
                names += sign * {"left": 1, "right": -1}.get(vote(j).side, 0)
    if names:
        votes["names"] = FACING_NAMES * float(np.sign(names))
    for word, p, k, weight in (("knees", legs, leg, -FACING_KNEE), ("elbows", arms, arm, FACING_ELBOW)):
        if p is not None and k is not None:
            flexed = [_flexion(tree, c, k) @ front for c in (p.first, p.second)]
            if min(np.abs(flexed)) > 0.3 and np.ptp(np.sign(flexed)) == 0:
                votes[word] = weight * float(np.sign(flexed[0]))
    if legs is not None and leg is not None:
        ahead = np.mean([_foot_ahead(tree, c, leg) @ front for c in (legs.first, legs.second)])
        if abs(ahead) > 0.02:
            votes["feet"] = FACING_FOOT * float(np.sign(ahead))
        toes = [tree.points[c[-1]] - tree.points[c[leg + 1]] for c in (legs.first, legs.second) if len(c) > leg + 2]
        length = float(np.linalg.norm(tree.points[legs.first[-1]] - tree.points[legs.first[0]]))
        if toes and abs(np.mean(toes, axis=0) @ front) > TOES_AHEAD * length:
            votes["toes"] = FACING_TOES * float(np.sign(np.mean(toes, axis=0) @ front))
    total = sum(votes.values())
    against = [word for word, v in votes.items() if v * total < 0 and word != "+x"]
    if against:
        f.warn(f"facing: {' and '.join(against)} would turn the robot round; {_list(votes, total)} decided")
    return (front, False) if total >= 0 else (-front, True)


def _list(votes: dict[str, float], total: float) -> str:
    return ", ".join(word for word, v in votes.items() if v * total > 0)


def _flexion(tree: Tree, chain: tuple[str, ...], k: int) -> F64:
    """Return the direction in which the end of the limb moves when joint k turns from zero toward the middle of its
    limits. Very wide or nearly symmetric limits do not show a direction of flexion, so zeros are returned for them."""
    j = tree.robot.joint(chain[k])
    if j.upper - j.lower > PLACEHOLDER_RAD or abs(j.lower + j.upper) < 0.2 * (j.upper - j.lower):
        return np.zeros(3)
    end = tree.points[chain[k + 1]] if k + 1 < len(chain) else tree.end_of(chain)
    moved = np.cross(tree.axes[chain[k]], end - tree.points[chain[k]]) * np.sign(j.lower + j.upper)
    return np.asarray(moved / max(float(np.linalg.norm(moved)), 1e-9))


def _foot_ahead(tree: Tree, chain: tuple[str, ...], knee: int) -> F64:
    ankle = tree.points[chain[min(knee + 1, len(chain) - 1)]]
    length = float(np.linalg.norm(tree.points[chain[0]] - ankle))
    return np.asarray((np.mean(tree.tips[tree.child_group(chain[-1])], axis=0) - ankle) / max(length, 1e-3))


def _assign(f: _Finder, side: str, chain: tuple[str, ...], bend: int, is_leg: bool, forward: F64) -> None:
    tree = f.tree
    parts: dict[str, list[str]] = {p: [] for p in (LEG if is_leg else ARM)}
    before, after = chain[:bend], chain[bend + 1 :]
    if is_leg:
        parts["upper_leg"] += before
        parts["lower_leg"].append(chain[bend])
        length = float(np.linalg.norm(tree.points[chain[0]] - tree.points[after[0] if after else chain[-1]]))
        for i, j in enumerate(after):
            ahead = (tree.points[j] - tree.points[after[0]]) @ forward
            toes = i > 0 and ahead > TOES_AHEAD * length and abs(tree.axes[j] @ forward) < 1 - LATERAL_AXIS
            parts["toes" if toes else "foot"].append(j)
    else:
        clavicle = _clavicle(tree, before, chain[bend])
        parts["shoulder"] += before[:clavicle]
        parts["upper_arm"] += before[clavicle:]
        parts["lower_arm"].append(chain[bend])
        for j in after:
            end = tree.end_of(chain)
            way = end - tree.points[chain[bend]]
            twist = abs(tree.axes[j] @ way) > ALONG * float(np.linalg.norm(way)) and not parts["hand"]
            parts["lower_arm" if twist and vote(j).part != "hand" else "hand"].append(j)
    for part, joints in parts.items():
        if joints:
            f.chains[f"{side}_{part}"] = tuple(joints)
        for j in joints:
            _compare(f, j, side, part, _twists(tree, chain, bend, j))


def _twists(tree: Tree, chain: tuple[str, ...], bend: int, joint: str) -> bool:
    """Return whether a joint twists its limb, that is, turns about the long axis of the limb. The name of a joint that
    twists a limb may state the part before or after the joint."""
    i = chain.index(joint)
    a, b = (tree.points[chain[0]], tree.points[chain[bend]]) if i < bend else (
        tree.points[chain[bend]], tree.end_of(chain)
    )  # fmt: skip
    way = b - a
    return abs(float(tree.axes[joint] @ way)) > 0.8 * float(np.linalg.norm(way))


def _clavicle(tree: Tree, before: tuple[str, ...], elbow: str) -> int:
    """Return the number of clavicle joints (between trunk and shoulder) in a robot's arm. A clavicle joint's axis is
    far from the point where the axes of the last three joints before the elbow meet."""
    if len(before) < 3:
        return 0
    count, centre = 0, _near(tree, before[-3:])
    upper_arm = float(np.linalg.norm(tree.points[elbow] - centre))
    for j in before[: len(before) - 2]:
        named = vote(j).part == "shoulder"
        far = len(before) > 3 and _distance(tree, j, centre) > CLAVICLE * upper_arm
        if not (named or far):
            break
        count += 1
    return count


def _compare(f: _Finder, joint: str, side: str, part: str, twists: bool) -> None:
    v = vote(joint)
    if v.side and side and v.side != side:
        f.warn(f"'{joint}' is on the {side} side by geometry and on the {v.side} by its name")
        f.confidence[joint] = DISPUTED
        return
    limb = {"leg": LEG, "arm": ARM}.get(v.limb, ())
    stated = SAME_PART.get(v.part, v.part)
    agrees = not stated or stated == part or twists or {stated, part} == {"shoulder", "upper_arm"}
    if v.limb and part not in limb:
        agrees = False
    if not agrees:
        f.warn(f"'{joint}' is {_word(part)} by geometry and {_word(stated or v.limb)} by its name")
    f.confidence[joint] = (AGREED if stated or v.limb else SILENT) if agrees else DISPUTED


WORDS = {
    "upper_leg": "hip", "lower_leg": "knee", "foot": "ankle", "toes": "toes", "shoulder": "clavicle",
    "upper_arm": "shoulder", "lower_arm": "elbow", "hand": "wrist", "upper_chest": "waist", "head": "neck",
}  # fmt: skip


def _word(part: str) -> str:
    return WORDS.get(part, part)


def _waist(f: _Finder, legs: Pair | None, arms: Pair | None) -> tuple[int, int]:
    """Find pelvis and chest, and make the joints between them the waist; return the groups of links of pelvis and
    chest."""
    pair = legs or arms
    assert pair is not None
    if legs is None or arms is None:
        if legs is None:  # In a robot without legs, the joints between base and torso are the waist.
            path, groups = f.tree.path(0, pair.group)
            _add(f, WAIST, [j for j in path if f.tree.robot.joint(j).mimic is None])
            return groups[0], pair.group
        return pair.group, pair.group
    path, _ = f.tree.path(legs.group, arms.group)
    _add(f, WAIST, path)
    return legs.group, arms.group


def _add(f: _Finder, part: str, joints: Sequence[str]) -> None:
    if joints:
        f.chains[part] = tuple(joints)
    for j in joints:
        _compare(f, j, "", part, False)


def _neck(f: _Finder, arms: Pair | None, chest: int) -> int | None:
    """Find the neck, which is the central chain of joints on the chest that rises above the shoulders, and return the
    group of links of the head."""
    tree = f.tree
    used = {j for chain in f.chains.values() for j in chain}
    height = _start_height(tree, arms) if arms is not None else max(float(p[2]) for p in tree.tips[chest])
    best: tuple[float, tuple[str, ...]] | None = None
    for j in tree.below[chest]:
        if j in used or (arms is not None and j in (arms.first[0], arms.second[0])):
            continue
        chain = tree.chain(j)
        end = tree.end_of(chain)
        named = vote(j).part in ("neck", "head")
        if arms is not None and not named:
            lateral = abs(tree.points[j] @ arms.lateral - arms.middle)
            if lateral > 0.05 * tree.reach(arms.first[0]):
                continue
        rank = float(max(end[2], tree.points[chain[-1]][2])) + (10.0 if named else 0.0)
        if (rank > height or named) and (best is None or rank > best[0]):
            best = rank, chain
    if best is None:
        return None
    chain = best[1]
    _add(f, NECK, chain)
    return tree.child_group(chain[-1])


def _check_mirror(f: _Finder, forward: F64) -> None:
    """Warn if axes or limits of a left and a right joint do not mirror each other, which is an error of the robot
    file."""
    tree, lateral = f.tree, np.array([-forward[1], forward[0], 0.0])
    for name, chain in list(f.chains.items()):
        other = f.chains.get(name.replace("left", "right"), ())
        if not name.startswith("left") or len(other) != len(chain):
            continue
        for a, b in zip(chain, other, strict=True):
            mirrored = 2 * (tree.axes[a] @ lateral) * lateral - tree.axes[a]
            cos = float(mirrored @ tree.axes[b])
            if abs(cos) < 0.95:
                f.warn(f"the axes of '{a}' and '{b}' do not mirror each other")
                continue
            ja, jb = tree.robot.joint(a), tree.robot.joint(b)
            low, high = (jb.lower, jb.upper) if cos > 0 else (-jb.upper, -jb.lower)
            if not np.isfinite([ja.lower, ja.upper, low, high]).all():
                continue
            if max(abs(ja.lower - low), abs(ja.upper - high)) > LIMITS_DIFFER_RAD:
                limits = [f"'{j.name}' ({j.lower:.2f} … {j.upper:.2f})" for j in (ja, jb)]
                f.warn(f"the limits of {' and '.join(limits)} do not mirror each other")
