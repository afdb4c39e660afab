"""Reads `robot.yaml`, whose roles, links, joint limits and soles of a robot replace the detected ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import read_yaml
from mm_ros.body.skeleton import NAMES
from mm_ros.robot.model import MOVING, Robot
from mm_ros.robot.roles import NotHumanoidError, Roles, find_roles, missing_limbs

FILE = "robot.yaml"
KEYS = ("facing", "joints", "ignore", "links", "sole", "limits")
LINKS = ("pelvis", "chest", "head")
SOLE = ("height", "toe", "heel", "half_width")
SHORT = {"waist": "upper_chest", "neck": "head"}


@dataclass(frozen=True)
class Overrides:
    """Corrections of a robot file (`robot.yaml`). `facing` is the yaw of the robot's front in the axes of its
    base [rad]. `joints` maps joints of the avatar to joints of the robot. `links` names the links of pelvis, chest and
    head. `sole` has distances of the sole from the ankle [m], and `limits` has the lowest and highest angle of joints
    [rad]."""

    facing: float | None = None
    joints: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    links: dict[str, str] = field(default_factory=dict)
    sole: dict[str, float] = field(default_factory=dict)
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    source: str = ""


def read_overrides(path: str | Path) -> Overrides:
    """Read a file `robot.yaml`, and raise MmRosError if the file has an unknown key or a wrong value."""
    content = read_yaml(path)
    if content is None:
        return Overrides(source=str(path))
    _known(path, "", content, KEYS)
    facing = content.get("facing")
    canonical = {**{n: n for n in NAMES[1:]}, **SHORT}
    joints = _mapping(path, content, "joints")
    _known(path, "joints: ", joints, tuple(canonical))
    links = _mapping(path, content, "links")
    _known(path, "links: ", links, LINKS)
    sole = _mapping(path, content, "sole")
    _known(path, "sole: ", sole, SOLE)
    limits = {}
    for name, pair in _mapping(path, content, "limits").items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise MmRosError(f"{path}: limits of '{name}': expected [lower, upper] in degrees, came {pair!r}")
        low, high = (math.radians(_number(path, f"limits of '{name}'", v)) for v in pair)
        if not low <= high:
            raise MmRosError(f"{path}: limits of '{name}': the lower one is above the upper one")
        limits[name] = (low, high)
    return Overrides(
        None if facing is None else math.radians(_number(path, "facing", facing)),
        {canonical[k]: _names(path, k, v) for k, v in joints.items()},
        _names(path, "ignore", content.get("ignore") or []),
        {k: str(v) for k, v in links.items()},
        {k: _number(path, k, v) for k, v in sole.items()},
        limits,
        str(path),
    )


def _mapping(path: str | Path, content: dict[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise MmRosError(f"{path}: {key}: expected names with values, came {value!r}")
    return {str(k): v for k, v in value.items()}


def _known(path: str | Path, where: str, content: Any, known: tuple[str, ...]) -> None:
    if not isinstance(content, dict):
        raise MmRosError(f"{path}: expected the keys {', '.join(known)}, came {str(content)[:60]!r}")
    for key in content:
        if key not in known:
            raise MmRosError(f"{path}: {where}unknown key '{key}'. Keys: {', '.join(known)}")


def _names(path: str | Path, key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise MmRosError(f"{path}: {key}: expected a list of joint names, came {value!r}")
    return tuple(value)


def _number(path: str | Path, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MmRosError(f"{path}: {key}: expected a number, came {value!r}")
    return float(value)


def adapted(robot: Robot, overrides: Overrides) -> Robot:
    """Return the robot with the joint limits of robot.yaml, and with the joints under `ignore` in robot.yaml fixed."""
    for name in (*overrides.ignore, *overrides.limits):
        robot.joint(name)
    joints = tuple(
        replace(
            j,
            kind="fixed" if j.name in overrides.ignore else j.kind,
            lower=overrides.limits.get(j.name, (j.lower, j.upper))[0],
            upper=overrides.limits.get(j.name, (j.lower, j.upper))[1],
        )
        for j in robot.joints
    )
    return replace(robot, joints=joints)


def roles_with(robot: Robot, overrides: Overrides) -> Roles:
    """Return the detected roles of the robot's joints, replaced by the roles that robot.yaml states."""
    for chain in overrides.joints.values():
        for name in chain:
            if robot.joint(name).kind not in MOVING:
                raise MmRosError(f"{overrides.source}: joint '{name}' does not turn")
    try:
        found = find_roles(robot)
    except NotHumanoidError:
        if not overrides.joints:
            raise
        found = Roles({}, {}, {}, 0.0, robot.base, robot.base, "")
    stated = {name for chain in overrides.joints.values() for name in chain}
    chains = {k: tuple(j for j in v if j not in stated) for k, v in found.chains.items() if k not in overrides.joints}
    chains |= overrides.joints
    chains = {n: chains[n] for n in NAMES if chains.get(n)}
    links = {"pelvis": found.pelvis, "chest": found.chest, "head": found.head, **overrides.links}
    known = {robot.base, *robot.by_child}
    for link in overrides.links.values():
        if link not in known:
            raise MmRosError(f"{overrides.source}: link '{link}' is not in robot '{robot.name}'")
    used = {j for chain in chains.values() for j in chain}
    return replace(
        found,
        chains=chains,
        confidence={j: 1.0 if j in stated else found.confidence.get(j, 1.0) for j in used},
        unmapped={j: why for j, why in found.unmapped.items() if j not in used}
        | {j: "left out by robot.yaml" for j in found.joints if j not in used},
        facing=found.facing if overrides.facing is None else overrides.facing,
        missing=missing_limbs(chains),
        pelvis=links["pelvis"],
        chest=links["chest"],
        head=links["head"],
    )
