"""Interface of pose sources, and the pose source that searches and plays a database."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mm_ros.body.types import F32, F64, Match
from mm_ros.matching import fitted
from mm_ros.matching.player import Player
from mm_ros.matching.query import QueryBuilder
from mm_ros.motion.database import MotionDatabase
from mm_ros.search import Engine, Mask, make_engine

SEARCH, LEARNED, STATE_MACHINE = ENGINES = ("search", "learned", "state_machine")
RUNNERS_UP = 4
ANY_HEIGHT = (-math.inf, math.inf)


@dataclass(frozen=True)
class SearchRequest:
    """Request to a pose source for the frame that best continues the pose and follows the desired trajectory."""

    query: F32  # (D,) normalized
    weights: F32  # (D,)
    mask: Mask  # mask of the frames that match the height band and the tag query
    tags: Mask  # mask of the frames that match the tag query, for the case that `mask` is empty
    can_continue: bool
    margin: float  # minimum relative cost reduction for a jump to another frame
    jump_cost: float  # minimum absolute cost reduction for a jump to another frame, in addition to `margin`
    exclusion_s: float  # minimum time between the current frame and a frame of the same clip to which playback jumps
    explain: bool = False  # whether the answer also contains the second best and further frames
    band_grace_s: float = 0.0  # time [s] for which a clip may go on playing outside the height band
    height_ratio: float = 1.0  # head height of the user, divided by the standing head height
    heights: tuple[float, float] = ANY_HEIGHT  # limits of the height band, divided by the standing head height


@dataclass
class Answer:
    jumped: bool
    cost: float
    continue_cost: float  # cost of playing on at the current frame; infinity if playback cannot go on there
    runner_up_frames: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    runner_up_clips: tuple[str, ...] = ()
    runner_up_costs: F32 = field(default_factory=lambda: np.zeros(0, np.float32))

    @staticmethod
    def bound(ask: SearchRequest, continue_cost: float) -> float:
        """Return the cost below which playback jumps to another frame."""
        return max(0.0, continue_cost * (1 - ask.margin) - ask.jump_cost)


class PoseSource(Protocol):
    """Interface of a pose source, which plays motion and jumps to better frames.

    The attribute `database` describes skeleton, feature layout, height bands and tags of the motion.
    """

    name: str  # name of the pose source, a value of the setting `engine`
    database: MotionDatabase
    queries: QueryBuilder

    @property
    def remaining(self) -> float:
        """Return the time [s] until the current clip ends, when a search is required."""

    def restart(self) -> None: ...

    def set_scale(self, scale: float) -> None: ...

    def advance(self, dt: float) -> tuple[float, float, float]:
        """Advance playback by `dt` seconds. Return the motion of the root (x, y, turn) in the axes of the previous
        root, scaled to the user's size."""

    def root_velocity(self) -> F64: ...

    def pose(self) -> tuple[F32, F32, F32, F32]:
        """Return local positions, rotations, velocities and angular velocities of the joints, scaled to the user's
        size, in new arrays."""

    def contacts(self) -> NDArray[np.bool_]: ...

    def features(self) -> F32:
        """Return the normalized features (D,) of the current frame."""

    def find(self, ask: SearchRequest) -> Answer:
        """Search for a better frame, and jump to this frame if it is good enough."""

    def tell(self, match: Match) -> None:
        """Write the current clip, frame and playback time to `match`."""


class PlayheadReport:
    """Part of a pose source that writes clip, frame and playback time into a `Match`."""

    def __init__(self, database: MotionDatabase):
        self._database, self._hashes = database, (database.hash, database.layout.hash_number)
        self._tags: dict[int, tuple[str, ...]] = {}  # maps the tag bits of a frame to the names of the frame's tags

    def write(self, match: Match, player: Player) -> None:
        database, row = self._database, player.row
        bits = int(database.tags[row])
        if bits not in self._tags:
            self._tags[bits] = database.tags_of(bits)
        match.database, match.layout = self._hashes
        match.clip, match.clip_index = database.clip_names[player.clip], player.clip
        match.frame, match.frame_fraction, match.time = row, player.fraction, player.time
        match.tags = self._tags[bits]


