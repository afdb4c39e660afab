"""Retarget clips to other leg lengths, and keep feet in contact in place, by inverse kinematics of the legs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HIPS, LEFT_UPPER_LEG, RIGHT_TOES, Skeleton
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import smoothstep
from mm_ros.motion.contacts import TOES, stances
from mm_ros.motion.metrics_feet import skating

Array = Any
_LEGS = [HIPS, *range(LEFT_UPPER_LEG, RIGHT_TOES + 1)]
# Maximum distance from hip to ankle, as a share of the leg's length. In a straight leg, the direction in which the knee
# points would be undefined.
_REACH = 0.9995

SHORTEST_FOOT = 1e-4  # minimum distance [m] from ankle to toe joint for which the heel can be lifted
_FRONT_M = 0.005  # length [m] of the forward vector that is added to the direction in which the knee bends


def onto_skeleton(clip: Clip, skeleton: Skeleton) -> Clip:
    """Retarget a clip to another skeleton. Motion of the root, hips and toes is scaled by the ratio of leg lengths."""
    if skeleton.hash == clip.skeleton.hash:
        return replace(clip, skeleton=skeleton)
    if np.array_equal(skeleton.offsets[_LEGS], clip.skeleton.offsets[_LEGS]):
        positions = np.broadcast_to(skeleton.offsets, clip.positions.shape).copy()
        positions[:, :HIPS + 1] = clip.positions[:, :HIPS + 1]
        return replace(clip, skeleton=skeleton, positions=positions)
    scale = skeleton.leg_length / clip.skeleton.leg_length
    toes, _ = clip.globals()
    rest, old_rest = skeleton.rest_positions(), clip.skeleton.rest_positions()
    targets = toes[:, list(TOES)].astype(np.float64)
    above = targets[..., 2] - old_rest[list(TOES), 2]
    targets *= scale
    targets[..., 2] = above * scale + rest[list(TOES), 2]
    positions = np.broadcast_to(skeleton.offsets, clip.positions.shape).copy()
    positions[:, 0] = clip.positions[:, 0] * scale
    positions[:, HIPS] = clip.positions[:, HIPS] * scale
    positions[:, HIPS, 2] += skeleton.offsets[HIPS, 2] - clip.skeleton.offsets[HIPS, 2] * scale
    moved = replace(clip, skeleton=skeleton, positions=positions.astype(np.float32))
    return with_toes_at(moved, targets)


def with_toes_at(clip: Clip, targets: Array) -> Clip:
    """Bend the legs so that the toe joints are at `targets` (F, 2, 3). The feet and knees keep their directions.

    If a leg would have to be straighter than before, the heel of this foot rises.
    """
    p, q = clip.skeleton.kinematics(clip.positions.astype(np.float64), clip.rotations.astype(np.float64))
    rotations = clip.rotations.astype(np.float64)
    for side, toes in enumerate(TOES):
        upper, lower, foot = toes - 3, toes - 2, toes - 1
        toe = targets[:, side]
        ankle = toe - rot.rotate(q[:, foot], np.broadcast_to(clip.positions[:, toes], toe.shape))
        ankle, turn = lifted(p[:, upper], toe, ankle, *_lengths(p[:, upper], p[:, lower], p[:, foot]))
        new_upper, new_lower = two_bones(p[:, upper], p[:, lower], p[:, foot], ankle, q[:, upper], q[:, lower])
        rotations[:, upper] = rot.multiply(rot.inverse(q[:, HIPS]), new_upper)
        rotations[:, lower] = rot.multiply(rot.inverse(new_upper), new_lower)
        rotations[:, foot] = rot.multiply(rot.inverse(new_lower), rot.multiply(turn, q[:, foot]))
    return replace(clip, rotations=rot.normalize(rotations).astype(np.float32))


def _lengths(hip: Array, knee: Array, ankle: Array) -> tuple[Array, Array]:
    bones = np.linalg.norm(knee - hip, axis=-1, keepdims=True) + np.linalg.norm(ankle - knee, axis=-1, keepdims=True)
    return np.linalg.norm(ankle - hip, axis=-1, keepdims=True), bones * _REACH


def lifted(hip: Array, toe: Array, ankle: Array, had: Array, longest: Array) -> tuple[Array, Array]:
    """Lift the heel until the distance from ankle to hip is at most `had`; return new ankles (F, 3) and foot rotations.

    The distance from hip to ankle approaches `longest` smoothly, because in nearly straight legs a small motion of the
    ankle moves the knee about ten times as far.
    """
    room = np.maximum(longest - had, 1e-6)
    wanted = np.linalg.norm(ankle - hip, axis=-1, keepdims=True)
    length = np.where(wanted > had, had + room * -np.expm1(-np.maximum(wanted - had, 0) / room), wanted)
    foot, line = ankle - toe, hip - toe
    short, far = (np.linalg.norm(v, axis=-1, keepdims=True) for v in (foot, line))
    if short.min() < SHORTEST_FOOT:
        return ankle, np.tile([1.0, 0.0, 0.0, 0.0], (len(ankle), 1))
    along = np.clip((short**2 + far**2 - length**2) / (2 * short * far), -1.0, 1.0)
    ahead = line / far
    across = foot - ahead * (foot * ahead).sum(-1, keepdims=True)
    across /= np.maximum(np.linalg.norm(across, axis=-1, keepdims=True), 1e-9)
    new = short * (ahead * along + across * np.sqrt(1 - along**2))
    new = np.where(wanted > had, new, foot)
    return toe + new, rot.between(foot, new)


def two_bones(hip: Array, knee: Array, ankle: Array, target: Array, upper: Array, lower: Array) -> tuple[Array, Array]:
    """Return the rotations of thigh and shin in the room that bring the ankle as close to `target` as possible."""
    a = np.linalg.norm(knee - hip, axis=-1, keepdims=True)
    b = np.linalg.norm(ankle - knee, axis=-1, keepdims=True)
    old, new = ankle - hip, target - hip
    wanted = np.linalg.norm(new, axis=-1, keepdims=True)
    length = np.clip(wanted, np.abs(a - b) + 1e-6, (a + b) * _REACH)
    # The plane in which the knee bends rotates with the line from hip to ankle.
    swing = rot.between(old, new)
    knee_dir, line = rot.rotate(swing, knee - hip), new / wanted
    # Noise would determine the direction of the knee in a straight leg, so a forward vector is added to the direction.
    front = rot.rotate(rot.multiply(swing, upper), np.broadcast_to(np.array([_FRONT_M, 0.0, 0.0]), hip.shape))
    side = knee_dir + front
    side = side - line * (side * line).sum(-1, keepdims=True)
    side = side / np.maximum(np.linalg.norm(side, axis=-1, keepdims=True), 1e-9)
    along = (a**2 - b**2 + length**2) / (2 * length)
    out = np.sqrt(np.maximum(a**2 - along**2, 0))
    new_knee = line * along + side * out
    thigh = rot.multiply(swing, upper)
    thigh = rot.multiply(rot.between(knee_dir, new_knee), thigh)
    shin = rot.multiply(swing, lower)
    shin = rot.multiply(rot.between(rot.rotate(swing, ankle - knee), line * length - new_knee), shin)
    return thigh, shin


def plant_feet(clip: Clip, contacts: NDArray[np.bool_], blend_s: float = 0.2, farthest: float = 0.12) -> Clip:
    """Keep the toes in one place during each foot contact.

    The correction of the toe positions begins `blend_s` [s] before each contact, and ends `blend_s` after it.

    Contacts in which the toe is more than `farthest` [m] from its median position do not change.
    """
    p, _ = clip.globals()
    toes = p[:, list(TOES)].astype(np.float64)
    rest = clip.skeleton.rest_positions()[list(TOES), 2]
    moves = np.zeros_like(toes)
    blend = max(round(blend_s * clip.rate), 1)
    for side in range(2):
        held = stances(contacts[:, side], 3)
        for k, (first, stop) in enumerate(held):
            spot = np.median(toes[first:stop, side], axis=0)
            spot[2] = rest[side] + np.clip(spot[2] - rest[side], -0.01, 0.01)
            if np.linalg.norm(toes[first:stop, side, :2] - spot[:2], axis=1).max() > farthest:
                continue
            moves[first:stop, side] = spot - toes[first:stop, side]
            before = min(blend, first - (held[k - 1][1] if k else 0))
            after = min(blend, (held[k + 1][0] if k + 1 < len(held) else len(toes)) - stop)
            if before > 0:
                w = smoothstep(np.arange(1, before + 1) / (before + 1))[:, None]
                moves[first - before : first, side] += w * moves[first, side]
            if after > 0:
                w = smoothstep(np.arange(after, 0, -1) / (after + 1))[:, None]
                moves[stop : stop + after, side] += w * moves[stop - 1, side]
    return with_toes_at(clip, toes + moves)


def feet_figures(clip: Clip, contacts: NDArray[np.bool_]) -> dict[str, Any]:
    """Return statistics of the feet, such as the drift of the toes in each contact and the number of sliding frames."""
    p, _ = clip.globals()
    toes = p[:, list(TOES)].astype(np.float64)
    rest = clip.skeleton.rest_positions()[list(TOES), 2]
    drifts = []
    for side in range(2):
        for first, stop in stances(contacts[:, side], round(0.15 * clip.rate)):
            drifts.append(float(np.linalg.norm(toes[first:stop, side] - toes[first, side], axis=1).max()))
    return {
        "drifts_m": drifts,
        "skating": int(skating(p, 1 / clip.rate).sum()),
        "frames": len(toes),
        "below_floor_m": float(np.maximum(rest - toes[..., 2], 0).max()),
    }

