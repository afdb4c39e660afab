"""Node that observes an avatar: measures rate, latency and the errors relative to the true body, and stores poses for a
film."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rclpy.node import Node

from mm_ros.body.skeleton import Skeleton
from mm_ros.body.types import AvatarPose
from mm_ros.maths import rotations as rot
from mm_ros.ros import graph
from mm_ros.ros.conversions import avatar_pose_from_ros, skeleton_from_ros, stamp_from_ros
from mm_ros.ros.qos import message_class, subscription_qos


@dataclass
class Picture:
    pose: AvatarPose
    truth: AvatarPose | None = None


@dataclass
class Seen:
    """The measurements since the start of the observer; each list has one entry per received pose."""

    stamps_ns: list[int] = field(default_factory=list)
    received_s: list[float] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)
    facing_errors: list[float] = field(default_factory=list)  # rad
    root_errors: list[float] = field(default_factory=list)  # m
    film: deque[Picture] = field(default_factory=deque)


class Observer(Node):
    """Node that records how the avatar `avatar` moves, for the demo. If `film_rate` [Hz] is above 0, the poses and true
    poses of the last `film_s` seconds are stored at the rate `film_rate` for a film."""

    def __init__(self, avatar: str, film_rate: float = 0.0, film_s: float = 8.0) -> None:
        super().__init__("demo_observer", namespace=avatar)
        self.seen = Seen(film=deque(maxlen=round(film_s * film_rate)))
        self.skeletons: dict[str, Skeleton] = {}
        # `_truths` and `_poses` map a time stamp to a true pose and to a published pose, until the other pose with this
        # time stamp arrives.
        self._truths: dict[int, Any] = {}
        self._poses: dict[int, tuple[int, Any, Picture | None]] = {}
        self._film_period_ns = int(1e9 / film_rate) if film_rate else 0
        self._film_due_ns = 0
        self._listen("truth", self._on_truth)
        self._listen("pose", self._on_pose)
        self._listen("skeleton", lambda m: self.skeletons.update(pose=skeleton_from_ros(m)))
        self._listen("truth_skeleton", lambda m: self.skeletons.update(truth=skeleton_from_ros(m)))

    def _listen(self, topic: str, callback: Any) -> None:
        t = graph.TOPICS[topic]
        self.create_subscription(message_class(t.type), t.name, callback, subscription_qos(t.qos))

    def _on_truth(self, msg: Any) -> None:
        stamp_ns = stamp_from_ros(msg.header.stamp)
        if stamp_ns in self._poses:
            self._pair(*self._poses.pop(stamp_ns), msg)
        else:
            _keep(self._truths, stamp_ns, msg)

    def _on_pose(self, msg: Any) -> None:
        stamp_ns, seen = stamp_from_ros(msg.header.stamp), self.seen
        seen.stamps_ns.append(stamp_ns)
        seen.received_s.append(time.monotonic())
        seen.latencies_s.append((self.get_clock().now().nanoseconds - stamp_ns) * 1e-9)
        seen.facing_errors.append(np.nan)
        seen.root_errors.append(np.nan)
        picture = Picture(avatar_pose_from_ros(msg)) if self._is_film_frame(stamp_ns) else None
        if picture is not None:
            seen.film.append(picture)
        index = len(seen.stamps_ns) - 1
        if stamp_ns in self._truths:
            self._pair(index, msg, picture, self._truths.pop(stamp_ns))
        else:
            _keep(self._poses, stamp_ns, (index, msg, picture))

    def _pair(self, index: int, pose: Any, picture: Picture | None, truth: Any) -> None:
        self.seen.facing_errors[index], self.seen.root_errors[index] = errors(pose, truth)
        if picture is not None:
            picture.truth = avatar_pose_from_ros(truth)

    def _is_film_frame(self, stamp_ns: int) -> bool:
        if not self._film_period_ns:
            return False
        if stamp_ns < self._film_due_ns <= stamp_ns + 2 * self._film_period_ns:
            return False
        self._film_due_ns = stamp_ns + self._film_period_ns
        return True


def _keep(waiting: dict[int, Any], stamp_ns: int, value: Any) -> None:
    waiting[stamp_ns] = value
    while len(waiting) > 200:
        waiting.pop(next(iter(waiting)))


def errors(ours: Any, truth: Any) -> tuple[float, float]:
    """Return the errors of an AvatarPose message: of the facing [rad] and of the root position on the floor [m]."""
    a, b = np.array(ours.root), np.array(truth.root)
    yaws = [float(rot.yaw_of(np.roll(r[3:], 1))) for r in (a, b)]
    return abs(float(rot.wrap_angle(yaws[0] - yaws[1]))), float(np.hypot(*(a - b)[:2]))
