"""Computes the true body of a simulated user at the times of the simulated trackers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.clip import Clip
from mm_ros.body.types import F32, F64, AvatarPose
from mm_ros.maths import rotations as rot
from mm_ros.tracking.simulation import derivatives, resample, sample_times

TRUTH = "truth"  # text in the field `engine` of poses that show the true body of a simulated user


@dataclass(frozen=True)
class TruthTrack:
    skeleton: int  # hash
    roots: F64  # (F, 7)
    positions: F32  # (F, J, 3), row 0 zero
    rotations: F32  # (F, J, 4), row 0 identity
    velocities: F32
    angular_velocities: F32

    def __len__(self) -> int:
        return len(self.roots)

    def pose(self, i: int, stamp_ns: int, epoch: int) -> AvatarPose:
        off: NDArray[np.bool_] = np.zeros(2, bool)
        return AvatarPose(
            stamp_ns, epoch, self.skeleton, self.roots[i].copy(), self.positions[i].copy(),
            self.rotations[i].copy(), self.velocities[i].copy(), self.angular_velocities[i].copy(), off, off.copy(),
            engine=TRUTH,
        )  # fmt: skip


def truth_of_clip(clip: Clip, rate: float, times: F64 | None = None) -> TruthTrack:
    """Resample the body of a clip to the times `times` [s], or to the sample times of trackers at `rate` [Hz]."""
    times = sample_times(len(clip), clip.rate, rate) if times is None else times
    p, q = resample(clip.positions.astype(np.float64), clip.rotations.astype(np.float64), clip.rate, times)
    v, w = derivatives(p, q, rate)
    roots = np.concatenate([p[:, 0], q[:, 0]], axis=-1)
    back = rot.inverse(q[:, 0])
    v[:, 0], w[:, 0] = rot.rotate(back, v[:, 0]), rot.rotate(back, w[:, 0])  # in root axes
    p[:, 0], q[:, 0] = 0.0, (1.0, 0.0, 0.0, 0.0)
    return TruthTrack(
        clip.skeleton.hash,
        roots,
        *(np.ascontiguousarray(a, np.float32) for a in (p, q, v, w)),
    )
