"""Node `visualizer`: makes markers for RViz from the topics of an avatar, at the rate `marker_rate`.

The markers of a topic are computed only while the topic has a subscriber. A display that is switched off in RViz
therefore needs no CPU time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mm_ros.base.settings import Settings, setting
from mm_ros.body.shape import room_joints
from mm_ros.body.types import AvatarPose, BodyOrientation, TrackerFrame, Trajectory
from mm_ros.motion.database import MotionDatabase
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.feature_files import VR
from mm_ros.motion.files import read_database
from mm_ros.msg import Match
from mm_ros.ros import conversions as convert
from mm_ros.ros import graph, markers
from mm_ros.ros.cdr import deserialized
from mm_ros.ros.inbox import Inbox
from mm_ros.ros.node import AvatarNode
from mm_ros.ros.qos import message_class
from mm_ros.show.page.features import feature_vectors

# Maps each topic of markers to the topics from which its markers are computed.
SOURCES = {
    "markers": ("pose", "trackers", "body_orientation", "trajectory", "match"),
    "markers/match": ("pose", "match", "matched_pose"),
    "markers/motion": ("pose",),
    "markers/truth": ("truth",),
}
CANDIDATES = 5


@dataclass(frozen=True)
class VisualizerSettings(Settings):
    marker_rate: float = setting(
        30.0,
        "Rate at which markers are published. With a larger rate, motion in RViz is smoother and the load higher.",
        "Hz",
        1.0,
        120.0,
        live=False,
    )
    database: str = setting(
        "",
        "Database that motion_matcher searches, from which the poses of its candidates are read. If `database` "
        "is empty, the procedural database is used.",
        live=False,
    )
    features: str = setting(
        VR, "Feature layout of motion_matcher's procedural database: vr, steered or a YAML file.", live=False
    )


@dataclass
class Seen:
    """The newest data of each topic of one avatar, from which its markers are made."""

    pose: AvatarPose | None = None
    matched: AvatarPose | None = None
    truth: AvatarPose | None = None
    trackers: TrackerFrame | None = None
    orientation: BodyOrientation | None = None
    trajectory: Trajectory | None = None
    match: Match | None = None
    searched: Match | None = None  # message `Match` of the last search
    query: Any = None  # query of the last search as positions and velocities
    winner: Any = None


class Visualizer(AvatarNode):
    NAME = "visualizer"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._topics = {topic: self.publisher(topic) for topic in SOURCES}
        self._inboxes: dict[str, Inbox] = {}
        self._seen = Seen()
        self._database: MotionDatabase | None = None
        self._take: dict[str, Callable[[Any], None]] = {
            "pose": lambda m: self._keep(pose=convert.avatar_pose_from_ros(m)),
            "matched_pose": lambda m: self._keep(matched=convert.avatar_pose_from_ros(m)),
            "truth": lambda m: self._keep(truth=convert.avatar_pose_from_ros(m)),
            "trackers": lambda m: self._keep(trackers=convert.trackers_from_ros(m)),
            "body_orientation": lambda m: self._keep(orientation=convert.orientation_from_ros(m)),
            "trajectory": lambda m: self._keep(trajectory=convert.trajectory_from_ros(m)),
            "match": self._keep_match,
        }
        self._draw = {
            "markers": self._plain, "markers/match": self._match, "markers/motion": self._motion,
            "markers/truth": self._truth,
        }  # fmt: skip
        self.every(1.0 / self.settings(VisualizerSettings).marker_rate, self._step)
        self.start()

    def _step(self) -> None:
        shown = [topic for topic, publisher in self._topics.items() if publisher.get_subscription_count()]
        self.health.expects_input = bool(shown)
        self._listen({source for topic in shown for source in SOURCES[topic]})
        for topic in shown:
            stamp_ns, drawn = self._draw[topic](self._seen)
            if drawn:
                self._topics[topic].publish(markers.array(drawn, stamp_ns, self.world_frame))
                self.health.step(stamp_ns)

    # ---- input

    def _listen(self, wanted: set[str]) -> None:
        for source in self._inboxes.keys() - wanted:
            self._inboxes.pop(source).close()
        for source in wanted - self._inboxes.keys():
            self._inboxes[source] = Inbox(self, source, graph.TOPICS[source].name)
        for source, inbox in self._inboxes.items():
            letters = inbox.take()
            for letter in letters if source == "match" else letters[-1:]:
                kind = message_class(graph.TOPICS[source].type)
                take = self._take[source]
                self.guarded(source, lambda raw, take=take, kind=kind: take(deserialized(raw, kind)))(letter.raw)

    def _keep(self, **new: Any) -> None:
        self._seen = replace(self._seen, **new)

    def _keep_match(self, msg: Match) -> None:
        self._keep(match=msg)
        if msg.searched:
            query, winner = (feature_vectors(msg.feature_names, v) for v in (msg.query_physical, msg.winner_physical))
            self._keep(searched=msg, query=query, winner=winner)

    def reset(self) -> None:
        self._seen = Seen()

    # ---- drawing

    def _plain(self, seen: Seen) -> tuple[int, list[Any]]:
        if seen.pose is None:
            return 0, []
        out = markers.feet("feet", seen.pose)
        if seen.pose.feet is not None:
            out += markers.user_feet("user_feet", seen.pose.feet)
        if seen.trackers is not None:
            out += markers.trackers("trackers", seen.trackers)
        if seen.orientation is not None:
            out += markers.facing("facing", seen.orientation, seen.pose.root)
        if seen.trajectory is not None:
            out += markers.desired("trajectory", seen.trajectory)
        if seen.winner is not None and seen.winner.positions:
            out += markers.found("matched_trajectory", *seen.winner.path(seen.pose.root))
        return seen.pose.stamp_ns, out

    def _match(self, seen: Seen) -> tuple[int, list[Any]]:
        if seen.pose is None or seen.match is None:
            return 0, []
        out = markers.match_text("text", seen.match, seen.searched, seen.pose)
        if seen.searched is not None:
            joints, _ = room_joints(seen.pose)
            asked, found = (v.segments(seen.pose.root, joints) for v in (seen.query, seen.winner))
            out += markers.features("features", 0, markers.DESIRED, *asked)
            out += markers.features("features", 100, markers.FOUND, *found)
        if seen.matched is not None:
            out.append(markers.bones("matched_pose", 0, seen.matched, markers.MATCHED, 0.02))
            if seen.searched is not None:
                for i, frame in enumerate(seen.searched.runner_up_frames[:CANDIDATES]):
                    out += self._candidate(i, int(frame), seen.searched.database, seen.matched)
        return seen.pose.stamp_ns, out

    def _candidate(self, index: int, frame: int, database: int, matched: AvatarPose) -> list[Any]:
        """Return markers that show the pose of a search candidate at the avatar's root, scaled to the avatar's size.

        `database` is the hash of the searched database. Markers are returned only if the visualizer has opened the same
        database.
        """
        if self._database is None:
            s = self.settings(VisualizerSettings)
            self._database = read_database(Path(s.database or default_database_path(features=s.features)))
        if database != self._database.hash or not 0 <= frame < len(self._database):
            return []
        positions, rotations = self._database.positions[frame], self._database.rotations[frame]
        scale = np.linalg.norm(matched.positions[2:], axis=1).sum() / np.linalg.norm(positions[2:], axis=1).sum()
        pose = replace(matched, positions=positions * np.float32(scale), rotations=rotations)
        return [markers.bones("candidates", index, pose, markers.CANDIDATE, 0.012)]

    def _motion(self, seen: Seen) -> tuple[int, list[Any]]:
        if seen.pose is None:
            return 0, []
        return seen.pose.stamp_ns, [*markers.skeleton("skeleton", seen.pose), *markers.velocity("velocity", seen.pose)]

    def _truth(self, seen: Seen) -> tuple[int, list[Any]]:
        return (0, []) if seen.truth is None else (seen.truth.stamp_ns, markers.truth("truth", seen.truth))
