"""Find the joints of the canonical skeleton in a motion file, by names, by the skeleton's shape, or by a user's map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.fingers import with_fingers
from mm_ros.body.skeleton import NAMES, Skeleton, default_skeleton
from mm_ros.motion.bvh.reader import Bvh
from mm_ros.motion.importing.fingers import check_name, finger_nodes
from mm_ros.motion.importing.names import (
    REQUIRED,
    SIDES,
    by_family,
    is_weak,
    part_of,
    side_of,
    without_prefix,
)
from mm_ros.motion.importing.topology import ancestors, by_shape


@dataclass(frozen=True)
class JointMap:
    """A map that assigns joints and end sites of a file to the canonical joints.

    The values in `nodes` are indices of joints; the indices of end sites follow those of all joints. The module
    `canonical.py` adds canonical joints that the file lacks.
    """

    family: str
    nodes: dict[str, int]
    doubts: tuple[str, ...] = field(default=())
    skeleton: Skeleton = field(default_factory=default_skeleton)  # names and usual offsets of all canonical joints

    def missing(self) -> list[str]:
        return [n for n in NAMES[1:] if n not in self.nodes]


def map_joints(bvh: Bvh, given: Mapping[str, str] | None = None, further: bool = False) -> JointMap:
    """Find the canonical joints in a file.

    The user's map `given` (canonical joint → name in the file) is used if there is one. Without a user's map, joints
    are found by the names of known software, by words in the names, or by the shape of the skeleton, in this order. If
    `further` is true, the result also contains 30 joints of fingers.
    """
    chosen = _from_user(bvh, given or {})
    found = _map_canonical(bvh, {c: i for c, i in chosen.items() if c in NAMES})
    if not further:
        return found
    nodes = {**finger_nodes(bvh, found.nodes), **chosen, **found.nodes}
    return replace(found, nodes=nodes, skeleton=with_fingers(default_skeleton()))


def _map_canonical(bvh: Bvh, given: dict[str, int]) -> JointMap:
    if given:
        return _finish(bvh, "given map", given, ())
    family, nodes = by_family(bvh.names)
    if family:
        return _finish(bvh, family, nodes, ())
    nodes = _by_words(bvh)
    if _has_limbs(nodes):
        return _finish(bvh, "unknown, by words in the names", nodes, ("joints were mapped by words in their names",))
    shape = by_shape(bvh)
    if _has_limbs(shape):
        return _finish(bvh, "unknown, by shape", shape, ("joints were mapped by the skeleton's shape",))
    lost = [c for c in REQUIRED if c not in nodes]
    raise MmRosError(
        f"{bvh.path}: unknown skeleton: {', '.join(lost)} not found among the joints "
        f"{', '.join(bvh.names[:40])}. Give a joint map (--map); --draft-map writes a draft of one"
    )


def guess_joints(bvh: Bvh) -> dict[str, int]:
    """Find as many canonical joints of a file as possible, for a draft of a joint map that the user completes."""
    try:
        return map_joints(bvh).nodes
    except MmRosError:
        return _by_words(bvh) or by_shape(bvh)


def _has_limbs(nodes: Mapping[str, int]) -> bool:
    wanted = ["hips", *(f"{s}_{p}" for s in SIDES for p in ("upper_leg", "lower_leg", "upper_arm", "lower_arm"))]
    return all(w in nodes for w in wanted)


def _from_user(bvh: Bvh, given: Mapping[str, str]) -> dict[str, int]:
    nodes = {}
    for canonical, name in given.items():
        check_name(canonical, "joint map")
        if name not in bvh.names:
            raise MmRosError(f"joint map: joint '{name}' is not in {bvh.path}. Joints: {', '.join(bvh.names)}")
        nodes[canonical] = bvh.names.index(name)
    return nodes


def _by_words(bvh: Bvh) -> dict[str, int]:
    nodes: dict[str, int] = {}
    names = without_prefix(bvh.names)
    for i, name in sorted(enumerate(names), key=lambda row: is_weak(row[1])):  # stable
        side, part = side_of(name), part_of(name)
        if side and part:
            nodes.setdefault(f"{side}_{part}", i)
    for side in SIDES:
        # Files from Xsens name the upper arm "shoulder"; if an arm has two shoulders, the upper one is the collar bone.
        if f"{side}_upper_arm" not in nodes and f"{side}_shoulder" in nodes:
            collar = nodes.pop(f"{side}_shoulder")
            shoulders = [i for i, n in enumerate(names) if side_of(n) == side and part_of(n) == "shoulder"]
            nodes[f"{side}_upper_arm"] = shoulders[-1]
            if collar != shoulders[-1]:
                nodes[f"{side}_shoulder"] = collar
    legs = [nodes.get(f"{s}_upper_leg") for s in SIDES]
    if None not in legs:
        nodes["hips"] = common_ancestor(bvh.node_parents, [x for x in legs if x is not None])
    for i, name in enumerate(names):
        if "head" in name.lower() and "end" not in name.lower():
            nodes.setdefault("head", i)
    return nodes


def common_ancestor(parents: np.ndarray, nodes: Sequence[int]) -> int:
    """Return the nearest common ancestor of all joints in `nodes`, or −1 if there is none."""
    shared = set.intersection(*(set(ancestors(parents, n)[1:]) for n in nodes))
    return max(shared, key=lambda n: len(ancestors(parents, n)), default=-1)


def _finish(bvh: Bvh, family: str, nodes: dict[str, int], doubts: tuple[str, ...]) -> JointMap:
    """Complete a map of joints: use end sites as missing hands, feet and toes, and find spine, neck and head."""
    nodes = dict(nodes)
    parents = bvh.node_parents
    for side in SIDES:
        for end, before in (("foot", "lower_leg"), ("hand", "lower_arm"), ("toes", "foot")):
            name = f"{side}_{end}"
            if name not in nodes and f"{side}_{before}" in nodes:
                site = _farthest_child(bvh, nodes[f"{side}_{before}"])
                if site is not None:
                    nodes[name] = site
    _fill_spine(bvh, nodes)
    lost = [c for c in REQUIRED if c not in nodes]
    if lost:
        raise MmRosError(f"{bvh.path}: {', '.join(lost)} not found among the joints {', '.join(bvh.names[:40])}")
    _check_chains(bvh, nodes, parents)
    return JointMap(family, {n: nodes[n] for n in NAMES if n in nodes}, doubts)


def _farthest_child(bvh: Bvh, node: int) -> int | None:
    children = [int(i) for i in np.flatnonzero(bvh.node_parents == node)]
    lengths = [float(np.linalg.norm(bvh.node_offsets[i])) for i in children]
    return children[int(np.argmax(lengths))] if children and max(lengths) > 1e-6 else None


def _fill_spine(bvh: Bvh, nodes: dict[str, int]) -> None:
    parents = bvh.node_parents
    arms = [nodes[f"{s}_{p}"] for s in SIDES for p in ("upper_arm",) if f"{s}_{p}" in nodes]
    if len(arms) < 2 or "hips" not in nodes:
        return
    top = common_ancestor(parents, arms)
    if top < 0:
        return
    _fill_head(bvh, nodes, top)
    trunk = _between(parents, nodes["hips"], top)
    trunk = [*trunk, top] if top != nodes["hips"] else trunk
    free = [n for n in ("spine", "chest", "upper_chest") if n not in nodes]
    if len(free) == 3:  # the map of joints has no joint of the spine so far
        picks: dict[int, tuple[str, ...]] = {0: (), 1: ("chest",), 2: ("spine", "chest")}
        names = picks.get(len(trunk), ("spine", "chest", "upper_chest"))
        at = [round(x) for x in np.linspace(0, len(trunk) - 1, len(names))]
        nodes.update({n: trunk[i] for n, i in zip(names, at, strict=True)})
    if "neck" not in nodes and "head" in nodes:
        necks = _between(parents, top, nodes["head"])
        if necks:
            nodes["neck"] = necks[0]


def _fill_head(bvh: Bvh, nodes: dict[str, int], top: int) -> None:
    if "head" in nodes:
        return
    parents = bvh.node_parents
    limbs = {n for c, i in nodes.items() if "arm" in c or "leg" in c or "hips" in c for n in ancestors(parents, i)}
    chains = [ancestors(parents, i) for i in range(len(parents))]
    above = [c for c in chains if top in c and not limbs & set(c[: c.index(top)])]
    longest = max(above, key=lambda c: c.index(top), default=[top])
    if longest[0] == top:
        return
    joints = [n for n in longest[: longest.index(top)] if n < len(bvh.names)]
    nodes["head"] = joints[0] if joints else longest[0]


def _between(parents: np.ndarray, above: int, below: int) -> list[int]:
    chain = ancestors(parents, below)
    return chain[1 : chain.index(above)][::-1] if above in chain else []


def _check_chains(bvh: Bvh, nodes: Mapping[str, int], parents: np.ndarray) -> None:
    for side in SIDES:
        for chain in (("upper_leg", "lower_leg", "foot"), ("upper_arm", "lower_arm", "hand")):
            joints = [nodes[f"{side}_{c}"] for c in chain]
            for above, below, name in zip(joints, joints[1:], chain[1:], strict=False):
                if above == below or above not in ancestors(parents, below):
                    raise MmRosError(
                        f"{bvh.path}: {side}_{name} ('{_name(bvh, below)}') is not below '{_name(bvh, above)}' in the "
                        "hierarchy. Give a joint map (--map)"
                    )


def _name(bvh: Bvh, node: int) -> str:
    return bvh.names[node] if node < len(bvh.names) else f"end of {bvh.names[bvh.node_parents[node]]}"


def node_name(bvh: Bvh, node: int) -> str:
    return _name(bvh, node)
