"""Find arms and legs by the shape of a skeleton: two equal chains of joints at each end of the trunk."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from mm_ros.motion.bvh.reader import Bvh


def by_shape(bvh: Bvh) -> dict[str, int]:
    """Return a map from canonical joints of arms and legs to joints of the file, or {} if the shape is not human.

    Left and right may be exchanged in the returned map, which the module `doctor.py` corrects later.
    """
    parents = bvh.node_parents
    children = [[int(c) for c in np.flatnonzero(parents == i)] for i in range(len(parents))]
    pairs = [pair for j in range(len(bvh.names)) for pair in _twins(bvh, children, j)]
    if len(pairs) < 2:
        return {}
    longest = sorted(pairs, key=lambda p: -_length(bvh, p[1]))
    roots: list[tuple[int, list[int], list[int]]] = []
    for pair in longest:  # legs and arms are two pairs of chains, which begin at different joints
        if all(pair[0] != r[0] for r in roots):
            roots.append(pair)
        if len(roots) == 2:
            break
    if len(roots) < 2:
        return {}
    legs, arms = roots
    if _depth(parents, legs[0]) > _depth(parents, arms[0]):
        legs, arms = arms, legs
    out = {"hips": legs[0]}
    for side, leg, arm in (("left", legs[1], arms[1]), ("right", legs[2], arms[2])):
        legs_, arms_ = _without_stubs(bvh, leg), _without_stubs(bvh, arm)
        if len(legs_) == 2:  # without a foot joint, the end site of the shin is the ankle
            legs_ = _with_end(bvh, leg, legs_)
        first = 1 if len(arms_) >= 4 or (len(arms_) == 3 and _begins_with_collar(bvh, arm)) else 0
        if len(arms_) - first == 2:  # without a hand joint, the end site of the forearm is the wrist
            arms_ = _with_end(bvh, arm, arms_)
        if len(legs_) < 3 or len(arms_) - first < 3:
            return {}
        out |= {f"{side}_{n}": j for n, j in zip(("upper_leg", "lower_leg", "foot", "toes"), legs_, strict=False)}
        out |= {f"{side}_{n}": j for n, j in zip(("upper_arm", "lower_arm", "hand"), arms_[first:], strict=False)}
        if first:
            out[f"{side}_shoulder"] = arms_[0]
    return out


def _depth(parents: np.ndarray, node: int) -> int:
    return 0 if parents[node] < 0 else 1 + _depth(parents, int(parents[node]))


def _chain(bvh: Bvh, children: list[list[int]], node: int) -> list[int]:
    out = [node]
    while children[out[-1]]:
        out.append(max(children[out[-1]], key=lambda c: _reach(bvh, children, c)))
    return out


def _reach(bvh: Bvh, children: list[list[int]], node: int) -> float:
    below = max((_reach(bvh, children, c) for c in children[node]), default=0.0)
    return float(np.linalg.norm(bvh.node_offsets[node])) + below


def _length(bvh: Bvh, chain: list[int]) -> float:
    return float(np.linalg.norm(bvh.node_offsets[chain[1:]], axis=1).sum())


def _twins(bvh: Bvh, children: list[list[int]], node: int) -> list[tuple[int, list[int], list[int]]]:
    """Return pairs of chains below a joint whose bones have nearly equal lengths, such as both legs."""
    chains = [_chain(bvh, children, c) for c in children[node]]
    out = []
    for i, a in enumerate(chains):
        for b in chains[i + 1 :]:
            if len(a) == len(b) >= 3:
                la, lb = (np.linalg.norm(bvh.node_offsets[c[1:]], axis=1) for c in (a, b))
                if abs(la - lb).max() <= 0.15 * max(la.max(), 1e-9):
                    out.append((node, a, b))
    return out


def _with_end(bvh: Bvh, chain: list[int], joints: list[int]) -> list[int]:
    end = chain[-1]
    away = end >= len(bvh.names) and float(np.linalg.norm(bvh.node_offsets[end])) > 1e-6
    return [*joints, end] if away else joints


def _begins_with_collar(bvh: Bvh, chain: list[int]) -> bool:
    joints = _with_end(bvh, chain, _without_stubs(bvh, chain))
    if len(joints) < 4:
        return False
    first, second, third = (float(np.linalg.norm(bvh.node_offsets[j])) for j in joints[1:4])
    return first < 0.75 * second and third > 0.6 * second


def _without_stubs(bvh: Bvh, chain: list[int]) -> list[int]:
    joints = [c for c in chain if c < len(bvh.names)]
    keep = [a for a, b in itertools.pairwise(joints) if np.linalg.norm(bvh.node_offsets[b]) > 1e-6]
    return keep + joints[-1:]


def ancestors(parents: Sequence[int] | np.ndarray, node: int) -> list[int]:
    """Return the joint `node` and all joints above it, up to the root."""
    out = [node]
    while parents[out[-1]] >= 0:
        out.append(int(parents[out[-1]]))
    return out
