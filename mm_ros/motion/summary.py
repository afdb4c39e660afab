"""Summary of motion data: minutes per kind, speeds, heights, and a heat map of velocities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD
from mm_ros.body.types import F64
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.kinds import kinds_of, root_motion

CELL = 0.25  # m/s
AHEAD = (-2.0, 4.0)  # m/s; range of the heat map
ACROSS = (-2.0, 2.0)
_SHADES = " ·░▒▓█"


@dataclass(frozen=True)
class Summary:
    seconds: float
    clips: int
    minutes_of: dict[str, float]
    speeds: F64  # (n,) m/s
    yaw_rates: F64  # (n,) rad/s
    head_ratios: F64  # (n,)
    velocities: F64  # (n, 2) m/s in root space


def of_clips(clips: list[Clip]) -> Summary:
    velocities, yaw_rates, ratios = [], [], []
    minutes: dict[str, float] = {}
    for clip in clips:
        v, w = root_motion(clip)
        kinds, names = kinds_of(clip)
        positions, _ = clip.globals()
        velocities.append(v)
        yaw_rates.append(w)
        ratios.append(positions[:, HEAD, 2] / clip.skeleton.head_height)
        for k, name in enumerate(names):
            minutes[name] = minutes.get(name, 0.0) + float((kinds == k).sum()) / clip.rate / 60
    v = np.concatenate(velocities)
    seconds = sum(c.seconds for c in clips)
    return Summary(
        seconds, len(clips), minutes, np.linalg.norm(v, axis=1), np.concatenate(yaw_rates), np.concatenate(ratios), v
    )


def of_database(database: MotionDatabase) -> Summary:
    """Summarize a database. `minutes_of` counts each tag; frames can have several tags."""
    v = np.asarray(database.velocities[:, 0, :2], np.float64)
    tags = np.asarray(database.tags)
    minutes = {
        n: float(((tags >> np.uint64(i)) & np.uint64(1)).sum()) / database.rate / 60
        for i, n in enumerate(database.tag_names)
    }
    yaw_rates = np.asarray(database.angular_velocities[:, 0, 2], np.float64)
    return Summary(
        len(database) / database.rate, len(database.clip_names), minutes, np.linalg.norm(v, axis=1), yaw_rates,
        np.asarray(database.head_height_ratio, np.float64), v,
    )  # fmt: skip


def heat(summary: Summary) -> tuple[F64, F64, F64]:
    """Return the seconds in each cell of velocity (ahead, left), and the edges of the cells."""
    ahead, left = (np.arange(a, b + CELL / 2, CELL) for a, b in (AHEAD, ACROSS))
    counts, _, _ = np.histogram2d(summary.velocities[:, 0], summary.velocities[:, 1], (ahead, left))
    per_frame = summary.seconds / max(len(summary.velocities), 1)
    return counts * per_frame, ahead, left


def heat_text(summary: Summary) -> str:
    """Return the heat map as text: ahead is up, left is left. Each darker shade means about four times the time."""
    seconds, ahead, _ = heat(summary)
    level = np.where(seconds > 0, np.clip(np.log(np.maximum(seconds, 1e-3) / 0.1) / np.log(4), 0, 4).astype(int) + 1, 0)
    lines = []
    used = np.flatnonzero(level.any(axis=1))
    for i in range(max(used, default=0), min(used, default=0) - 1, -1):
        label = f"{ahead[i]:+5.2f} … {ahead[i + 1]:+5.2f} m/s"
        lines.append(f"{label} |" + "".join(_SHADES[level[i, j]] * 2 for j in range(level.shape[1] - 1, -1, -1)) + "|")
    width = 2 * level.shape[1]
    caption = f"{'left 2 m/s':<{width // 2 - 1}}|{'right 2 m/s':>{width - width // 2}}"
    lines.append(" " * 20 + caption)
    lines.append(" " * 20 + f"from {_SHADES[1]} (below 0.4 s) to {_SHADES[5]} (26 s and more)")
    return "\n".join(lines)


def rows(summary: Summary) -> list[tuple[str, Any]]:
    def spread(values: F64) -> str:
        low, middle, high = np.percentile(values, (5, 50, 95))
        return f"{low:.2f} / {middle:.2f} / {high:.2f}"

    out: list[tuple[str, Any]] = [("minutes", round(summary.seconds / 60, 2)), ("clips", summary.clips)]
    out.append(("speed, m/s (5, 50, 95 %)", spread(summary.speeds)))
    out.append(("turning, deg/s (5, 50, 95 %)", spread(np.degrees(summary.yaw_rates))))
    out.append(("head height / standing head height", spread(summary.head_ratios)))
    out += [(f"minutes {name}", round(m, 2)) for name, m in summary.minutes_of.items() if m > 0]
    return out
