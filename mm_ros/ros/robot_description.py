"""A URDF of capsules from a skeleton, so that RViz's RobotModel shows a body on our TF frames."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import numpy as np

from mm_ros.core import rotations as rot
from mm_ros.core.skeleton import DEFAULT_TIPS, NAMES, PARENTS, Skeleton

# Radius of the bone that begins at a joint, metres, for a person of 1.75 m.
RADIUS = {
    "hips": 0.11, "spine": 0.11, "chest": 0.12, "upper_chest": 0.11, "neck": 0.055, "head": 0.09,
    "shoulder": 0.05, "upper_arm": 0.045, "lower_arm": 0.037, "hand": 0.03,
    "upper_leg": 0.075, "lower_leg": 0.05, "foot": 0.04, "toes": 0.035,
}  # fmt: skip
# Children to which a bone is drawn; shoulders and legs hang on the trunk without a bone of their own from it.
TRUNK = {"hips": "spine", "upper_chest": "neck"}


def bones(skeleton: Skeleton) -> list[tuple[str, np.ndarray, float]]:
    """Joint, vector to the bone's end in the joint's axes, radius."""
    out = []
    scale = skeleton.head_height / 1.59
    for j, name in enumerate(NAMES[1:], start=1):
        children = [k for k in range(len(NAMES)) if PARENTS[k] == j]
        if name in TRUNK:
            children = [NAMES.index(TRUNK[name])]
        end = skeleton.offsets[children[0]] if children else np.array(DEFAULT_TIPS[name]) * scale
        kind = name.removeprefix("left_").removeprefix("right_")
        out.append((name, np.asarray(end, float), RADIUS[kind] * scale))
    return out


def capsules_urdf(skeleton: Skeleton, avatar: str) -> str:
    """Joints are floating: TF from `pose_postprocessor` moves the links, frame by frame."""
    links = [_link(f"{avatar}/root", "")]
    links += [_link(f"{avatar}/{name}", _capsule(end, radius)) for name, end, radius in bones(skeleton)]
    joints = [
        _joint(f"{avatar}/{NAMES[p]}", f"{avatar}/{n}", skeleton.offsets[j])
        for j, (n, p) in enumerate(zip(NAMES, PARENTS, strict=True))
        if p >= 0
    ]
    material = '<material name="body"><color rgba="0.75 0.78 0.85 1"/></material>'
    return (
        f'<?xml version="1.0"?>\n<robot name={quoteattr(avatar)}>\n{material}\n'
        + "\n".join(links + joints)
        + "\n</robot>\n"
    )


def _link(name: str, visual: str) -> str:
    return f"<link name={quoteattr(name)}>{visual}</link>"


def _joint(parent: str, child: str, offset: np.ndarray) -> str:
    xyz = " ".join(f"{v:.5f}" for v in offset)
    return (
        f'<joint name={quoteattr(child + "_joint")} type="floating"><parent link={quoteattr(parent)}/>'
        f'<child link={quoteattr(child)}/><origin xyz="{xyz}" rpy="0 0 0"/></joint>'
    )


def _capsule(end: np.ndarray, radius: float) -> str:
    length = float(np.linalg.norm(end))
    xyz = " ".join(f"{v:.5f}" for v in end / 2)
    roll, pitch, yaw = roll_pitch_yaw(rot.between(np.array([0.0, 0.0, 1.0]), end))
    tube = _visual(
        xyz, f"{roll:.5f} {pitch:.5f} {yaw:.5f}", f'<cylinder radius="{radius:.4f}" length="{length:.4f}"/>'
    )
    ball = f'<sphere radius="{radius:.4f}"/>'
    return tube + _visual("0 0 0", "0 0 0", ball) + _visual(" ".join(f"{v:.5f}" for v in end), "0 0 0", ball)


def _visual(xyz: str, rpy: str, geometry: str) -> str:
    return f'<visual><origin xyz="{xyz}" rpy="{rpy}"/><geometry>{geometry}</geometry><material name="body"/></visual>'


def roll_pitch_yaw(q: np.ndarray) -> tuple[float, float, float]:
    """URDF's fixed-axis angles of a quaternion (w, x, y, z)."""
    m = rot.to_matrix(q)
    pitch = float(np.arcsin(np.clip(-m[2, 0], -1, 1)))
    if abs(m[2, 0]) > 1 - 1e-9:
        return 0.0, pitch, float(np.arctan2(-m[0, 1], m[1, 1]))
    return float(np.arctan2(m[2, 1], m[2, 2])), pitch, float(np.arctan2(m[1, 0], m[0, 0]))
