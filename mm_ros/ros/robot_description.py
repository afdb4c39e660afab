"""A URDF of capsules from a skeleton, so that RViz's RobotModel shows a body on our TF frames."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import numpy as np

from mm_ros.core import rotations as rot
from mm_ros.core.body_shape import Bone, bones
from mm_ros.core.skeleton import NAMES, PARENTS, Skeleton
from mm_ros.io.transformations import rpy_from_quaternion


def capsules_urdf(skeleton: Skeleton, avatar: str) -> str:
    """Joints are floating: TF from `pose_postprocessor` moves the links, frame by frame."""
    links = [_link(f"{avatar}/root", "")]
    shape = bones(skeleton)
    for j, name in enumerate(NAMES[1:], start=1):
        links.append(_link(f"{avatar}/{name}", "".join(_capsule(b) for b in shape if b.joint == j)))
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
    return (
        f'<joint name={quoteattr(child + "_joint")} type="floating"><parent link={quoteattr(parent)}/>'
        f'<child link={quoteattr(child)}/><origin xyz="{_xyz(offset)}" rpy="0 0 0"/></joint>'
    )


def _capsule(bone: Bone) -> str:
    way = bone.end - bone.start
    radius = (bone.radius_start + bone.radius_end) / 2
    roll, pitch, yaw = rpy_from_quaternion(rot.between(np.array([0.0, 0.0, 1.0]), way))
    tube = f'<cylinder radius="{radius:.4f}" length="{np.linalg.norm(way):.4f}"/>'
    out = _visual(_xyz((bone.start + bone.end) / 2), f"{roll:.5f} {pitch:.5f} {yaw:.5f}", tube)
    for at, r in ((bone.start, bone.radius_start), (bone.end, bone.radius_end)):
        out += _visual(_xyz(at), "0 0 0", f'<sphere radius="{r:.4f}"/>')
    return out


def _xyz(p: np.ndarray) -> str:
    return " ".join(f"{v:.5f}" for v in p)


def _visual(xyz: str, rpy: str, geometry: str) -> str:
    return f'<visual><origin xyz="{xyz}" rpy="{rpy}"/><geometry>{geometry}</geometry><material name="body"/></visual>'
