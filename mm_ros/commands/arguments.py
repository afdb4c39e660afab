"""Types of arguments that verbs share. What cannot be is said before anything is done."""

import argparse
import math
import re
from pathlib import Path
from typing import Any

from mm_ros.cache import is_writable
from mm_ros.core.errors import MmRosError

PICTURES = (".png", ".svg", ".pdf", ".jpg")


def output_file(text: str) -> Path:
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder; expected the name of a file")
    if not is_writable(path.parent):
        raise argparse.ArgumentTypeError(f"{path} cannot be written: no such folder can be written to or made")
    return path


def picture_file(text: str) -> Path:
    path = output_file(text)
    if path.suffix.lower() not in PICTURES:
        raise argparse.ArgumentTypeError(f"{path} is no picture; expected a name that ends with {', '.join(PICTURES)}")
    return path


def new_folder(path: Path) -> None:
    """Refuses a folder that cannot be made, or has something in it."""
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise MmRosError(f"{path} exists already, and is not overwritten. Remove it or name another output")
    if not is_writable(path.parent):
        raise MmRosError(f"{path} cannot be made: its folder cannot be written to")


def avatar(text: str) -> str:
    """A namespace of ROS, with or without the first slash; '' stays ''."""
    name = text.strip("/")
    if name and not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part) for part in name.split("/")):
        raise argparse.ArgumentTypeError(
            f"'{text}' cannot be a namespace of ROS; expected letters, digits and _, and no digit first"
        )
    return name


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected seconds, 0 or more, came '{text}'")
    return value


def port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"expected a port, 1 to 65535, came '{text}'")
    return int(text)


def camera_of(text: str) -> Any:
    from dataclasses import replace

    from mm_ros.core.landmark_simulation import COMMON

    known = {name: type(value) for name, value in vars(COMMON).items()}
    given: dict[str, Any] = {}
    for part in (p for p in text.split(",") if p.strip()):
        name, _, value = (x.strip() for x in part.partition("="))
        if name not in known:
            raise MmRosError(f"--camera: '{name}' does not exist. Names: {', '.join(known)}")
        try:
            given[name] = known[name](float(value))
        except (ValueError, OverflowError):
            raise MmRosError(f"--camera: {name}: expected a number, came '{value}'") from None
    return replace(COMMON, **given)
