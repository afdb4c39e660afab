"""The learned engine (Holden 2020): networks replace playback and search of the database.

The state of a network consists of the normalized features of a frame and the latent numbers of this frame. The learned
engine stores two consecutive frames and interpolates between them, so that any display rate is possible.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import HEAD, default_skeleton
from mm_ros.body.types import F32, F64, Match
from mm_ros.matching import fitted
from mm_ros.matching.engines import pose_code as pc
from mm_ros.matching.engines.conditions import condition_of
from mm_ros.matching.engines.source import LEARNED, Answer, SearchRequest
from mm_ros.matching.player import sample
from mm_ros.matching.query import QueryBuilder
from mm_ros.maths import quat
from mm_ros.maths.jit import njit
from mm_ros.maths.quat import Row
from mm_ros.motion.database import MotionDatabase
from mm_ros.search import ANY_FRAME, Mask

# maximum number of additional runs of the projector network per query, and factor on the first step toward the query
ASKED_AGAIN, LONGEST_STEP = 4, 4.0
MOST_FRAMES = 60  # Maximum number of frames by which the learned engine advances in one step.


class LearnedNetworks(Protocol):
    """Networks of a model file of the learned engine.

    `digest` is a small database that holds skeleton, feature layout, height bands, tags and some example frames.
    """

    digest: MotionDatabase
    weights: F32  # (D,) feature weights with which the projector network was trained

    def project(self, query_and_condition: F32) -> F32:
        """Return the state nearest to a query of D numbers among the frames that a condition of C numbers allows."""

    def pose(self, state: F32) -> F32:
        """Return the pose vector of a state, which `matching/engines/pose_code.py` describes."""

    def step(self, state: F32) -> tuple[F32, F32]:
        """Return the state and the pose vector of the next frame."""


def check_model(networks: LearnedNetworks | None, database: MotionDatabase) -> LearnedNetworks:
    """Return `networks`, or raise MmRosError if the networks do not fit the database."""
    if networks is None:
        raise MmRosError("engine 'learned' needs a model, and none was loaded")
    own = networks.digest
    if own.layout.hash != database.layout.hash:
        raise MmRosError(
            f"the learned model has feature layout {own.layout.hash}, the database {database.layout.hash}. "
            "Train a model of this database with mm_ros train learned"
        )
    if own.skeleton.hash != database.skeleton.hash:
        raise MmRosError(
            f"the learned model has skeleton {own.skeleton.hash:016x}, the database {database.skeleton.hash:016x}. "
            "Train a model of this database with mm_ros train learned, or set no database"
        )
    if own.tag_names != database.tag_names:
        raise MmRosError(
            f"the learned model has the tags {', '.join(own.tag_names)}; the database has "
            f"{', '.join(database.tag_names)}. Train a model of this database, or set no database"
        )
    return networks


@njit
def rates(positions: Row, rotations: Row, rate: float, velocities: Row, angular: Row) -> None:
    """Compute the velocities of the joints between two consecutive frames (2, J, …), and write them to both frames."""
    for j in range(1, positions.shape[1]):
        for k in range(3):
            velocities[0, j, k] = velocities[1, j, k] = (positions[1, j, k] - positions[0, j, k]) * rate
        turned = quat.log(quat.mul_inv(rotations[1, j], rotations[0, j]))
        for k in range(3):
            angular[0, j, k] = angular[1, j, k] = turned[k] * rate


@njit
def weighted_distance(weights: Row, a: Row, b: Row) -> float:
    out = 0.0
    for i in range(weights.shape[0]):
        out += float(weights[i]) * float(a[i] - b[i]) ** 2
    return out


_TO_ROOT = default_skeleton().ancestors(HEAD)


@njit
def head_height(positions: Row, rotations: Row) -> float:
    """Compute the height of the head joint above the root [m] from local positions and rotations (J, …)."""
    at = quat.get3(positions, HEAD)
    for joint in _TO_ROOT:
        at = quat.add(quat.get3(positions, joint), quat.rotate(quat.get4(rotations, joint), at))
    return at[2]


def share_of(weights: F32, trained: F32) -> F32:
    """Return the ratio of each feature weight to its weight in the training, scaled so that the largest ratio is 1. A
    feature that had no weight in the training has the ratio 1."""
    known = trained > 0
    share = np.ones(len(weights), np.float32)
    share[known] = weights[known] / trained[known]
    most = float(share[known].max()) if known.any() else 0.0
    if most > 0:
        share[known] /= most
    return share if most > 0 else np.ones_like(share)


class LearnedSource:
    """Pose source that runs networks instead of searching a database."""

    name = LEARNED
    fraction: float  # position of the playback time between the two stored frames, from 0 to 1
    since_jump: float
    _states: list[F32]
    _codes: list[F32]

    def __init__(self, networks: LearnedNetworks, scale: float, refresh_s: float = math.inf):
        self.networks, self.scale, self.refresh_s = networks, scale, refresh_s
        self.database = networks.digest
        self.queries = QueryBuilder(self.database, scale)
        self._width, self._layout = self.database.layout.size, self.database.layout.hash_number
        self._offsets = np.ascontiguousarray(self.database.skeleton.offsets, np.float32)
        joints = len(self._offsets)
        self._joints = tuple(np.zeros((2, joints, n), np.float32) for n in (3, 4, 3, 3))
        self.restart()

    def restart(self) -> None:
        """Reset the networks' state to a fixed initial pose, so that later poses do not depend on earlier ones."""
        self.mask: Mask = ANY_FRAME
        self._touching = np.zeros(2, np.bool_)
        still = self._projector_input(np.asarray(self.database.features[0], np.float32), ANY_FRAME)
        self._seek(self.networks.project(still))

    def set_scale(self, scale: float) -> None:
        self.scale = self.queries.scale = scale

    @property
    def remaining(self) -> float:
        return self.refresh_s - self.since_jump

    def advance(self, dt: float) -> tuple[float, float, float]:
        rate = self.database.rate
        self.since_jump += dt
        frames = min(self.fraction + dt * rate, float(MOST_FRAMES))
        x = y = yaw = 0.0
        at = self.fraction
        while frames >= 1.0:
            x, y, yaw = _add_motion(x, y, yaw, self._codes[0], at, 1.0, rate)
            self._next_frame()
            frames, at = frames - 1.0, 0.0
        x, y, yaw = _add_motion(x, y, yaw, self._codes[0], at, frames, rate)
        self.fraction = frames
        return x * self.scale, y * self.scale, yaw

    def root_velocity(self) -> F64:
        v = self._codes[int(self.fraction >= 0.5)][pc.ROOT_VELOCITY]
        return np.array([v[0] * self.scale, v[1] * self.scale, v[2]], np.float64)

    def pose(self) -> tuple[F32, F32, F32, F32]:
        out = tuple(np.empty(a.shape[1:], np.float32) for a in self._joints)
        positions, rotations, velocities, angular = self._joints
        sample(positions, rotations, velocities, angular, 0, self.fraction, self.scale, out)
        return out  # type: ignore[return-value]

    def contacts(self) -> NDArray[np.bool_]:
        share = self.fraction
        log_odds = (1 - share) * self._codes[0][pc.CONTACTS] + share * self._codes[1][pc.CONTACTS]
        self._touching = np.where(self._touching, log_odds > fitted.CONTACT_ENDS, log_odds > fitted.CONTACT_BEGINS)
        return np.asarray(self._touching.copy(), np.bool_)

    def features(self) -> F32:
        return np.asarray(self._states[int(self.fraction >= 0.5)][: self._width], np.float32)

    def tell(self, match: Match) -> None:
        match.clip, match.time, match.layout = self.name, self.since_jump, self._layout

    def find(self, ask: SearchRequest) -> Answer:
        fits = ask.can_continue and ask.mask == self.mask
        continuing = weighted_distance(ask.weights, ask.query, self.features()) if fits else math.inf
        found, cost = self._answer(ask)
        cheaper = cost < Answer.bound(ask, continuing) - fitted.ANSWER_COST
        if fits and not cheaper and not self._returns_to_band(found, ask.heights):
            return Answer(False, continuing, continuing)
        self.mask = ask.mask
        self._seek(found)
        return Answer(True, cost, continuing)

    def _returns_to_band(self, found: F32, heights: tuple[float, float]) -> bool:
        """Return whether the body is outside the range of head heights, and the state `found` is nearer to this range.

        If the function returns true, `found` is accepted at any cost, because the stepper network ignores the range.
        """
        i = int(self.fraction >= 0.5)
        out = self._outside(self._joints[0][i], self._joints[1][i], heights)
        if out < fitted.BAND_LEEWAY:
            return False
        positions, rotations = (np.zeros_like(a[0]) for a in self._joints[:2])
        pc.decode(self.networks.pose(found), self._offsets, positions, rotations)
        return self._outside(positions, rotations, heights) < out - fitted.BAND_LEEWAY / 2

    def _outside(self, positions: Row, rotations: Row, heights: tuple[float, float]) -> float:
        """Return the distance of the head height from the range `heights`, as a share of the standing head height."""
        ratio = head_height(positions, rotations) / self.database.skeleton.head_height
        return max(heights[0] - ratio, ratio - heights[1], 0.0)

    def _answer(self, ask: SearchRequest) -> tuple[F32, float]:
        """Return the state that the projector network finds, and the cost of this state.

        The projector network finds the nearest state for the feature weights of its training. If the settings
        `quality`, `responsiveness` or `weights` give other weights, the projector runs again with a modified query. Let
        w be the weights of the training, s the result of `share_of` (at most 1), q the query and x the state found so
        far. For every state y, Σ w s (q - y)² is at most Σ w (x + s (q - x) - y)² plus a constant, with equality at y =
        x, so that an exact answer to the query x + s (q - x) costs no more than x. A longer step toward q may reduce
        the cost faster or not at all, so longer steps are tried first.
        """
        share = share_of(ask.weights, self.networks.weights)
        found = self.networks.project(self._projector_input(ask.query, ask.mask)).copy()
        cost, length = weighted_distance(ask.weights, ask.query, found), LONGEST_STEP
        for _ in range(ASKED_AGAIN if share.min() < fitted.SAME_WEIGHTS else 0):
            near = found[: self._width]
            query = near + np.float32(length) * share * (ask.query - near)
            other = self.networks.project(self._projector_input(query, ask.mask))
            other_cost = weighted_distance(ask.weights, ask.query, other)
            if other_cost < cost:
                found, cost = other.copy(), other_cost
            elif length > 1.0:
                length /= 2
            else:
                break
        return found, cost

    def _projector_input(self, query: F32, mask: Mask) -> F32:
        return np.concatenate([query, condition_of(mask, len(self.database.tag_names))]).astype(np.float32)

    def _seek(self, state: F32) -> None:
        self.since_jump = self.fraction = 0.0
        code = self.networks.pose(state)
        after, code_after = self.networks.step(state)
        self._states, self._codes = [state.copy(), after.copy()], [code.copy(), code_after.copy()]
        for i in (0, 1):
            pc.decode(self._codes[i], self._offsets, self._joints[0][i], self._joints[1][i])
        self._rates()

    def _next_frame(self) -> None:
        after, code = self.networks.step(self._states[1])
        self._states, self._codes = [self._states[1], after.copy()], [self._codes[1], code.copy()]
        for a in self._joints[:2]:
            a[0] = a[1]
        pc.decode(self._codes[1], self._offsets, self._joints[0][1], self._joints[1][1])
        self._rates()

    def _rates(self) -> None:
        rates(self._joints[0], self._joints[1], self.database.rate, self._joints[2], self._joints[3])


def _add_motion(
    x: float, y: float, yaw: float, code: F32, start: float, stop: float, rate: float
) -> tuple[float, float, float]:
    """Add the root motion of a part of a frame, from `start` to `stop` (0 to 1), to the displacement x, y and yaw."""
    forward, left, turn = (float(v) / rate for v in code[pc.ROOT_VELOCITY])
    heading, share = yaw - start * turn, stop - start
    c, s = math.cos(heading), math.sin(heading)
    return x + share * (c * forward - s * left), y + share * (s * forward + c * left), yaw + share * turn
