"""Tags for frames in which a person lies or lifts a leg high; the matcher plays these frames only on demand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HIPS, LEFT_FOOT, RIGHT_FOOT, Skeleton
from mm_ros.motion.bands import torso_angles
from mm_ros.motion.kinds import root_motion

Array = Any
HIGH_LEG, LYING = EXTREME_TAGS = ("high_leg", "lying")
LIFTED_M = 0.25  # A leg is lifted high if its ankle is more than this above its height in the rest pose [m].
LIFT_OF_SPEED = 0.12  # increase of the limit `LIFTED_M` per root speed above `SLOW` [m per m/s], for runners
SLOW, LEG_M = 0.5, 0.82  # root speed [m/s] above which `LIFTED_M` rises; leg length [m] for which both hold
# A person lies if the hips are below `LYING_HIPS` of their height in the rest pose, and the trunk tilts by more than
# `LYING_TORSO` [rad].
LYING_HIPS, LYING_TORSO = 0.35, np.radians(50)
# The tags also include the 0.4 s before an extreme posture, in which playback could continue to the posture before the
# next search, and the 0.1 s after it.
LEAD_S, AFTER_S = 0.4, 0.1


def extreme_frames(clip: Clip) -> dict[str, NDArray[np.bool_]]:
    """Return for each tag of EXTREME_TAGS whether it applies to each frame (F,) of a clip."""
    positions, _ = clip.globals()
    rest = clip.skeleton.rest_positions()
    velocity, _ = root_motion(clip)
    lies = (positions[:, HIPS, 2] < LYING_HIPS * rest[HIPS, 2]) & (torso_angles(positions) > LYING_TORSO)
    high = lifted_legs(positions, clip.skeleton, np.linalg.norm(velocity, axis=1)) & ~lies
    return {HIGH_LEG: _widened(high, clip.rate), LYING: _widened(lies, clip.rate)}


def lifted_legs(positions: Array, skeleton: Skeleton, speed: Array) -> NDArray[np.bool_]:
    """Return for each frame whether a leg is lifted higher than in walking or running at the speed (F,) [m/s]."""
    size, feet = skeleton.leg_length / LEG_M, [LEFT_FOOT, RIGHT_FOOT]
    lift = (positions[:, feet, 2] - skeleton.rest_positions()[feet, 2]).max(1) / size
    return np.asarray(lift > LIFTED_M + LIFT_OF_SPEED * np.maximum(speed / size - SLOW, 0.0))


def _widened(flags: NDArray[np.bool_], rate: float) -> NDArray[np.bool_]:
    before, after = round(LEAD_S * rate), round(AFTER_S * rate)
    if not flags.any():
        return flags
    return np.convolve(flags, np.ones(before + after + 1))[before : before + len(flags)] > 0.5
