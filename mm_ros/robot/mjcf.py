"""Read robot files in MuJoCo's format MJCF. The library MuJoCo resolves the defaults, frames and units of an MJCF file.
Meshes, motors and sensors in the file are removed before MuJoCo reads the file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.extras import setup_command
from mm_ros.body.types import F64, identity_pose
from mm_ros.maths import rotations as rot
from mm_ros.robot.model import Link, Mimic, Robot, RobotJoint, Shape
from mm_ros.robot.urdf import ordered_joints
from mm_ros.robot.xml import MOST_LINKS, file_text, parse

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MOST_INCLUDES = 100
NEEDED = ("compiler", "option", "default", "worldbody")
POSE = ("pos", "quat", "euler", "axisangle", "xyaxes", "zaxis")
MESH_SITE = "mm_ros mesh "


def read_mjcf(path: str | Path) -> Robot:
    """Read a robot from an MJCF file, or raise MmRosError with the reason if the file cannot be used."""
    path = Path(path)
    root = parse(file_text(path), str(path))
    if root.tag != "mujoco":
        raise MmRosError(f"{path}: expected <mujoco>, came <{root.tag}>")
    try:
        import mujoco
    except ImportError:
        raise MmRosError(f"{path}: MJCF files need MuJoCo. Install it: {setup_command('robot')}") from None
    _include(root, path.parent, str(path), [0])
    mimics = _mimics(root)
    meshes = _without_meshes(root, str(path))
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)  # MuJoCo would write its warnings to a file MUJOCO_LOG.TXT.
    try:
        model = mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))
    except (ValueError, mujoco.FatalError) as error:
        raise MmRosError(f"{path}: MuJoCo cannot read it: {' '.join(str(error).split())[:300]}") from None
    finally:
        mujoco.set_mju_user_warning(before)
    if model.nbody > MOST_LINKS:
        raise MmRosError(f"{path}: has {model.nbody} bodies; expected at most {MOST_LINKS}")
    return _robot(mujoco, model, root.get("model", "robot"), str(path), mimics, meshes)


def _include(root: Element, folder: Path, source: str, count: list[int]) -> None:
    """Replace each <include> element by the content of the included file, which must be in the folder of the model."""
    for parent in list(root.iter()):
        for i, e in reversed(list(enumerate(parent))):
            if e.tag != "include":
                continue
            count[0] += 1
            named = folder / e.get("file", "")
            if count[0] > MOST_INCLUDES:
                raise MmRosError(f"{source}: includes more than {MOST_INCLUDES} files")
            if not named.resolve().is_relative_to(folder.resolve()):
                raise MmRosError(f"{source}: includes '{e.get('file')}', which is outside of the model's folder")
            inner = parse(file_text(named), str(named))
            _include(inner, folder, source, count)
            parent.remove(e)
            for k, child in enumerate(inner):
                parent.insert(i + k, child)


def _mimics(root: Element) -> dict[str, Mimic]:
    """Return the joints whose angle is a linear function of another joint's angle by an equality constraint of the
    file."""
    out = {}
    for e in root.findall("equality/joint"):
        if e.get("joint2"):
            factors = [float(x) for x in e.get("polycoef", "0 1 0 0 0").split()] + [0.0, 0.0]
            out[e.get("joint1", "")] = Mimic(e.get("joint2", ""), factors[1], factors[0])
    return out


def _without_meshes(root: Element, source: str) -> dict[int, tuple[str, tuple[float, ...], bool]]:
    """Delete all XML elements that do not describe kinematics. Replace each <geom> element that has a mesh by a <site>
    element. Return the file and the scale of each mesh, and whether the mesh is a collision shape."""
    folder, meshes = "", {}
    for e in root.iter("compiler"):
        folder = e.get("meshdir", e.get("assetdir", folder))
    for e in root.iter("mesh"):
        file = e.get("file", "")
        scale = tuple(float(v) for v in e.get("scale", "1 1 1").split())
        meshes[e.get("name", Path(file).stem)] = (str(Path(folder) / file), scale)
    for e in list(root):
        if e.tag not in NEEDED:
            root.remove(e)
    for e in root.iter("default"):
        for child in list(e):
            if child.tag not in ("default", "joint", "geom", "site"):
                e.remove(child)
            for key in ("material", "mesh", "hfield"):
                child.attrib.pop(key, None)
    kinds = {e.get("class", ""): e for e in root.iter("default")}
    ElementTree.SubElement(root, "compiler", boundmass="1e-9", boundinertia="1e-12", fusestatic="false")
    found: dict[int, tuple[str, tuple[float, ...], bool]] = {}
    for body in root.iter():
        if body.tag not in ("body", "worldbody", "frame"):
            continue
        for e in list(body):
            if e.tag in ("camera", "light", "composite", "flexcomp", "attach", "replicate"):
                body.remove(e)
            elif e.tag == "geom" and (e.get("mesh") or e.get("type") in ("mesh", "hfield", "sdf")):
                file, scale = meshes.get(e.get("mesh", ""), ("", (1.0, 1.0, 1.0)))
                keep = {k: v for k, v in e.attrib.items() if k in POSE}
                drawn = _is_visual(e, kinds)
                found[len(found)] = (file, scale, not drawn)
                body.remove(e)
                body.append(ElementTree.Element("site", {**keep, "name": f"{MESH_SITE}{len(found) - 1}"}))
            elif e.tag == "geom":
                e.attrib.pop("material", None)
    return found


def _is_visual(geom: Element, kinds: dict[str, Element]) -> bool:
    rules = [geom, *(g for d in [kinds.get(geom.get("class", "main"))] if d is not None for g in d.findall("geom"))]
    for e in rules:
        if e.get("contype") is not None or e.get("conaffinity") is not None:
            return e.get("contype", "1") == "0" and e.get("conaffinity", "1") == "0"
    return "visual" in geom.get("class", "")


def _robot(
    mujoco: Any, m: Any, name: str, source: str, mimics: dict[str, Mimic], meshes: dict[int, Any]
) -> Robot:
    names = _names(mujoco, m, mujoco.mjtObj.mjOBJ_BODY, m.nbody, "body")
    joint_names = _names(mujoco, m, mujoco.mjtObj.mjOBJ_JOINT, m.njnt, "joint")
    tops = [b for b in range(1, m.nbody) if m.body_parentid[b] == 0]
    if not tops:
        raise MmRosError(f"{source}: has no body")
    base = max(tops, key=lambda b: int((np.asarray(m.body_rootid) == b).sum()))
    notes = [f"{len(tops) - 1} further bodies of the world are left out"] if len(tops) > 1 else []
    joints: list[RobotJoint] = []
    kept = [b for b in range(1, m.nbody) if m.body_rootid[b] == base]
    odd = False
    for b in kept:
        at = np.concatenate([m.body_pos[b], m.body_quat[b]])
        odd = _joints(mujoco, m, b, joint_names, names, joints, mimics, at) or odd
    notes += ["slide and ball joints are treated as fixed"] if odd else []
    parts = {names[b]: Link(names[b], _mass(m, b), m.body_ipos[b].copy(), _shapes(mujoco, m, b, meshes)) for b in kept}
    for j in joints:
        parts.setdefault(j.child, Link(j.child))
    if not any(p.mass > 0 for p in parts.values()):
        notes.append("no link has a mass, so the centre of mass is unknown")
    ordered = ordered_joints(joints, names[base], source)
    known = {j.name for j in ordered}
    ordered = tuple(j for j in ordered if j.mimic is None or j.mimic.joint in known)
    return Robot(name, names[base], ordered, parts, (), source, tuple(notes))


def _names(mujoco: Any, m: Any, kind: Any, count: int, word: str) -> list[str]:
    return [mujoco.mj_id2name(m, kind, i) or f"{word}{i}" for i in range(count)]


def _mass(m: Any, b: int) -> float:
    mass = float(m.body_mass[b])
    return mass if mass > 1e-6 else 0.0


def _joints(
    mujoco: Any, m: Any, b: int, joint_names: list[str], names: list[str], out: list[RobotJoint],
    mimics: dict[str, Mimic], at: F64,
) -> bool:  # fmt: skip
    """Append the joints of body b of the MuJoCo model to `out`. If the body has several joints, a link without shape is
    added between each two of them. Return true if the body has slide or ball joints."""
    kinds = mujoco.mjtJoint
    first, count = int(m.body_jntadr[b]), int(m.body_jntnum[b])
    hinges = [i for i in range(first, first + count) if m.jnt_type[i] == kinds.mjJNT_HINGE]
    odd = any(m.jnt_type[i] in (kinds.mjJNT_SLIDE, kinds.mjJNT_BALL) for i in range(first, first + count))
    if m.body_parentid[b] == 0:
        return odd
    parent = names[m.body_parentid[b]]
    for i in hinges:
        at = at.copy()
        at[:3] += _turned(at[3:], m.jnt_pos[i])
        limited = bool(m.jnt_limited[i])
        lower, upper = (float(v) for v in m.jnt_range[i]) if limited else (-math.inf, math.inf)
        moved = bool(np.abs(m.jnt_pos[i]).max() > 0)
        child = names[b] if i == hinges[-1] and not moved else f"{names[b]} {joint_names[i]}"
        out.append(
            RobotJoint(
                joint_names[i], "revolute" if limited else "continuous", parent, child, at, m.jnt_axis[i].copy(),
                lower, upper, 0.0, mimics.get(joint_names[i]),
            )
        )  # fmt: skip
        parent, at = child, identity_pose()
        at[:3] = -m.jnt_pos[i]
    if parent != names[b]:
        axis = np.array([1.0, 0.0, 0.0])
        out.append(RobotJoint(f"{names[b]} fixed", "fixed", parent, names[b], at, axis, -math.inf, math.inf))
    return odd


def _turned(q: F64, v: F64) -> F64:
    return np.asarray(rot.rotate(q, np.asarray(v, np.float64)))


def _shapes(mujoco: Any, m: Any, b: int, meshes: dict[int, Any]) -> tuple[Shape, ...]:
    kinds, out = mujoco.mjtGeom, []
    for g in range(int(m.body_geomadr[b]), int(m.body_geomadr[b]) + int(m.body_geomnum[b])):
        pose, size = np.concatenate([m.geom_pos[g], m.geom_quat[g]]), [float(v) for v in m.geom_size[g]]
        solid = bool(m.geom_contype[g] or m.geom_conaffinity[g])
        if m.geom_type[g] == kinds.mjGEOM_BOX:
            out.append(Shape("box", (2 * size[0], 2 * size[1], 2 * size[2]), pose, solid))
        elif m.geom_type[g] == kinds.mjGEOM_SPHERE:
            out.append(Shape("sphere", (size[0],), pose, solid))
        elif m.geom_type[g] in (kinds.mjGEOM_CYLINDER, kinds.mjGEOM_CAPSULE):
            kind = "capsule" if m.geom_type[g] == kinds.mjGEOM_CAPSULE else "cylinder"
            out.append(Shape(kind, (size[0], 2 * size[1]), pose, solid))
        elif m.geom_type[g] == kinds.mjGEOM_ELLIPSOID:
            out.append(Shape("box", (2 * size[0], 2 * size[1], 2 * size[2]), pose, solid))
    for s in range(m.nsite):
        name = mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_SITE, s) or ""
        if m.site_bodyid[s] == b and name.startswith(MESH_SITE):
            file, scale, solid = meshes[int(name.removeprefix(MESH_SITE))]
            out.append(Shape("mesh", scale, np.concatenate([m.site_pos[s], m.site_quat[s]]), solid, file))
    return tuple(out)
