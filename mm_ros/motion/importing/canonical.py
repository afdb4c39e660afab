"""Conversion from a file's skeleton to the canonical humanoid.

The reference posture is the file's zero pose if it is close to a T-pose, else the first frame if it is close to one,
else the mean of the upright frames. The shortest rotations move arms and legs from the reference posture to the
canonical T-pose; the trunk does not change. The conversion removes the constant rotation that remains at each joint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.body.skeleton import DEFAULT_OFFSETS, HIPS, NAMES, PARENTS, J, Skeleton
from mm_ros.maths import rotations as rot
from mm_ros.motion.bvh.reader import Bvh
from mm_ros.motion.importing.evidence import quaternion_of, unit
from mm_ros.motion.importing.mapping import JointMap

Array = Any
TOE_HEIGHT = 0.015  # m; height of the toe joint above the floor at rest, as on the default skeleton
_X, _Y, _Z = np.eye(3)
IDENTITY = np.array([1.0, 0, 0, 0])


@dataclass(frozen=True)
class ActorModel:
    """Conversion of one actor's files: v_room = unit_to_m · room_from_file · v_file; Q_canonical = G_file · rest⁻¹."""

    joints: JointMap
    room_from_file: Array  # (4,)
    unit_to_m: float
    nodes: Array  # (J,) node of each canonical joint, −1 for joints that the file lacks
    rest: Array  # (J, 4) rotation of the node in the canonical T-pose, room axes
    skeleton: Skeleton  # of the file
    reference: str
    fitted: Skeleton  # with the proportions of a person, for the clips


def posed(local_offsets: Array, parents: Array, rotations: Array) -> Array:
    """Return node positions (N, 3) for global rotations (N, 4); roots are at the origin."""
    out = np.zeros_like(local_offsets)
    for i, p in enumerate(parents):
        if p >= 0:
            out[i] = out[p] + rot.rotate(rotations[p], local_offsets[i])
    return out


