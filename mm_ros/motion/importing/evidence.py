"""Measurements of one motion file, from which `doctor.py` estimates properties such as axes, unit and frame rate."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mm_ros.maths import rotations as rot
from mm_ros.motion.bvh.reader import Bvh
from mm_ros.motion.importing.mapping import JointMap
from mm_ros.motion.importing.rate import Rhythm, rhythm

Array = Any

AXES = ("X+", "X-", "Y+", "Y-", "Z+", "Z-")
AXIS_VECTORS = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], np.float64)
_SAMPLES = 600  # maximum number of frames of a file from which axes, sides and posture are measured


@dataclass
class Evidence:
    """Measurements of one motion file. All lengths are in the unit of the file."""

    frames: int
    rate: float
    leg: float
    up_votes: Array  # (6,) number of frames in which the direction from feet to head is closest to each of AXES
    # Median cosine of the angle between toes or knees and the facing of the hips; near −1 if left and right are swapped
    side: float
    side_frames: int
    upright_frames: int
    posture: Array = field(repr=False, default=None)  # (N, 4, 4) sum of q qᵀ over rotations q in upright frames
    local_offsets: Array = field(repr=False, default=None)  # (N, 3) position of each joint in the axes of its parent
    stance_drop: float = float("nan")  # height of the ankle above the toe joint while the foot is on the floor
    stance_frames: int = 0
    trunk: float = float("nan")  # distance from the hips to the head
    arm: float = float("nan")  # length of upper arm and forearm together
    on_fours: float = 0.0  # share of frames with the body on hands and feet
    rhythm: Rhythm = field(default_factory=lambda: Rhythm((), ()))


def room_from_axis(axis: int) -> Array:
    """Return the rotation from the axes of a file to those of the room, if AXES[axis] points up in the file."""
    up = AXIS_VECTORS[axis]
    ahead = AXIS_VECTORS[(4, 5, 4, 5, 0, 0)[axis]]
    rows = np.stack([ahead, np.cross(up, ahead), up])
    return quaternion_of(rows)


def quaternion_of(matrix: Array) -> Array:
    """Convert a 3×3 matrix to the quaternion (w ≥ 0) of the nearest rotation, by the method of Bar-Itzhack."""
    m = np.asarray(matrix, np.float64)
    k = np.array(
        [
            [m[0, 0] + m[1, 1] + m[2, 2], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], m[0, 0] - m[1, 1] - m[2, 2], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]],
            [m[0, 2] - m[2, 0], m[0, 1] + m[1, 0], m[1, 1] - m[0, 0] - m[2, 2], m[1, 2] + m[2, 1]],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], m[2, 2] - m[0, 0] - m[1, 1]],
        ]
    )
    q = np.linalg.eigh(k)[1][:, -1]
    return q if q[0] >= 0 else -q


def sampled(frames: int, most: int = _SAMPLES) -> Array:
    return np.unique(np.linspace(0, frames - 1, min(frames, most)).astype(np.int64))


def limb_length(positions: Array, nodes: dict[str, int], *joints: str) -> float:
    """Return the length of a limb: the sum of the median lengths of its bones, averaged over both sides."""
    bones = [(f"{s}_{a}", f"{s}_{b}") for s in ("left", "right") for a, b in itertools.pairwise(joints)]
    return float(
        sum(np.median(np.linalg.norm(positions[:, nodes[b]] - positions[:, nodes[a]], axis=1)) for a, b in bones) / 2
    )


def on_fours(p: Array, nodes: dict[str, int]) -> Array:
    """Return for each frame (F,) whether the body is on hands and feet, as that of a four-legged animal.

    On hands and feet, the hands are below the trunk and far ahead of the feet. The test needs neither the unit nor the
    vertical axis of the file.
    """

    def middle(name: str) -> Array:
        return (p[:, nodes[f"left_{name}"]] + p[:, nodes[f"right_{name}"]]) / 2

    hips, shoulders = middle("upper_leg"), middle("upper_arm")
    legs = middle("foot") - hips
    down, length = rot.unit(legs), np.linalg.norm(legs, axis=-1)
    trunk = shoulders - hips
    across = (rot.unit(trunk) * down).sum(-1) > -0.5
    hands_down = ((middle("hand") - shoulders) * down).sum(-1) > 0.5 * length
    ahead = ((middle("hand") - middle("foot")) * rot.unit(trunk)).sum(-1) > 0.5 * np.linalg.norm(trunk, axis=-1)
    return across & hands_down & ahead


def gather(bvh: Bvh, joints: JointMap, up: int | None, skip: int = 0, rate: float = 0.0) -> Evidence:
    """Measure one motion file.

    `up` is the index in AXES of the axis that points up, or None if it is unknown. `rate` is the frame rate, or 0 to
    use the rate in the header of the file.
    """
    rate = rate or bvh.rate
    nodes = joints.nodes
    at = sampled(len(bvh) - skip) + skip
    p, q = bvh.globals(bvh.motion[at])
    feet = (p[:, nodes["left_foot"]] + p[:, nodes["right_foot"]]) / 2
    above = rot.unit(p[:, nodes["head"]] - feet)
    votes = np.bincount(np.argmax(above @ AXIS_VECTORS.T, axis=1), minlength=6).astype(np.float64)
    axis = int(np.argmax(votes)) if up is None else up
    w = room_from_axis(axis)
    room = rot.rotate(np.broadcast_to(w, (*p.shape[:-1], 4)), p)
    side, side_frames = _sides(room, nodes)
    leg = limb_length(p, nodes, "upper_leg", "lower_leg", "foot")
    out = Evidence(len(bvh) - skip, rate, leg, votes, side, side_frames, 0)
    out.arm = limb_length(p, nodes, "upper_arm", "lower_arm", "hand")
    out.trunk = float(np.median(np.linalg.norm(p[:, nodes["head"]] - p[:, nodes["hips"]], axis=1)))
    out.on_fours = float(on_fours(p, nodes).mean())
    out.local_offsets = _local_offsets(bvh, p, q)
    turned = rot.multiply(np.broadcast_to(w, q.shape), q)
    out.posture, out.upright_frames = _posture(room, turned, nodes, out.leg, side < 0)
    _stance(bvh, joints, w, out, skip)
    return out


def left_of(room: Array, nodes: dict[str, int]) -> Array:
    """Return the horizontal unit vector from the right hip joint to the left hip joint in each frame (F, 3)."""
    left = room[:, nodes["left_upper_leg"]] - room[:, nodes["right_upper_leg"]]
    left[:, 2] = 0
    return rot.unit(left)


def _sides(room: Array, nodes: dict[str, int]) -> tuple[float, int]:
    left = left_of(room, nodes)
    ahead = np.cross(left, np.array([0.0, 0, 1]))
    scores = []
    for s in ("left", "right"):
        hip, knee, ankle = (room[:, nodes[f"{s}_{b}"]] for b in ("upper_leg", "lower_leg", "foot"))
        bend = knee - (hip + ankle) / 2
        size = np.linalg.norm(ankle - hip, axis=1)
        bent = np.linalg.norm(bend, axis=1) > 0.04 * size
        scores.append(((rot.unit(bend) * ahead).sum(1))[bent])
        if f"{s}_toes" in nodes:
            toe = room[:, nodes[f"{s}_toes"]] - ankle
            toe[:, 2] = 0
            long = np.linalg.norm(toe, axis=1) > 0.05 * size
            scores.append(((rot.unit(toe) * ahead).sum(1))[long])
    every = np.concatenate(scores)
    return (float(np.median(every)), len(every)) if len(every) else (0.0, 0)


def _local_offsets(bvh: Bvh, p: Array, q: Array) -> Array:
    out = bvh.node_offsets.copy()
    parents = bvh.node_parents
    has = parents >= 0
    away = p[:, has] - p[:, parents[has]]
    out[has] = np.median(rot.rotate(rot.inverse(q[:, parents[has]]), away), axis=0)
    return out


def _posture(room: Array, q: Array, nodes: dict[str, int], leg: float, swapped: bool) -> tuple[Array, int]:
    reach = [
        np.linalg.norm(room[:, nodes[f"{s}_upper_leg"]] - room[:, nodes[f"{s}_foot"]], axis=1)
        for s in ("left", "right")
    ]
    trunk = rot.unit(room[:, nodes["head"]] - room[:, nodes["hips"]])
    upright = (np.maximum(*reach) > 0.94 * leg) & (trunk[:, 2] > np.cos(np.radians(25)))
    count = int(upright.sum())
    use = upright if count >= 5 else np.ones(len(room), np.bool_)
    left = left_of(room, nodes)[use] * (-1 if swapped else 1)
    back = rot.from_yaw(-np.arctan2(-left[:, 0], left[:, 1]))
    facing = rot.multiply(np.broadcast_to(back[:, None], q[use].shape), q[use])
    return np.einsum("fni,fnj->nij", facing, facing), count


def _stance(bvh: Bvh, joints: JointMap, w: Array, out: Evidence, skip: int) -> None:
    nodes = joints.nodes
    if len(bvh) - skip < 10:
        return
    step = max(1, round(out.rate / 60))
    p, _ = bvh.globals(bvh.motion[skip::step])
    rate = out.rate / step

    def joint(name: str) -> Array:
        return rot.rotate(np.broadcast_to(w, (len(p), 4)), p[:, nodes[name]])

    ankles = {s: joint(f"{s}_foot") for s in ("left", "right")}
    toes = {s: joint(f"{s}_toes") if f"{s}_toes" in nodes else ankles[s] for s in ankles}
    body = np.mean(
        [joint(n) for n in ("hips", "left_upper_leg", "right_upper_leg", "left_upper_arm", "right_upper_arm", "head")],
        axis=0,
    )
    metre = out.leg / 0.85  # approximate length of a metre in the unit of the file
    left = rot.unit((joint("left_upper_leg") - joint("right_upper_leg"))[:, :2]) * (-1 if out.side < 0 else 1)
    ahead = np.stack([left[:, 1], -left[:, 0]], axis=1)
    feet, tips = (np.stack(list(x.values()), axis=1) / metre for x in (ankles, toes))
    upright = rot.unit(joint("head") - joint("hips"))[:, 2] > np.cos(np.radians(20))
    out.rhythm = rhythm(body / metre, ahead, feet, tips, upright, rate)
    if "left_toes" not in nodes:
        return
    drops = []
    for s, foot in ankles.items():
        slow = [np.linalg.norm(np.gradient(x, axis=0), axis=1) * rate < 0.2 * out.leg for x in (foot, toes[s])]
        drops.append((foot - toes[s])[slow[0] & slow[1], 2])
    drop = np.concatenate(drops)
    out.stance_frames = len(drop)
    if len(drop):
        out.stance_drop = float(np.median(drop))


def mean_rotations(posture: Array) -> Array:
    """Return the mean rotation of each joint: the eigenvector of the sum of q qᵀ with the largest eigenvalue."""
    return np.linalg.eigh(posture)[1][..., -1]
