"""Engine "state_machine": blend between three loops for standing, walking and running.

The engine "state_machine" is a simple method with which motion matching is compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import WHOLE, Segments
from mm_ros.body.timeline import CARRY, DROP, RESET, Timeline
from mm_ros.body.types import F32, F64, AvatarPose, Match, Trajectory
from mm_ros.matching import fitted
from mm_ros.matching.engines.learned import LearnedNetworks
from mm_ros.matching.engines.source import STATE_MACHINE, PlayheadReport
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.matching.player import Player
from mm_ros.matching.root_control import RootControl, settings_for
from mm_ros.matching.tempo import desired_tempo
from mm_ros.maths.rotations import normalize
from mm_ros.maths.springs import damp
from mm_ros.motion.database import MotionDatabase

STATES = ("idle", "walk", "run")
CANDIDATES, SAMPLES = 300, 12

Pose = tuple[F32, F32, F32, F32]


@dataclass(frozen=True)
class Loop:
    first: int
    last: int  # index of the loop's last frame, whose pose is similar to that of the first frame
    speed: float  # m/s


def find_loop(database: MotionDatabase, speed: float) -> Loop:
    """Find the part of a clip that moves straight ahead at about `speed`, has a usual posture, and has similar first
    and last frames."""
    shortest, longest = round(fitted.SHORTEST_LOOP_S * database.rate), round(fitted.LONGEST_LOOP_S * database.rate)
    starts = [
        np.arange(a, b - longest - 1, 3) for a, b in zip(database.range_starts, database.range_stops, strict=True)
    ]
    rows = np.concatenate([s for s in starts if len(s)] or [np.zeros(0, np.int64)])
    if not len(rows):
        seconds = fitted.LONGEST_LOOP_S
        raise MmRosError(f"the state machine needs clips of more than {seconds:g} s; the database has none")
    sums = _sums(database)
    means = _means(sums, rows, longest)
    score = np.hypot(means[:, 0] - speed, means[:, 1]) + np.maximum(np.abs(means[:, 2]) - fitted.LOOP_TURN, 0)
    rows = rows[np.argsort(score, kind="stable")[:CANDIDATES]]
    found = []
    for row, dissimilarity in zip(rows, _dissimilarities(database, rows, longest), strict=True):
        after = np.arange(row + shortest, row + longest)
        apart = np.square(database.features[after] - database.features[row]).sum(1)
        end = int(after[np.argmin(apart)])
        loop = Loop(int(row), end, float(_means(sums, np.array([row]), end - int(row))[0, 0]))
        cost = fitted.SPEED_COST * abs(loop.speed - speed) + fitted.DISSIMILARITY_COST * dissimilarity
        found.append((float(apart.min()) + cost, loop))
    return min(found, key=lambda f: f[0])[1]


def _dissimilarities(database: MotionDatabase, rows: NDArray[np.int64], frames: int) -> F64:
    """Return the distance [m] between the mean posture of each candidate and the median posture of all candidates,
    which is large for unusual walks."""
    at = rows[:, None] + np.linspace(0, frames, SAMPLES).astype(np.int64)
    positions, rotations = (np.asarray(a[at.ravel()], np.float64) for a in (database.positions, database.rotations))
    positions[:, 0], rotations[:, 0] = 0, (1, 0, 0, 0)
    joints, _ = database.skeleton.kinematics(positions, rotations)
    posture = joints.reshape(*at.shape, -1, 3).mean(1)
    return np.asarray(np.linalg.norm(posture - np.median(posture, 0), axis=-1).mean(-1))


def _sums(database: MotionDatabase) -> F64:
    """Return the sums (N + 1, 3) of the root's velocity (x, y) and turn rate over all frames before each frame."""
    rates = np.column_stack(
        [np.asarray(database.velocities[:, 0, :2], np.float64), np.asarray(database.angular_velocities[:, 0, 2])]
    )
    return np.concatenate([np.zeros((1, 3)), np.cumsum(rates, 0)])


def _means(sums: F64, rows: NDArray[np.int64], frames: int) -> F64:
    return np.asarray((sums[rows + frames] - sums[rows]) / frames)


