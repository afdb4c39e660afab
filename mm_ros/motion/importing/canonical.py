"""Conversion of motion from the skeleton of a file to the canonical humanoid skeleton.

The conversion needs a reference posture. The reference posture is the zero pose of the file if this pose is close to a
T-pose. Otherwise, the reference posture is the first frame if it is close to a T-pose, or else the mean of all upright
frames. The conversion rotates the arms and legs of the reference posture to those of a T-pose. All rotations of a joint
are then converted to rotations relative to that of the joint in the T-pose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mm_ros.body.skeleton import (
    CHEST,
    HEAD,
    HIPS,
    LEFT_LOWER_LEG,
    LEFT_TOES,
    LEFT_UPPER_LEG,
    NAMES,
    NECK,
    RIGHT_TOES,
    SPINE,
    UPPER_CHEST,
    Skeleton,
)
from mm_ros.maths import rotations as rot
from mm_ros.motion.bvh.reader import Bvh
from mm_ros.motion.importing.evidence import quaternion_of
from mm_ros.motion.importing.mapping import JointMap

Array = Any
TOE_HEIGHT = 0.015  # height [m] of the toe joint above the floor in the rest pose, as in the default skeleton
_X, _Y, _Z = np.eye(3)
IDENTITY = np.array([1.0, 0, 0, 0])  # no rotation
_SPINE = (SPINE, CHEST, UPPER_CHEST, NECK, HEAD)


@dataclass(frozen=True)
class ActorModel:
    """Parameters of the conversion of all files of a recorded person (an actor).

    A position p in a file becomes unit_to_m · room_from_file · p; a rotation r becomes room_from_file · r · rest⁻¹.
    """

    joints: JointMap
    room_from_file: Array  # (4,)
    unit_to_m: float
    nodes: Array  # (J,) for each canonical joint, index of a joint or end site in the motion file; −1 if it has none
    rest: Array  # (J, 4) rotation in the room of each joint of the file in the canonical T-pose
    skeleton: Skeleton  # skeleton of the recorded person, as in the motion file
    reference: str
    fitted: Skeleton  # skeleton of the recorded person with corrected proportions, for the clips


def posed(local_offsets: Array, parents: Array, rotations: Array) -> Array:
    """Return the positions (N, 3) of joints and end sites for their rotations (N, 4), with roots at the origin."""
    out = np.zeros_like(local_offsets)
    for i, p in enumerate(parents):
        if p >= 0:
            out[i] = out[p] + rot.rotate(rotations[p], local_offsets[i])
    return out


def t_likeness(p: Array, nodes: dict[str, int]) -> tuple[float, Array]:
    """Return the largest angle [°] of a limb from a T-pose, and the rotation that makes the posture face +x."""
    trunk = p[nodes["head"]] - p[nodes["hips"]]
    left = p[nodes["left_upper_leg"]] - p[nodes["right_upper_leg"]]
    if min(np.linalg.norm(trunk), np.linalg.norm(left)) < 1e-9:
        return 180.0, IDENTITY
    up, left = _snapped(rot.unit(trunk)), rot.unit(left)
    left = _snapped(rot.unit(left - up * (left @ up)))
    ahead = np.cross(left, up)
    if np.linalg.norm(ahead) < 0.9:
        return 180.0, IDENTITY
    q = quaternion_of(np.stack([rot.unit(ahead), left, up]))
    worst = 0.0
    for s, y in (("left", 1.0), ("right", -1.0)):
        for a, b, ideal, allowed in (
            ("upper_leg", "lower_leg", -_Z, 1.0),
            ("lower_leg", "foot", -_Z, 1.0),
            ("upper_arm", "lower_arm", y * _Y, 0.6),  # weight of the upper arm's angle; below 1 to accept A-poses
            ("lower_arm", "hand", y * _Y, 0.6),
            ("foot", "toes", _X, 0.6),
        ):
            if f"{s}_{b}" not in nodes:
                continue
            v = rot.rotate(q, p[nodes[f"{s}_{b}"]] - p[nodes[f"{s}_{a}"]])
            size = float(np.linalg.norm(v))
            angle = np.degrees(np.arccos(np.clip(v @ ideal / size, -1, 1))) if size > 1e-9 else 180.0
            worst = max(worst, float(angle) * allowed)
    return worst, q


def _snapped(v: Array) -> Array:
    """Replace a direction by the nearest axis if the angle between them is below 25°, as for an inclined spine."""
    k = int(np.argmax(np.abs(v)))
    axis = np.zeros(3)
    axis[k] = np.sign(v[k])
    return axis if v @ axis > np.cos(np.radians(25)) else v


def make_model(
    bvh: Bvh,
    joints: JointMap,
    room_from_file: Array,
    unit_to_m: float,
    local_offsets: Array,
    reference_rotations: Array,
    reference: str,
    stance_drop_m: float,
) -> ActorModel:
    """Make the model of a recorded person from the joint rotations (N, 4) in the reference posture, which faces +x."""
    nodes = joints.nodes
    g = reference_rotations
    p = posed(local_offsets, bvh.node_parents, g) * unit_to_m
    usual = joints.skeleton
    turn = _limb_turns(bvh, joints, p, stance_drop_m)
    index = np.array([nodes.get(n, -1) for n in usual.names], np.int64)
    rest = np.tile(IDENTITY, (len(usual), 1))
    for c, s in enumerate(index):
        if s >= 0:
            rest[c] = rot.multiply(turn[c], g[s])
    skeleton = usual.with_offsets(_offsets(usual, index, p, turn).astype(np.float32))
    return ActorModel(joints, room_from_file, unit_to_m, index, rest, skeleton, reference, skeleton)


def _limb_turns(bvh: Bvh, joints: JointMap, p: Array, drop: float) -> Array:
    nodes, joint = joints.nodes, joints.skeleton.index
    turn = np.tile(IDENTITY, (len(joints.skeleton), 1))

    def along(c: str, child: str, wanted: Array) -> bool:
        if c not in nodes or child not in nodes:
            return False
        v = p[nodes[child]] - p[nodes[c]]
        if np.linalg.norm(v) < 1e-4:
            return False
        turn[joint(c)] = rot.between(v, wanted)
        return True

    for s, y in (("left", _Y), ("right", -_Y)):
        along(f"{s}_upper_leg", f"{s}_lower_leg", -_Z)
        along(f"{s}_lower_leg", f"{s}_foot", -_Z)
        if f"{s}_toes" in nodes:
            length = float(np.linalg.norm(p[nodes[f"{s}_toes"]] - p[nodes[f"{s}_foot"]]))
            fall = float(np.clip(drop, 0.0, 0.9 * length)) if np.isfinite(drop) else 0.4 * length
            along(f"{s}_foot", f"{s}_toes", np.array([np.sqrt(max(length**2 - fall**2, 1e-9)), 0, -fall]))
            tip = _tip(bvh, nodes[f"{s}_toes"], p)
            turn[joint(f"{s}_toes")] = (
                turn[joint(f"{s}_foot")] if tip is None else rot.between(tip, _X * np.linalg.norm(tip))
            )
        along(f"{s}_upper_arm", f"{s}_lower_arm", y)
        along(f"{s}_lower_arm", f"{s}_hand", y)
        if f"{s}_hand" in nodes:
            tip = _tip(bvh, nodes[f"{s}_hand"], p)
            turn[joint(f"{s}_hand")] = turn[joint(f"{s}_lower_arm")] if tip is None else rot.between(tip, y)
    for j in range(len(NAMES), len(joints.skeleton)):
        _turn_further(joints, j, turn, along)
    return turn


def _turn_further(joints: JointMap, j: int, turn: Array, along: Callable[[str, str, Array], bool]) -> None:
    """Set the rotation of a finger joint to that of the joint above it, and make the bones of the finger straight."""
    usual, nodes = joints.skeleton, joints.nodes
    name = usual.names[j]
    if name not in nodes:
        return
    above = int(usual.parents[j])
    while above >= len(NAMES) and usual.names[above] not in nodes:
        above = int(usual.parents[above])
    turn[j] = turn[above]
    for child in np.flatnonzero(usual.parents == j):
        way = usual.offsets[child]
        if way[0] == way[2] == 0.0:
            along(name, usual.names[child], np.sign(way[1]) * _Y)


def _tip(bvh: Bvh, node: int, p: Array) -> Array | None:
    names = [*bvh.names, *("" for _ in bvh.end_parents)]
    ends, open_nodes = [], [node]
    while open_nodes:
        for child in np.flatnonzero(bvh.node_parents == open_nodes.pop()):
            if "thumb" in names[child].lower():
                continue
            away = p[child] - p[node]
            if np.linalg.norm(away) > 5e-3:
                ends.append(away)
            else:
                open_nodes.append(int(child))
    return np.mean(ends, axis=0) if ends and np.linalg.norm(np.mean(ends, axis=0)) > 5e-3 else None


def _offsets(usual: Skeleton, index: Array, p: Array, turn: Array) -> Array:
    count, parents = len(usual), usual.parents
    rest = np.full((count, 3), np.nan)
    rest[HIPS] = 0
    owner = np.arange(count)  # nearest ancestor that the file contains, for each canonical joint
    for c in range(HIPS + 1, count):
        a = parents[c]
        owner[c] = a if index[a] >= 0 else owner[a]
        if index[c] >= 0:
            rest[c] = rest[owner[c]] + rot.rotate(turn[owner[c]], p[index[c]] - p[index[owner[c]]])
    size = float(np.linalg.norm(rest[LEFT_LOWER_LEG] - rest[LEFT_UPPER_LEG])) / 0.41
    for c in range(HIPS + 1, count):
        if np.isnan(rest[c, 0]):
            rest[c] = _missing(usual, c, rest, size)
    offsets = np.zeros((count, 3))
    offsets[2:] = rest[2:] - rest[parents[2:]]
    offsets[HIPS, 2] = TOE_HEIGHT - float(rest[[LEFT_TOES, RIGHT_TOES], 2].mean())
    return offsets


def _missing(usual: Skeleton, c: int, rest: Array, size: float) -> Array:
    a = usual.parents[c]
    if c in _SPINE:
        below = next((k for k in _SPINE[_SPINE.index(c) :] if not np.isnan(rest[k, 0])), None)
        if below is not None:
            return rest[a] + (rest[below] - rest[a]) / (_SPINE.index(below) - _SPINE.index(c) + 1)
    if usual.names[c].endswith("shoulder"):
        arm = rest[c + 1]
        if not np.isnan(arm[0]):
            return rest[a] + np.array([0.5, 0.2, 0.9]) * (arm - rest[a])
    return rest[a] + usual.offsets[c] * size


def to_canonical(model: ActorModel, p: Array, q: Array) -> tuple[Array, Array]:
    """Convert poses in a file to hip positions (F, 3) in metres and joint rotations (F, J, 4), both in the room."""
    w = model.room_from_file
    frames, parents = len(p), model.skeleton.parents
    out = np.empty((frames, len(parents), 4))
    out[:, 0] = IDENTITY
    back = rot.inverse(model.rest)
    chain = dict(pairwise(_SPINE))
    for c in range(1, len(parents)):
        s = model.nodes[c]
        if s < 0:
            out[:, c] = out[:, parents[c]]
            continue
        out[:, c] = rot.multiply(
            rot.multiply(np.broadcast_to(w, (frames, 4)), q[:, s]), np.broadcast_to(back[c], (frames, 4))
        )
        child = chain.get(c)
        if child is not None and model.nodes[child] >= 0:
            _point(
                out[:, c],
                model.skeleton.offsets[child],
                rot.rotate(np.broadcast_to(w, (frames, 4)), p[:, model.nodes[child]] - p[:, s]),
            )
    hips = rot.rotate(np.broadcast_to(w, (frames, 4)), p[:, model.nodes[HIPS]]) * model.unit_to_m
    return hips, out


def _point(q: Array, offset: Array, wanted: Array) -> None:
    """Change the rotations `q` of a joint so that its bone (or chain of bones in the file) points along `wanted`."""
    if np.linalg.norm(offset) < 1e-3 or np.linalg.norm(wanted, axis=1).min() < 1e-9:
        return
    now = rot.rotate(q, np.broadcast_to(np.asarray(offset, np.float64), wanted.shape))
    q[:] = rot.multiply(rot.between(now, wanted), q)


def local_rotations(skeleton: Skeleton, rotations: Array) -> Array:
    out = rotations.copy()
    out[:, 2:] = rot.multiply(rot.inverse(rotations[:, skeleton.parents[2:]]), rotations[:, 2:])
    return rot.normalize(out)
