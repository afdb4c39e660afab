"""Settings of a stage: a frozen dataclass in which each field has a default, a unit, a range and a description.

A node declares each field of its settings as a ROS parameter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from mm_ros.base.errors import MmRosError

S = TypeVar("S", bound="Settings")


@dataclass(frozen=True)
class Spec:
    """Description of a field of a settings class: text, unit, range and choices."""

    description: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    live: bool = True  # True if the parameter may change while the node runs
    file: str = ""  # ending of the file name if the parameter is the path of a file, else empty


def setting(
    default: Any,
    description: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    live: bool = True,
    file: str = "",
) -> Any:
    """Make a field of a settings dataclass. `low` and `high` are the smallest and the largest permitted number in
    `unit`; for a tuple, `low` and `high` limit each element."""
    return field(default=default, metadata={"spec": Spec(description, unit, low, high, choices, live, file)})


def like(other: Any, default: Any, description: str) -> Any:
    """Make a field of a settings dataclass with the unit and range of another field `other` of the class."""
    return field(default=default, metadata={"spec": replace(other.metadata["spec"], description=description)})


@dataclass(frozen=True)
class Settings:
    def __post_init__(self) -> None:
        for f in fields(self):
            check(f.name, getattr(self, f.name), f.default, f.metadata["spec"])

    @classmethod
    def specs(cls) -> dict[str, Spec]:
        return {f.name: f.metadata["spec"] for f in fields(cls)}

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        return {f.name: f.default for f in fields(cls)}

    def numbers(self) -> list[float]:
        """Return the values of all settings in the order of the fields; all values must be numbers."""
        return [float(getattr(self, f.name)) for f in fields(self)]

    def with_values(self: S, **values: Any) -> S:
        known = self.specs()
        for name in values:
            if name not in known:
                raise MmRosError(f"setting '{name}' does not exist. Settings: {', '.join(known)}")
        return replace(self, **values)


def check(name: str, value: Any, default: Any, spec: Spec) -> None:
    wanted = type(default)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise MmRosError(f"{name}: expected {wanted.__name__}, came {value!r}")
    if spec.choices and value not in spec.choices:
        raise MmRosError(f"{name}: '{value}' is not among {', '.join(spec.choices)}")
    for v in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(v, (int, float)) and not isinstance(v, bool):
            _check_range(name, float(v), spec)


def _check_range(name: str, value: float, spec: Spec) -> None:
    low = -math.inf if spec.low is None else spec.low
    high = math.inf if spec.high is None else spec.high
    if not low <= value <= high:  # NaN fails too
        unit = f" {spec.unit}" if spec.unit else ""
        raise MmRosError(f"{name}: expected {low:g} to {high:g}{unit}, came {value:g}")
