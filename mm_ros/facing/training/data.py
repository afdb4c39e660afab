"""Makes training data from motion capture: the poses of head and wrists, and the true facing of the body."""

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
    """The poses of head, left wrist and right wrist in one clip, and the facing of the body in the room [rad].

    The x axis of the head points forward, and the z axis up.
    """

    name: str
    subject: str
    rate: float
    height: float  # height of the headset of the captured person when standing [m]
    positions: F64  # (F, 3, 3)
    rotations: F64  # (F, 3, 4)
    yaw: F64  # (F,) true facing of the body: unsmoothed direction of hips and shoulders [rad]
    root_yaw: F64  # (F,) direction of the hips alone, which is the facing of the root joint in the database
    seams: tuple[int, ...] = ()  # in a motion of joined clips, index of the first frame of each clip but the first

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


def head_yaw(motion: Motion) -> F64:
    """Return the yaw of the head relative to the facing of the body in each frame (F,) [rad]."""
    x = rot.rotate(motion.rotations[:, 0], np.array([1.0, 0.0, 0.0]))
    return np.asarray(rot.wrap_angle(np.arctan2(x[:, 1], x[:, 0]) - motion.yaw))


def head_bias(motions: Iterable[Motion]) -> float:
    """Return the median head yaw [rad] in all motions of a subject, which counts as the error of the head markers'
    placement.
    """
    yaws = np.concatenate([head_yaw(m) for m in motions])
    centre = float(np.angle(np.exp(1j * yaws).mean()))
    return float(rot.wrap_angle(centre + np.median(rot.wrap_angle(yaws - centre))))


def without_head_bias(motions: list[Motion]) -> list[Motion]:
    """Remove the median head yaw of each subject from the motions, because a network would learn it as an offset."""
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
    """Turn a motion about the vertical by `angle` [rad], and move the motion so that the head starts above `to_xy`."""
    q = rot.from_yaw(angle)
    p = rot.rotate(q, motion.positions)
    if to_xy is not None:
        p[..., :2] += to_xy - p[0, 0, :2]
    return replace(
        motion, positions=p, rotations=rot.multiply(q, motion.rotations),
        yaw=motion.yaw + angle, root_yaw=motion.root_yaw + angle,
    )  # fmt: skip


def chained(motions: list[Motion]) -> Motion:
    """Join motions into one long motion, and turn and move each motion so that it continues the motion before.

    Clips of a few seconds become motions of about a minute, because the network's inputs contain averages over up to 15
    s.
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
    """Divide motions with equal subject and frame rate into random groups of 1 to `longest`, and join the motions of
    each group."""
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
