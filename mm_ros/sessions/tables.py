"""Read CSV tables of tracker poses with the columns t, role, x, y, z, qx, qy, qz, qw in the axes of ROS. The devices in
a table can be sampled at different times."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64, HEAD_ROLE, ROLE_ALIASES, ROLES, TRACKED, TrackerFrame, role_index

COLUMNS = ("t", "role", "x", "y", "z", "qx", "qy", "qz", "qw")
FOOTFALL_COLUMNS = ("t", "foot")
FEET = ("left", "right")
FOOTFALLS = ".footfalls.csv"  # ending of the names of files that list the times of footfalls
# Samples of devices belong to one tracker frame if their times differ by at most this time [s], because recording
# programs read devices one by one.
SAME_POLL_S = 0.003
LONGEST_S, FARTHEST_M = 1e6, 1e4


@dataclass(frozen=True)
class Table:
    """Table of tracker poses, as read from a CSV file. `devices` maps each role to rows (N, 8) of t, x, y, z, qw, qx,
    qy, qz in the order of time. All times t are relative to the time `began` [s] in the file."""

    devices: dict[str, F64]
    skipped: dict[str, int]  # maps each unknown role to the number of its rows, which are skipped
    began: float = 0.0

    def frames(self, start_ns: int = 0, roles: Sequence[str] = ROLES) -> list[TrackerFrame]:
        """Return one tracker frame per sample of the head, with the latest sample of each other device in `roles`."""
        rows = [self.devices.get(r, np.zeros((0, 8))) if r in roles else np.zeros((0, 8)) for r in ROLES]
        head = rows[HEAD_ROLE]
        latest = [_latest(table, head[:, 0]) for table in rows]
        return [_frame(i, rows, latest, start_ns) for i in range(len(head))]


def read_table(path: Path, start_ns: int = 0) -> list[TrackerFrame]:
    """Read a table as tracker frames, one per head sample, with the sample time of each device in `sampled_ns`."""
    return read_devices(path).frames(start_ns)


def read_devices(path: Path) -> Table:
    """Read the samples of each device in a table of tracker poses. Rows of unknown roles are skipped and reported by a
    line on stderr."""
    devices, skipped = _rows(path)
    if skipped:
        names = ", ".join(f"'{role}' ({n} rows)" for role, n in skipped.items())
        print(f"mm_ros: {path}: skipped the unknown roles {names}. Roles: {', '.join(ROLES)}", file=sys.stderr)
    if "head" not in devices:
        raise MmRosError(f"{path} has no rows of role 'head'. Roles: {', '.join(ROLES)}")
    return _from_zero(path, devices, skipped)


def is_table(path: Path) -> bool:
    """Whether the file `path` is a table of tracker poses, by its first line."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            return tuple(next(csv.reader(handle), [])) == COLUMNS
    except (OSError, UnicodeDecodeError, csv.Error):
        return False


def read_footfalls(path: Path, began: float = 0.0) -> tuple[F64, F64]:
    """Read a CSV table of footfalls with the columns t and foot. Return the sorted times at which the left and the
    right foot touch the floor [s]."""
    out: dict[str, list[float]] = {foot: [] for foot in FEET}
    for number, row in enumerate(_lines(path), 1):
        if number == 1:
            if tuple(row) != FOOTFALL_COLUMNS:
                expected = ",".join(FOOTFALL_COLUMNS)
                raise MmRosError(f"{path}: expected the columns {expected}, came {','.join(row)[:80]}")
            continue
        if row:
            foot, t = _footfall(path, number, row)
            out[foot].append(t - began)
    left, right = (np.sort(np.array(out[foot], np.float64)) for foot in FEET)
    return left, right


def _footfall(path: Path, number: int, row: list[str]) -> tuple[str, float]:
    try:
        t, foot = row
        if foot not in FEET or not np.isfinite(float(t)):
            raise ValueError("not a footfall")
        return foot, float(t)
    except ValueError:
        raise MmRosError(
            f"{path}, line {number}: expected a time and a foot (left or right), came {','.join(row)[:100]}"
        ) from None


def _rows(path: Path) -> tuple[dict[str, F64], dict[str, int]]:
    out: dict[str, list[list[float]]] = {}
    skipped: Counter[str] = Counter()
    for number, row in enumerate(_lines(path), 1):
        if number == 1 and tuple(row) != COLUMNS:
            raise MmRosError(f"{path}: expected the columns {','.join(COLUMNS)}, came {','.join(row)[:80]}")
        if number == 1 or not row:
            continue
        if len(row) == len(COLUMNS) and row[1] and row[1] not in (*ROLES, *ROLE_ALIASES):
            skipped[row[1]] += 1
            continue
        role, values = _row(path, number, row)
        out.setdefault(role, []).append(values)
    tables = {role: np.array(values, np.float64) for role, values in out.items()}
    return {role: table[np.argsort(table[:, 0], kind="stable")] for role, table in tables.items()}, dict(skipped)


def _from_zero(path: Path, devices: dict[str, F64], skipped: dict[str, int]) -> Table:
    """Subtract the time of the first head sample from all times in a table if this time is large (a Unix time)."""
    first = float(devices["head"][0, 0])
    began = first if abs(first) > LONGEST_S else 0.0
    if began:
        devices = {r: np.concatenate([table[:, :1] - began, table[:, 1:]], axis=1) for r, table in devices.items()}
    farthest = max(float(np.abs(table[:, 0]).max()) for table in devices.values())
    if farthest > LONGEST_S:
        raise MmRosError(
            f"{path}: times lie up to {farthest:.3g} s from the start; expected seconds, at most {LONGEST_S:g}"
        )
    return Table(devices, skipped, began)


def _lines(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            return list(csv.reader(handle)) or [[]]
    except OSError as error:
        raise MmRosError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise MmRosError(f"{path}: is not a comma-separated table ({error})") from error


def _row(path: Path, number: int, row: list[str]) -> tuple[str, list[float]]:
    try:
        t, role, x, y, z, qx, qy, qz, qw = row
        values = [float(v) for v in (t, x, y, z, qw, qx, qy, qz)]
        length = float(np.linalg.norm(values[4:]))
        if not 0.9 < length < 1.1 or not np.isfinite(values[0]) or any(not abs(v) <= FARTHEST_M for v in values[1:4]):
            raise ValueError("not a pose")
        values[4:] = [v / length for v in values[4:]]
        return ROLES[role_index(role)], values
    except ValueError:
        raise MmRosError(
            f"{path}, line {number}: expected {','.join(COLUMNS)} with a role of {', '.join(ROLES)} "
            f"and a quaternion of length 1, came {','.join(row)[:100]}"
        ) from None


def _latest(table: F64, times: F64) -> F64:
    return np.searchsorted(table[:, 0], times + SAME_POLL_S, side="right").astype(np.float64) - 1


def _frame(i: int, rows: list[F64], latest: list[F64], start_ns: int) -> TrackerFrame:
    latest_head = rows[HEAD_ROLE][i]
    out = TrackerFrame(start_ns + round(latest_head[0] * 1e9))
    for r, table in enumerate(rows):
        k = i if r == HEAD_ROLE else int(latest[r][i])
        if k < 0:
            continue
        out.positions[r], out.rotations[r] = table[k, 1:4], table[k, 4:]
        out.state[r] = TRACKED
        out.sampled_ns[r] = start_ns + round(table[k, 0] * 1e9)
    return out
