"""Tables of tracker poses (CSV: t, role, x, y, z, qx, qy, qz, qw; ROS axes); each device has its own sample times."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64, HEAD_ROLE, ROLES, TRACKED, R, TrackerFrame, role_index

COLUMNS = ("t", "role", "x", "y", "z", "qx", "qy", "qz", "qw")
# Devices polled one after the other have stamps up to this far apart and still belong to one frame.
SAME_POLL_S = 0.003
LONGEST_S, FARTHEST_M = 1e6, 1e4


def read_table(path: Path, start_ns: int = 0) -> list[TrackerFrame]:
    """One frame per sample of the head, with the latest sample of each other device; its time is `sampled_ns`."""
    rows = _rows(path)
    head = rows[HEAD_ROLE]
    if not len(head):
        raise MmRosError(f"{path} has no rows of role 'head'. Roles: {', '.join(ROLES)}")
    rows = _from_zero(path, rows)
    head = rows[HEAD_ROLE]
    latest = [_latest(table, head[:, 0]) for table in rows]
    return [_frame(i, rows, latest, start_ns) for i in range(len(head))]


def _rows(path: Path) -> list[F64]:
    """Rows (N, 8) of each role in order of time: t, x, y, z, qw, qx, qy, qz."""
    out: list[list[list[float]]] = [[] for _ in range(R)]
    for number, row in enumerate(_lines(path), 1):
        if number == 1 and tuple(row) != COLUMNS:
            raise MmRosError(f"{path}: expected the columns {','.join(COLUMNS)}, came {','.join(row)[:80]}")
        if number > 1 and row:
            role, values = _row(path, number, row)
            out[role].append(values)
    tables = [np.array(table, np.float64).reshape(-1, 8) for table in out]
    return [table[np.argsort(table[:, 0], kind="stable")] for table in tables]


def _from_zero(path: Path, rows: list[F64]) -> list[F64]:
    """Rows whose times count from the first sample of the head if the clock began long before (Unix time)."""
    first = float(rows[HEAD_ROLE][0, 0])
    if abs(first) > LONGEST_S:
        rows = [np.concatenate([table[:, :1] - first, table[:, 1:]], axis=1) for table in rows]
    times = np.concatenate([table[:, 0] for table in rows])
    if np.abs(times).max() > LONGEST_S:
        came = f"{np.abs(times).max():.3g}"
        raise MmRosError(f"{path}: times lie up to {came} s from the start; expected seconds, at most {LONGEST_S:g}")
    return rows


def _lines(path: Path) -> list[list[str]]:
    """Cells of each line, without a byte-order mark."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            return list(csv.reader(handle)) or [[]]
    except OSError as error:
        raise MmRosError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise MmRosError(f"{path}: is not a comma-separated table ({error})") from error


def _row(path: Path, number: int, row: list[str]) -> tuple[int, list[float]]:
    try:
        t, role, x, y, z, qx, qy, qz, qw = row
        values = [float(v) for v in (t, x, y, z, qw, qx, qy, qz)]
        length = float(np.linalg.norm(values[4:]))
        if not 0.9 < length < 1.1 or not np.isfinite(values[0]) or any(abs(v) > FARTHEST_M for v in values[1:4]):
            raise ValueError("not a pose")
        values[4:] = [v / length for v in values[4:]]
        return role_index(role), values
    except (ValueError, MmRosError):
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
