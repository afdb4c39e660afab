"""The class `MotionDatabase`, which holds the motion that motion matching searches and plays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import F32
from mm_ros.motion.features import FeatureLayout

HASHED_FRAMES = 256  # approximate number of frames whose joint poses affect the hash of the database
MOST_TAGS = 64  # maximum number of tags, because each tag is one bit of a 64-bit integer


@dataclass(frozen=True)
class MotionDatabase:
    """Motion clips with a total of N frames, at one frame rate and on one skeleton, in arrays or memory maps.

    Joint 0 is the virtual root, which is on the floor and rotates about the vertical only. The pose of the virtual root
    is in the room of the recording, and its velocities are in its own axes. The poses and velocities of all joints
    except the root are relative to their parent joints.
    """

    skeleton: Skeleton
    rate: float
    positions: F32  # (N, J, 3)
    rotations: F32  # (N, J, 4)
    velocities: F32  # (N, J, 3)
    angular_velocities: F32  # (N, J, 3)
    contacts: NDArray[np.uint8]  # (N, 2) left, right
    head_height_ratio: F32  # (N,)
    range_starts: NDArray[np.int32]  # (C,)
    range_stops: NDArray[np.int32]  # (C,) exclusive
    clip_names: tuple[str, ...]
    tag_names: tuple[str, ...]  # name of each bit in `tags`; the tag of a height band is named band_<name>
    tags: NDArray[np.uint64]  # (N,)
    layout: FeatureLayout
    features: F32  # (N, D) normalized
    feature_mean: F32  # (D,)
    feature_std: F32  # (D,)
    search_arrays: dict[str, NDArray[Any]] = field(default_factory=dict)  # arrays of the stored search index
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.positions) == 0 or len(self.range_starts) == 0:
            raise MmRosError("the database is empty: it has no frames")
        self._check_shapes()
        self._check_ranges()
        if not 0 < self.rate < np.inf:
            raise MmRosError(f"database: rate must be finite and above 0 Hz, came {self.rate}")
        if len(self.tag_names) > MOST_TAGS:
            raise MmRosError(f"database: has {len(self.tag_names)} tags; expected at most {MOST_TAGS}")

    def _check_shapes(self) -> None:
        """Check the shapes of all arrays, because compiled code accesses the arrays without bounds checks."""
        n, j, columns = len(self.positions), len(self.skeleton), self.layout.size
        shapes: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
            "positions": (np.float32, (n, j, 3)),
            "rotations": (np.float32, (n, j, 4)),
            "velocities": (np.float32, (n, j, 3)),
            "angular_velocities": (np.float32, (n, j, 3)),
            "contacts": (np.uint8, (n, 2)),
            "head_height_ratio": (np.float32, (n,)),
            "tags": (np.uint64, (n,)),
            "features": (np.float32, (n, columns)),
            "feature_mean": (np.float32, (columns,)),
            "feature_std": (np.float32, (columns,)),
        }
        for name, (dtype, shape) in shapes.items():
            array = getattr(self, name)
            if array.dtype != dtype or array.shape != shape:
                wanted = f"{np.dtype(dtype).name} {shape}"
                raise MmRosError(f"database: {name} must be {wanted}, came {array.dtype} {array.shape}")

    def _check_ranges(self) -> None:
        n, starts, stops = len(self.positions), self.range_starts, self.range_stops
        clips = (len(self.clip_names),)
        if starts.dtype != np.int32 or stops.dtype != np.int32 or starts.shape != clips or stops.shape != clips:
            raise MmRosError(
                f"database: the ranges of {clips[0]} clips must be int32, came {starts.dtype} {starts.shape} and "
                f"{stops.dtype} {stops.shape}"
            )
        if starts[0] < 0 or stops[-1] > n or (starts >= stops).any() or (stops[:-1] > starts[1:]).any():
            raise MmRosError(f"database: clip ranges must ascend, must not overlap and must lie within 0 … {n}")

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def hash(self) -> int:
        """64-bit hash of all features and tags and of the joint poses in some frames."""
        names = (self.clip_names, self.tag_names, self.rate, self.skeleton.hash, self.layout.hash)
        out = hashlib.blake2b(repr(names).encode(), digest_size=8)
        some = slice(None, None, max(1, len(self) // HASHED_FRAMES))
        for values in (self.range_starts, self.range_stops, self.tags, self.features, self.feature_mean,
                       self.feature_std, self.positions[some], self.rotations[some]):  # fmt: skip
            out.update(np.ascontiguousarray(values).data)
        return int.from_bytes(out.digest(), "big")

    def tags_of(self, bits: int) -> tuple[str, ...]:
        return tuple(name for i, name in enumerate(self.tag_names) if bits >> i & 1)

    def clip_of(self, frame: int) -> int:
        return int(np.searchsorted(self.range_starts, frame, side="right")) - 1

    def tag_bit(self, name: str) -> int:
        try:
            return 1 << self.tag_names.index(name)
        except ValueError:
            raise MmRosError(
                f"tag '{name}' is not in the database. Tags: {', '.join(self.tag_names)}"
            ) from None

    @property
    def bands(self) -> tuple[str, ...]:
        return tuple(n.removeprefix("band_") for n in self.tag_names if n.startswith("band_"))
