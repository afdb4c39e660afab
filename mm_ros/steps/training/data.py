"""Training data of the step network: head, hands, ankles and facing of each clip at 60 Hz."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HIPS, LEFT_FOOT, RIGHT_FOOT
from mm_ros.body.types import F32, F64
from mm_ros.facing.training.data import Motion, motion_of, without_head_bias
from mm_ros.maths import rotations as rot
from mm_ros.maths.jit import njit
from mm_ros.motion.cleaning.clips import resample
from mm_ros.motion.contacts import contacts_of
from mm_ros.motion.procedural import make_clips
from mm_ros.motion.procedural.user import SyntheticUser
from mm_ros.steps.inputs import CHANNELS, RATE, channels_of
from mm_ros.tracking.calibration import CONTROLLER_ALONG_HAND, HEADSET_IN_HEAD

# The columns of a `Source` are the channels of `mm_ros.steps.inputs`, then ankles, contacts, facing and hips.
ANKLES = slice(CHANNELS, CHANNELS + 6)  # positions (x, y, z) of the left and the right ankle
CONTACT = slice(ANKLES.stop, ANKLES.stop + 2)
FACING = CONTACT.stop  # The column `FACING` holds the yaw of the body without jumps by 360°.
HIPS_XY = slice(FACING + 1, FACING + 3)
COLUMNS = HIPS_XY.stop

# A touchdown is the moment when the speed of an ankle falls below `SLOW` [m/s], after the ankle was faster than `FAST`
# [m/s] and moved by at least `MOVED_M`.
FAST, SLOW, MOVED_M, SMOOTHED_S = 0.25, 0.12, 0.06, 0.1


@dataclass(frozen=True)
class Source:
    """Training data of one clip at 60 Hz.

    `columns` (T, COLUMNS) contains the poses of head and hands as channels (steps/inputs.py), then ankles, contacts,
    facing and hips. `height` is the height of the headset while the person stands [m].
    """

    name: str
    subject: str
    height: float
    columns: F32

    def __len__(self) -> int:
        return len(self.columns)


def sources_of(clips: Sequence[Clip], tell: Callable[[str, int, int], None] | None = None) -> list[Source]:
    """Convert clips to training data of the step network. For each subject, the median angle from the facing to the
    head is removed, because head markers are often rotated by a constant angle."""
    groups: dict[str, list[Clip]] = defaultdict(list)
    for clip in clips:
        if clip.seconds >= 1.0:
            groups[clip.subject].append(clip)
    out: list[Source] = []
    for group in groups.values():
        at_60 = [resample(c, RATE) for c in group]
        for clip, motion in zip(at_60, without_head_bias([motion_of(c) for c in at_60]), strict=True):
            out.append(source_of(clip, motion))
        if tell is not None:
            tell("clips", len(out), len(clips))
    return out


def procedural_clips() -> list[Clip]:
    """Make procedural motion with known steps: all recipes of the default database, and four synthetic users."""
    clips = [replace(c, subject="procedural") for c in make_clips(0)]
    for seed in range(4):
        user = SyntheticUser(seed, 0.9 + 0.07 * seed).clip(180.0)
        clips.append(replace(user, subject=f"procedural user {seed}"))
    return clips


def source_of(clip: Clip, motion: Motion) -> Source:
    p, q = motion.positions.copy(), motion.rotations
    p[:, 0] += rot.rotate(q[:, 0], np.array(HEADSET_IN_HEAD))
    for hand, side in ((1, 1.0), (2, -1.0)):
        p[:, hand] += rot.rotate(q[:, hand], np.array([0.0, side * CONTROLLER_ALONG_HAND, 0.0]))
    columns = np.empty((len(clip), COLUMNS))
    _all_channels(p, q, columns[:, :CHANNELS])
    joints, _ = clip.globals()
    columns[:, ANKLES] = joints[:, [LEFT_FOOT, RIGHT_FOOT]].reshape(len(clip), 6)
    columns[:, CONTACT] = contacts_of(clip)
    columns[:, FACING] = np.unwrap(motion.yaw)
    columns[:, HIPS_XY] = joints[:, HIPS, :2]
    return Source(clip.name, clip.subject, motion.height, columns.astype(np.float32))


@njit
def _all_channels(positions: F64, rotations: F64, out: F64) -> None:
    last = np.zeros(CHANNELS)
    state = np.ones(3, np.uint8)
    for f in range(positions.shape[0]):
        channels_of(positions[f], rotations[f], state, last, out[f])
        last = out[f].copy()


def smoothed_speed(ankles: F64, rate: float = RATE) -> F64:
    """Compute the speed (T, 2) of both `ankles` (T, 6) [m/s] from positions that are averaged over 0.1 s."""
    n = max(1, round(SMOOTHED_S * rate) // 2 * 2 + 1)
    half = n // 2
    padded = np.concatenate([np.repeat(ankles[:1], half, 0), ankles, np.repeat(ankles[-1:], half, 0)])
    total = np.cumsum(np.concatenate([np.zeros((1, 6)), padded]), axis=0)
    mean = (total[n:] - total[:-n]) / n
    v = np.gradient(mean, 1 / rate, axis=0).reshape(-1, 2, 3)
    return np.asarray(np.sqrt((v * v).sum(-1)))


@njit
def touchdowns_of(speed: F64, ankle: F64) -> NDArray[np.bool_]:
    """Return for each of T frames whether one foot touches down, from the `speed` (T,) [m/s] and the position (T, 3)
    [m] of its ankle."""
    out = np.zeros(len(speed), np.bool_)
    start, fast, away = 0, False, 0.0
    for f in range(len(speed)):
        if speed[f] < SLOW:
            if fast and away >= MOVED_M:
                out[f] = True
            start, fast, away = f, False, 0.0
            continue
        fast = fast or speed[f] > FAST
        d = ankle[f] - ankle[start]
        away = max(away, np.sqrt((d * d).sum()))
    return out
