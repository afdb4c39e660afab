"""Reads and writes calibrations as YAML files, one per user.

The calibration files are in the folder `$MM_ROS_USERS`, by default in `$XDG_CONFIG_HOME/mm_ros/users`.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import config_folder, read_yaml, write_whole
from mm_ros.body import plausible
from mm_ros.body.types import Calibration
from mm_ros.tracking.hands import FittedHands

VERSION = 1
POSES = ("headset_in_head", "left_grip_in_hand", "right_grip_in_hand")
COMMENT = """# Calibration of this user (mm_ros calibrate). Metres, radians; poses are x, y, z, qw, qx, qy, qz of the
# device in the axes of the joint that carries it. Delete the file to be measured again.
"""

HAND_KEYS = ("left", "right", "left_offset", "right_offset")
LONGEST_OFFSET = 0.1  # m
HANDS_COMMENT = """# Hold of controllers of this convention, in device axes (x forward, z up): direction of the
# fingers, and offset from the palm that the convention assumes to that of the user [m].
# Such measures help to identify a person. Delete the file to be measured again.
"""


def users_folder() -> Path:
    return config_folder("users", "MM_ROS_USERS")


def state_folder() -> Path:
    """Return the folder of the automatic measurements: `$MM_ROS_USERS/measured`, or `$XDG_STATE_HOME/mm_ros/users` if
    the variable `MM_ROS_USERS` is not set."""
    if os.environ.get("MM_ROS_USERS"):
        return users_folder() / "measured"
    xdg = os.environ.get("XDG_STATE_HOME")
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "mm_ros" / "users"
    try:
        return Path("~/.local/state").expanduser() / "mm_ros" / "users"
    except RuntimeError as error:
        raise MmRosError("this user has no home folder for measures; set MM_ROS_USERS to a folder") from error


def user_file(user: str) -> Path:
    return users_folder() / f"{_checked_name(user)}.yaml"


def measured_file(user: str) -> Path:
    """Return the path of the file with those measures of a user that were measured during use."""
    return state_folder() / f"{_checked_name(user)}.yaml"


def hands_file(user: str, convention: str) -> Path:
    return state_folder() / f"{_checked_name(user)}.{convention}.hands.yaml"


def _checked_name(user: str) -> str:
    if not re.fullmatch(r"[\w][\w .-]{0,63}", user):
        raise MmRosError(f"user '{user}': expected a name of letters, digits, spaces, dots and dashes")
    return user


def write_hands(user: str, convention: str, fitted: FittedHands) -> Path:
    """Write a file that states how a user holds the controllers, for one convention of hand poses; return its path."""
    path = hands_file(user, convention)
    values = [*fitted.fingers, *fitted.offsets]
    content = {"version": VERSION, **{k: v for k, v in zip(HAND_KEYS, values, strict=True) if v is not None}}
    write_whole(path, (HANDS_COMMENT + yaml.safe_dump(content, sort_keys=False, default_flow_style=None)).encode())
    return path


def read_hands(user: str, convention: str) -> FittedHands | None:
    """Read from a file how a user holds the controllers, for one convention of hand poses; None if there is no file."""
    path = hands_file(user, convention)
    if not path.is_file():
        return None
    content = read_yaml(path)
    values = [content.get(k) if isinstance(content, dict) else None for k in HAND_KEYS]
    for name, v in zip(HAND_KEYS, values, strict=True):
        good = v is None or (isinstance(v, list) and len(v) == 3 and all(map(_is_measure, v)))
        length = float(np.linalg.norm(v)) if good and v is not None else 1.0
        is_offset = name in HAND_KEYS[2:]
        if not good or not (length < LONGEST_OFFSET or v is None if is_offset else 0.9 < length < 1.1):
            wanted = f"x, y, z, shorter than {LONGEST_OFFSET} m" if is_offset else "a unit vector x, y, z"
            raise MmRosError(f"{path}: {name}: expected {wanted}, came {v!r}. Delete the file")
    return FittedHands(values[:2], values[2:])


def write_calibration(calibration: Calibration, path: Path | None = None) -> Path:
    path = path or user_file(calibration.user)
    plausible.calibration(calibration)
    content: dict[str, Any] = {"version": VERSION}
    for f in fields(Calibration):
        value = getattr(calibration, f.name)
        content[f.name] = _numbers(value) if f.name in POSES else _plain(value)
    text = COMMENT + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None)
    write_whole(path, text.encode())
    return path


def _numbers(pose: Any) -> list[float]:
    return [round(float(v), 6) for v in pose]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {role: _numbers(pose) for role, pose in value.items()}
    return round(float(value), 6) if isinstance(value, float) else value


def read_calibration(user: str, path: Path | None = None) -> Calibration | None:
    """Return the calibration of a user, or None if the user has no file."""
    path = path or user_file(user)
    if not path.is_file():
        return None
    content = read_yaml(path)
    if not isinstance(content, dict) or content.get("version") != VERSION:
        version = content.get("version") if isinstance(content, dict) else content
        raise MmRosError(f"{path}: expected a calibration of version {VERSION}, came {version!r}")
    return _from_content(path, {k: v for k, v in content.items() if k != "version"})


def _from_content(path: Path, content: dict[str, Any]) -> Calibration:
    plain = Calibration()
    known = [f.name for f in fields(Calibration)]
    for name, value in content.items():
        if name not in known:
            raise MmRosError(f"{path}: '{name}' is not part of a calibration. Parts: {', '.join(known)}")
        content[name] = _checked(path, name, value, getattr(plain, name))
    try:
        return plausible.calibration(Calibration(**content))
    except plausible.Implausible as error:
        raise MmRosError(f"{path}: {error}") from None


def _checked(path: Path, name: str, value: Any, default: Any) -> Any:
    if name in POSES:
        numbers = isinstance(value, list) and len(value) == 7 and all(map(_is_measure, value))
        if not numbers or not 0.9 < float(np.linalg.norm(value[3:])) < 1.1:
            raise MmRosError(f"{path}: {name}: expected x, y, z, qw, qx, qy, qz, came {value!r}")
        return np.array(value, np.float64)
    if name == "mountings":
        if not isinstance(value, dict):
            raise MmRosError(f"{path}: mountings: expected poses by role, came {value!r}")
        return {str(role): _checked(path, POSES[0], pose, None) for role, pose in value.items()}
    if isinstance(default, float) and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not _is_measure(value):
            raise MmRosError(f"{path}: {name}: expected a number, came {value!r}")
        return float(value)
    if type(value) is not type(default):
        raise MmRosError(f"{path}: {name}: expected {type(default).__name__}, came {value!r}")
    return value


def _is_measure(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
