"""Tags of extreme postures, which no search returns for a standing user unless height or feet ask for them."""

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
LIFTED_M = 0.25  # m; height of an ankle above its rest height, for a leg of LEG_M, above which the leg is lifted
LIFT_OF_SPEED = 0.12  # increase of this height in m per m/s above SLOW, because runners lift their heels to the seat
SLOW, LEG_M = 0.5, 0.82  # m/s, m
# A person lies if the hips are below this share of their rest height and the trunk is farther than this from vertical
LYING_HIPS, LYING_TORSO = 0.35, np.radians(50)
# s; frames up to this time before the posture are tagged, too, because playback would continue into the posture until
# the next search
LEAD_S, AFTER_S = 0.4, 0.1


def extreme_frames(clip: Clip) -> dict[str, NDArray[np.bool_]]:
    """Return the frames (F,) of each tag of EXTREME_TAGS: kicks and lifted knees, and lying."""
    positions, _ = clip.globals()
    rest = clip.skeleton.rest_positions()
    velocity, _ = root_motion(clip)
    lies = (positions[:, HIPS, 2] < LYING_HIPS * rest[HIPS, 2]) & (torso_angles(positions) > LYING_TORSO)
    high = lifted_legs(positions, clip.skeleton, np.linalg.norm(velocity, axis=1)) & ~lies
    return {HIGH_LEG: _widened(high, clip.rate), LYING: _widened(lies, clip.rate)}


def lifted_legs(positions: Array, skeleton: Skeleton, speed: Array) -> NDArray[np.bool_]:
    """Whether a leg is lifted higher than walking or running at this speed (F,) [m/s] does. `positions`: (F, J, 3)."""
    size, feet = skeleton.leg_length / LEG_M, [LEFT_FOOT, RIGHT_FOOT]
    lift = (positions[:, feet, 2] - skeleton.rest_positions()[feet, 2]).max(1) / size
    return np.asarray(lift > LIFTED_M + LIFT_OF_SPEED * np.maximum(speed / size - SLOW, 0.0))


def _widened(flags: NDArray[np.bool_], rate: float) -> NDArray[np.bool_]:
    before, after = round(LEAD_S * rate), round(AFTER_S * rate)
    if not flags.any():
        return flags
    return np.convolve(flags, np.ones(before + after + 1))[before : before + len(flags)] > 0.5
