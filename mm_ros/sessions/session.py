"""Read and write sessions, which are rosbag2 recordings of an avatar's inputs: trackers, calibration, camera landmarks,
and the true body pose if it is known.

Topics keep their names in the avatar's namespace, so that `ros2 bag play` works with a running graph. Topics that
mm_ros computes are recorded under `recorded/` and never played back.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import folder_whole
from mm_ros.body.landmarks import Sighting
from mm_ros.body.plausible import Implausible
from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import AvatarPose, Calibration, TrackerFrame
from mm_ros.sessions import messages as convert
from mm_ros.sessions.bag import BROKEN_MESSAGE, Bag, BagWriter, refuse_existing
from mm_ros.sessions.versions import VERSION

RECORDED = "recorded"
TRACKERS = "mm_ros/msg/TrackerArray"
CALIBRATION = "mm_ros/msg/Calibration"
POSE = "mm_ros/msg/AvatarPose"
SKELETON = "mm_ros/msg/Skeleton"
MADE = {"trackers": TRACKERS, "calibration": CALIBRATION, "truth": POSE, "truth_skeleton": SKELETON}
LANDMARKS = "landmarks"
# Topics of an avatar's inputs, which are recorded and replayed; landmarks are stored as the camera node publishes them.
INPUTS = {**MADE, LANDMARKS: "mm_ros/msg/Landmarks"}
LATCHED = ("calibration", "truth_skeleton", "skeleton")


@dataclass
class Session:
    frames: list[TrackerFrame]
    calibration: Calibration | None = None
    # True poses of the body, each with the stamp of a tracker frame in `frames`, some of which may have no true pose.
    truth: list[AvatarPose] = field(default_factory=list)
    truth_skeleton: Skeleton | None = None
    name: str = ""
    damage: str = ""  # what is damaged in the file of the session; empty for an undamaged file
    version: int = VERSION  # version of the message definitions in the file of the session
    sightings: list[Sighting] = field(default_factory=list)  # body landmarks of a camera in the order of their arrival

    @property
    def seconds(self) -> float:
        return (self.frames[-1].stamp_ns - self.frames[0].stamp_ns) * 1e-9 if self.frames else 0.0


def avatars(bag: Bag) -> list[str]:
    """Return the sorted namespaces of the avatars in a bag, which are those with a topic `trackers`."""
    return sorted(
        topic.removesuffix("trackers").strip("/")
        for topic, kind in bag.topics.items()
        if kind == TRACKERS and topic.endswith("/trackers") and f"/{RECORDED}/" not in topic
    )


def choose_avatar(bag: Bag, avatar: str = "") -> str:
    there = avatars(bag)
    if not there:
        kinds = ", ".join(f"{topic} ({kind})" for topic, kind in sorted(bag.topics.items())) or "nothing"
        raise MmRosError(f"{bag.path} holds no trackers ({TRACKERS} on …/trackers). It holds: {kinds}")
    if avatar and avatar not in there:
        raise MmRosError(f"{bag.path} holds no avatar '{avatar}'. Avatars: {', '.join(there)}")
    return avatar or there[0]


def input_topics(bag: Bag, avatar: str) -> dict[str, str]:
    """Return a map from each topic of inputs in the bag to the name of the input, such as "trackers"."""
    prefix = f"/{avatar}/" if avatar else "/"
    return {prefix + name: name for name, kind in INPUTS.items() if bag.topics.get(prefix + name) == kind}


def read_session(path: Path, avatar: str = "") -> Session:
    """Read the session of the avatar `avatar`, or, if `avatar` is empty, of the first avatar by alphabet."""
    bag = Bag(path)
    names = input_topics(bag, choose_avatar(bag, avatar))
    out, refused = Session([], name=path.name, damage=bag.damage, version=bag.version), list[str]()
    for message in bag.messages(set(names)):
        try:
            _take(out, names[message.topic], message.decode())
        except Implausible as error:
            refused.append(str(error))
        except BROKEN_MESSAGE as error:
            if not bag.damage and isinstance(error, MmRosError):
                raise
            if not bag.damage:
                raise MmRosError(f"{path}: a message of {message.topic} is broken: {error}") from error
            break  # a damaged bag ends at its first broken message
    if refused:
        left_out = f"{len(refused)} messages are left out, the first for this: {refused[0]}"
        out.damage = f"{out.damage}; {left_out}" if out.damage else left_out
    if not out.frames:
        why = f": {refused[0]}" if refused else " and not one message on it"
        raise MmRosError(f"{path} holds a topic for trackers{why}")
    return out


def _take(out: Session, name: str, message: Any) -> None:
    if name == "trackers":
        frame = convert.trackers_from_bag(message)
        if frame.stamp_ns < 0:
            raise MmRosError(f"a sample of the trackers has the stamp {frame.stamp_ns * 1e-9:g} s; expected 0 or more")
        out.frames.append(frame)
    elif name == "truth":
        out.truth.append(convert.avatar_pose_from_bag(message))
    elif name == "calibration":
        out.calibration = convert.calibration_from_bag(message)
    elif name == LANDMARKS:
        # The time of arrival of landmarks follows from the order of the messages, because the recorder's clock may
        # differ from the clock of the stamps.
        came_ns = out.frames[-1].stamp_ns + 1 if out.frames else 0
        out.sightings.append(Sighting(came_ns, convert.landmarks_from_bag(message)))
    else:
        out.truth_skeleton = convert.skeleton_from_bag(message)


class SessionWriter:
    """Writer of sessions that are made without a running graph: from motion capture, tables or a synthetic user."""

    def __init__(
        self, path: Path, avatar: str = "avatar", storage: str = "mcap", compression: str = "none", truth: bool = True,
        landmarks: bool = False,
    ) -> None:  # fmt: skip
        self._bag = BagWriter(path, storage, compression)
        self._prefix = f"/{avatar}/"
        for name, kind in INPUTS.items():
            if (truth or not name.startswith("truth")) and (landmarks or name != LANDMARKS):
                self._bag.add_topic(self._prefix + name, kind, latched=name in LATCHED)

    def _write(self, name: str, stamp_ns: int, message: Any) -> None:
        self._bag.write(self._prefix + name, stamp_ns, message)

    def write_calibration(self, calibration: Calibration, stamp_ns: int) -> None:
        self._write("calibration", stamp_ns, convert.calibration_to_bag(calibration, stamp_ns))

    def write_skeleton(self, skeleton: Skeleton, stamp_ns: int) -> None:
        self._write("truth_skeleton", stamp_ns, convert.skeleton_to_bag(skeleton, stamp_ns))

    def write_frame(self, frame: TrackerFrame, truth: AvatarPose | None = None) -> None:
        self._write("trackers", frame.stamp_ns, convert.trackers_to_bag(frame))
        if truth is not None:
            self._write("truth", frame.stamp_ns, convert.avatar_pose_to_bag(truth))

    def write_sighting(self, seen: Sighting) -> None:
        self._write(LANDMARKS, seen.arrives_ns, convert.landmarks_to_bag(seen.landmarks))

    def close(self) -> None:
        self._bag.close()

    def __enter__(self) -> SessionWriter:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def write_session(path: Path, session: Session, storage: str = "mcap", compression: str = "none") -> None:
    """Write a session completely or not at all, and raise MmRosError if `path` exists."""
    refuse_existing(path)
    with folder_whole(path) as temporary:
        _write_session(temporary, session, storage, compression)


def _write_session(path: Path, session: Session, storage: str, compression: str) -> None:
    truth = {pose.stamp_ns: pose for pose in session.truth}
    start_ns = session.frames[0].stamp_ns if session.frames else 0
    pictures = bool(session.sightings)
    with SessionWriter(
        path, storage=storage, compression=compression, truth=bool(truth), landmarks=pictures
    ) as writer:
        if session.calibration is not None:
            writer.write_calibration(session.calibration, start_ns)
        if session.truth_skeleton is not None and truth:
            writer.write_skeleton(session.truth_skeleton, start_ns)
        inputs: tuple[list[TrackerFrame | Sighting], ...] = ([*session.sightings], [*session.frames])
        for message in heapq.merge(*inputs, key=_came_ns):
            if isinstance(message, Sighting):
                writer.write_sighting(message)
            else:
                writer.write_frame(message, truth.get(message.stamp_ns))


def _came_ns(message: TrackerFrame | Sighting) -> int:
    return message.arrives_ns if isinstance(message, Sighting) else message.stamp_ns
