"""Node that measures an avatar from outside: rate, latency, errors against the truth, poses for a film."""

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
class Seen:
    """Values since the start, one entry per pose."""

    stamps_ns: list[int] = field(default_factory=list)
    received_s: list[float] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)
    facing_errors: list[float] = field(default_factory=list)  # rad
    root_errors: list[float] = field(default_factory=list)  # m
    film: deque[tuple[AvatarPose, AvatarPose | None]] = field(default_factory=deque)


class Observer(Node):
    """Observer of `avatar`; `film_rate` > 0 keeps the poses and truths of the last `film_s` at that rate."""

    def __init__(self, avatar: str, film_rate: float = 0.0, film_s: float = 8.0) -> None:
        super().__init__("demo_observer", namespace=avatar)
        self.seen = Seen(film=deque(maxlen=round(film_s * film_rate)))
        self.skeletons: dict[str, Skeleton] = {}
        self._truths: dict[int, Any] = {}
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
        self._truths[stamp_from_ros(msg.header.stamp)] = msg
        while len(self._truths) > 200:
            self._truths.pop(next(iter(self._truths)))

    def _on_pose(self, msg: Any) -> None:
        stamp_ns = stamp_from_ros(msg.header.stamp)
        seen, truth = self.seen, self._truths.get(stamp_ns)
        seen.stamps_ns.append(stamp_ns)
        seen.received_s.append(time.monotonic())
        seen.latencies_s.append((self.get_clock().now().nanoseconds - stamp_ns) * 1e-9)
        facing, root = errors(msg, truth) if truth is not None else (np.nan, np.nan)
        seen.facing_errors.append(facing)
        seen.root_errors.append(root)
        if self._is_film_frame(stamp_ns):
            seen.film.append((avatar_pose_from_ros(msg), None if truth is None else avatar_pose_from_ros(truth)))

    def _is_film_frame(self, stamp_ns: int) -> bool:
        if not self._film_period_ns:
            return False
        if stamp_ns < self._film_due_ns <= stamp_ns + 2 * self._film_period_ns:
            return False
        self._film_due_ns = stamp_ns + self._film_period_ns
        return True


def errors(ours: Any, truth: Any) -> tuple[float, float]:
    """Return facing error (rad) and root position error on the floor (m) of an AvatarPose message."""
    a, b = np.array(ours.root), np.array(truth.root)
    yaws = [float(rot.yaw_of(np.roll(r[3:], 1))) for r in (a, b)]
    return abs(float(rot.wrap_angle(yaws[0] - yaws[1]))), float(np.hypot(*(a - b)[:2]))
