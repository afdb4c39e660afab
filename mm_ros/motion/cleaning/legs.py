"""Retarget motion to other leg lengths, and pin feet in contact, by two-bone IK over whole clips."""

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
_REACH = 0.9995  # maximum hip–ankle distance over leg length; below 1 to keep the knee's direction defined

SHORTEST_FOOT = 1e-4  # m from ankle to toe joint; in shorter feet, whose joints are in one place, no heel can be lifted
_FRONT_M = 0.005  # m; a knee nearer than this to the line from hip to ankle counts as straight


def onto_skeleton(clip: Clip, skeleton: Skeleton) -> Clip:
    """Move a clip to another skeleton. Root motion, hip height and toe positions scale with the leg length."""
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
    """Bend the legs so that the toe joints are at `targets` (F, 2, 3); the direction of the feet and the plane of the
    knees do not change.

    When a leg would have to become longer than it was, the heel rises instead, more so for straighter legs.
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
    """Return the distance from hip to ankle (F, 1): current and maximum."""
    bones = np.linalg.norm(knee - hip, axis=-1, keepdims=True) + np.linalg.norm(ankle - knee, axis=-1, keepdims=True)
    return np.linalg.norm(ankle - hip, axis=-1, keepdims=True), bones * _REACH


def lifted(hip: Array, toe: Array, ankle: Array, had: Array, longest: Array) -> tuple[Array, Array]:
    """Lift the heels of legs that would become longer than `had`; return ankles (F, 3) and foot rotations (F, 4).

    The length approaches `longest` smoothly, because near a straight leg the knee moves about ten times as far as the
    ankle.
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
    """Return global rotations of thigh and shin that bring the ankle to the target, or as near as the leg reaches."""
    a = np.linalg.norm(knee - hip, axis=-1, keepdims=True)
    b = np.linalg.norm(ankle - knee, axis=-1, keepdims=True)
    old, new = ankle - hip, target - hip
    wanted = np.linalg.norm(new, axis=-1, keepdims=True)
    length = np.clip(wanted, np.abs(a - b) + 1e-6, (a + b) * _REACH)
    # the plane of the knee rotates with the line from hip to ankle
    swing = rot.between(old, new)
    knee_dir, line = rot.rotate(swing, knee - hip), new / wanted
    # the plane of a straight leg would be determined by noise, so its knee is bent to the front of the thigh
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
    """Pin toes in contact to one place on the floor, and blend the correction in and out around each stance.

    A stance in which the toe drifts farther than `farthest` (m) is not changed.
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
    """Return the maximum drift of each stance of at least 0.15 s, and the number of skating frames."""
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