def t_likeness(p: Array, nodes: dict[str, int]) -> tuple[float, Array]:
    """Return the worst limb's angle to a T- or A-pose in degrees, and the rotation that makes the posture face +x."""
    trunk = p[nodes["head"]] - p[nodes["hips"]]
    left = p[nodes["left_upper_leg"]] - p[nodes["right_upper_leg"]]
    if min(np.linalg.norm(trunk), np.linalg.norm(left)) < 1e-9:
        return 180.0, IDENTITY
    up, left = _snapped(unit(trunk)), unit(left)
    left = _snapped(unit(left - up * (left @ up)))
    ahead = np.cross(left, up)
    if np.linalg.norm(ahead) < 0.9:
        return 180.0, IDENTITY
    q = quaternion_of(np.stack([unit(ahead), left, up]))
    worst = 0.0
    for s, y in (("left", 1.0), ("right", -1.0)):
        for a, b, ideal, allowed in (
            ("upper_leg", "lower_leg", -_Z, 1.0),
            ("lower_leg", "foot", -_Z, 1.0),
            ("upper_arm", "lower_arm", y * _Y, 0.6),  # lower weight: accept A-poses
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
    """Snap to the nearest axis within 25°, so that a slightly inclined spine does not tilt the room."""
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
    """Make an actor's model from the node rotations (N, 4) of its reference posture, in room axes, facing +x."""
    nodes = joints.nodes
    g = reference_rotations
    p = posed(local_offsets, bvh.node_parents, g) * unit_to_m
    turn = _limb_turns(bvh, nodes, p, stance_drop_m)
    index = np.array([nodes.get(n, -1) for n in NAMES], np.int64)
    rest = np.tile(IDENTITY, (J, 1))
    for c, s in enumerate(index):
        if s >= 0:
            rest[c] = rot.multiply(turn[c], g[s])
    offsets = _offsets(index, p, turn)
    skeleton = Skeleton(offsets.astype(np.float32))
    return ActorModel(joints, room_from_file, unit_to_m, index, rest, skeleton, reference, skeleton)


def _limb_turns(bvh: Bvh, nodes: dict[str, int], p: Array, drop: float) -> Array:
    """Return (J, 4): the shortest rotation of each limb bone from the reference posture to the T-pose."""
    turn = np.tile(IDENTITY, (J, 1))

    def along(c: str, child: str, wanted: Array) -> bool:
        if c not in nodes or child not in nodes:
            return False
        v = p[nodes[child]] - p[nodes[c]]
        if np.linalg.norm(v) < 1e-4:
            return False
        turn[NAMES.index(c)] = rot.between(v, wanted)
        return True

    for s, y in (("left", _Y), ("right", -_Y)):
        along(f"{s}_upper_leg", f"{s}_lower_leg", -_Z)
        along(f"{s}_lower_leg", f"{s}_foot", -_Z)
        if f"{s}_toes" in nodes:
            length = float(np.linalg.norm(p[nodes[f"{s}_toes"]] - p[nodes[f"{s}_foot"]]))
            fall = float(np.clip(drop, 0.0, 0.9 * length)) if np.isfinite(drop) else 0.4 * length
            along(f"{s}_foot", f"{s}_toes", np.array([np.sqrt(max(length**2 - fall**2, 1e-9)), 0, -fall]))
            tip = _tip(bvh, nodes[f"{s}_toes"], p)
            turn[NAMES.index(f"{s}_toes")] = (
                turn[NAMES.index(f"{s}_foot")] if tip is None else rot.between(tip, _X * np.linalg.norm(tip))
            )
        along(f"{s}_upper_arm", f"{s}_lower_arm", y)
        along(f"{s}_lower_arm", f"{s}_hand", y)
        if f"{s}_hand" in nodes:
            tip = _tip(bvh, nodes[f"{s}_hand"], p)
            turn[NAMES.index(f"{s}_hand")] = turn[NAMES.index(f"{s}_lower_arm")] if tip is None else rot.between(tip, y)
    return turn


def _tip(bvh: Bvh, node: int, p: Array) -> Array | None:
    """Return the mean direction of fingers or toes (m) without the thumb; bones of length 0 are passed through."""
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


def _offsets(index: Array, p: Array, turn: Array) -> Array:
    """Return rest offsets (J, 3); missing joints are placed as on a default body of this size."""
    rest = np.full((J, 3), np.nan)
    rest[HIPS] = 0
    owner = np.arange(J)  # nearest ancestor that the file has
    for c in range(HIPS + 1, J):
        a = PARENTS[c]
        owner[c] = a if index[a] >= 0 else owner[a]
        if index[c] >= 0:
            rest[c] = rest[owner[c]] + rot.rotate(turn[owner[c]], p[index[c]] - p[index[owner[c]]])
    size = float(np.linalg.norm(rest[NAMES.index("left_lower_leg")] - rest[NAMES.index("left_upper_leg")])) / 0.41
    for c in range(HIPS + 1, J):
        if np.isnan(rest[c, 0]):
            rest[c] = _missing(c, rest, owner, size)
    offsets = np.zeros((J, 3))
    offsets[2:] = rest[2:] - rest[PARENTS[2:]]
    toes = [NAMES.index("left_toes"), NAMES.index("right_toes")]
    offsets[HIPS, 2] = TOE_HEIGHT - float(rest[toes, 2].mean())
    return offsets


def _missing(c: int, rest: Array, owner: Array, size: float) -> Array:
    """Return the rest position of a missing joint: evenly spaced in the trunk, else as on the default skeleton."""
    a = PARENTS[c]
    chain = [NAMES.index(n) for n in ("spine", "chest", "upper_chest", "neck", "head")]
    if c in chain:
        below = next((k for k in chain[chain.index(c) :] if not np.isnan(rest[k, 0])), None)
        if below is not None:
            return rest[a] + (rest[below] - rest[a]) / (chain.index(below) - chain.index(c) + 1)
    if NAMES[c].endswith("shoulder"):
        arm = rest[c + 1]
        if not np.isnan(arm[0]):
            return rest[a] + np.array([0.5, 0.2, 0.9]) * (arm - rest[a])
    return rest[a] + DEFAULT_OFFSETS[c] * size


def to_canonical(model: ActorModel, p: Array, q: Array) -> tuple[Array, Array]:
    """Convert node poses in file axes to hips (F, 3) in metres and global rotations (F, J, 4), in room axes."""
    w = model.room_from_file
    frames = len(p)
    out = np.empty((frames, J, 4))
    out[:, 0] = IDENTITY
    back = rot.inverse(model.rest)
    chain = {
        NAMES.index(a): NAMES.index(b)
        for a, b in (("spine", "chest"), ("chest", "upper_chest"), ("upper_chest", "neck"), ("neck", "head"))
    }
    for c in range(1, J):
        s = model.nodes[c]
        if s < 0:
            out[:, c] = out[:, PARENTS[c]]
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
    """Rotate q in place so that the bone points along `wanted`: unmapped joints in between may bend."""
    if np.linalg.norm(offset) < 1e-3 or np.linalg.norm(wanted, axis=1).min() < 1e-9:
        return
    now = rot.rotate(q, np.broadcast_to(np.asarray(offset, np.float64), wanted.shape))
    q[:] = rot.multiply(rot.between(now, wanted), q)


def local_rotations(rotations: Array) -> Array:
    out = rotations.copy()
    out[:, 2:] = rot.multiply(rot.inverse(rotations[:, PARENTS[2:]]), rotations[:, 2:])
    return rot.normalize(out)
