"""Control of the avatar's root: it plays the root motion of the clip and is pulled to the desired trajectory.

In mode "accuracy" its distance from the desired position and facing is limited.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from mm_ros.base.settings import Settings, like, setting
from mm_ros.body.types import F64
from mm_ros.maths.signals import wrap

STEERED = ("joystick", "path")  # sources of trajectories without a user whom the avatar must match
REPLACES = "Replaces `{}` for input of keys, joystick or path."

SOFT_WALL = 0.6  # share of the accuracy limit at which the pull begins to grow
WALL_RATE = 35.0  # 1/s, rate of the pull at the limit: follows a user at 1.4 m/s with an error well below 0.1 m
# After a gap in tracking, the root returns to the user within this time instead of jumping …
RETURN_S = 0.5
RETURN_SPEEDS = (3.0, 6.0)  # … and at no less than these speeds: m/s, rad/s
RETURN_M = 3.0  # from farther away the root appears at the user, because hands that race there look like leaps


@dataclass(frozen=True)
class RootControlSettings(Settings):
    root_mode: str = setting(
        "accuracy",
        "How the root follows the desired trajectory: 'accuracy' limits its distance, 'synchronization' mixes in a "
        "share of the desired position and facing in each step.",
        choices=("accuracy", "synchronization"),
    )
    position_accuracy: float = setting(
        0.1,
        "Maximum distance of the root from the desired position: 0.1 for one's own avatar, 0.3 for others. "
        "Larger values change the motion less.",
        "m",
        0.0,
        10.0,
    )
    facing_accuracy: float = setting(
        0.3, "Maximum angle of the root from the desired facing. Larger values change the motion less.", "rad", 0.0, 3.2
    )
    position_halflife: float = setting(
        0.2, "Half-life of the pull to the desired position. Larger values pull less.", "s", 0.01, 10.0
    )
    facing_halflife: float = setting(
        0.1, "Half-life of the pull to the desired facing. Larger values pull less.", "s", 0.01, 10.0
    )
    pull_share: float = setting(
        0.2, "Maximum pull as a share of the root's speed. Larger values follow faster and slide more.", "", 0.0, 10.0
    )
    synchronization: float = setting(
        0.5,
        "In root_mode 'synchronization' (Karst 2023), share of the desired position and facing that is mixed in every "
        "1/60 s. Larger values follow faster.",
        "",
        0.0,
        1.0,
    )
    jump_halflife: float = setting(
        0.03, "Half-life of the velocity change at a jump. Larger values make jumps smoother.", "s", 0.0, 1.0
    )
    steered_position_accuracy: float = like(
        position_accuracy,
        0.25,
        "Replaces `position_accuracy` for input of keys, joystick or path: there is no headset to match, so the "
        "avatar follows the simulated position smoothly. Larger values change the motion less.",
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
    """The settings for trajectories from this source: a steered character has accuracies of its own."""
    steered: Kind = _steered(settings) if source in STEERED else settings
    return steered


class RootControl:
    """Root x, y, yaw in the room [m, rad]. Its velocity is continuous at jumps: the difference decays to zero."""

    def __init__(self, settings: RootControlSettings):
        self.settings = settings
        self.reset(np.zeros(3))

    def reset(self, root: F64) -> None:
        self.root = np.array(root, np.float64)
        self.velocity = np.zeros(3)  # of the last step, with the pull, in the root's axes
        self.residual = np.zeros(3)  # remaining velocity difference of the last jumps, in the root's axes
        self.extension = [0.0, 0.0]  # m, rad: temporary extension of the accuracy limits after a gap in tracking
        self.returning = [0.0, 0.0]  # m/s, rad/s: speeds with which the extensions shrink

    def found(self, position: F64, yaw: float) -> None:
        """Extend the accuracy limits to the current error: tracking continues at `position`, `yaw` after a gap.

        A user beyond RETURN_M is not followed: the root leaps, and the pose stage declares that by a new `run`.
        """
        s = self.settings
        away = float(math.hypot(*(position - self.root[:2]))), abs(wrap(yaw - self.root[2]))
        if away[0] > RETURN_M:
            self.reset(np.array([*position, yaw]))
            return
        for i, allowed in enumerate((s.position_accuracy, s.facing_accuracy)):
            self.extension[i] = max(0.0, away[i] - allowed)
            self.returning[i] = max(RETURN_SPEEDS[i], self.extension[i] / RETURN_S)

    def carry(self, new_from_old: F64) -> None:
        """Apply the rigid transform of a re-centred room to the root."""
        x, y, _, w, _, _, z = new_from_old
        yaw = 2 * math.atan2(z, w)
        c, s = math.cos(yaw), math.sin(yaw)
        rx, ry, ryaw = self.root
        self.root = np.array([x + c * rx - s * ry, y + s * rx + c * ry, wrap(ryaw + yaw)])

    def jumped(self, before: F64, after: F64) -> None:
        """Keep the velocity difference of a jump, so that it can decay. Velocities in the root's axes."""
        self.residual += before - after

    def step(self, dt: float, delta: tuple[float, float, float], position: F64, yaw: float) -> None:
        """`delta`: root motion of the clip in this step (x, y, turn); `position`, `yaw`: the desired ones."""
        if dt <= 0:
            return
        start = self.root.copy()
        self.extension = [max(0.0, a - r * dt) for a, r in zip(self.extension, self.returning, strict=True)]
        dx, dy, turn = delta
        dx, dy, turn = self._with_residual(dt, dx, dy, turn)
        c, s = math.cos(start[2]), math.sin(start[2])
        self.root = np.array([start[0] + c * dx - s * dy, start[1] + s * dx + c * dy, start[2] + turn])
        if self.settings.root_mode == "synchronization":
            self._synchronize(dt, position, yaw)
        else:
            self._pull_position(dt, math.hypot(dx, dy), position)
            self._pull_facing(dt, abs(turn), math.hypot(dx, dy), yaw)
        self.root[2] = wrap(self.root[2])
        mx, my = self.root[0] - start[0], self.root[1] - start[1]
        moved = (c * mx + s * my, -s * mx + c * my, wrap(self.root[2] - start[2]))
        self.velocity = np.array(moved) / dt

    def _with_residual(self, dt: float, dx: float, dy: float, turn: float) -> tuple[float, float, float]:
        h = self.settings.jump_halflife
        if h <= 0:
            self.residual[:] = 0
            return dx, dy, turn
        rate = math.log(2) / h
        share = (1 - math.exp(-rate * dt)) / rate  # integral of the decay over dt, so the result is exact in dt
        r = self.residual
        moved = (dx + share * r[0], dy + share * r[1], turn + share * r[2])
        self.residual = r * math.exp(-rate * dt)
        return moved

    def _synchronize(self, dt: float, position: F64, yaw: float) -> None:
        share = 1 - (1 - self.settings.synchronization) ** (dt * 60)
        self.root[:2] += share * (position - self.root[:2])
        self.root[2] += share * wrap(yaw - self.root[2])

    def _pull_position(self, dt: float, own: float, position: F64) -> None:
        s = self.settings
        error = position - self.root[:2]
        distance = float(math.hypot(error[0], error[1]))
        if distance < 1e-12:
            return
        left = _after_pull(
            dt, distance, s.position_halflife, s.pull_share * own, s.position_accuracy, self.extension[0]
        )
        self.root[:2] = position - error * (left / distance)

    def _pull_facing(self, dt: float, own_turn: float, own_move: float, yaw: float) -> None:
        s = self.settings
        error = wrap(yaw - self.root[2])
        # A foot that walks may also be turned: by up to pull_share times 1 rad for each metre walked.
        allowed = s.pull_share * (own_turn + own_move)
        left = _after_pull(dt, abs(error), s.facing_halflife, allowed, s.facing_accuracy, self.extension[1])
        self.root[2] = yaw - math.copysign(left, error)


def _after_pull(
    dt: float, distance: float, halflife: float, allowed: float, accuracy: float, extension: float
) -> float:
    """The remaining distance after the pull of one step."""
    pull = min(distance * (1 - 2 ** (-dt / halflife)), allowed)
    inside, wall = SOFT_WALL * accuracy + extension, accuracy + extension
    if distance > inside and accuracy > 0:
        near = min(1.0, (distance - inside) / (wall - inside))
        pull = max(pull, (distance - inside) * (1 - math.exp(-WALL_RATE * near * dt)))
    return min(distance - min(pull, distance), wall)