class SearchSource:
    """Pose source that searches a database exactly, and plays its clips."""

    name = SEARCH

    def __init__(self, database: MotionDatabase, scale: float, structure: str, end_margin_s: float, usual_weights: F32):
        self.database = database
        self.engine: Engine = make_engine(
            structure, np.asarray(database.features), database.range_starts, database.range_stops,
            np.asarray(database.tags), ends_excluded_frames=round(end_margin_s * database.rate),
            usual_weights=usual_weights, arrays=database.search_arrays,
        )  # fmt: skip
        self._report = PlayheadReport(database)
        self.player = Player(database, scale)
        self.queries = QueryBuilder(database, scale)
        self.pose = self.player.pose
        self._contacts: NDArray[np.bool_] = np.asarray(database.contacts) != 0
        self._out_of_band_s = 0.0  # time for which the motion has been outside the requested height band
        self.root_velocity = self.player.root_velocity

    @property
    def remaining(self) -> float:
        return self.player.remaining - 1 / self.database.rate

    def restart(self) -> None:
        self.player.seek(int(self.database.range_starts[0]))

    def advance(self, dt: float) -> tuple[float, float, float]:
        self._out_of_band_s += dt
        return self.player.advance(dt)

    def set_scale(self, scale: float) -> None:
        self.player.scale = self.queries.scale = scale

    def contacts(self) -> NDArray[np.bool_]:
        return np.array(self._contacts[self.player.nearest])

    def features(self) -> F32:
        return np.asarray(self.database.features[self.player.nearest], np.float32)

    def tell(self, match: Match) -> None:
        match.search_structure = self.engine.name
        self._report.write(match, self.player)

    def find(self, ask: SearchRequest) -> Answer:
        current = self.player.nearest
        fits = ask.can_continue and self._may_continue(ask, current)
        continuing = self.engine.cost(ask.query, ask.weights, current) if fits else math.inf
        apart = round(ask.exclusion_s * self.database.rate)
        frame, cost = self.engine.search(
            ask.query, ask.weights,
            bound=Answer.bound(ask, continuing) if fits else math.inf,
            current=current if fits else -1, exclude_radius=apart if fits else 0, mask=ask.mask,
        )  # fmt: skip
        if frame < 0 and not fits:
            frame, cost = self._search_fallback(ask)
        answer = Answer(frame >= 0, float(cost) if frame >= 0 else continuing, continuing)
        if ask.explain:
            frames, costs, _ = self.engine.k_best(
                ask.query, ask.weights, RUNNERS_UP + 1, mask=ask.mask, apart_frames=max(apart, 1)
            )
            answer.runner_up_frames, answer.runner_up_costs = frames[1:].astype(np.int32), costs[1:]
            clips = (self.database.clip_of(int(f)) for f in answer.runner_up_frames)
            answer.runner_up_clips = tuple(self.database.clip_names[clip] for clip in clips)
        if answer.jumped:
            self.player.seek(int(frame))
            self._out_of_band_s = 0.0
        return answer

    def _may_continue(self, ask: SearchRequest, current: int) -> bool:
        """Return whether playback may continue at the current frame.

        Playback may leave the height band for a short time, because bands with little motion consist of short
        fragments. If playback had to jump at the end of each fragment, the body would hardly move.
        """
        if self._fits(ask.mask, current):
            self._out_of_band_s = 0.0
            return True
        ratio = float(self.database.head_height_ratio[current])
        if ask.heights != ANY_HEIGHT and ask.heights[0] + fitted.BAND_EDGE < ratio < ask.heights[1] - fitted.BAND_EDGE:
            # The head height fits the band, but the frame has the tag of another band, as for a bent person on tiptoe.
            return False
        near = abs(ratio - ask.height_ratio) < fitted.BAND_LEEWAY
        return near and self._out_of_band_s < ask.band_grace_s and self._fits(ask.tags, current)

    def _fits(self, mask: Mask, frame: int) -> bool:
        bits = int(self.database.tags[frame])
        some = not mask.any_of or bool(bits & mask.any_of)
        return some and bits & mask.all_of == mask.all_of and not bits & mask.none_of

    def _search_fallback(self, ask: SearchRequest) -> tuple[int, float]:
        """Search the frames that match the tag query or, if there are none, all frames, because no frame matches both
        the height band and the tag query."""
        for mask in (ask.tags, Mask()):
            frame, cost = self.engine.search(ask.query, ask.weights, mask=mask)
            if frame >= 0:
                return int(frame), float(cost)
        return int(self.database.range_starts[0]), math.inf
