"""Optional requirements (extras) in pyproject.toml, and the command that installs them.

The file pyproject.toml is in the checkout or, after installation, in share/mm_ros. Extras are not read from the Python
metadata of mm_ros, because a package built by colcon has no metadata and a checkout on PYTHONPATH has none for extras.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.share import share_folder


def setup_command(extra: str) -> str:
    """Return the shell command `mm_ros setup EXTRA`, with the path of `mm_ros` if the shell would find another one, or
    with the path of Python if the shell would find none."""
    beside = Path(sys.executable).with_name("mm_ros")
    found = shutil.which("mm_ros")
    if not beside.is_file():
        return f"mm_ros setup {extra}" if found else f"{shlex.quote(sys.executable)} -m mm_ros setup {extra}"
    if found and os.path.samefile(found, beside):
        return f"mm_ros setup {extra}"
    path = os.path.relpath(beside) if beside.is_relative_to(Path.cwd()) else str(beside)
    return f"{shlex.quote(path)} setup {extra}"


def extras() -> dict[str, list[str]]:
    """Return the requirement lines of each extra from pyproject.toml."""
    known: dict[str, list[str]] = _pyproject()["project"]["optional-dependencies"]
    return known


def resolved(known: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    """Return the requirement lines of the extras `names`; a line `mm_ros[a,b]` is replaced by the lines of a and b."""
    lines: list[str] = []
    todo, seen = list(names), set()
    while todo:
        extra = todo.pop(0)
        if extra in seen:
            continue
        seen.add(extra)
        if extra not in known:
            raise MmRosError(f"extra '{extra}' does not exist. Extras: {', '.join(known)}")
        for line in known[extra]:
            own = re.fullmatch(r"mm_ros\[([\w,\s-]+)\]", line)
            if own:
                todo.extend(own.group(1).replace(" ", "").split(","))
            elif line not in lines:
                lines.append(line)
    return lines


def missing(lines: Sequence[str]) -> list[str]:
    """Return those of the given requirement lines whose package is not installed. Lines with an environment marker (;)
    are skipped, because such a line applies only to some versions of Python."""
    return [line for line in lines if ";" not in line and not _is_installed(line)]


def _is_installed(line: str) -> bool:
    name, _, version = line.partition("==")
    try:
        there = importlib.metadata.version(re.split(r"[\[<>=!~ ]", name)[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    return not version or there == version


def _pyproject() -> dict[str, Any]:
    path = share_folder() / "pyproject.toml"
    try:
        import tomllib
    except ImportError:  # Python 3.10
        from pip._vendor import tomli as tomllib  # type: ignore[no-redef]
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text())
    except OSError as error:
        raise MmRosError(f"{path} cannot be read ({error.strerror}): build and install mm_ros again") from error
    return content
