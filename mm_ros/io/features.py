"""The feature layout as YAML: what `config/features.yaml` shows."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from mm_ros.core.errors import MmRosError
from mm_ros.core.features import KINDS, Feature, FeatureLayout
from mm_ros.core.skeleton import NAMES
from mm_ros.io.files import read_yaml

MOST_TIME_S, MOST_NUMBER, MOST_WIDTH = 60.0, 1e6, 1000
KEYS = tuple(f.name for f in fields(Feature))


def read_layout(path: str | Path) -> FeatureLayout:
    value = read_yaml(path)
    rows = value.get("features") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not rows:
        raise MmRosError(f"{path}: expected a list under 'features'")
    return FeatureLayout(tuple(_feature(path, row) for row in rows))


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
    rows = []
    for f in layout.features:
        row: dict[str, Any] = {"name": f.name, "kind": f.kind, "joint": f.joint, "weight": f.weight}
        if KINDS[f.kind].timed:
            row["times"] = list(f.times)
        if f.kind == "function":
            row |= {"function": f.function, "width": f.width}
        rows.append(row)
    return yaml.safe_dump({"features": rows}, sort_keys=False)
