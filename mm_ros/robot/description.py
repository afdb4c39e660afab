"""Make a URDF file of the avatar for the display RobotModel of RViz: tapered capsules that follow the avatar's TF
frames."""

from __future__ import annotations

import math
from xml.sax.saxutils import quoteattr

import numpy as np

from mm_ros.body.mesh import flesh_bones
from mm_ros.body.shape import Bone
from mm_ros.body.skeleton import HEAD, Skeleton, default_skeleton
from mm_ros.maths import rotations as rot
from mm_ros.maths.transformations import rpy_from_quaternion

STEP_M = 0.003  # A tapered bone is drawn as cylinders; the radii of neighbouring ones differ by at most STEP_M.
# Eyes and nose show in which direction the avatar's head faces. Each row has the position of one of these spheres in
# the axes of the head, and its radius [m]. The numbers are for a head joint at 1.6 m, and are scaled.
_FACE = (
    ((0.098, 0.034, 0.095), 0.015, "eyes"),
    ((0.098, -0.034, 0.095), 0.015, "eyes"),
    ((0.112, 0.0, 0.065), 0.014, "body"),
)
_COLORS = {"body": "0.75 0.78 0.85 1", "eyes": "0.1 0.1 0.12 1"}


def capsules_urdf(skeleton: Skeleton, avatar: str) -> str:
    """Return a URDF of the avatar's skeleton, in which every joint has the type "floating". RViz moves the links of the
    avatar's URDF by the TF frames that the node `pose_postprocessor` publishes."""
    shapes = [""] * len(skeleton)
    for bone in flesh_bones(skeleton):
        shapes[bone.joint] += _capsule(bone)
    shapes[HEAD] += _face(skeleton)
    links = [_link(f"{avatar}/{name}", shape) for name, shape in zip(skeleton.names, shapes, strict=True)]
    joints = [
        _joint(f"{avatar}/{skeleton.names[p]}", f"{avatar}/{n}", skeleton.offsets[j])
        for j, (n, p) in enumerate(zip(skeleton.names, skeleton.parents, strict=True))
        if p >= 0
    ]
    materials = [f'<material name="{name}"><color rgba="{rgba}"/></material>' for name, rgba in _COLORS.items()]
    return (
        f'<?xml version="1.0"?>\n<robot name={quoteattr(avatar)}>\n'
        + "\n".join(materials + links + joints)
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
    """Return a tapered capsule: cylinders of decreasing radius and a sphere at each end, because URDF has no cones."""
    way, change = bone.end - bone.start, bone.radius_end - bone.radius_start
    length = float(np.linalg.norm(way))
    out = ""
    for at, r in ((bone.start, bone.radius_start), (bone.end, bone.radius_end)):
        out += _visual(_xyz(at), "0 0 0", f'<sphere radius="{r:.4f}"/>')
    pieces = math.ceil(max(abs(change) / STEP_M, 1.0)) if length > 1e-4 else 0
    if pieces:
        rpy = " ".join(f"{v:.5f}" for v in rpy_from_quaternion(rot.between(np.array([0.0, 0.0, 1.0]), way)))
    for i in range(pieces):
        share = (i + 0.5) / pieces
        tube = f'<cylinder radius="{bone.radius_start + share * change:.4f}" length="{length / pieces:.6f}"/>'
        out += _visual(_xyz(bone.start + share * way), rpy, tube)
    return out


def _face(skeleton: Skeleton) -> str:
    scale = skeleton.head_height / default_skeleton().head_height
    return "".join(
        _visual(_xyz(scale * np.array(at)), "0 0 0", f'<sphere radius="{scale * r:.4f}"/>', color)
        for at, r, color in _FACE
    )


def _xyz(p: np.ndarray) -> str:
    return " ".join(f"{v:.5f}" for v in p)


def _visual(xyz: str, rpy: str, geometry: str, color: str = "body") -> str:
    material = f'<material name="{color}"/>'
    return f'<visual><origin xyz="{xyz}" rpy="{rpy}"/><geometry>{geometry}</geometry>{material}</visual>'
