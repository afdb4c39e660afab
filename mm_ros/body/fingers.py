"""Extend a skeleton by the joints of the fingers. Finger joints are the only joints that the import of motion files
adds to the canonical joints."""

from __future__ import annotations

import numpy as np

from mm_ros.body.skeleton import LEFT_HAND, NAMES, RIGHT_HAND, Skeleton

FINGERS = ("thumb", "index", "middle", "ring", "little")
SIDES = (("left", LEFT_HAND, 1.0), ("right", RIGHT_HAND, -1.0))  # for each hand: side, joint, sign of y on this side
JOINTS_PER_FINGER = 3
NAMES_OF_FINGERS: tuple[str, ...] = tuple(
    f"{side}_{finger}_{k + 1}" for side, _, _ in SIDES for finger in FINGERS for k in range(JOINTS_PER_FINGER)
)
FOREARM_M = 0.25  # length of the forearm of a person whose fingers have the offsets in `_OFFSETS`
# Offsets of the joints of each finger of a left hand with a length of 0.18 m, from the wrist outward [m]. The offsets
# were chosen by judgement; the offsets in a motion file replace them.
_OFFSETS: dict[str, tuple[tuple[float, float, float], ...]] = {
    "thumb": ((0.025, 0.030, -0.012), (0.020, 0.032, -0.008), (0.012, 0.027, -0.004)),
    "index": ((0.027, 0.086, 0.0), (0.0, 0.040, 0.0), (0.0, 0.024, 0.0)),
    "middle": ((0.007, 0.089, 0.0), (0.0, 0.044, 0.0), (0.0, 0.027, 0.0)),
    "ring": ((-0.012, 0.084, 0.0), (0.0, 0.041, 0.0), (0.0, 0.026, 0.0)),
    "little": ((-0.030, 0.075, -0.004), (0.0, 0.032, 0.0), (0.0, 0.019, 0.0)),
}


def with_fingers(skeleton: Skeleton) -> Skeleton:
    """Return a skeleton with the canonical joints of `skeleton` and 30 finger joints, whose size fits the length of the
    forearms."""
    canonical = skeleton.canonical
    forearm = float(np.linalg.norm(canonical.offsets[[LEFT_HAND, RIGHT_HAND]], axis=1).mean())
    offsets, parents = [*canonical.offsets], [*canonical.parents]
    for _, hand, y in SIDES:
        for finger in FINGERS:
            for k, offset in enumerate(_OFFSETS[finger]):
                parents.append(len(parents) - 1 if k else hand)
                offsets.append(np.array(offset, np.float32) * np.float32(forearm / FOREARM_M) * (1.0, y, 1.0))
    return Skeleton(np.array(offsets, np.float32), NAMES + NAMES_OF_FINGERS, np.array(parents, np.int32))
