"""The pose database in memory: what motion matching searches and plays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.core.errors import MmRosError
from mm_ros.core.features import FeatureLayout
from mm_ros.core.skeleton import Skeleton
from mm_ros.core.types import F32

HASHED_FRAMES = 256  # of the joints


@dataclass(frozen=True)
class MotionDatabase:
    """N frames at one rate, on one skeleton; clips are ranges of consecutive frames. Arrays may be memory-mapped.

    Row 0 of the joint arrays is the virtual root in the clip's own room (on the floor, yaw only); its velocities are in
    the root's own axes, so that playing needs no clip room. Other joints are local to the parent, angular velocities in
    the parent's axes.
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
    tag_names: tuple[str, ...]  # bit i of `tags`; height bands are tags too, named band_<name>
    tags: NDArray[np.uint64]  # (N,)
    layout: FeatureLayout
    features: F32  # (N, D) normalized
    feature_mean: F32  # (D,)
    feature_std: F32  # (D,)
    search_arrays: dict[str, NDArray[Any]] = field(default_factory=dict)  # the search engine's own index
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.positions)
        if n == 0 or len(self.range_starts) == 0:
            raise MmRosError("the database is empty: it has no frames")
        for name in ("rotations", "velocities", "angular_velocities", "contacts", "tags", "features"):
            if len(getattr(self, name)) != n:
                raise MmRosError(f"database: {name} has {len(getattr(self, name))} frames, positions has {n}")

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def hash(self) -> int:
        """64 bits over what is searched and played; of the joints, some frames: features are made of all."""
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
