"""Find body parts and sides in the names of joints and links. The role of a joint is chosen by geometry and by the
words in the joint's name."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Each row holds a word that joint names contain and the body part that it states. The first row whose word is in a
# joint's name decides, so that "forearm" does not count as "arm".
_PARTS = (
    ("knee", "lower_leg"), ("shank", "lower_leg"), ("calf", "lower_leg"), ("ankle", "foot"), ("toe", "toes"),
    ("hip", "upper_leg"), ("thigh", "upper_leg"), ("foot", "foot"),
    ("forearm", "lower_arm"), ("elbow", "lower_arm"), ("wrist", "hand"), ("clavicle", "shoulder"),
    ("collar", "shoulder"), ("shoulder", "upper_arm"),
    ("neck", "neck"), ("head", "head"), ("waist", "spine"), ("torso", "spine"), ("trunk", "spine"), ("spine", "spine"),
    ("back", "spine"), ("chest", "spine"), ("lumbar", "spine"), ("abdomen", "spine"), ("pelvis", "spine"),
)  # fmt: skip
_LIMBS = (("leg", "leg"), ("arm", "arm"), ("hand", "arm"))
_FINGERS = (
    "finger", "thumb", "index", "middle", "ring", "pinky", "pinkie", "little", "gripper", "claw", "knuckle", "jaw",
    "phalanx", "palm", "eye", "eyes", "eyelid", "camera", "lidar", "wheel", "caster", "ear", "antenna", "hokuyo", "lip",
    "brow", "tongue",
)  # fmt: skip
_SIDES = (
    r"(left|right)", r"(lf|rt|l|r)(?=leg|arm|hip|knee|ankle|shoulder|elbow|wrist|hand|foot|toe|sh|el)", r"(l|r)$"
)  # fmt: skip
_LIMB_OF = {
    "upper_leg": "leg", "lower_leg": "leg", "foot": "leg", "toes": "leg", "lower_arm": "arm", "hand": "arm",
    "shoulder": "arm", "upper_arm": "arm",
}  # fmt: skip


@dataclass(frozen=True)
class NameVote:
    """Body part and side that a joint's name states. `part` is a body part without its side, `limb` is leg or arm, and
    `side` is left or right; each is "" if the name does not state it. `finger` is true if the name is that of a finger,
    gripper, eye, wheel or sensor."""

    part: str
    limb: str
    side: str
    finger: bool


def words_of(name: str) -> list[str]:
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [w for w in re.split(r"[^a-z]+", apart.lower()) if w]


def vote(name: str) -> NameVote:
    """Return the body part, limb and side that the words of a joint's name state."""
    words = words_of(name)
    joined = "_".join(words)
    part = next((p for word, p in _PARTS if any(word in w for w in words)), "")
    limb = _LIMB_OF.get(part, "") or next((limb for word, limb in _LIMBS if any(word in w for w in words)), "")
    if part == "shoulder" and "clavicle" not in joined and "collar" not in joined:
        part = "upper_arm"
    side = _side(words)
    return NameVote(part, limb, side, any(w in _FINGERS or w.startswith(("finger", "thumb", "gripper")) for w in words))


def _side(words: list[str]) -> str:
    """Return the side (left, right or "") that the words of a joint's name state. If the name contains neither the word
    left nor the word right, a letter l or r before a body part decides, or else a single letter l or r."""
    for i, pattern in enumerate(_SIDES):
        marks = [m.group(1)[0] for w in words if (m := re.match(pattern, w))]
        if i == 0 and len(set(marks)) > 1:
            return ""
        if marks:
            return "left" if marks[0] == "l" else "right"
    return ""
