"""The feature layout as YAML: what `config/features.yaml` shows."""

from __future__ import annotations

import importlib.util
import math
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import read_yaml
from mm_ros.body.skeleton import NAMES
from mm_ros.motion.feature_values import FeatureFunction, Functions
from mm_ros.motion.features import KINDS, Feature, FeatureLayout, default_layout

_EXAMPLE_HEAD = """\
# What is compared when motion is matched: the built-in layout. `mm_ros import --features THIS` builds a database
# with it. The layout's hash is in the database and in each model, and a mismatch is refused at start. The hash leaves
# the weights out: they are defaults, and the parameter `weights` of motion_matcher changes them while it runs.
# `mm_ros info DATABASE` shows the weights that differ from the built-in ones. Made by `python tools/describe.py`.
#
# kind      trajectory_position | trajectory_direction   2 numbers a time, on the ground, in root space, of the root
#           joint_position | joint_velocity              3 numbers, in root space
#           leading_foot                                 1 number a time: left foot before the right one [m]; a camera
#                                                        measures it (docs/fusion.md), else its weight is 0
#           function                                     `width` numbers of your own "package.module:name", in a
#                                                        file beside this one (package/module.py), called with
#                                                        (positions (F, J, 3), rotations (F, J, 4), rate), in the world
# joint     a joint of the canonical humanoid, for joint_position and joint_velocity
# times     seconds ahead; negative is past (trajectory kinds and leading_foot only)
# weight    0 or more; larger obeys this feature more
"""

MOST_TIME_S, MOST_NUMBER, MOST_WIDTH = 60.0, 1e6, 1000
KEYS = tuple(f.name for f in fields(Feature))


def read_layout(path: str | Path) -> FeatureLayout:
    value = read_yaml(path)
    rows = value.get("features") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not rows:
        raise MmRosError(f"{path}: expected a list under 'features'")
    return FeatureLayout(tuple(_feature(path, row) for row in rows))


def read_functions(path: str | Path, layout: FeatureLayout) -> Functions:
    """The functions that a layout read from `path` names, from Python files beside it.

    This runs those files. Nothing else that mm_ros opens is ever imported.
    """
    return {f.name: _function(Path(path), f) for f in layout.features if f.kind == "function"}


def _function(path: Path, feature: Feature) -> FeatureFunction:
    """`package.module:name` is `name` of `package/module.py` beside the YAML."""
    wrong = f"{path}: feature '{feature.name}'"
    module, _, name = feature.function.partition(":")
    parts = module.split(".")
    if not all(part.isidentifier() for part in (*parts, name)):
        raise MmRosError(f"{wrong}: function: expected 'package.module:name', came '{feature.function}'")
    source = path.resolve().parent.joinpath(*parts).with_suffix(".py")
    if not source.is_file():
        raise MmRosError(f"{wrong}: {source} does not exist; '{module}' is looked up beside the file that names it")
    spec = importlib.util.spec_from_file_location(f"mm_ros_features.{module}", source)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # as an import would: its dataclasses look themselves up there
    try:
        spec.loader.exec_module(loaded)
    except Exception as error:
        raise MmRosError(f"{wrong}: {source} cannot be run ({type(error).__name__}: {error})") from error
    function = getattr(loaded, name, None)
    if not callable(function):
        raise MmRosError(f"{wrong}: {source} has no function '{name}'")
    found: FeatureFunction = function
    return found


def _feature(path: str | Path, row: Any) -> Feature:
    if not isinstance(row, dict) or "name" not in row or "kind" not in row:
        raise MmRosError(f"{path}: a feature needs 'name' and 'kind', came {row!r}")
    for key in row:
        if key not in KEYS:
            raise MmRosError(f"{path}: feature '{row['name']}': '{key}' is unknown. Keys: {', '.join(KEYS)}")
    row = dict(row)
    _check_types(path, row)
    joint = row.get("joint", "root")
    if joint not in NAMES:
        raise MmRosError(f"{path}: feature '{row['name']}': joint '{joint}' does not exist. Joints: {', '.join(NAMES)}")
    times = row.get("times", [0.0])
    if not isinstance(times, list) or not times or not all(isinstance(t, int | float) for t in times):
        raise MmRosError(f"{path}: feature '{row['name']}': times: expected a list of seconds, came {times!r}")
    if not all(-MOST_TIME_S <= t <= MOST_TIME_S for t in times):
        raise MmRosError(
            f"{path}: feature '{row['name']}': times: expected {-MOST_TIME_S:g} to {MOST_TIME_S:g} s, came "
            f"{str(times)[:100]}"
        )
    row["times"] = tuple(float(t) for t in times)
    timed = row["kind"] in KINDS and KINDS[row["kind"]].timed
    if not timed and len(times) != 1:
        raise MmRosError(f"{path}: feature '{row['name']}': a {row['kind']} has no times")
    if row["kind"] == "function" and not (row.get("function") and row.get("width")):
        raise MmRosError(f"{path}: feature '{row['name']}': kind 'function' needs 'function' and 'width'")
    try:
        return Feature(**row)
    except MmRosError as error:
        raise MmRosError(f"{path}: {error}") from None


def _check_types(path: str | Path, row: dict[str, Any]) -> None:
    kinds = {"name": str, "kind": str, "joint": str, "weight": int | float, "function": str, "width": int}
    for key, kind in kinds.items():
        if key in row and (not isinstance(row[key], kind) or isinstance(row[key], bool)):
            what = "a name" if kind is str else "a number"
            raise MmRosError(f"{path}: feature '{row['name']}': {key}: expected {what}, came {row[key]!r}")
    if not -MOST_NUMBER <= row.get("weight", 0) <= MOST_NUMBER or not 0 <= row.get("width", 0) <= MOST_WIDTH:
        raise MmRosError(
            f"{path}: feature '{row['name']}': expected a weight up to {MOST_NUMBER:g} and a width up to {MOST_WIDTH}"
        )


def format_layout(layout: FeatureLayout) -> str:
    """One feature a line; what is as usual for its kind is left out."""
    return "features:\n" + "".join(f"  - {_line(f)}\n" for f in layout.features)


def _line(f: Feature) -> str:
    row: dict[str, Any] = {"name": f.name, "kind": f.kind}
    if f.joint != "root":
        row["joint"] = f.joint
    if KINDS[f.kind].timed:
        row["times"] = list(f.times)
    if f.kind == "function":
        row |= {"function": f.function, "width": f.width}
    row["weight"] = f.weight
    return yaml.safe_dump(row, sort_keys=False, default_flow_style=True, width=math.inf).strip()


def example_yaml() -> str:
    """The text of `config/features.yaml`, for users to copy: the built-in layout and what can be written."""
    return _EXAMPLE_HEAD + format_layout(default_layout())
