"""The desired motion of a synthetic person: the path of the body over the floor, and its posture.

The module `footsteps.py` plans the footsteps for the desired motion. A walk consists of segments, called legs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mm_ros.body.types import F64
from mm_ros.motion.procedural.smooth import gaussian

RATE = 60.0  # Hz
CHANNELS = ("sink", "lean", "tiptoe", "run", "look_yaw", "look_pitch")


@dataclass(frozen=True)
class Leg:
    """A segment of a walk.

    The velocity of a segment is the sum of `room`, in the axes of the room, and of `forward` and `left`, in the axes of
    the person.
    """

    seconds: float
    forward: float = 0.0  # m/s
    left: float = 0.0
    room: tuple[float, float] = (0.0, 0.0)
    turn: float = 0.0  # rad/s, counter-clockwise
    sink: float = 0.0  # distance [m] of the pelvis below its height in standing
    lean: float = 0.0  # forward pitch of the chest in this segment of the motion [rad]
    tiptoe: float = 0.0  # pitch of the feet [rad], positive if the heels are up
    run: float = 0.0  # 0: walk, 1: run
    look_yaw: float = 0.0  # yaw of the head relative to the body [rad]
    look_pitch: float = 0.0  # pitch of the head [rad], positive downwards


@dataclass
class DesiredMotion:
    """The desired motion of the body in each frame."""

    rate: float
    position: F64  # (F, 2) position of the body on the floor
    yaw: F64  # (F,) unwrapped
    velocity: F64  # (F, 2) forward, left
    turn: F64  # (F,) rad/s
    posture: dict[str, F64] = field(default_factory=dict)  # CHANNELS → (F,)
    liveliness: F64 = field(default_factory=lambda: np.ones(1))  # (F,) or (1,) factor on breath and small random motion

    def __len__(self) -> int:
        return len(self.yaw)

    def frame(self, t: float) -> int:
        return min(max(round(t * self.rate), 0), len(self) - 1)


def make_desired_motion(
    legs: list[Leg], blend_s: float = 0.16, position: tuple[float, float] = (0.0, 0.0), yaw: float = 0.0
) -> DesiredMotion:
    """Compute the desired motion in each frame for a list of segments (legs).

    A Gaussian filter with the standard deviation `blend_s` [s] smooths the transitions between segments. A transition
    between segments lasts about 2.5 times `blend_s`.
    """
    counts = [max(1, round(leg.seconds * RATE)) for leg in legs]

    def channel(name: str, sigma: float) -> F64:
        out: F64 = gaussian(np.repeat([float(getattr(leg, name)) for leg in legs], counts), sigma, RATE)
        return out

    turn = channel("turn", blend_s)
    yaw_of_time = yaw + np.concatenate([[0.0], np.cumsum((turn[1:] + turn[:-1]) / 2 / RATE)])
    forward, left = channel("forward", blend_s), channel("left", blend_s)
    room = gaussian(np.repeat([leg.room for leg in legs], counts, axis=0), blend_s, RATE)
    c, s = np.cos(yaw_of_time), np.sin(yaw_of_time)
    velocity_room = room + np.stack([c * forward - s * left, s * forward + c * left], 1)
    moved = np.cumsum((velocity_room[1:] + velocity_room[:-1]) / 2 / RATE, axis=0)
    at = np.concatenate([np.zeros((1, 2)), moved]) + np.array(position)
    local = np.stack(
        [c * velocity_room[:, 0] + s * velocity_room[:, 1], -s * velocity_room[:, 0] + c * velocity_room[:, 1]], 1
    )
    return DesiredMotion(RATE, at, yaw_of_time, local, turn, {name: channel(name, 0.2) for name in CHANNELS})
