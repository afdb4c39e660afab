"""Read a robot from a file of any supported format: URDF, xacro or MJCF."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.share import ament_prefixes
from mm_ros.robot.mjcf import read_mjcf
from mm_ros.robot.model import Robot
from mm_ros.robot.urdf import parse_urdf
from mm_ros.robot.xml import file_text

HIGHEST = 5  # A ROS package is searched for in this number of folders above the robot file.
LARGEST_M = 100.0  # Maximum distance from a link to its parent, to a shape of the link, or to its centre of mass [m].


def load_robot(path: str | Path) -> Robot:
    """Read a robot file, or raise MmRosError with the reason if it cannot be used. The installed package xacro is
    needed for .xacro files. Use only .xacro files from a trusted source, because xacro evaluates Python expressions of
    the file."""
    path = Path(path)
    if path.is_dir():
        raise MmRosError(f"{path}: is a folder; expected a URDF, xacro or MJCF file")
    text = file_text(path)
    if path.suffix == ".xacro" or "<xacro:" in text:
        return _noted(parse_urdf(_expanded(path), str(path)))
    root = re.search(r"<\s*(robot|mujoco)[\s>]", text)
    return _noted(read_mjcf(path) if root is not None and root.group(1) == "mujoco" else parse_urdf(text, str(path)))


def _noted(robot: Robot) -> Robot:
    """Return the robot with a note that names the meshes whose files are missing. Raise MmRosError if a joint, shape or
    centre of mass is implausibly far from its link's origin."""
    places = [(f"joint '{j.name}'", j.origin) for j in robot.joints]
    places += [(f"a shape of link '{name}'", s.pose) for name, part in robot.parts.items() for s in part.shapes]
    places += [(f"the mass of link '{name}'", part.centre) for name, part in robot.parts.items()]
    for what, place in places:
        if not np.abs(place[:3]).max() < LARGEST_M:
            came = ", ".join(f"{v:g}" for v in place[:3])
            raise MmRosError(f"{robot.source}: {what} is at {came}; expected at most {LARGEST_M:g} m")
    files = {s.file for part in robot.parts.values() for s in part.shapes if s.kind == "mesh"}
    absent = sorted(file for file in files if mesh_path(robot, file) is None)
    if not absent:
        return robot
    note = (
        f"{len(absent)} of {len(files)} meshes do not exist or are outside of the robot's folders, for example "
        f"'{absent[0]}'; shapes without them are left out, and a sole without shapes is estimated"
    )
    return replace(robot, notes=(*robot.notes, note))


MESH_OR_TEXTURE = re.compile(r"""(<(?:mesh|texture)\s[^<>]*?\bfilename\s*=\s*)(["'])(.*?)\2""", re.DOTALL)


def robot_text(path: str | Path) -> str:
    """Return the URDF text of a robot file for the topic `robot_description`, or "" if the file is not a URDF or xacro
    file. Names of existing meshes and textures become file:// addresses, because RViz finds neither relative names nor
    files of packages that are not installed."""
    path, text = Path(path), file_text(path)
    text = _expanded(path) if path.suffix == ".xacro" or "<xacro:" in text else text

    def located(m: re.Match[str]) -> str:
        name = unescape(m[3])
        found = None if _is_installed(name) else _file_near(path, name)
        return m[0] if found is None else f"{m[1]}{m[2]}{found.as_uri()}{m[2]}"

    return MESH_OR_TEXTURE.sub(located, text) if "<robot" in text else ""


def _is_installed(file: str) -> bool:
    """Return whether `file` is in an installed ROS package, which RViz also finds on another machine."""
    scheme, _, rest = file.rpartition("://")
    return scheme == "package" and any((Path(p) / "share" / rest).is_file() for p in ament_prefixes())


def _expanded(path: Path) -> str:
    file_text(path)  # `file_text` checks the size and the encoding of the file before xacro reads the file.
    try:
        import xacro
        from xacro import substitution_args
    except ImportError:
        raise MmRosError(
            f"{path}: is a xacro file, and the package xacro is not installed. "
            f"Install it, or expand the file where it is: xacro {path.name} > robot.urdf"
        ) from None
    with _packages_beside(substitution_args, path):
        try:
            return str(xacro.process_file(str(path)).toxml())
        except (Exception, SystemExit) as error:  # xacro runs Python code of the file, which can raise any error.
            raise MmRosError(f"{path}: xacro cannot expand it: {' '.join(str(error).split())[:300]}") from None


@contextmanager
def _packages_beside(substitution_args: Any, path: Path) -> Iterator[None]:
    """Make the xacro expression $(find PACKAGE) also find packages that are not installed, in the folders around the
    file. For this, an internal function of xacro is replaced, whose name was checked with xacro 2.1."""
    installed = substitution_args._eval_find

    def find(package: str) -> str:
        beside = package_folder(path, package)
        return str(beside) if beside is not None else str(installed(package))

    substitution_args._eval_find = find
    try:
        yield
    finally:
        substitution_args._eval_find = installed


def package_folder(path: Path, package: str) -> Path | None:
    """Return the folder of a ROS package, which contains the robot file or is next to a folder that contains the robot
    file."""
    if not package or "/" in package or package in (".", ".."):
        return None
    for above in list(path.resolve().parents)[:HIGHEST]:
        if above.name == package:
            return above
        if (above / package).is_dir():
            return above / package
    return None


def mesh_path(robot: Robot, file: str) -> Path | None:
    """Return the path of a mesh file, or None if it does not exist or is not in a folder around the robot file."""
    return _file_near(Path(robot.source), file) if robot.source else None


def _file_near(source: Path, file: str) -> Path | None:
    if not file or "\0" in file:
        return None
    source = source.resolve()
    scheme, _, rest = file.rpartition("://")
    # Meshes may be in folders up to HIGHEST levels above the robot file, but not in the root of the disk.
    folders = [f for f in list(source.parents)[:HIGHEST] if f.parent != f]
    if scheme in ("package", "model"):
        package, _, inner = rest.partition("/")
        folder = package_folder(source, package)
        # If no folder has the name of the package, all folders are tried, because a Git checkout may have another name.
        tries = [folder / inner] if folder is not None else [f / inner for f in folders]
    elif scheme in ("", "file"):
        tries = [source.parent / rest]
    else:
        return None
    for given in tries:
        found = given.resolve()
        # A mesh path in a robot file must not give access to files outside these folders.
        if any(found.is_relative_to(f) for f in folders) and found.is_file():
            return found
    return None
