"""What a user may say about motion files; None means: find it out."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from mm_ros.core.errors import MmRosError
from mm_ros.core.skeleton import NAMES
from mm_ros.io.importing.evidence import AXES

REFERENCES = ("zero pose", "first frame", "mean posture")


@dataclass(frozen=True)
class Overrides:
    """For one file, or for all."""

    up: str | None = None  # X+ … Z-
    unit_to_m: float | None = None
    rate: float | None = None  # true frames a second
    skip_start: int | None = None  # frames to leave out
    skip_end: int | None = None
    swap_left_right: bool | None = None
    reference: str | None = None
    floor_m: float | None = None  # height of the floor in the file's room
    subject: str | None = None
    leave_out: bool = False
    joints: Mapping[str, str] | None = None  # canonical joint → name in the file
    tags: tuple[Any, ...] = ()  # names, or [name, start_s, stop_s]

    def __post_init__(self) -> None:
        if self.up is not None and self.up not in AXES:
            raise MmRosError(f"up: '{self.up}' is not among {', '.join(AXES)}")
        if self.reference is not None and self.reference not in REFERENCES:
            raise MmRosError(f"reference: '{self.reference}' is not among {', '.join(REFERENCES)}")
        for name in ("unit_to_m", "rate"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and value > 0):
                raise MmRosError(f"{name}: expected a number above 0, came {value!r}")
        for joint in self.joints or {}:
            if joint not in NAMES[1:]:
                raise MmRosError(f"joints: '{joint}' is no canonical joint. Joints: {', '.join(NAMES[1:])}")


KEYS = tuple(f.name for f in fields(Overrides))


@dataclass(frozen=True)
class ImportOptions:
    rate: float = 60.0
    smooth_root: bool = True
    strict: bool = False
    jobs: int = 1
    shortest_s: float = 0.5
    every: Overrides = field(default_factory=Overrides)
    files: tuple[tuple[str, Overrides], ...] = ()  # pattern of the file's name → overrides, the later wins

    def of(self, name: str) -> Overrides:
        out = self.every
        for pattern, given in self.files:
            if fnmatch.fnmatch(Path(name).name, pattern) or fnmatch.fnmatch(name, pattern):
                changed = {k: getattr(given, k) for k in KEYS if getattr(given, k) != getattr(Overrides, k, None)}
                out = replace(out, **changed)
        return out


def read_options(path: str | Path, base: ImportOptions | None = None) -> ImportOptions:
    """YAML: keys of Overrides at the top, for every file; `files:` pattern → keys of Overrides."""
    try:
        value = yaml.safe_load(Path(path).read_text()) or {}
    except OSError as error:
        raise MmRosError(f"{path}: cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        raise MmRosError(f"{path}: is not YAML ({str(error).splitlines()[0]})") from error
    if not isinstance(value, dict):
        raise MmRosError(f"{path}: expected keys and values, came {type(value).__name__}")
    per_file = value.pop("files", None) or {}
    if not isinstance(per_file, dict):
        raise MmRosError(f"{path}: files: expected file names with keys below, came {type(per_file).__name__}")
    return replace(
        base or ImportOptions(),
        every=_overrides(path, value),
        files=tuple((str(name), _overrides(path, given)) for name, given in per_file.items()),
    )


def _overrides(path: str | Path, value: Any) -> Overrides:
    if not isinstance(value, dict):
        raise MmRosError(f"{path}: expected keys and values, came {value!r}")
    for key in value:
        if key not in KEYS:
            raise MmRosError(f"{path}: '{key}' is unknown. Keys: {', '.join(KEYS)}, files")
    value = dict(value)
    if "tags" in value:
        value["tags"] = tuple(tuple(t) if isinstance(t, list) else t for t in value["tags"] or ())
    try:
        return Overrides(**value)
    except MmRosError as error:
        raise MmRosError(f"{path}: {error}") from None
