"""The matcher stage: find the frame that continues the current pose and follows the desired trajectory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mm_ros.base.errors import MmRosError
from mm_ros.base.settings import like, setting
from mm_ros.body.rounding import frozen
from mm_ros.body.skeleton import WHOLE, Segments
from mm_ros.body.timeline import CARRY, DROP, HOLD, RESET, Timeline
from mm_ros.body.types import F32, F64, FEET_NUMBERS, AvatarPose, FeetEstimate, Match, Trajectory
from mm_ros.matching import fitted
from mm_ros.matching.band_choice import BandChoice
from mm_ros.matching.body_facing import BodyFacing
from mm_ros.matching.engines.learned import LearnedNetworks, LearnedSource, check_model
from mm_ros.matching.engines.source import ANY_HEIGHT, ENGINES, LEARNED, SEARCH, PoseSource, SearchRequest, SearchSource
from mm_ros.matching.root_control import REPLACES, STEERED, RootControl, RootControlSettings, settings_for
from mm_ros.matching.tempo import desired_tempo
from mm_ros.maths.jit import njit
from mm_ros.maths.signals import wrap
from mm_ros.maths.springs import damp
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.extreme import HIGH_LEG, LYING
from mm_ros.motion.tags import mask_of
from mm_ros.search import DEFAULT, Mask
from mm_ros.search import ENGINES as STRUCTURES


@dataclass(frozen=True)
class MatcherSettings(RootControlSettings):
    engine: str = setting(
        SEARCH,
        "Source of poses: 'search' finds frames in the database, 'learned' runs networks that were trained with the "
        "database, and 'state_machine' cross-fades three loops of the database.",
        choices=ENGINES,
    )
    search_structure: str = setting(
        DEFAULT,
        "Data structure with which the database is searched; all data structures find the same frame.",
        choices=STRUCTURES,
    )
    model: str = setting(
        "", "ONNX file of the learned engine, by default the model that comes with mm_ros.", file=".onnx"
    )
    search_interval: float = setting(
        0.1, "Time between regular searches; with larger values the avatar reacts later to gradual changes.", "s",
        0.0, 10.0,
    )
    quality: float = setting(
        1.0, "Factor on the weights of all pose features; larger values make transitions between clips smoother.", "",
        0.0, 100.0,
    )
    responsiveness: float = setting(
        1.0, "Factor on the weights of all trajectory features; with larger values the motion follows the desired "
        "trajectory more closely.", "", 0.0, 100.0,
    )
    weights: str = setting(
        "", "Feature weights, written as 'name=value, name=value', which replace the weights of the feature layout."
    )
    hips_turn: float = setting(
        0.5, "Maximum turn of the hips relative to the legs, by which the body faces the desired direction before the "
        "next step. With larger values the body also faces the desired direction after larger changes; at 0 the hips "
        "turn as in the played motion.", "rad", 0.0, 3.2,
    )
    steered_quality: float = like(quality, 1.5, REPLACES.format("quality"))
    steered_weights: str = like(weights, "", REPLACES.format("weights"))
    steered_hips_turn: float = like(hips_turn, 0.0, REPLACES.format("hips_turn"))
    tags: str = setting(
        "", "Tag query that selects the frames to search, for example '(walk|run)&!crouch'. An empty tag query selects "
        "all frames."
    )
    margin: float = setting(
        0.02, "Minimum share by which a jump to another frame must reduce the cost; with larger values jumps are "
        "rarer.", "", 0.0, 1.0
    )
    jump_cost: float = setting(
        1.0, "Minimum amount by which a jump to another frame must reduce the cost, in addition to `margin`; with "
        "larger values jumps are rarer.", "", 0.0, 1e6
    )
    tempo: float = setting(
        0.15, "Maximum relative change of the playback speed, by which the avatar catches up with the user or waits; "
        "at 0 the playback speed is constant.", "", 0.0, 0.5
    )
    exclusion: float = setting(
        0.3, "Minimum time between the current frame and a frame of the same clip to which playback jumps; larger "
        "values leave fewer frames to jump to.", "s", 0.0, 10.0
    )
    end_margin: float = setting(
        0.5, "Duration of the last part of each clip, into which playback does not jump; larger values leave fewer "
        "frames to jump to.", "s", 0.0, 10.0, live=False
    )
    feet_weight: float = setting(
        5.0, "Factor on the weights of the feet in the search, if the user's estimated feet are certain. With larger "
        "values the avatar matches the user's steps more closely and jumps more often; at 0 the search uses the feet "
        "of the current pose instead.", "", 0.0, 100.0,
    )
    feet_sigma: float = setting(
        0.15, "Expected error at which the user's estimated feet have a share of one half in the search; larger values "
        "give more weight to uncertain estimates of the feet.", "m", 0.01, 10.0,
    )
    band_hysteresis: float = setting(
        0.02, "Hysteresis of the height bands, as a share of the standing head height; with larger values the head "
              "must pass the border of a height band by a larger distance before the band changes.", "", 0.0, 0.5
    )
    abrupt_distance: float = setting(
        0.25,
        "Change of the end of the desired trajectory, relative to the position of the user, after which the matcher "
        "searches at once; with larger values the avatar reacts later to abrupt changes.",
        "m",
        0.0,
        10.0,
    )
    abrupt_turn: float = setting(
        0.5,
        "Change of the desired facing since the last search after which the matcher searches at once; "
        "with larger values the avatar reacts later to abrupt turns.",
        "rad",
        0.0,
        7.0,
    )
    abrupt_interval: float = setting(
        0.0, "Minimum time between a search and the next search that an abrupt change causes; with larger values there "
        "are fewer searches, and the avatar reacts later to abrupt changes.", "s", 0.0, 10.0,
    )


def parse_weights(text: str) -> dict[str, float]:
    out = {}
    for part in text.replace(",", " ").split():
        name, sign, value = part.partition("=")
        try:
            out[name] = float(value)
        except ValueError:
            sign = ""
        if not sign or not 0 <= out[name] < math.inf:
            raise MmRosError(f"weights: expected 'name=value' with a value of 0 or more, came '{part}'")
    return out


def tag_mask(database: MotionDatabase, query: str) -> Mask:
    """Return the mask of a tag query such as `(walk|run)&!crouch`, or raise MmRosError if it matches no frame."""
    mask = mask_of(query, database.tag_names)
    if query.strip() and not mask.matches(np.asarray(database.tags)).any():
        raise MmRosError(f"tags: no frame of the database matches '{query}'. Tags: {', '.join(database.tag_names)}")
    return mask


def _source_of(settings: MatcherSettings) -> tuple[str, str]:
    return settings.engine, settings.search_structure


def _check(desired: Trajectory) -> None:
    if not math.isfinite(_sum(desired.positions, desired.directions, desired.position) + desired.yaw
                         + desired.height_ratio):
        raise MmRosError(f"the desired trajectory from '{desired.source}' has numbers that are not finite")
    if not len(desired.times) == len(desired.positions) == len(desired.directions) > 0:
        raise MmRosError(
            f"the desired trajectory from '{desired.source}' has {len(desired.times)} times, "
            f"{len(desired.positions)} positions and {len(desired.directions)} directions; "
            "expected the same number of each, and at least one"
        )


@njit
def _sum(positions: F32, directions: F32, position: F64) -> float:
    total = 0.0
    for values in (positions, directions):
        for v in values.flat:
            total += float(v)
    return float(total + position[0] + position[1])


@njit
def _with_root(
    positions: F32, rotations: F32, velocities: F32, angular: F32, factors: F32, tempo: Any, moved: F64
) -> None:
    """Scale a pose of the database to the user's body segments and to the playback speed, in place.

    Row 0 of `velocities` becomes the velocity of the avatar's root.
    """
    for j in range(len(positions)):
        for k in range(3):
            positions[j, k] *= factors[j, 0]
            velocities[j, k] *= tempo
            angular[j, k] *= tempo
    for k in range(3):
        positions[0, k] = angular[0, k] = velocities[0, k] = np.float32(0.0)
        rotations[0, k] = np.float32(k == 0)
    rotations[0, 3] = np.float32(0.0)
    velocities[0, 0], velocities[0, 1], angular[0, 2] = moved[0], moved[1], moved[2]


class MatcherStage:
    """Stage that selects the pose for each desired trajectory, and explains the selection in a `Match`."""

    mask: Mask
    database: MotionDatabase
    learned: LearnedNetworks | None
    source: PoseSource
    _settings: MatcherSettings
    _active: MatcherSettings
    _due: str
    _carried: F32 | None

    def __init__(
        self,
        settings: MatcherSettings,
        database: MotionDatabase,
        scale: float = 1.0,
        run: int = 0,
        learned: LearnedNetworks | None = None,
    ):
        """Create the stage. The networks `learned` are required if the engine is "learned".

        If there is no database besides the networks, pass their example frames `learned.digest` as `database`.
        """
        if not 0.1 <= scale <= 10:
            raise MmRosError(f"scale: expected 0.1 to 10, came {scale}")
        self.scale, self.run, self.segment = scale, run, 0
        self.segments = WHOLE  # lengths of the user's trunk and arms, divided by those of the scaled skeleton
        # If `explain` is true, the next best frames are added to the `Match`, which takes far longer than the search.
        self.explain = False
        # The function `clock` [s] measures how long a search takes; a stage must not read the system's clock.
        self.clock: Callable[[], float] = lambda: 0.0
        self._input = ""  # name of the source of the desired trajectories
        self._use(settings, database, learned)
        self.control = RootControl(self._active)
        self.body_facing = BodyFacing()
        self.timeline = Timeline()
        self._played: deque[tuple[float, ...]] = deque()  # rows: past time, and x, y and yaw of the root at this time
        self.reset()

    @property
    def settings(self) -> MatcherSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: MatcherSettings) -> None:
        """The settings of the matcher; new settings apply from the next step on."""
        if _source_of(settings) != _source_of(self._settings):
            self.change(settings, self.database, self.learned)
            return
        active = settings_for(settings, self._input)
        # The weights for steered trajectories are computed, too, so that wrong feature names are refused at once.
        both = [self._weights(self.database, settings_for(settings, source)) for source in ("", STEERED[0])]
        mask = tag_mask(self.database, settings.tags)
        self._settings, self._active, self.control.settings = settings, active, active
        self.weights = both[self._input in STEERED]
        if mask != self.mask:
            self.mask, self._due = mask, self._due or "tags"
            self._masks.clear()

    def reset(self) -> None:
        """Reset the stage, so that in the next step the avatar starts at the desired position."""
        self.timeline.reset()
        self.since_search = 0.0
        self._due = "start"
        self.band = ""
        self.tempo = 1.0
        self._was_stale = False  # whether the last desired trajectory was computed without new tracker samples
        self._searched_trajectory: tuple[tuple[float, float], float] = ((0.0, 0.0), 0.0)

    def set_scale(self, scale: float, segments: Segments = WHOLE) -> None:
        """Set the user's size relative to the skeleton of the database, and keep the present frame.

        `segments` are the lengths of the user's trunk and arms, divided by those of the scaled skeleton.
        """
        if not 0.1 <= scale <= 10:
            raise MmRosError(f"scale: expected 0.1 to 10, came {scale}")
        self.scale, self.segments = scale, segments
        self.source.set_scale(scale)
        self.skeleton = self.database.skeleton.scaled(scale, segments)
        self.skeleton_hash = self.skeleton.hash

    def change(self, settings: MatcherSettings, database: MotionDatabase, learned: LearnedNetworks | None) -> None:
        """Replace the engine, the database or the learned model from the next step on.

        Pose features that exist in both databases are carried over, so that the transition is smooth. If the new
        combination of engine, database and model is refused with MmRosError, nothing changes.
        """
        reason = self._change_of(settings, database, learned)
        old, features = self.source, self._features()
        self._use(settings, database, learned)
        self.control.settings = self._active
        self._carried = self.source.queries.carried_over(old.queries, features)
        self._due = self._due or reason

    def _change_of(self, settings: MatcherSettings, database: MotionDatabase, learned: LearnedNetworks | None) -> str:
        """Return the text for `Match.reason` that names what was changed: the engine, the model or the database. The
        model is checked before the database, because a new model also changes the database."""
        if settings.engine != self._settings.engine:
            return "engine"
        if settings.engine == LEARNED and learned is not self.learned:
            return "model"
        return "database" if database is not self.database else "search_structure"

    def _use(self, settings: MatcherSettings, database: MotionDatabase, learned: LearnedNetworks | None) -> None:
        active = settings_for(settings, self._input)
        weights, mask = self._weights(database, active), tag_mask(database, settings.tags)
        source: PoseSource
        if settings.engine == LEARNED:
            source = LearnedSource(check_model(learned, database), self.scale)
        else:
            source = SearchSource(database, self.scale, settings.search_structure, settings.end_margin, weights)
        self._settings, self.learned, self.source = settings, learned, source
        self._active = active  # settings for the present kind of trajectories (tracked or steered)
        self.database, self.weights, self.mask = database, weights, mask
        self.bands = BandChoice(database)
        self._masks: dict[tuple[str | None, int], Mask] = {}
        self._carried = None  # features of the last pose before a change of database, in the new layout
        self.skeleton = database.skeleton.scaled(self.scale, self.segments)
        self.skeleton_hash = self.skeleton.hash

    @staticmethod
    def _weights(database: MotionDatabase, settings: MatcherSettings) -> F32:
        weights = parse_weights(settings.weights)
        for name in weights:
            if name not in database.layout.offsets:
                known = ", ".join(database.layout.offsets)
                raise MmRosError(f"weights: feature '{name}' is not in the layout. Features: {known}")
        return database.layout.column_weights(weights, settings.quality, settings.responsiveness)

    def step(self, desired: Trajectory) -> tuple[AvatarPose, Match] | None:
        """Return the pose for a desired trajectory and its `Match`, or None for a late or duplicate trajectory."""
        _check(desired)
        verdict, dt = self.timeline.judge(desired.stamp_ns, desired.epoch, desired.new_from_old)
        if verdict == DROP:
            return None
        if desired.source != self._input:
            self._follow(desired.source)
        if verdict == RESET or self._due == "start":
            self.control.reset(np.array([*desired.position, desired.yaw]))
            self.body_facing.reset()
            self.source.restart()  # The poses after a reset must not depend on the frame before the reset.
            self._due, self.band, self.tempo = "start", "", 1.0
        else:
            if verdict == CARRY:
                self.control.carry(desired.new_from_old)
            if verdict == HOLD or (self._was_stale and not desired.stale):
                self._due = self._due or "abrupt"
                self.control.found(np.asarray(desired.position), desired.yaw)
        if verdict in (RESET, CARRY, HOLD):
            self._played.clear()
        self._was_stale = desired.stale
        match = self._decide(dt, desired)
        goal = desired_tempo(self.source.root_velocity(), self.control.root, desired, self.settings.tempo)
        self.tempo = damp(self.tempo, goal, fitted.TEMPO_HALFLIFE_S, dt)
        self.control.step(dt, self.source.advance(dt * self.tempo), np.asarray(desired.position), desired.yaw)
        self._remember(desired.stamp_ns)
        return self._make_pose(desired, dt), match

    def _follow(self, source: str) -> None:
        self._input = source
        self._active = self.control.settings = settings_for(self._settings, source)
        self.weights = self._weights(self.database, self._active)

    def _decide(self, dt: float, desired: Trajectory) -> Match:
        self.since_search += dt
        reason = self._reason(dt, desired)
        match = Match(
            desired.stamp_ns, desired.epoch, self.source.name, band=self.band, searched=bool(reason), reason=reason
        )
        if reason:
            began = self.clock()
            self._search(desired, reason, match)
            match.search_time = self.clock() - began
        self.source.tell(match)
        return match

    def _reason(self, dt: float, desired: Trajectory) -> str:
        band = self.bands.choose(desired.height_ratio, self.band, self.settings.band_hysteresis)
        band_changed, self.band = band != self.band, band
        reason, self._due = self._due, ""
        if reason:
            return reason
        if band_changed:
            return "band"
        if self.source.remaining <= dt:
            return "clip end"
        if self._may_search(self.settings.abrupt_interval) and self._abrupt(desired):
            return "abrupt"
        return "interval" if self._may_search(self.settings.search_interval) else ""

    def _abrupt(self, desired: Trajectory) -> bool:
        ahead, yaw = self._searched_trajectory
        x, y = self._relative_end(desired)
        moved = math.hypot(x - ahead[0], y - ahead[1]) > self.settings.abrupt_distance
        return moved or abs(wrap(desired.yaw - yaw)) > self.settings.abrupt_turn

    def _may_search(self, interval: float) -> bool:
        return self.since_search >= interval - 1e-6

    @staticmethod
    def _relative_end(desired: Trajectory) -> tuple[float, float]:
        """Return the vector from the current position to the end of the desired trajectory [m], which is constant
        during a steady walk."""
        (end_x, end_y), (x, y) = desired.positions[-1].tolist(), desired.position.tolist()
        return end_x - x, end_y - y

    def _features(self) -> F32:
        return self.source.features() if self._carried is None else self._carried

    def _search(self, desired: Trajectory, reason: str, match: Match) -> None:
        s, source = self.settings, self.source
        match.query = source.queries.query(desired, self.control.root, self._features(), self._past())
        before = source.root_velocity()
        can_continue = self._carried is None and reason not in ("start", "clip end")
        weights, jump_cost = self._weights_now(desired, match.query)
        match.weights = weights
        plain = self._plain(desired)
        mask = self._mask(plain)
        banded = bool(mask.all_of & self.bands.bits.get(self.band, 0))
        answer = source.find(
            SearchRequest(
                match.query, weights, mask, plain, can_continue, s.margin, jump_cost, s.exclusion,
                self.explain, 0.0 if reason == "band" else fitted.BAND_GRACE_S, desired.height_ratio,
                self.bands.heights(self.band) if banded else ANY_HEIGHT,
            )
        )  # fmt: skip
        match.cost, match.continue_cost = answer.cost, answer.continue_cost
        match.jumped, match.runner_up_clips = answer.jumped, answer.runner_up_clips
        match.runner_up_frames, match.runner_up_costs = answer.runner_up_frames, answer.runner_up_costs
        if answer.jumped:
            if reason != "start":
                self.control.jumped(before, source.root_velocity())
            self._carried = None
            self.segment += 1
        match.winner = np.array(source.features(), np.float32)
        self.since_search = 0.0
        self._searched_trajectory = (self._relative_end(desired), desired.yaw)

    def _past(self) -> F64 | None:
        return np.array(self._played) if len(self._played) > 1 else None

    def _remember(self, stamp_ns: int) -> None:
        """Add the root's present pose to its past poses, and remove poses that are too old for the features."""
        keep_s = self.source.queries.past_s
        if keep_s:
            now = stamp_ns * 1e-9
            self._played.append((now, *self.control.root.tolist()))
            while len(self._played) > 2 and now - self._played[1][0] >= keep_s:
                self._played.popleft()

    def _weights_now(self, desired: Trajectory, query: F32) -> tuple[F32, float]:
        """Write the user's feet into the query, and return the feature weights and the jump cost of this search."""
        s, feet = self.settings, desired.feet
        if feet is None or s.feet_weight == 0:
            return self.weights, s.jump_cost
        weights = self.weights.copy()
        known = self.source.queries.feet(query, weights, feet, self.control.root, s.feet_sigma, s.feet_weight)
        return weights, s.jump_cost * (1.0 + fitted.FEET_JUMP_COST * known)

    def _plain(self, desired: Trajectory) -> Mask:
        """Return the tag query, extended so that it excludes kicks, lifted knees and lying people.

        Extreme postures are not excluded if the tag query, the user's feet or the head height request them. Kicks are
        excluded because they are not visible in the motion of the head, so that the search would also find kicks for
        users who only gesture.
        """
        names, asked = self.database.tag_names, self.mask.all_of | self.mask.any_of
        feet, unwanted = desired.feet, 0
        rows, high = feet.numbers.tolist() if feet else [], self.scale * fitted.LEG_LIFTED
        lifted = any(contact < 0.5 and height > high for contact, *_, height in (row[:6] for row in rows))
        for name, allowed in ((HIGH_LEG, lifted), (LYING, desired.height_ratio < fitted.LYING_RATIO)):
            if name in names and not allowed:
                unwanted |= self.database.tag_bit(name) & ~asked
        key = (None, unwanted)
        if key not in self._masks:
            mask = Mask(self.mask.all_of, self.mask.any_of, self.mask.none_of | unwanted)
            self._masks[key] = mask if mask.matches(np.asarray(self.database.tags)).any() else self.mask
        return self._masks[key]

    def _mask(self, plain: Mask) -> Mask:
        """Combine the mask `plain` with the height band, or return `plain` if no frame matches both."""
        key = (self.band, plain.none_of)
        if key not in self._masks:
            bit = self.bands.bits.get(self.band, 0)
            mask = plain
            if not bit & mask.none_of:
                mask = Mask(mask.all_of | bit, mask.any_of, mask.none_of)
            if not mask.matches(np.asarray(self.database.tags)).any():
                mask = plain
            self._masks[key] = mask
        return self._masks[key]

    def warm_up(self) -> None:
        """Run some steps, so that all compiled functions are loaded, and reset the stage."""
        times = np.array(self.database.layout.trajectory_times, np.float32)
        ahead = np.zeros((len(times), 2), np.float32)
        for i in range(3):
            desired = Trajectory(
                i * 11_000_000, 0, "warm up", np.zeros(2), np.zeros(2), 0.0, 0.0, 1.0,
                times, ahead, ahead + np.array([1, 0], np.float32),
                feet=FeetEstimate(np.zeros((2, FEET_NUMBERS // 2))),
            )  # fmt: skip
            self.step(frozen(desired))
            self._due = "interval"
        self.segment = 0
        self.reset()

    def _make_pose(self, desired: Trajectory, dt: float) -> AvatarPose:
        positions, rotations, velocities, angular = self.source.pose()
        x, y, yaw = self.control.root.tolist()
        moved, tempo = self.control.velocity, np.float32(self.tempo)
        _with_root(positions, rotations, velocities, angular, self.segments.factors(len(positions)), tempo, moved)
        limit = self._active.hips_turn
        if limit > 0.0:
            self.body_facing.turn(positions, rotations, angular, yaw, desired.yaw, limit, dt)
        return AvatarPose(
            desired.stamp_ns, desired.epoch, self.skeleton_hash,
            np.array([x, y, 0.0, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]),
            positions, rotations, velocities, angular,
            self.source.contacts(), np.zeros(2, np.bool_),
            self.run, self.segment, desired.stale, self.source.name, desired.feet,
        )  # fmt: skip
