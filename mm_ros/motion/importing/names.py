"""Joint names in files of common software, and words that identify joints in other files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os.path import commonpath

# Canonical joints that a file must have. The module `canonical.py` adds other joints if they are missing.
REQUIRED = (
    "hips", "head",
    "left_upper_leg", "left_lower_leg", "left_foot", "right_upper_leg", "right_lower_leg", "right_foot",
    "left_upper_arm", "left_lower_arm", "left_hand", "right_upper_arm", "right_lower_arm", "right_hand",
)  # fmt: skip
SIDES = ("left", "right")

# Patterns of joint names. {S} stands for Left or Right, {s} for left or right, {L} for L or R, and {l} for l or r. The
# table has no names of spine and neck, because all joints between hips and head belong to spine and neck.
_LIMBS = ("shoulder", "upper_arm", "lower_arm", "hand", "upper_leg", "lower_leg", "foot", "toes")
_FAMILIES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # maps a family of skeletons to the names of hips and head, and the patterns of the limbs in the order of _LIMBS
    "CMU (cgspeed)": (
        "Hips", "Head",
        ("{S}Shoulder", "{S}Arm", "{S}ForeArm", "{S}Hand", "{S}UpLeg", "{S}Leg", "{S}Foot", "{S}ToeBase"),
    ),
    "LAFAN1": (
        "Hips", "Head",
        ("{S}Shoulder", "{S}Arm", "{S}ForeArm", "{S}Hand", "{S}UpLeg", "{S}Leg", "{S}Foot", "{S}Toe"),
    ),
    "Xsens / 100STYLE": (
        "Hips", "Head",
        ("{S}Collar", "{S}Shoulder", "{S}Elbow", "{S}Wrist", "{S}Hip", "{S}Knee", "{S}Ankle", "{S}Toe"),
    ),
    "Xsens MVN": (
        "Pelvis", "Head",
        ("{S}Shoulder", "{S}UpperArm", "{S}ForeArm", "{S}Hand", "{S}UpperLeg", "{S}LowerLeg", "{S}Foot", "{S}Toe"),
    ),
    "Xsens (Hips, Chest…)": (
        "Hips", "Head",
        ("{S}Collar", "{S}UpArm", "{S}LowArm", "{S}Hand", "{S}UpLeg", "{S}LowLeg", "{S}Foot", "{S}Toe"),
    ),
    "Bandai-Namco": (
        "Hips", "Head",
        ("Shoulder_{L}", "UpperArm_{L}", "LowerArm_{L}", "Hand_{L}",
         "UpperLeg_{L}", "LowerLeg_{L}", "Foot_{L}", "Toes_{L}"),
    ),
    "Unity humanoid / UPC": (
        "Hips", "Head",
        ("{S}Shoulder", "{S}UpperArm", "{S}LowerArm", "{S}Hand", "{S}UpperLeg", "{S}LowerLeg", "{S}Foot", "{S}Toes"),
    ),
    "SMPL": (
        "Pelvis", "Head",
        ("{L}_Collar", "{L}_Shoulder", "{L}_Elbow", "{L}_Wrist", "{L}_Hip", "{L}_Knee", "{L}_Ankle", "{L}_Foot"),
    ),
    "3ds Max Biped": (
        "Pelvis", "Head",
        ("{L} Clavicle", "{L} UpperArm", "{L} Forearm", "{L} Hand", "{L} Thigh", "{L} Calf", "{L} Foot", "{L} Toe0"),
    ),
    "Unreal": (
        "pelvis", "head",
        ("clavicle_{l}", "upperarm_{l}", "lowerarm_{l}", "hand_{l}", "thigh_{l}", "calf_{l}", "foot_{l}", "ball_{l}"),
    ),
}  # fmt: skip


def plain(name: str) -> str:
    """Remove namespace, separators and case from a joint name: 'mixamorig:LeftUpLeg' becomes 'leftupleg'."""
    name = re.split(r"[:|]", name)[-1]
    name = re.sub(
        r"^(mixamorig\d*|character\d*|bip\d*|b_|bn_|def-?|j_bip_[clr]?)[\s_.-]*", "", name, flags=re.IGNORECASE
    )
    return re.sub(r"[\s_.:-]+", "", name).lower()


def without_prefix(names: Sequence[str]) -> list[str]:
    """Remove the common prefix of all joint names: 'Model_Hips' and 'Model_Spine' become 'Hips' and 'Spine'."""
    shared = re.match(r".*[\W_]", commonpath(list(names))) if len(names) > 3 else None
    return [n[shared.end() :] if shared else n for n in names]


def _filled(pattern: str, side: str) -> str:
    return pattern.format(S=side.capitalize(), s=side, L=side[0].upper(), l=side[0])


def family_table(family: str) -> dict[str, str]:
    """Return a map from canonical joints to their names in a family of skeletons, in the form that `plain` returns."""
    hips, head, limbs = _FAMILIES[family]
    out = {"hips": plain(hips), "head": plain(head)}
    for side in SIDES:
        out |= {f"{side}_{limb}": plain(_filled(n, side)) for limb, n in zip(_LIMBS, limbs, strict=True) if n}
    return out


def by_family(names: Sequence[str]) -> tuple[str, dict[str, int]]:
    """Return the family of skeletons whose names fit most joints of a file, and these joints; empty if none fits."""
    where: dict[str, int] = {}
    for i, name in enumerate(without_prefix(names)):
        where.setdefault(plain(name), i)
    best: tuple[str, dict[str, int]] = ("", {})
    for family in _FAMILIES:
        found = {c: where[n] for c, n in family_table(family).items() if n in where}
        # Head, hands and feet are not required in a family, because they may be end sites, which have no names.
        needed = [c for c in REQUIRED if c not in ("head", "left_hand", "right_hand", "left_foot", "right_foot")]
        if all(c in found for c in needed) and len(found) > len(best[1]):
            best = (family, found)
    if best[0].startswith("CMU") and any("mixamorig" in n.lower() for n in names):
        best = ("Mixamo", best[1])
    elif best[0].startswith("CMU") and not {"lhipjoint", "lowerback"} & where.keys():
        best = ("MotionBuilder names (as CMU, Mixamo)", best[1])
    return best


# Body parts, and patterns of their joint names in files of unknown software; the first pattern that matches counts.
_WORDS = (
    ("toes", r"toe|ball"),
    ("foot", r"foot|ankle"),
    ("lower_leg", r"lowerleg|lowleg|calf|shin|knee|leg2|lowerlimb|loleg|tibia"),
    ("upper_leg", r"upperleg|upleg|thigh|femur|hip(?!s)|leg1"),
    ("lower_arm", r"forearm|lowerarm|lowarm|elbow|radius|loarm|arm2"),
    ("hand", r"hand(?!index|thumb|middle|ring|pinky)|wrist"),
    ("upper_arm", r"upperarm|uparm|humerus|arm1|shldr|arm"),
    ("shoulder", r"clavicle|collar|shoulder|scapula"),
    ("lower_leg", r"leg"),
)


_PART = "|".join(pattern for _, pattern in _WORDS)
# A name with "hip" is the upper leg only if no other joint fits better, because some skeletons also have a femur joint.
_WEAK = re.compile(r"hip(?!s)")


def side_of(name: str) -> str:
    """Return the side ('left', 'right' or '') of a joint name such as LeftArm, arm_l, L_Arm, Arm.R or rhumerus."""
    bare = re.split(r"[:|]", name)[-1]
    low = bare.lower()
    for side in SIDES:
        if side in low:
            return side
    found = re.search(r"(?:^|[\s_.-])([LRlr])(?:$|[\s_.-])", bare) or re.match(r"([lr])(?=[A-Z])", bare)
    found = found or re.search(r"(?<=[a-z0-9])([LR])$", bare) or re.match(r"([LR])(?=[A-Z][a-z])", bare)
    found = found or re.match(rf"([lr])(?:{_PART})", low)
    return {"l": "left", "r": "right"}[found.group(1).lower()] if found else ""


def is_weak(name: str) -> bool:
    """Return whether the name of a joint is ambiguous, so that a joint with a clearer name takes precedence."""
    return bool(_WEAK.search(plain(name)))


def part_of(name: str) -> str:
    bare = plain(name).replace("left", "").replace("right", "")
    for part, pattern in _WORDS:
        if re.search(pattern, bare):
            return part
    return ""