class StateMachineStage:
    """Stage of the engine "state_machine", which has the same interface as `MatcherStage`."""

    def __init__(
        self, database: MotionDatabase, scale: float = 1.0, settings: MatcherSettings | None = None, run: int = 0
    ):
        self.database, self.run, self.segment = database, run, 0
        self.loops = tuple(find_loop(database, s) for s in fitted.LOOP_SPEEDS)
        self.control = RootControl(settings or MatcherSettings())
        self.settings = settings or MatcherSettings()
        # `explain` and `clock` belong to the interface of `MatcherStage`, but the state machine does not use them.
        self.explain, self.clock = False, lambda: 0.0
        self._report = PlayheadReport(database)
        self.scale, self.segments = scale, WHOLE
        self.reset()
        self.set_scale(scale)

    @property
    def settings(self) -> MatcherSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: MatcherSettings) -> None:
        self._settings = self.control.settings = settings

    def set_scale(self, scale: float, segments: Segments = WHOLE) -> None:
        self.scale, self.segments = scale, segments
        self.skeleton_hash = self.database.skeleton.scaled(scale, segments).hash
        for player in (self._now, self._before):
            if player is not None:
                player.scale = scale

    @property
    def memory_bytes(self) -> int:
        """Return the memory that the frames of the three loops take [bytes]."""
        row = sum(a[0].nbytes for a in (self.database.positions, self.database.rotations, self.database.velocities,
                                        self.database.angular_velocities, self.database.contacts))  # fmt: skip
        return int(row) * sum(loop.last - loop.first + 1 for loop in self.loops)

    def reset(self) -> None:
        self.timeline = Timeline()
        self.state, self.tempo = 0, 1.0
        self._now = self._playing(0)
        self._before: Player | None = None
        self._fade = 1.0

    def step(self, desired: Trajectory) -> tuple[AvatarPose, Match] | None:
        """Return the pose for a desired trajectory and its `Match`, or None for a late or duplicate trajectory."""
        verdict, dt = self.timeline.judge(desired.stamp_ns, desired.epoch, desired.new_from_old)
        if verdict == DROP:
            return None
        self.control.settings = settings_for(self._settings, desired.source)
        if verdict == RESET:
            self.control.reset(np.array([*desired.position, desired.yaw]))
        elif verdict == CARRY:
            self.control.carry(desired.new_from_old)
        self._choose(float(np.linalg.norm(desired.velocity)) / self.scale)
        goal = desired_tempo(self._now.root_velocity(), self.control.root, desired, self.settings.tempo)
        self.tempo = damp(self.tempo, goal, fitted.TEMPO_HALFLIFE_S, dt)
        self.control.step(dt, self._advance(dt), np.asarray(desired.position), desired.yaw)
        match = Match(desired.stamp_ns, desired.epoch, STATE_MACHINE)
        self._report.write(match, self._now)
        return self._pose(desired), match

    def _playing(self, state: int) -> Player:
        player = Player(self.database, self.scale)
        player.seek(self.loops[state].first)
        return player

    def _choose(self, speed: float) -> None:
        up = sum(speed > b + fitted.LOOP_HYSTERESIS for b in fitted.LOOP_BORDERS)
        down = sum(speed > b - fitted.LOOP_HYSTERESIS for b in fitted.LOOP_BORDERS)
        state = max(up, min(self.state, down))
        if state != self.state:
            self.state = state
            self._fade_to(state)
        elif self._now.nearest >= self.loops[state].last:
            self._fade_to(state)

    def _fade_to(self, state: int) -> None:
        self._before, self._now, self._fade = self._now, self._playing(state), 0.0

    def _advance(self, dt: float) -> tuple[float, float, float]:
        moved = np.array(self._now.advance(dt * self.tempo))
        self._fade = min(1.0, self._fade + dt / fitted.CROSS_FADE_S)
        if self._before is not None:
            old = np.array(self._before.advance(dt * self.tempo))
            moved = self._fade * moved + (1 - self._fade) * old
            if self._fade >= 1.0:
                self._before = None
        return float(moved[0]), float(moved[1]), float(moved[2])

    def _blended(self) -> Pose:
        new = self._now.pose()
        if self._before is None:
            return new
        old, k = self._before.pose(), np.float32(self._fade)
        sign = np.where((new[1] * old[1]).sum(-1, keepdims=True) < 0, np.float32(-1), np.float32(1))
        positions, velocities, angular = (k * new[i] + (1 - k) * old[i] for i in (0, 2, 3))
        return positions, normalize(k * new[1] + (1 - k) * sign * old[1]).astype(np.float32), velocities, angular

    def _pose(self, desired: Trajectory) -> AvatarPose:
        positions, rotations, velocities, angular = self._blended()
        x, y, yaw = self.control.root
        moved = self.control.velocity
        velocities, angular = (np.asarray(v * self.tempo, np.float32) for v in (velocities, angular))
        positions[0], rotations[0] = 0, (1, 0, 0, 0)
        positions *= self.segments.factors(len(positions))
        velocities[0], angular[0] = (moved[0], moved[1], 0), (0, 0, moved[2])
        return AvatarPose(
            desired.stamp_ns, desired.epoch, self.skeleton_hash,
            np.array([x, y, 0.0, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]),
            positions, rotations, velocities, angular,
            np.asarray(self.database.contacts[self._now.nearest]) != 0, np.zeros(2, np.bool_),
            self.run, self.segment, desired.stale, STATE_MACHINE, desired.feet,
        )  # fmt: skip


def matcher_stage(
    settings: MatcherSettings,
    database: MotionDatabase,
    scale: float = 1.0,
    run: int = 0,
    learned: LearnedNetworks | None = None,
) -> MatcherStage | StateMachineStage:
    """Create the matcher stage of the engine that `settings.engine` names."""
    if settings.engine == STATE_MACHINE:
        return StateMachineStage(database, scale, settings, run)
    return MatcherStage(settings, database, scale, run, learned)
