"""Bent copies of upright motion, for users who walk with a bent back.

Motion capture databases contain little motion with a bent back. A bent copy has the pelvis and the spine pitched
forward until the head is at a target height. The pelvis moves backward for balance, and downward if a leg is too short.
The feet and ankles keep their positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, pairwise
from typing import Any, NamedTuple

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import (
    CHEST,
    HEAD,
    HIPS,
    LEFT_SHOULDER,
    LEFT_UPPER_LEG,
    NAMES,
    NECK,
    RIGHT_SHOULDER,
    RIGHT_UPPER_LEG,
    SPINE,
    UPPER_CHEST,
)
from mm_ros.maths import rotations as rot
from mm_ros.maths.signals import odd_window
from mm_ros.motion.bands import FINE, torso_angles
from mm_ros.motion.cleaning.legs import with_toes_at
from mm_ros.motion.contacts import TOES, stances
from mm_ros.motion.kinds import BACK, IDLE, SIDE, TURN, WALK, kinds_of, root_motion
from mm_ros.motion.metrics_feet import skating

Array = Any
TAG = "stooped"
# Target head heights, as shares of the head height in upright standing, which the bent copies use in turn
RATIOS = (0.80, 0.85, 0.76, 0.905, 0.80, 0.76, 0.85, 0.70)
# Pitch of each joint in the room as a share of the upper chest's pitch, similar to that of subject 136 of the CMU data.
_PITCH = {HIPS: 0.28, SPINE: 0.75, CHEST: 0.95, UPPER_CHEST: 1.0, NECK: 0.9, HEAD: 0.45}
LEGS = (LEFT_UPPER_LEG, RIGHT_UPPER_LEG)
# Backward motion of the hips as a share of the forward motion of the head, which keeps the centre of mass in place.
# Trunk, head and arms are 0.68 of the body's mass, and their centre is at 0.45 of the distance from hips to head.
BALANCE = 0.36
STEEPEST = np.radians(85)  # maximum pitch of the upper chest; the knees bend only if the head must be lower
DEEPEST = 0.3  # maximum distance by which bent knees lower the pelvis, as a share of the standing head height
_STRAIGHTEST = 0.96  # maximum distance from hip to ankle in bent copies, as a share of the leg's length
_ENVELOPE_S = 0.4  # window [s] of the filter that smooths the lowering of the pelvis
_SEARCH_RATE = 10.0  # frame rate [Hz] at which `_depth_of` computes head heights of a clip, to save time

# A frame can be copied if its head height ratio is above the first limit and its torso angle below the second one.
UPRIGHT_RATIO, UPRIGHT_TORSO = 0.93, np.radians(20)
COPIED = (IDLE, TURN, WALK, SIDE, BACK)
FASTEST = 1.3  # maximum speed [m/s] of motion that is copied with a bent back
SHORTEST_S, LONGEST_S = 3.0, 10.0  # minimum and maximum duration [s] of a piece that is copied with a bent back
SPEED_STEP, TURN_STEP = 0.35, 0.25  # ranges of speed [m/s] and yaw rate [rad/s] in a group of similar motion pieces


def bent_copies(clips: Sequence[Clip], ratios: Sequence[Array], share: float) -> list[Clip]:
    """Return copies of clips with a bent back, for the classes of head height (bands) that contain little motion.

    The copies last at most `share` times as long as all clips. `ratios` holds the clips' smoothed head height ratios.
    """
    whole = sum(c.seconds for c in clips)
    depths = poor_depths(np.concatenate([*ratios]), share)
    if not depths:
        return []
    pieces = pieces_to_bend(clips, ratios, share * whole * len(depths) / len(RATIOS))
    return [stooped(clips[p.clip].cut(p.first, p.stop), depth) for p, depth in zip(pieces, cycle(depths), strict=False)]


def poor_depths(ratios: Array, share: float) -> list[float]:
    """Return the target head heights in RATIOS near which there is less recorded motion than copies would add."""
    limits = [limit for _, limit, _ in FINE]
    counts = np.histogram(ratios, [-np.inf, *limits])[0]
    bands = np.searchsorted(limits, RATIOS)
    enough = share * len(ratios) / len(set(bands))
    return [r for r, b in zip(RATIOS, bands, strict=True) if counts[b] < enough]


def stooped(clip: Clip, ratio: float) -> Clip:
    """Return a bent copy of an upright clip, whose mean head height is `ratio` times the standing head height."""
    upright = _globals(clip)
    turned, moves, _ = _posture(clip, upright, _depth_of(clip, ratio))
    positions, rotations = clip.positions.astype(np.float64), clip.rotations.astype(np.float64)
    positions[:, 0, :2] += moves[:, :2]
    positions[:, HIPS, 2] += moves[:, 2]
    own = slice(HIPS, len(NAMES))  # without the fingers, which turn with the hand
    rotations[:, own] = rot.normalize(rot.multiply(rot.inverse(turned[:, clip.skeleton.parents[own]]), turned[:, own]))
    bent = replace(clip, positions=positions.astype(np.float32), rotations=rotations.astype(np.float32))
    out = with_toes_at(bent, upright[0][:, list(TOES)])
    return replace(out, name=f"{clip.name} {TAG} {ratio:g}", tags=(*clip.tags, (TAG, 0, len(clip))))


def _depth_of(clip: Clip, ratio: float) -> float:
    """Find by bisection the bend of the body (0 to 2) for a mean head height; above 1, the knees also bend."""
    step = max(round(clip.rate / _SEARCH_RATE), 1)
    few = replace(clip, positions=clip.positions[::step], rotations=clip.rotations[::step], rate=clip.rate / step)
    upright, low, high = _globals(few), 0.0, 2.0
    for _ in range(9):
        middle = (low + high) / 2
        heads = _posture(few, upright, middle)[2]
        if heads.mean() / clip.skeleton.head_height > ratio:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _globals(clip: Clip) -> tuple[Array, Array]:
    return clip.skeleton.kinematics(clip.positions.astype(np.float64), clip.rotations.astype(np.float64))


def _posture(clip: Clip, upright: tuple[Array, Array], depth: float) -> tuple[Array, Array, Array]:
    """Bend the trunk; return the rotations of all joints, the shift of the hips (F, 3), and the head height (F,)."""
    p, q = upright
    turned = _pitched(q, min(depth, 1.0) * float(STEEPEST))
    bent = _from_hips(clip, turned, p[:, HIPS])
    ahead = rot.rotate(q[:, 0], np.tile([1.0, 0.0, 0.0], (len(q), 1)))
    moves = -BALANCE * float(((bent[HEAD] - p[:, HEAD]) * ahead).sum(-1).mean()) * ahead
    knees = max(depth - 1.0, 0.0) * DEEPEST * clip.skeleton.head_height
    moves[:, 2] -= _sink(clip, {j: bent[j] + moves for j in LEGS}, p, knees)
    return turned, moves, bent[HEAD][:, 2] + moves[:, 2]


def _from_hips(clip: Clip, turned: Array, hips: Array) -> dict[int, Array]:
    out = {HIPS: hips}
    for j in (*_PITCH, *LEGS):
        if j != HIPS:
            parent = int(clip.skeleton.parents[j])
            out[j] = out[parent] + rot.rotate(turned[:, parent], clip.positions[:, j].astype(np.float64))
    return out


def _pitched(q: Array, pitch: float) -> Array:
    left = rot.rotate(q[:, 0], np.tile([0.0, 1.0, 0.0], (len(q), 1)))
    out = q.copy()
    for j, share in _PITCH.items():
        out[:, j] = rot.multiply(rot.exp(share * pitch * left), q[:, j])
    for j in (LEFT_SHOULDER, RIGHT_SHOULDER):
        out[:, j] = rot.multiply(rot.exp(pitch * left), q[:, j])
    return out


def _sink(clip: Clip, tops: dict[int, Array], old: Array, least: float) -> Array:
    """Return how far [m] the pelvis must move down (F,) so that both legs reach their old ankle positions."""
    lacking = np.full(len(old), least)
    for upper, top in tops.items():
        foot = upper + 2
        bones = np.linalg.norm(clip.positions[:, [upper + 1, foot]].astype(np.float64), axis=-1).sum(-1)
        flat = np.linalg.norm(old[:, foot, :2] - top[:, :2], axis=-1)
        highest = old[:, foot, 2] + np.sqrt(np.maximum((_STRAIGHTEST * bones) ** 2 - flat**2, 0.0))
        lacking = np.maximum(lacking, top[:, 2] - highest)
    half = odd_window(_ENVELOPE_S, clip.rate) // 2
    padded = np.pad(lacking, 2 * half, mode="edge")
    widest = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1).max(-1)
    window = np.hanning(2 * half + 3)[1:-1]
    return np.convolve(widest, window / window.sum(), "valid")


class Piece(NamedTuple):
    """A range of upright motion that can be copied with a bent back."""

    clip: int
    first: int
    stop: int
    group: tuple[int, int, int]  # kind of motion, number of the speed class, number of the yaw rate class
    skating: float  # share of the frames in the piece in which a foot slides


def pieces_to_bend(clips: Sequence[Clip], ratios: Sequence[Array], seconds: float) -> list[Piece]:
    """Choose pieces with a total duration of `seconds` from all groups in turn, first those with the least sliding."""
    groups: dict[tuple[int, int, int], list[Piece]] = {}
    for i, (clip, ratio) in enumerate(zip(clips, ratios, strict=True)):
        for piece in _upright_pieces(i, clip, ratio):
            groups.setdefault(piece.group, []).append(piece)
    for found in groups.values():
        found.sort(key=lambda p: (-p.skating, p.clip, p.first))
    out: list[Piece] = []
    total = 0.0
    while total < seconds and any(groups.values()):
        for key in sorted(groups):
            if groups[key] and total < seconds:
                out.append(groups[key].pop())
                total += (out[-1].stop - out[-1].first) / clips[out[-1].clip].rate
    return out


def _upright_pieces(index: int, clip: Clip, ratio: Array) -> list[Piece]:
    positions, _ = clip.globals()
    kinds, _ = kinds_of(clip)
    velocity, turn = root_motion(clip)
    speed = np.linalg.norm(velocity, axis=1)
    fit = (ratio > UPRIGHT_RATIO) & (torso_angles(positions) < UPRIGHT_TORSO)
    fit &= np.isin(kinds, COPIED) & (speed < FASTEST)
    slides = skating(positions, 1 / clip.rate)
    out = []
    for first, stop in stances(fit, round(SHORTEST_S * clip.rate)):
        count = max(int(np.ceil((stop - first) / clip.rate / LONGEST_S)), 1)
        for a, b in pairwise(np.linspace(first, stop, count + 1).astype(int).tolist()):
            kind = int(np.bincount(kinds[a:b]).argmax())
            turns = float(turn[a:b].mean())
            turning = int(np.sign(turns)) * min(int(abs(turns) / TURN_STEP), 2)
            group = (kind, int(speed[a:b].mean() / SPEED_STEP), turning)
            out.append(Piece(index, a, b, group, float(slides[a:b].mean())))
    return out
