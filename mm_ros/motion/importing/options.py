"""Options of the import, and overrides, which replace properties that the import would estimate from the files."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import read_yaml
from mm_ros.motion.importing.evidence import AXES
from mm_ros.motion.importing.fingers import check_name

REFERENCES = ("zero pose", "first frame", "mean posture")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _tag(value: Any) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], str) and all(map(_number, value[1:]))


_FITS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("unit_to_m", "a number above 0", lambda v: _number(v) and v > 0),
    ("rate", "a number above 0", lambda v: _number(v) and v > 0),
    ("skip_start", "a count of frames", _count),
    ("skip_end", "a count of frames", _count),
    ("swap_left_right", "true or false", lambda v: isinstance(v, bool)),
    ("leave_out", "true or false", lambda v: isinstance(v, bool)),
    ("keep_proportions", "true or false", lambda v: isinstance(v, bool)),
    ("floor_m", "a number", _number),
    ("subject", "a name", lambda v: isinstance(v, str)),
    ("joints", "canonical joint: joint of the file", lambda v: isinstance(v, Mapping)),
    ("tags", "names, or [name, start_s, stop_s]", lambda v: isinstance(v, tuple) and all(map(_tag, v))),
)


@dataclass(frozen=True)
class Overrides:
    """Properties of motion files that the user states. The import estimates each property that is None."""

    up: str | None = None  # X+ … Z-
    unit_to_m: float | None = None
    rate: float | None = None  # true frame rate of the file [Hz]
    skip_start: int | None = None  # number of frames at the start of the file that are not imported
    skip_end: int | None = None
    swap_left_right: bool | None = None
    reference: str | None = None
    floor_m: float | None = None  # height of the floor above the origin of the coordinates in the file
    subject: str | None = None
    leave_out: bool = False
    keep_proportions: bool = False  # whether implausible joint positions of head and legs are kept
    joints: Mapping[str, str] | None = None  # maps a canonical joint to the name of the joint in the file
    tags: tuple[Any, ...] = ()  # each tag is a name for the whole clip, or a tuple (name, start_s, stop_s)

    def __post_init__(self) -> None:
        if self.up is not None and self.up not in AXES:
            raise MmRosError(f"up: '{self.up}' is not among {', '.join(AXES)}")
        if self.reference is not None and self.reference not in REFERENCES:
            raise MmRosError(f"reference: '{self.reference}' is not among {', '.join(REFERENCES)}")
        for name, wanted, fits in _FITS:
            value = getattr(self, name)
            if value is not None and not fits(value):
                raise MmRosError(f"{name}: expected {wanted}, came {value!r}")
        if self.rate is not None and not 1 <= self.rate <= 10_000:
            raise MmRosError(f"rate: expected 1 to 10000 Hz, came {self.rate:g}")
        if self.unit_to_m is not None and not 1e-6 <= self.unit_to_m <= 1e6:
            raise MmRosError(f"unit_to_m: expected 1e-6 to 1e6, came {self.unit_to_m:g}")
        if self.floor_m is not None and abs(self.floor_m) > 1e6:
            raise MmRosError(f"floor_m: expected at most 1e6, came {self.floor_m:g}")
        for joint in self.joints or {}:
            check_name(joint, "joints")


KEYS = tuple(f.name for f in fields(Overrides))


@dataclass(frozen=True)
class ImportOptions:
    rate: float = 60.0
    smooth_root: bool = True
    further: bool = False  # whether the joints of fingers are also imported
    strict: bool = False
    jobs: int = 1
    shortest_s: float = 0.5
    every: Overrides = field(default_factory=Overrides)
    files: tuple[tuple[str, Overrides], ...] = ()  # pairs (file name pattern, overrides); the last match counts

    def of(self, name: str) -> Overrides:
        """Return the overrides for the file `name`: those for all files, replaced by those of matching patterns."""
        out = self.every
        for pattern, given in self.files:
            if fnmatch.fnmatch(Path(name).name, pattern) or fnmatch.fnmatch(name, pattern):
                changed = {k: getattr(given, k) for k in KEYS if getattr(given, k) != getattr(Overrides, k, None)}
                out = replace(out, **changed)
        return out


def read_options(path: str | Path, base: ImportOptions | None = None) -> ImportOptions:
    """Read overrides from a YAML file.

    Keys at the top level of the YAML file apply to all motion files. Keys below `files: <pattern>` apply to motion
    files whose names match the pattern.
    """
    value = read_yaml(path) or {}
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
        given = value["tags"] or ()
        several = given if isinstance(given, list | tuple) else (given,)
        value["tags"] = tuple(tuple(t) if isinstance(t, list) else t for t in several)
    if isinstance(value.get("subject"), int):
        value["subject"] = str(value["subject"])  # Text, because YAML reads a name such as 69 as an integer.
    try:
        return Overrides(**value)
    except MmRosError as error:
        raise MmRosError(f"{path}: {error}") from None
