"""A canonical clip as a BVH file that other programs read: y up, z forward, centimetres, T-pose of zero angles."""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.core import rotations as rot
from mm_ros.core.clip import Clip
from mm_ros.core.skeleton import DEFAULT_TIPS, HIPS, PARENTS, ROOT
from mm_ros.io.bvh import CHANNELS, Bvh

Array = Any
CM = 100.0
_AXES = [1, 2, 0]  # x left, y up, z forward of the file, taken from x forward, y left, z up
_TURN = tuple(CHANNELS.index(name) for name in ("Yrotation", "Xrotation", "Zrotation"))
_MOVE = tuple(CHANNELS.index(name) for name in ("Xposition", "Yposition", "Zposition"))


def clip_to_bvh(clip: Clip) -> Bvh:
    """The virtual root is folded into the hips: nothing but the body is in the file."""
    names = clip.skeleton.names[HIPS:]
    root, local = clip.rotations[:, ROOT].astype(float), clip.rotations[:, HIPS:].astype(float)
    local[:, 0] = rot.multiply(root, local[:, 0])
    hips = clip.positions[:, ROOT] + rot.rotate(root, clip.positions[:, HIPS].astype(float))
    angles = np.degrees(np.unwrap(_euler_yxz(local), axis=0))
    offsets = clip.skeleton.offsets[HIPS:].astype(float)[:, _AXES] * CM
    offsets[0] = 0.0
    tips = [(names.index(joint), tip) for joint, tip in DEFAULT_TIPS.items()]
    return Bvh(
        names=names,
        parents=(PARENTS[HIPS:] - HIPS).astype(np.int64),
        offsets=offsets,
        channels=(_MOVE + _TURN, *[_TURN] * (len(names) - 1)),
        end_parents=np.array([j for j, _ in tips], np.int64),
        end_offsets=np.array([tip for _, tip in tips])[:, _AXES] * CM,
        frame_time=1 / clip.rate,
        motion=np.round(np.concatenate([hips[:, _AXES] * CM, angles.reshape(len(clip), -1)], axis=1), 6),
    )


def _euler_yxz(q: Array) -> Array:
    """Angles (…, 3) about the file's Y, X, Z: R = Ry Rx Rz."""
    m = rot.to_matrix(q)[..., _AXES, :][..., _AXES]
    x = np.arcsin(np.clip(-m[..., 1, 2], -1, 1))
    return np.stack([np.arctan2(m[..., 0, 2], m[..., 2, 2]), x, np.arctan2(m[..., 1, 0], m[..., 1, 1])], axis=-1)
