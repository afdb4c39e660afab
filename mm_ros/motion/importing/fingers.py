"""Find the joints of fingers in a motion file, by their names and by their places below the hands."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mm_ros.base.errors import MmRosError
from mm_ros.body.fingers import FINGERS, JOINTS_PER_FINGER, NAMES_OF_FINGERS
from mm_ros.body.skeleton import NAMES
from mm_ros.motion.bvh.reader import Bvh
from mm_ros.motion.importing.names import SIDES, plain
from mm_ros.motion.importing.topology import ancestors

_IN_PALM = re.compile(r"metacarpal|inhand")
_FINGER_WORDS = (
    ("thumb", r"thumb"), ("index", r"index|forefinger"), ("middle", r"middle|midfinger"), ("ring", r"ring"),
    ("little", r"little|pinky|pinkie"),
)  # fmt: skip


def finger_of(name: str) -> str:
    """Return the finger ('thumb', …) that a joint name contains, or '' for joints in the palm and for unknown names.

    The software 3ds Max numbers the fingers, beginning with the thumb: 'L Finger0' is a joint of the left thumb.
    """
    bare = plain(name)
    if _IN_PALM.search(bare):
        return ""
    numbered = re.search(r"finger([0-4])[12]?$", bare)
    if numbered:
        return _FINGER_WORDS[int(numbered.group(1))][0]
    return next((finger for finger, words in _FINGER_WORDS if re.search(words, bare)), "")


def finger_nodes(bvh: Bvh, nodes: Mapping[str, int]) -> dict[str, int]:
    """Return a map from canonical finger joints to joints of the file; bones in the palm are left out."""
    out: dict[str, int] = {}
    for side in SIDES:
        hand, count = nodes[f"{side}_hand"], dict.fromkeys(FINGERS, 0)
        for i, name in enumerate(bvh.names):
            finger = finger_of(name)
            if finger and count[finger] < JOINTS_PER_FINGER and hand in ancestors(bvh.node_parents, i)[1:]:
                count[finger] += 1
                out[f"{side}_{finger}_{count[finger]}"] = i
    return out


def check_name(joint: str, where: str) -> None:
    """Raise MmRosError if `joint` is neither the name of a canonical joint nor that of a finger joint."""
    if joint not in NAMES[1:] and joint not in NAMES_OF_FINGERS:
        known = ", ".join(NAMES[1:])
        raise MmRosError(
            f"{where}: '{joint}' is not a canonical joint. Available: {known}; with --fingers also "
            f"{NAMES_OF_FINGERS[0]} to {NAMES_OF_FINGERS[-1]}"
        )
