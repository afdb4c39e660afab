"""Control the avatar's root: move it with the played clip, and correct it toward the desired trajectory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from mm_ros.base.settings import Settings, like, setting
from mm_ros.body.types import F64
from mm_ros.matching import fitted
from mm_ros.maths.jit import njit
from mm_ros.maths.signals import wrap
from mm_ros.maths.springs import LN2

STEERED = ("joystick", "path")  # sources of steered trajectories, which do not follow a tracked user
REPLACES = "Replaces `{}` when keys, a joystick or a path lead the avatar."



@dataclass(frozen=True)
class RootControlSettings(Settings):
    root_mode: str = setting(
        "accuracy",
        "How the root follows the desired trajectory. 'accuracy' limits the distance of the root from the desired "
        "position and facing. 'synchronization' moves the root toward them by a constant share in each step.",
        choices=("accuracy", "synchronization"),
    )
    position_accuracy: float = setting(
        0.1,
        "Maximum distance of the root from the desired position. Values of about 0.1 suit the user's own avatar, and "
        "0.3 suits the avatars of other people; with larger values the motion is corrected less.",
        "m",
        0.0,
        10.0,
    )
    facing_accuracy: float = setting(
        0.3, "Maximum angle between the yaw of the root and the desired facing; with larger values the motion is "
        "corrected less.", "rad", 0.0, 3.2
    )
    position_halflife: float = setting(
        0.2, "Half-life with which the root is pulled to the desired position; with larger values the root moves to "
        "the desired position more slowly.", "s", 0.01, 10.0
    )
    facing_halflife: float = setting(
        0.1, "Half-life with which the root is turned to the desired facing; with larger values the root turns more "
        "slowly.", "s", 0.01, 10.0
    )
    pull_share: float = setting(
        0.2, "Maximum speed with which the root is pulled to the desired position, divided by its own speed; with "
        "larger values the root follows faster and the feet slide more.", "", 0.0, 10.0
    )
    synchronization: float = setting(
        0.5,
        "With `root_mode` 'synchronization' (Karst 2023), the root moves by this share of its distance to the desired "
        "position and facing in each 1/60 s; with larger values the root follows faster.",
        "",
        0.0,
        1.0,
    )
    jump_halflife: float = setting(
        0.03, "Half-life with which the velocity of the root changes after a jump between clips; larger values make "
        "jumps smoother.", "s", 0.0, 1.0
    )
    steered_position_accuracy: float = like(
        position_accuracy,
        0.25,
        "Replaces `position_accuracy` when keys, a joystick or a path lead the avatar. There is no headset to match, "
        "so the avatar follows the simulated position smoothly. With larger values the motion is corrected less.",
    )
    steered_facing_accuracy: float = like(facing_accuracy, 0.08, REPLACES.format("facing_accuracy"))
    steered_facing_halflife: float = like(facing_halflife, 0.05, REPLACES.format("facing_halflife"))
    steered_pull_share: float = like(pull_share, 0.5, REPLACES.format("pull_share"))


Kind = TypeVar("Kind", bound=RootControlSettings)


@lru_cache(maxsize=8)
def _steered(settings: Any) -> Any:
    prefix = "steered_"
    own = {n.removeprefix(prefix): getattr(settings, n) for n in settings.specs() if n.startswith(prefix)}
    return settings.with_values(**own)


def settings_for(settings: Kind, source: str) -> Kind:
    """Return the settings for desired trajectories from `source`. A steered avatar has its own values of some settings,
    whose names begin with `steered_`."""
    steered: Kind = _steered(settings) if source in STEERED else settings
    return steered


class RootControl:
    """Position x, y and yaw of the avatar's root in the room [m, rad].

    The velocity of the root is continuous at jumps between clips: the difference of the velocities decays to zero.
    """

    def __init__(self, settings: RootControlSettings):
        self.settings = settings
        state = self._state = np.zeros(13)
        self.root = state[0:3]
        self.velocity = state[3:6]  # velocity of the root in the last step, in root axes
        self.residual = state[6:9]  # velocity difference that remains from the last jumps and decays, in root axes
        self.extension = state[9:11]  # temporary extension of the accuracy limits after a gap in tracking [m, rad]
        self.returning = state[11:13]  # speeds with which the extensions of the accuracy limits shrink [m/s, rad/s]

    @property
    def settings(self) -> RootControlSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: RootControlSettings) -> None:
        self._settings, self._tuning = settings, _tuning(settings)

    def reset(self, root: F64) -> None:
        self._state[:] = 0.0
        self.root[:] = root

    def found(self, position: F64, yaw: float) -> None:
        """Extend the accuracy limits to the current error, when tracking continues at `position` and `yaw` after a gap.

        If the user is more than 3 m away (`RETURN_M`), the root leaps to the user, and the pose stage changes the field
        `run` of the pose.
        """
        s = self.settings
        away = float(math.hypot(*(position - self.root[:2]))), abs(wrap(yaw - self.root[2]))
        if away[0] > fitted.RETURN_M:
            self.reset(np.array([*position, yaw]))
            return
        for i, allowed in enumerate((s.position_accuracy, s.facing_accuracy)):
            self.extension[i] = max(0.0, away[i] - allowed)
            self.returning[i] = max(fitted.RETURN_SPEEDS[i], self.extension[i] / fitted.RETURN_S)

    def carry(self, new_from_old: F64) -> None:
        """Move the root with the room after the user re-centred the room."""
        x, y, _, w, _, _, z = new_from_old
        yaw = 2 * math.atan2(z, w)
        c, s = math.cos(yaw), math.sin(yaw)
        rx, ry, ryaw = self.root.tolist()
        self.root[:] = x + c * rx - s * ry, y + s * rx + c * ry, wrap(ryaw + yaw)

    def jumped(self, before: F64, after: F64) -> None:
        """Store the difference of the root's velocities `before` and `after` a jump (in root axes), so that it decays.
        """
        self.residual += before - after

    def step(self, dt: float, delta: tuple[float, float, float], position: F64, yaw: float) -> None:
        """Move the root by the motion `delta` (x, y, turn) of the clip, and pull it to the desired position and yaw."""
        if dt > 0:
            move_root(self._state, self._tuning, dt, *delta, position, yaw)


@lru_cache(maxsize=64)
def _tuning(s: RootControlSettings) -> F64:
    share = s.synchronization if s.root_mode == "synchronization" else -1.0
    return np.array([
        share, s.jump_halflife, s.pull_share, s.position_halflife, s.position_accuracy, s.facing_halflife,
        s.facing_accuracy,
    ])  # fmt: skip


@njit
def move_root(
    state: F64, tuning: F64, dt: float, dx: float, dy: float, turn: float, position: F64, yaw: float
) -> None:
    """Run one step of `RootControl`, whose arrays `root`, `velocity`, `residual`, `extension` and `returning` are in
    `state` (13,)."""
    share, jump_halflife, pull_share = tuning[0], tuning[1], tuning[2]
    root, velocity, residual, extension, returning = state[0:3], state[3:6], state[6:9], state[9:11], state[11:13]
    x, y, start = root[0], root[1], root[2]
    for i in range(2):
        extension[i] = max(0.0, extension[i] - returning[i] * dt)
    if jump_halflife <= 0.0:
        residual[:] = 0.0
    else:
        rate = LN2 / jump_halflife
        left = math.exp(-rate * dt)
        decayed = (1.0 - left) / rate  # integral of the decay over `dt`: the path does not depend on `dt`
        dx, dy, turn = dx + decayed * residual[0], dy + decayed * residual[1], turn + decayed * residual[2]
        for i in range(3):
            residual[i] *= left
    c, s = math.cos(start), math.sin(start)
    root[0], root[1], root[2] = x + c * dx - s * dy, y + s * dx + c * dy, start + turn
    if share >= 0.0:
        mixed = 1.0 - (1.0 - share) ** (dt * 60.0)
        root[0] += mixed * (position[0] - root[0])
        root[1] += mixed * (position[1] - root[1])
        root[2] += mixed * wrapped(yaw - root[2])
    else:
        own = math.hypot(dx, dy)
        to_x, to_y = position[0] - root[0], position[1] - root[1]
        distance = math.hypot(to_x, to_y)
        if distance >= 1e-12:
            rest = _after_pull(dt, distance, tuning[3], pull_share * own, tuning[4], extension[0]) / distance
            root[0], root[1] = position[0] - to_x * rest, position[1] - to_y * rest
        # While the avatar walks, the pull turns the root by up to `pull_share` times 1 rad per metre.
        error = wrapped(yaw - root[2])
        rest = _after_pull(dt, abs(error), tuning[5], pull_share * (abs(turn) + own), tuning[6], extension[1])
        root[2] = yaw - math.copysign(rest, error)
    root[2] = wrapped(root[2])
    mx, my = root[0] - x, root[1] - y
    velocity[0], velocity[1] = (c * mx + s * my) / dt, (-s * mx + c * my) / dt
    velocity[2] = wrapped(root[2] - start) / dt


@njit
def wrapped(angle: float) -> float:
    """Return the angle that differs from the given angle by a multiple of 2π and lies between −π and π."""
    return float(angle - 2.0 * math.pi * np.round(angle / (2.0 * math.pi)))


@njit
def _after_pull(
    dt: float, distance: float, halflife: float, allowed: float, accuracy: float, extension: float
) -> float:
    """Return the distance (or angle) to the target that remains after one step has pulled the root to the target."""
    pull = min(distance * (1.0 - 2.0 ** (-dt / halflife)), allowed)
    inside, wall = fitted.SOFT_WALL * accuracy + extension, accuracy + extension
    if distance > inside and accuracy > 0:
        near = min(1.0, (distance - inside) / (wall - inside))
        pull = max(pull, (distance - inside) * (1.0 - math.exp(-fitted.WALL_RATE * near * dt)))
    left: float = min(distance - min(pull, distance), wall)
    return left
