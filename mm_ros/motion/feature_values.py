"""Compute the feature vectors of clips."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.types import F32, F64
from mm_ros.maths import rotations as rot
from mm_ros.motion.contacts import central_difference
from mm_ros.motion.features import POSITION, VELOCITY, Feature, FeatureLayout

Array = Any
# A function that computes the values (F, width) of a feature from joint positions (F, J, 3), joint rotations (F, J, 4)
# and the frame rate
FeatureFunction = Callable[[F64, F64, float], Array]
Functions = Mapping[str, FeatureFunction]  # feature name → function
NO_FUNCTIONS: Functions = MappingProxyType({})


def feature_values(clip: Clip, layout: FeatureLayout, functions: Functions = NO_FUNCTIONS) -> F64:
    """Return the feature vectors (F, D) of a clip, without normalization, in the axes of the root of each frame.

    Future positions after the end of the clip are extrapolated linearly. `functions` maps the names of features of kind
    "function" to their functions.
    """
    positions, rotations = (x.astype(np.float64) for x in clip.globals())
    back = rot.inverse(rotations[:, 0])
    out = np.empty((len(clip), layout.size))
    for f in layout.features:
        out[:, layout.offsets[f.name]] = _values(f, clip, positions, rotations, back, functions)
    return out


def _values(f: Feature, clip: Clip, positions: F64, rotations: F64, back: F64, functions: Functions) -> Array:
    if f.kind == "function":
        return _from_function(f, clip, positions, rotations, functions)
    if f.kind == "joint_position":
        return rot.rotate(back, positions[:, clip.skeleton.index(f.joint)] - positions[:, 0])
    if f.kind == "joint_velocity":
        return rot.rotate(back, central_difference(positions[:, clip.skeleton.index(f.joint)], clip.rate))
    j = clip.skeleton.index(f.joint)
    if f.kind == "joint_direction":
        return rot.rotate(back, rot.rotate(rotations[:, j], np.tile([1.0, 0, 0], (len(clip), 1))))
    blocks = []
    for t in f.times:
        if f.kind == POSITION:
            ahead = at_time(positions[:, j], t * clip.rate, grow=True) - positions[:, 0]
        elif f.kind == VELOCITY:
            ahead = at_time(central_difference(positions[:, j], clip.rate), t * clip.rate, grow=False)
        else:
            ahead = rot.rotate(at_rotation(rotations[:, j], t * clip.rate), np.tile([1.0, 0, 0], (len(clip), 1)))
            ahead[:, 2] = 0
            ahead /= np.maximum(np.linalg.norm(ahead, axis=1, keepdims=True), 1e-9)
        blocks.append(rot.rotate(back, ahead)[:, :2])
    return np.concatenate(blocks, axis=1)


def at_time(values: F64, frames: float, grow: bool) -> F64:
    """Return the values (F, …) that are `frames` frames (or a fraction) later than each frame, interpolated linearly.

    Beyond the ends of the clip, the values are extrapolated linearly if `grow` is true, and constant otherwise.
    """
    at = np.arange(len(values)) + frames
    inside = np.clip(at, 0, len(values) - 1)
    i = np.minimum(inside.astype(np.int64), max(len(values) - 2, 0))
    t = (inside - i)[:, None]
    after = values[np.minimum(i + 1, len(values) - 1)]
    out = values[i] + t * (after - values[i])
    if grow and len(values) > 1:
        speed = np.where(at[:, None] > 0, values[-1] - values[-2], values[1] - values[0])
        out = out + (at - inside)[:, None] * speed
    return np.asarray(out)


def at_rotation(q: F64, frames: float) -> F64:
    """Return rotations (F, 4) at `frames` frames after each frame; rotations beyond the clip's ends are constant."""
    at = np.clip(np.arange(len(q)) + frames, 0, len(q) - 1)
    i = np.minimum(at.astype(np.int64), max(len(q) - 2, 0))
    a, b = q[i], q[np.minimum(i + 1, len(q) - 1)]
    b = np.where((a * b).sum(-1, keepdims=True) < 0, -b, b)
    return np.asarray(rot.normalize(a + (at - i)[:, None] * (b - a)))


def _from_function(f: Feature, clip: Clip, positions: F64, rotations: F64, functions: Functions) -> Array:
    if f.name not in functions:
        raise MmRosError(f"feature '{f.name}' needs its function '{f.function}': give the YAML file that names it")
    values = np.asarray(functions[f.name](positions, rotations, clip.rate), np.float64)
    if values.shape != (len(clip), f.size):
        wanted = (len(clip), f.size)
        raise MmRosError(f"feature '{f.name}': expected {wanted} from {f.function}, came {values.shape}")
    return values


def normalization(values: F64, layout: FeatureLayout) -> tuple[F32, F32]:
    """Return the mean and the standard deviation of each feature column (D,), for the normalization.

    All columns of a feature have the same standard deviation, so that normalization does not change their proportions.
    """
    mean = values.mean(axis=0)
    std = np.empty(layout.size)
    for name, columns in layout.offsets.items():
        spread = float(np.sqrt(values[:, columns].var(axis=0).mean()))
        if not spread > 1e-6:
            raise MmRosError(f"feature '{name}' does not vary in this motion; leave it out or add other motion")
        std[columns] = spread
    return mean.astype(np.float32), std.astype(np.float32)
