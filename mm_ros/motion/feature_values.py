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
# function of positions (F, J, 3), rotations (F, J, 4) and rate that returns values (F, width)
FeatureFunction = Callable[[F64, F64, float], Array]
Functions = Mapping[str, FeatureFunction]  # functions by the name of their feature
NO_FUNCTIONS: Functions = MappingProxyType({})


def feature_values(clip: Clip, layout: FeatureLayout, functions: Functions = NO_FUNCTIONS) -> F64:
    """Return features (F, D), not normalized, in the root space of each frame.

    Beyond the clip's ends, the root's position is extrapolated linearly. `functions`: the functions of features of kind
    "function", by feature name.
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
    """Shift values (F, …) by `frames` with linear interpolation. Beyond the ends of the clip the values are constant,
    or extrapolated with `grow`.
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
    """Shift rotations (F, 4) by `frames` with interpolation; beyond the ends they are constant."""
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
    """Return mean and deviation (D,). All columns of a feature share one deviation, to keep their proportions."""
    mean = values.mean(axis=0)
    std = np.empty(layout.size)
    for name, columns in layout.offsets.items():
        spread = float(np.sqrt(values[:, columns].var(axis=0).mean()))
        if not spread > 1e-6:
            raise MmRosError(f"feature '{name}' does not vary in this motion; leave it out or add other motion")
        std[columns] = spread
    return mean.astype(np.float32), std.astype(np.float32)
