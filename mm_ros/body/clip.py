"""Motion clip: poses of a skeleton over time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import F32


@dataclass(frozen=True)
class Clip:
    """Motion clip with F frames and J joints. Poses of joints are relative to their parents; joint 0 is the root in the
    room of the clip, whose floor is at z = 0. `rate` is the number of frames per second. Each tag of a clip is a tuple
    (name, first frame, stop frame)."""

    name: str
    rate: float
    skeleton: Skeleton
    positions: F32  # (F, J, 3)
    rotations: F32  # (F, J, 4) w x y z
    tags: tuple[tuple[str, int, int], ...] = ()
    subject: str = ""
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        f, j = len(self.positions), len(self.skeleton)
        if self.positions.shape != (f, j, 3) or self.rotations.shape != (f, j, 4):
            raise MmRosError(
                f"clip '{self.name}': expected (F, {j}, 3) and (F, {j}, 4), "
                f"came {self.positions.shape} and {self.rotations.shape}"
            )

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def seconds(self) -> float:
        return len(self) / self.rate

    def globals(self) -> tuple[F32, F32]:
        """Return positions (F, J, 3) and rotations (F, J, 4) of all joints in the room of the clip."""
        p, q = self.skeleton.kinematics(self.positions, self.rotations)
        return p, q

    def cut(self, first: int, stop: int) -> Clip:
        tags = tuple(
            (n, max(a, first) - first, min(b, stop) - first)
            for n, a, b in self.tags
            if a < stop and b > first
        )
        return replace(
            self,
            positions=np.ascontiguousarray(self.positions[first:stop]),
            rotations=np.ascontiguousarray(self.rotations[first:stop]),
            tags=tags,
        )
