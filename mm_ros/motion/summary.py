"""Summary of motion data: minutes of each kind of motion, speeds, head heights, and a heat map of velocities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.proportions import unusual
from mm_ros.body.skeleton import HEAD, HIPS, LEFT_HAND, RIGHT_HAND
from mm_ros.body.types import F64
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.extreme import EXTREME_TAGS, HIGH_LEG, lifted_legs
from mm_ros.motion.kinds import RUN_SPEED, kinds_of, root_motion

CELL = 0.25  # width of a cell of the heat map [m/s]
AHEAD = (-2.0, 4.0)  # range of forward velocities in the heat map [m/s]
ACROSS = (-2.0, 2.0)  # range of velocities to the left in the heat map [m/s]
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
    """Summarize a database. The field `minutes_of` holds the minutes of each tag; a frame can have several tags."""
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
    """Return the seconds of motion in each cell of velocity (forward, left), and the limits of the cells [m/s]."""
    ahead, left = (np.arange(a, b + CELL / 2, CELL) for a, b in (AHEAD, ACROSS))
    counts, _, _ = np.histogram2d(summary.velocities[:, 0], summary.velocities[:, 1], (ahead, left))
    per_frame = summary.seconds / max(len(summary.velocities), 1)
    return counts * per_frame, ahead, left


def heat_text(summary: Summary) -> str:
    """Return the heat map as text, with forward motion at the top and motion to the left on the left side.

    Each shade stands for about four times as many seconds as the next lighter shade.
    """
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


EVERY = 6  # the summary computes joint positions for every sixth frame only, to save time
LEAST_MIN = 0.2  # the summary warns if a database contains fewer minutes than this of a kind of motion
# The summary counts a person as moving above this speed [m/s], as turning above this yaw rate [rad/s], and as crouching
# or squatting if the head is below these shares of its height in upright standing.
MOVES, TURNS, CROUCHES, SQUATS = 0.4, np.radians(45), 0.82, 0.65
GESTURE_SPEED = 0.5  # minimum speed [m/s] of a hand relative to the hips during a gesture


def coverage(database: MotionDatabase) -> list[tuple[str, float]]:
    """Return the minutes of motion in a database for each kind of motion that a user may need."""
    v = np.asarray(database.velocities[:, 0, :2], np.float64)
    speed, turn = np.linalg.norm(v, axis=1), np.asarray(database.angular_velocities[:, 0, 2], np.float64)
    angle, moves = np.degrees(np.arctan2(v[:, 1], v[:, 0])), speed > MOVES
    ratio = np.asarray(database.head_height_ratio)
    gestures = (_hand_speed(database) > GESTURE_SPEED) & (speed[::EVERY] < MOVES)
    flags = {
        "walking forward": moves & (abs(angle) < 45) & (speed < RUN_SPEED),
        "running": moves & (speed >= RUN_SPEED),
        "walking backward": moves & (abs(angle) > 135),
        "sideways to the left": moves & (angle > 45) & (angle < 135),
        "sideways to the right": moves & (angle < -45) & (angle > -135),
        "standing": ~moves & (abs(turn) < TURNS),
        "turning left": turn > TURNS,
        "turning right": turn < -TURNS,
        "crouching": ratio < CROUCHES,
        "squatting or lower": ratio < SQUATS,
    }
    minutes = {name: float(f.sum()) / database.rate / 60 for name, f in flags.items()}
    minutes["gestures while standing"] = float(gestures.sum()) * EVERY / database.rate / 60
    return [(name, round(m, 2)) for name, m in minutes.items()]


def doubts(database: MotionDatabase) -> list[str]:
    """Return descriptions of properties of a database that may reduce the quality of an avatar's motion."""
    out = unusual(database.skeleton)
    if any("head joint" in d for d in out):
        out.append("the legs of the avatar fit the user only if the files are imported again")
    out += [f"little motion: {name} ({m:g} min)" for name, m in coverage(database) if m < LEAST_MIN]
    untagged = _untagged(database)
    if untagged > 1e-3:
        out.append(f"legs are lifted high in {untagged:.1%} of the motion without the tag {HIGH_LEG}: import again")
    for name in set(EXTREME_TAGS) & set(database.tag_names):
        share = float(((np.asarray(database.tags) & np.uint64(database.tag_bit(name))) != 0).mean())
        out.append(f"extreme postures: {name} in {share:.1%} of the motion, played only on demand")
    return out


def _some_joints(database: MotionDatabase) -> F64:
    p = np.asarray(database.positions[::EVERY], np.float64)
    q = np.asarray(database.rotations[::EVERY], np.float64)
    p[:, 0], q[:, 0] = 0.0, (1.0, 0.0, 0.0, 0.0)
    return np.asarray(database.skeleton.kinematics(p, q)[0])


def _hand_speed(database: MotionDatabase) -> F64:
    joints = _some_joints(database)
    hands = joints[:, [LEFT_HAND, RIGHT_HAND]] - joints[:, [HIPS]]
    speed = np.zeros(len(hands))
    step = np.linalg.norm(np.diff(hands, axis=0), axis=-1).max(1) * database.rate / EVERY
    frames = np.arange(len(hands)) * EVERY
    same_clip = np.diff(np.searchsorted(database.range_starts, frames, side="right")) == 0
    speed[:-1] = np.where(same_clip, step, 0.0)
    return speed


def _untagged(database: MotionDatabase) -> float:
    speed = np.linalg.norm(np.asarray(database.velocities[::EVERY, 0, :2], np.float64), axis=1)
    lifted = lifted_legs(_some_joints(database), database.skeleton, speed)
    bit = database.tag_bit(HIGH_LEG) if HIGH_LEG in database.tag_names else 0
    return float((lifted & ((np.asarray(database.tags[::EVERY]) & np.uint64(bit)) == 0)).mean())
