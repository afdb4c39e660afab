"""Find tags for a clip in its file name: 'Crouch_Walk_Left_02.bvh' gives the tags walk, crouch and left."""

from __future__ import annotations

import re
from pathlib import Path

_RULES = (
    ("walk", r"walk|stroll|gait"), ("run", r"run|sprint|dash"), ("jog", r"jog"), ("back", r"back(?:ward)?s?|bw"),
    ("side", r"side|strafe|sidestep"), ("turn", r"turn|pivot|spin"), ("crouch", r"crouch|sneak|duck"),
    ("tip_toe", r"tip_?toe"), ("idle", r"idle|stand(?:ing)?|breath(?:ing)?"), ("jump", r"jump|hop|leap"),
    ("left", r"left"), ("right", r"right"), ("start", r"start"), ("stop", r"stop"), ("dance", r"danc(?:e|ing)"),
    ("fight", r"fight|punch|kick"), ("fall", r"fall"), ("aim", r"aim(?:ing)?"), ("obstacles", r"obstacles?"),
    ("push", r"push"), ("carry", r"carry(?:ing)?"), ("sit", r"sit(?:ting)?"), ("circle", r"circle|arc|curve"),
)  # fmt: skip


def tags_of_name(path: str) -> tuple[str, ...]:
    words = re.sub(r"([a-z])([A-Z0-9])", r"\1 \2", Path(path).stem)
    words = " ".join(re.split(r"[\W_\d]+", words)).lower()
    return tuple(tag for tag, pattern in _RULES if re.search(rf"\b(?:{pattern})", words))
