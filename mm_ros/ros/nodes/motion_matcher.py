"""Node `motion_matcher`: computes `matched_pose` and `match` from `trajectory`, and publishes `skeleton` and
`feature_layout` as latched topics."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from mm_ros.base.cache import cache_root
from mm_ros.base.errors import MmRosError
from mm_ros.base.files import identity
from mm_ros.base.settings import Settings, like, setting
from mm_ros.body.rounding import rounded_trajectory
from mm_ros.body.timeline import is_identity
from mm_ros.body.types import Calibration, Trajectory, still_trajectory
from mm_ros.matching.engines.source import LEARNED, STATE_MACHINE
from mm_ros.matching.engines.state_machine import StateMachineStage
from mm_ros.matching.matcher import MatcherSettings, MatcherStage
from mm_ros.matching.model_file import LearnedModel, load_learned
from mm_ros.matching.root_control import REPLACES
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.feature_files import STEERED, VR
from mm_ros.motion.files import SUFFIX, read_database
from mm_ros.ros.conversions import (
    feature_layout_to_ros,
    match_to_ros,
    skeleton_to_ros,
)
from mm_ros.ros.node import AvatarNode, of_kind
from mm_ros.stages import build_matcher, fit_matcher
from mm_ros.trajectory import CONTROLS

# The parameters that determine which files the node opens: `database`, `engine`, `model` and the feature layout.
Files = tuple[str, str, str, str]
WARM_UP_NS = 11_111_111
SEARCH_WARN_S, SEARCH_ERROR_S = 0.005, 0.05


@dataclass(frozen=True)
class DatabaseSettings(Settings):
    database: str = setting(
        "",
        "Motion database (.mmdb) to search. If `database` is empty, the procedural database that mm_ros generates is "
        "used; the engine `learned` then needs no database.",
        file=".mmdb",
    )
    control: str = setting(
        "vr", "Input that steers the avatar. If `control` is not vr, `steered_features` replaces `features`. `mm_ros "
              "up` and the launch files set `control`.", choices=CONTROLS, live=False,
    )
    features: str = setting(
        VR, "Feature layout of the procedural database: the built-in layout vr or steered, or a YAML file. For a "
            "database file, `features` is ignored, because the file contains its own feature layout.",
        live=False,
    )
    steered_features: str = like(features, STEERED, REPLACES.format("features"))
    runners_up: bool = setting(
        False, "Publish the next best candidates of each search in `match`, too. Finding the next best candidates "
               "takes longer than the search itself.",
    )
    follow: str = setting(
        "", "Name of the trajectory source that the avatar follows. If `follow` is empty, follow the source of "
        "the first trajectory received.",
    )


def features_of(settings: DatabaseSettings) -> str:
    """Return the name or the file of the feature layout that the settings select."""
    return settings.features if settings.control == "vr" else settings.steered_features


class Opened(NamedTuple):
    learned: LearnedModel | None
    database: MotionDatabase
    damage: list[str]  # the damaged parts of the database file, found by a check in another thread


class MotionMatcher(AvatarNode):
    NAME = "motion_matcher"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._pose = self.publisher("matched_pose")
        self._match = self.publisher("match")
        self._skeleton = self.publisher("skeleton")
        self._layout = self.publisher("feature_layout")
        self._calibration = Calibration()
        self._source = ""
        self._search_s = 0.0  # duration of the longest search since the last diagnostic report [s]
        # The files of a changed parameter are loaded in another thread and stored in `_loaded` until the change takes
        # effect.
        self._loaded: dict[Files, Opened] = {}
        self._damage: list[str] = []
        self._damage_logged: set[str] = set()
        self.health.watch = self._watch
        self._build()
        self.await_calibration(self._calibrate)
        self.listen_calibrated("trajectory", self._step)
        self.start()

    @classmethod
    def preload(cls) -> None:
        with suppress(MmRosError, OSError):
            built = sorted((cache_root() / "database").glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
            if built:  # functions compiled for one database serve all databases
                database = read_database(built[-1])
                warm_up(build_matcher(MatcherSettings(), database, Calibration()), database)

    def loading(self, settings: list[Settings]) -> Callable[[], None] | None:
        matcher, files = of_kind(settings, MatcherSettings), files_of(settings)
        if files == self._opened:
            return None

        def load() -> None:
            found = opened(matcher, files)
            self._made(matcher, found)
            self._loaded = {files: found}

        return load

    def _made(self, settings: MatcherSettings, found: Opened, run: int = 0) -> MatcherStage | StateMachineStage:
        stage = build_matcher(settings, found.database, self._calibration, found.learned, run)
        stage.clock = time.perf_counter
        warm_up(stage, found.database)
        return stage

    def _build(self) -> None:
        settings = self.settings(MatcherSettings)
        self._opened = files_of(self._live.current)
        self._use(settings, opened(settings, self._opened))

    def _use(self, settings: MatcherSettings, found: Opened) -> None:
        # By the random run number, the node `pose_postprocessor` recognizes a restart of the node `motion_matcher`.
        self._stage = self._made(settings, found, random.getrandbits(32))
        self._database, self._damage = found.database, found.damage
        self._publish_layout()

    def _publish_layout(self) -> None:
        now_ns = self.now_ns()
        self._layout.publish(feature_layout_to_ros(self._database.layout, now_ns))

    def _step(self, trajectory: Trajectory) -> None:
        if not self._follows(trajectory.source):
            return
        subscribed = self._match.get_subscription_count() > 0
        self._stage.explain = subscribed and self.settings(DatabaseSettings).runners_up
        result = self._stage.step(trajectory)
        if result is None:
            self.health.dropped += 1  # The matcher stage returns None for a late or duplicate trajectory.
            return
        pose, match = result
        self.outputs.pose(pose, moved=not is_identity(trajectory.new_from_old))
        self._search_s = max(self._search_s, match.search_time)
        self._pose.publish(pose)
        if subscribed:
            self._match.publish(match_to_ros(match, pose, self._database, self._stage.scale))
        self.health.step(pose.stamp_ns)
        self.health.values["height_band"] = match.band

    def _watch(self) -> None:
        for sentence in self._damage:
            self.health.errors["database"] = sentence
            if sentence not in self._damage_logged:
                self._damage_logged.add(sentence)
                self.get_logger().error(sentence)
        self.health.values["search_ms"] = f"{self._search_s * 1e3:.2f}"
        if self._search_s > SEARCH_WARN_S:
            complaints = self.health.errors if self._search_s > SEARCH_ERROR_S else self.health.passing
            complaints["search"] = f"a search took {self._search_s * 1e3:.0f} ms"
        self._search_s = 0.0

    def _follows(self, source: str) -> bool:
        self._source = self.settings(DatabaseSettings).follow or self._source or source
        if source == self._source:
            return True
        self.health.warnings["source"] = f"trajectory of '{source}' is ignored: the node follows '{self._source}'"
        return False

    def _calibrate(self, calibration: Calibration) -> None:
        self._calibration = calibration
        skeleton = fit_matcher(self._stage, self._database.skeleton, calibration)
        now_ns = self.now_ns()
        self._skeleton.publish(skeleton_to_ros(skeleton, now_ns, self.avatar))

    def reset(self) -> None:
        self._stage.reset()
        self._source = ""

    def apply_settings(self) -> None:
        settings, files = self.settings(MatcherSettings), files_of(self._live.current)
        if files == self._opened:
            self._stage.settings = settings
            return
        loaded, self._loaded = self._loaded, {}
        found = loaded[files] if files in loaded else opened(settings, files)
        if not isinstance(self._stage, MatcherStage) or settings.engine == STATE_MACHINE:
            self._use(settings, found)
        else:
            self._stage.change(settings, found.database, found.learned)
            self._database, self._damage = found.database, found.damage
            self._publish_layout()
        self._opened = files
        self._calibrate(self._calibration)


def warm_up(stage: MatcherStage | StateMachineStage, database: MotionDatabase) -> None:
    """Run some steps of the stage, so that compiled functions and memory pages are loaded before the first trajectory
    arrives."""
    if isinstance(stage, MatcherStage):
        stage.warm_up()
        return
    still = still_trajectory(database.layout.trajectory_times)
    for stamp_ns in (0, WARM_UP_NS):
        stage.step(rounded_trajectory(replace(still, stamp_ns=stamp_ns)))
    stage.reset()


def files_of(settings: list[Settings]) -> Files:
    """Return those settings of the node that determine which database and model it opens."""
    matcher = of_kind(settings, MatcherSettings)
    model = matcher.model if matcher.engine == LEARNED else ""
    own = of_kind(settings, DatabaseSettings)
    return own.database, matcher.engine, model, features_of(own)


def opened(settings: MatcherSettings, files: Files) -> Opened:
    """Open the learned model and the motion database that the settings of the node name. If the settings name no
    database, a learned model uses the part of a database that its file contains."""
    learned, path = load_learned(settings), files[0]
    if learned is not None and not path:
        return Opened(learned, learned.digest, [])
    file = Path(path or default_database_path(features=files[3]))
    key = (str(file), identity(file))
    if key not in _databases:
        damage: list[str] = []
        found = (read_database(file, damage.append), damage)
        while len(_databases) >= SHARED:
            del _databases[next(iter(_databases))]
        _databases[key] = found
    return Opened(learned, *_databases[key])


SHARED = 4  # maximum number of motion databases that are open in a process, shared by its avatars
_databases: dict[tuple[str, tuple[int, ...]], tuple[MotionDatabase, list[str]]] = {}
