"""The joints of fingers, as an example of joints that follow the canonical joints. The import adds no other joints."""

from __future__ import annotations

import numpy as np

from mm_ros.body.skeleton import LEFT_HAND, NAMES, RIGHT_HAND, Skeleton

FINGERS = ("thumb", "index", "middle", "ring", "little")
SIDES = (("left", LEFT_HAND, 1.0), ("right", RIGHT_HAND, -1.0))  # side, hand, sign of the lateral axis
JOINTS_PER_FINGER = 3
NAMES_OF_FINGERS: tuple[str, ...] = tuple(
    f"{side}_{finger}_{k + 1}" for side, _, _ in SIDES for finger in FINGERS for k in range(JOINTS_PER_FINGER)
)
FOREARM_M = 0.25  # length of the forearm of a person with the offsets below.
# Offsets of the left hand [m] for a hand of 0.18 m: each finger's joints from the wrist on. Set by judgement; a file's
# own offsets replace them.
_OFFSETS: dict[str, tuple[tuple[float, float, float], ...]] = {
    "thumb": ((0.025, 0.030, -0.012), (0.020, 0.032, -0.008), (0.012, 0.027, -0.004)),
    "index": ((0.027, 0.086, 0.0), (0.0, 0.040, 0.0), (0.0, 0.024, 0.0)),
    "middle": ((0.007, 0.089, 0.0), (0.0, 0.044, 0.0), (0.0, 0.027, 0.0)),
    "ring": ((-0.012, 0.084, 0.0), (0.0, 0.041, 0.0), (0.0, 0.026, 0.0)),
    "little": ((-0.030, 0.075, -0.004), (0.0, 0.032, 0.0), (0.0, 0.019, 0.0)),
}


def with_fingers(skeleton: Skeleton) -> Skeleton:
    """The canonical joints of a skeleton and 30 joints of fingers, of a size that fits the forearms."""
    canonical = skeleton.canonical
    forearm = float(np.linalg.norm(canonical.offsets[[LEFT_HAND, RIGHT_HAND]], axis=1).mean())
    offsets, parents = [*canonical.offsets], [*canonical.parents]
    for _, hand, y in SIDES:
        for finger in FINGERS:
            for k, offset in enumerate(_OFFSETS[finger]):
                parents.append(len(parents) - 1 if k else hand)
                offsets.append(np.array(offset, np.float32) * np.float32(forearm / FOREARM_M) * (1.0, y, 1.0))
    return Skeleton(np.array(offsets, np.float32), NAMES + NAMES_OF_FINGERS, np.array(parents, np.int32))
