"""Motion capture as the trainer needs it: head, wrists, and where the body really faced."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD, LEFT_HAND, LEFT_UPPER_LEG, RIGHT_HAND, RIGHT_UPPER_LEG  # fmt: skip
from mm_ros.body.types import F64
from mm_ros.maths import rotations as rot
from mm_ros.motion.metrics import facing_of_body
from mm_ros.tracking import simulation as sim
from mm_ros.tracking.calibration import standing_headset_height


@dataclass(frozen=True)
class Motion:
    """One clip: head (axes x forward, z up), left and right wrist; yaw of the body in the room (rad)."""

    name: str
    subject: str
    rate: float
    height: float  # of a headset on this person standing, m
    positions: F64  # (F, 3, 3)
    rotations: F64  # (F, 3, 4)
    yaw: F64  # (F,) hips and shoulders, unsmoothed: what training and bounds mean by truth
    root_yaw: F64  # (F,) hips alone: what the database's root faces
    seams: tuple[int, ...] = ()  # first frames of what was joined: no velocity reaches across

    def __len__(self) -> int:
        return len(self.yaw)

    @property
    def seconds(self) -> float:
        return len(self) / self.rate


def motion_of(clip: Clip) -> Motion:
    p, q = (a.astype(np.float64) for a in clip.globals())
    facing = sim.facing(p[:, LEFT_UPPER_LEG], p[:, RIGHT_UPPER_LEG])
    axes = sim.head_axes(q[:, HEAD], facing)
    rotations = q[:, [HEAD, LEFT_HAND, RIGHT_HAND]]
    rotations[:, 0] = rot.multiply(rotations[:, 0], axes)
    return Motion(
        name=clip.name,
        subject=clip.subject or clip.name.split("_")[0],
        rate=clip.rate,
        height=standing_headset_height(clip.skeleton),
        positions=np.asarray(p[:, [HEAD, LEFT_HAND, RIGHT_HAND]], np.float64),
        rotations=np.asarray(rotations, np.float64),
        yaw=facing_of_body(p),
        root_yaw=np.arctan2(facing[:, 1], facing[:, 0]),
    )


def thinned(motion: Motion, rate: float = 60.0) -> Motion:
    """Every n-th frame, to about `rate`: 120 Hz says nothing more about a facing."""
    step = max(1, round(motion.rate / rate))
    if step == 1:
        return motion
    return replace(
        motion, rate=motion.rate / step, positions=motion.positions[::step],
        rotations=motion.rotations[::step], yaw=motion.yaw[::step], root_yaw=motion.root_yaw[::step],
    )  # fmt: skip


def head_yaw(motion: Motion) -> F64:
    """Yaw of the head against the body, (F,)."""
    x = rot.rotate(motion.rotations[:, 0], np.array([1.0, 0.0, 0.0]))
    return np.asarray(rot.wrap_angle(np.arctan2(x[:, 1], x[:, 0]) - motion.yaw))


def head_bias(motions: Iterable[Motion]) -> float:
    """Constant yaw of a subject's head against the body: the markers', not a habit of looking aside."""
    yaws = np.concatenate([head_yaw(m) for m in motions])
    centre = float(np.angle(np.exp(1j * yaws).mean()))
    return float(rot.wrap_angle(centre + np.median(rot.wrap_angle(yaws - centre))))


def without_head_bias(motions: list[Motion]) -> list[Motion]:
    """Each subject's constant head yaw taken out; for training, where it would teach a false offset."""
    subjects: dict[str, list[Motion]] = defaultdict(list)
    for m in motions:
        subjects[m.subject].append(m)
    bias = {s: head_bias(ms) for s, ms in subjects.items()}
    out = []
    for m in motions:
        q = m.rotations.copy()
        q[:, 0] = rot.multiply(q[:, 0], rot.from_yaw(-bias[m.subject]))
        out.append(replace(m, rotations=q))
    return out


def turned(motion: Motion, angle: float, to_xy: F64 | None = None) -> Motion:
    """About the room's vertical; then moved so that the head starts above `to_xy`."""
    q = rot.from_yaw(angle)
    p = rot.rotate(q, motion.positions)
    if to_xy is not None:
        p[..., :2] += to_xy - p[0, 0, :2]
    return replace(
        motion, positions=p, rotations=rot.multiply(q, motion.rotations),
        yaw=motion.yaw + angle, root_yaw=motion.root_yaw + angle,
    )  # fmt: skip


def chained(motions: list[Motion]) -> Motion:
    """One after the other, each facing as the last one ended: clips of seconds become a session of a minute.

    Without it the slow averages would never be seen full. All of one rate.
    """
    parts = [motions[0]]
    for m in motions[1:]:
        last = parts[-1]
        parts.append(turned(m, float(last.yaw[-1] - m.yaw[0]), last.positions[-1, 0, :2]))
    return replace(
        parts[0],
        positions=np.concatenate([m.positions for m in parts]),
        rotations=np.concatenate([m.rotations for m in parts]),
        yaw=np.concatenate([m.yaw for m in parts]),
        root_yaw=np.concatenate([m.root_yaw for m in parts]),
        seams=tuple(int(i) for i in np.cumsum([len(m) for m in parts])[:-1]),
    )


def sessions(motions: list[Motion], longest: int, rng: np.random.Generator) -> list[Motion]:
    """All motions once, in random order, joined by one to `longest` of the same subject and rate."""
    groups: dict[tuple[str, float], list[Motion]] = defaultdict(list)
    for i in rng.permutation(len(motions)):
        groups[motions[i].subject, motions[i].rate].append(motions[i])
    out = []
    for group in groups.values():
        at = 0
        while at < len(group):
            n = int(rng.integers(1, longest + 1))
            out.append(chained(group[at : at + n]))
            at += n
    return out
