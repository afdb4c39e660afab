"""Feature vector that motion matching compares; all modules take the order of its columns from this module."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F32


class Kind(NamedTuple):
    numbers: int  # number of columns that a feature has for each of its times
    # Whether a query takes this kind of feature from the desired trajectory, with columns for each time in `times`
    trajectory: bool = False
    length: bool = False  # whether the values of the feature are proportional to the size of the body


POSITION, DIRECTION, VELOCITY = "trajectory_position", "trajectory_direction", "trajectory_velocity"
KINDS = {
    POSITION: Kind(2, trajectory=True, length=True),
    DIRECTION: Kind(2, trajectory=True),
    VELOCITY: Kind(2, trajectory=True, length=True),
    "joint_position": Kind(3, length=True),
    "joint_direction": Kind(3),  # direction of the x axis of the joint
    "joint_velocity": Kind(3, length=True),
    "function": Kind(1),
}
FORMER_KINDS = {"leading_foot": "made with --leading-foot"}  # maps kinds that are gone to their origin


@dataclass(frozen=True)
class Feature:
    """A group of columns of the feature vector, in the axes of the root; `times` [s] are negative for the past."""

    name: str
    kind: str
    joint: str = "root"
    times: tuple[float, ...] = (0.0,)
    weight: float = 1.0
    function: str = ""  # name of the user's function ("package.module:name") for a feature of kind "function"
    width: int = 0  # number of columns for a feature of kind "function"

    def __post_init__(self) -> None:
        if self.kind in FORMER_KINDS:
            raise MmRosError(
                f"feature '{self.name}': kind '{self.kind}' ({FORMER_KINDS[self.kind]}) does not exist any more; "
                "leave this feature out"
            )
        if self.kind not in KINDS:
            raise MmRosError(f"feature '{self.name}': kind '{self.kind}' is not among {', '.join(KINDS)}")
        if self.is_trajectory and self.joint != "root":
            raise MmRosError(
                f"feature '{self.name}': joint '{self.joint}' has no desired trajectory, because headset, "
                "gamepad and path predict the trajectory of the root only; leave out 'joint'"
            )
        if not np.isfinite(self.weight) or self.weight < 0:
            raise MmRosError(f"feature '{self.name}': weight must be 0 or more, came {self.weight}")
        # Compiled code fills the columns of each kind of feature without checks, so a file cannot change their number.
        if (self.width < 1) if self.kind == "function" else (self.width != 0):
            raise MmRosError(f"feature '{self.name}': only kind 'function' has a width; came {self.width}")
        if not self.times or not np.isfinite(self.times).all():
            raise MmRosError(f"feature '{self.name}': times: expected finite numbers [s], came {self.times}")

    @property
    def size(self) -> int:
        return (self.width or KINDS[self.kind].numbers) * len(self.times)

    @property
    def meaning(self) -> tuple[object, ...]:
        """All properties of a feature except its weight, which does not affect the values of the feature's columns."""
        return (self.name, self.kind, self.joint, self.times, self.function, self.size)

    @property
    def is_trajectory(self) -> bool:
        return KINDS[self.kind].trajectory


@dataclass(frozen=True)
class FeatureLayout:
    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        names = [f.name for f in self.features]
        if len(set(names)) != len(names):
            raise MmRosError(f"feature names must be unique, came {', '.join(names)}")

    @cached_property
    def offsets(self) -> dict[str, slice]:
        out, at = {}, 0
        for f in self.features:
            out[f.name] = slice(at, at + f.size)
            at += f.size
        return out

    @property
    def size(self) -> int:
        return sum(f.size for f in self.features)

    @property
    def trajectory_times(self) -> tuple[float, ...]:
        """Sorted future times [s] at which the features need the desired trajectory; HORIZON_S if there are none."""
        return tuple(sorted({t for f in self.features if f.is_trajectory for t in f.times if t > 0})) or HORIZON_S

    def column_weights(
        self, weights: dict[str, float] | None = None, quality: float = 1.0, responsiveness: float = 1.0
    ) -> F32:
        """Return the weight of each feature column (D,); `weights` maps feature names to weights that replace those
        of the layout.
        """
        out = np.empty(self.size, np.float32)
        for f in self.features:
            w = (weights or {}).get(f.name, f.weight) * (responsiveness if f.is_trajectory else quality)
            out[self.offsets[f.name]] = w
        return out

    @property
    def column_names(self) -> tuple[str, ...]:
        axes = "xyz"
        out = []
        for f in self.features:
            per = f.size // len(f.times)
            for t in f.times:
                at = f"@{t:g}s" if f.is_trajectory else ""
                out += [f"{f.name}{at}.{axes[i] if per <= 3 else i}" for i in range(per)]
        return tuple(out)

    @property
    def past_s(self) -> float:
        """Longest past time [s] for which the features need the trajectory; 0 if they need only the future."""
        return max([0.0, *(-t for f in self.features if f.is_trajectory for t in f.times)])

    @property
    def hash(self) -> str:
        """Hash of all features without their weights, because the weights can change at run time."""
        text = repr([f.meaning for f in self.features])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def hash_number(self) -> int:
        """The feature layout's `hash` as an integer, for ROS messages."""
        return int(self.hash, 16)


# Future times [s] of the built-in features of the desired trajectory: 20, 40 and 60 frames at 60 Hz (Holden 2020)
HORIZON_S = (1 / 3, 2 / 3, 1.0)


def default_layout() -> FeatureLayout:
    """Return the built-in feature layout for headset users, with the 27 columns of Holden 2020 and Ponton 2022.

    Features of the desired trajectory have larger weights than features of the body, so that the avatar follows the
    user more closely, but transitions between clips are less smooth (docs/matching.md).
    """
    layout = FeatureLayout(
        (
            Feature("trajectory_position", "trajectory_position", times=HORIZON_S, weight=6.0),
            Feature("trajectory_direction", "trajectory_direction", times=HORIZON_S, weight=4.0),
            Feature("left_foot_position", "joint_position", "left_foot"),
            Feature("right_foot_position", "joint_position", "right_foot"),
            Feature("left_foot_velocity", "joint_velocity", "left_foot"),
            Feature("right_foot_velocity", "joint_velocity", "right_foot"),
            Feature("hips_velocity", "joint_velocity", "hips"),
        )
    )
    assert layout.size == 27
    return layout


def steered_layout() -> FeatureLayout:
    """Return the feature layout for a character that is steered without a headset.

    The default layout is extended by the feature `trajectory_velocity`, which distinguishes a stop from a reversal of
    direction with the same future positions (benchmarks/2026-11-steering.md).
    """
    return FeatureLayout((*default_layout().features, Feature(VELOCITY, VELOCITY, times=HORIZON_S, weight=1.0)))
