"""BVH dialects of other software, in which tests export a generated walk, whose true motion is known."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import NAMES
from mm_ros.maths import rotations as rot
from mm_ros.motion.importing.export import Dialect
from mm_ros.motion.importing.names import _LIMBS, _filled
from mm_ros.motion.procedural import make_clips

SPINE_LAFAN = {
    "hips": "Hips",
    "spine": "Spine",
    "chest": "Spine1",
    "upper_chest": "Spine2",
    "neck": "Neck",
    "head": "Head",
}
SPINE_XSENS = {
    "hips": "Hips",
    "spine": "Chest",
    "chest": "Chest2",
    "upper_chest": "Chest4",
    "neck": "Neck",
    "head": "Head",
}
SPINE_BANDAI = {"hips": "Hips", "spine": "Spine", "chest": "Chest", "neck": "Neck", "head": "Head"}


def names_of(spine: dict[str, str], limbs: tuple[str, ...], prefix: str = "") -> dict[str, str]:
    out = dict(spine)
    for side in ("left", "right"):
        out |= {f"{side}_{c}": _filled(n, side) for c, n in zip(_LIMBS, limbs, strict=True) if n}
    return {c: prefix + n for c, n in out.items()}


def along_x() -> dict[str, np.ndarray]:
    """Return joint axes as in LAFAN1: x is along the bone, so that in the zero pose all bones point along x."""
    axes = {n: rot.between(np.array([1.0, 0, 0]), np.array([0.0, 0, 1])) for n in NAMES}
    for n in NAMES:
        if "arm" in n or "hand" in n or "shoulder" in n:
            axes[n] = rot.between(np.array([1.0, 0, 0]), np.array([0.0, 1 if "left" in n else -1, 0]))
        elif "leg" in n or "foot" in n or "toes" in n:
            axes[n] = rot.between(np.array([1.0, 0, 0]), np.array([0.0, 0, -1]))
    return axes


LIMBS_LAFAN = ("{S}Shoulder", "{S}Arm", "{S}ForeArm", "{S}Hand", "{S}UpLeg", "{S}Leg", "{S}Foot", "{S}Toe")
LIMBS_XSENS = ("{S}Collar", "{S}Shoulder", "{S}Elbow", "{S}Wrist", "{S}Hip", "{S}Knee", "{S}Ankle", "{S}Toe")
UNREAL = ("clavicle", "upperarm", "lowerarm", "hand", "thigh", "calf", "foot", "ball")
LIMBS_UNREAL = tuple(f"{n}_{{l}}" for n in UNREAL)
BANDAI = ("Shoulder", "UpperArm", "LowerArm", "Hand", "UpperLeg", "LowerLeg", "Foot", "Toes")
LIMBS_BANDAI = tuple(f"{n}_{{L}}" for n in BANDAI)
LIMBS_FEW = ("", "{S}UpperArm", "{S}LowerArm", "{S}Hand", "{S}UpperLeg", "{S}LowerLeg", "{S}Foot", "")
SPINE_UNREAL = dict(zip(SPINE_LAFAN, ("pelvis", "spine_01", "spine_02", "spine_03", "neck_01", "head"), strict=True))

DIALECTS: dict[str, Dialect] = {
    "LAFAN1": Dialect(
        names_of(SPINE_LAFAN, LIMBS_LAFAN),
        joint_axes=along_x(), offset_repeats_frame_0=True,
    ),
    "Mixamo": Dialect(
        names_of(
            SPINE_LAFAN,
            ("{S}Shoulder", "{S}Arm", "{S}ForeArm", "{S}Hand", "{S}UpLeg", "{S}Leg", "{S}Foot", "{S}ToeBase"),
            "mixamorig:",
        ),
        order="ZXY",
    ),
    "Xsens": Dialect(
        names_of(SPINE_XSENS, LIMBS_XSENS),
        order="YXZ",
    ),
    "Xsens metres, z up": Dialect(
        names_of(SPINE_XSENS, LIMBS_XSENS),
        up="Z+", unit_to_m=1.0, order="YXZ",
    ),
    "100STYLE": Dialect(
        names_of(SPINE_XSENS, LIMBS_XSENS),
        order="YXZ", positions_everywhere=True,
    ),
    "Bandai-Namco": Dialect(
        names_of(SPINE_BANDAI, LIMBS_BANDAI),
        order="ZXY", joint_axes=along_x(), extra_root="joint_Root", positions_everywhere=True,
    ),
    "Unreal, inches": Dialect(
        names_of(SPINE_UNREAL, LIMBS_UNREAL),
        up="Z+", unit_to_m=0.0254, order="XYZ",
    ),
    "without shoulders, toes": Dialect(
        names_of(SPINE_BANDAI, LIMBS_FEW),
        unit_to_m=0.001,
    ),
    "nameless": Dialect({n: f"bone{i:02}" for i, n in enumerate(NAMES[1:])}, up="X+"),
    "upside down": Dialect(names_of(SPINE_LAFAN, LIMBS_LAFAN), up="Y-"),
}  # fmt: skip


@lru_cache
def walks() -> dict[str, Clip]:
    return {c.name: c for c in make_clips(0)}


def walk() -> Clip:
    return walks()["walk 1.3"]
