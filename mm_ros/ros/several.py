"""Runs several avatars: synthetic users side by side or the users in a file, distributed over processes."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

import numpy as np
from rclpy.exceptions import InvalidNamespaceException
from rclpy.validate_namespace import validate_namespace

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import read_yaml
from mm_ros.body.plausible import LIMITS
from mm_ros.tracking.sources import SOURCES

T = TypeVar("T")

ROOM_M = 5.0  # distance between the rooms of two neighbouring users [m]
MOST = 64
RATE = 90.0  # The number of avatars in a process is chosen for 90 poses per second of each avatar.
# OVERHEAD is the CPU time of a frame divided by the CPU time of its stages, measured with 16 avatars: 0.75 ms / 0.35
# ms. Avatars in one process delay each other if they use more than the share FILLED of a core.
OVERHEAD, FILLED = 2.1, 0.66
MEASURED_FRAMES = 60


@dataclass(frozen=True)
class User:
    avatar: str
    seed: int = 0
    place: str = ""  # position of the user's room in the world [m], as "x,y"
    trackers: str = ""  # name of the user's tracker source; if empty, the source in the parameter file is used
    path: str = ""
    database: str = ""


def side_by_side(name: str, count: int, seed: int = 0) -> list[User]:
    if not 1 <= count <= MOST:
        raise MmRosError(f"avatars: expected 1 to {MOST}, came {count}")
    return [User(f"{name}{i + 1}", seed + i, f"0.0,{ROOM_M * i}", "synthetic") for i in range(count)]


def users_of(text: str, name: str, seed: int = 0) -> list[User]:
    """Return the users that `text` describes, which is a number of synthetic users or the path of a YAML file of
    users."""
    try:
        return side_by_side(name, int(text), seed)
    except ValueError:
        pass
    if not Path(text).is_file():
        raise MmRosError(f"avatars: '{text}' is not a whole number, and not a file of users")
    return read_users(text)


def read_users(path: str) -> list[User]:
    """Read the users from a YAML file, which maps the name of each avatar to any of source, path, database, place and
    seed."""
    given = read_yaml(path)
    if not isinstance(given, dict) or not 1 <= len(given) <= MOST:
        raise MmRosError(f"{path}: expected 1 to {MOST} avatars as 'NAME: {{source: …, database: …, place: [x, y]}}'")
    return [_user(path, str(name), values or {}) for name, values in given.items()]


_KEYS = {"source": "trackers", **{f.name: f.name for f in fields(User) if f.name not in ("avatar", "trackers")}}


def _user(path: str, name: str, values: object) -> User:
    try:
        validate_namespace(f"/{name}")
    except InvalidNamespaceException:
        raise MmRosError(f"{path}: '{name}' is not a valid ROS namespace; expected letters, digits and _") from None
    if not isinstance(values, dict) or set(values) - set(_KEYS):
        raise MmRosError(f"{path}, {name}: expected {', '.join(_KEYS)}, came {_shown(values)}")
    seed, place, source = values.get("seed", 0), values.get("place", [0, 0]), str(values.get("source", ""))
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise MmRosError(f"{path}, {name}: expected a whole number as seed, came '{seed}'")
    if source and source not in (*SOURCES, "none"):
        raise MmRosError(f"{path}, {name}: source '{source}' does not exist. Sources: {', '.join(SOURCES)}, none")
    if not isinstance(place, list) or len(place) != 2 or not all(_is_coordinate(v) for v in place):
        raise MmRosError(f"{path}, {name}: expected [x, y] as place, at most 10 km from [0, 0], came '{place}'")
    for key in ("path", "database"):
        if values.get(key) and not Path(str(values[key])).exists():
            raise MmRosError(f"{path}, {name}: {key} {values[key]} does not exist")
    x, y = (float(v) for v in place)
    return User(name, seed, f"{x},{y}", source, str(values.get("path", "")), str(values.get("database", "")))


def _shown(values: object) -> str:
    return ", ".join(map(str, values)) if isinstance(values, dict) else str(values)[:60]


def _is_coordinate(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LIMITS["position"].high


def in_processes(users: Sequence[T], per_process: int, cores: int = 1) -> list[list[T]]:
    """Distribute the users evenly over processes, with at most `per_process` users in each process.

    If there are enough CPU cores, a process gets half as many users, so that its avatars wait less for each other.
    """
    count = math.ceil(len(users) / per_process)
    count = max(count, min(cores, math.ceil(2 * len(users) / per_process)))
    return [[users[i] for i in part] for part in np.array_split(np.arange(len(users)), count)]


def most_per_process(database: Path | None) -> int:
    """Return how many avatars one process can run at 90 Hz, computed from the time that a frame takes on this
    machine."""
    from mm_ros.avatar import Avatar
    from mm_ros.body.warm_up import sample_trackers
    from mm_ros.motion.default_database import default_database_path
    from mm_ros.motion.files import read_database

    avatar = Avatar.load(read_database(database or default_database_path()))
    avatar.warm_up()
    took = []
    for frame in sample_trackers(MEASURED_FRAMES):
        began = time.thread_time()  # CPU time is measured, because it does not include the load of other processes.
        avatar.step(frame)
        took.append(time.thread_time() - began)
    return max(1, int(FILLED / (float(np.mean(took)) * OVERHEAD * RATE)))
