"""ROS nodes, each in a process, and a client that publishes trackers like the tracker bridge and records all topics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from processes import PATIENCE_S, children, end, warm
from rclpy.executors import SingleThreadedExecutor
from ros_calls import answer_of
from std_srvs.srv import Trigger

from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import PARENTS
from mm_ros.body.timeline import GAP_S
from mm_ros.body.types import LOST, Calibration, TrackerFrame
from mm_ros.maths import rotations as rot
from mm_ros.motion.procedural import make_clips
from mm_ros.ros import graph
from mm_ros.ros.conversions import avatar_pose_from_ros, calibration_to_ros, stamp_from_ros, trackers_to_ros
from mm_ros.ros.qos import listener_qos, message_class, publisher_qos
from mm_ros.tracking.calibration import from_skeleton
from mm_ros.tracking.simulation import Simulation, TrackerTrack, simulate_clip

CHAIN = ("orientation_predictor", "trajectory_predictor", "motion_matcher", "pose_postprocessor")
START_S = 150.0
ATTEMPTS = 8


def node_command(name: str, avatar: str, **parameters: Any) -> list[str]:
    command = [sys.executable, "-m", "mm_ros.ros.nodes", name, "--ros-args", "-r", f"__ns:=/{avatar}"]
    for key, value in parameters.items():
        command += ["-p", f"{key}:={value}"]
    return command


class NodeProcess:
    def __init__(self, name: str, avatar: str, log: Path, **parameters: Any) -> None:
        self.name, self.log = name, log
        self._command = node_command(name, avatar, **parameters)
        self.start()

    def __enter__(self) -> NodeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        end(self.process)

    def start(self) -> None:
        with self.log.open("ab") as handle:
            self.process = subprocess.Popen(self._command, stdout=handle, stderr=handle, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """Stop the parent process, which would replace a killed child, and kill its child processes and the parent."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)
            for pid in (*children(self.process.pid), self.process.pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float = PATIENCE_S) -> int:
        """Send Ctrl-C to the process, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {seconds} s of Ctrl-C: {self.said()}") from None

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_ready(self, times: int = 1, seconds: float = START_S) -> None:
        """Wait until the log of the process contains `times` messages that a node is ready, summed over all starts."""
        until = time.monotonic() + seconds
        while self.said().count("]: ready") < times:
            assert self.process.poll() is None, f"{self.name} ended: {self.said()}"
            assert time.monotonic() < until, f"{self.name} was not ready within {seconds} s: {self.said()}"
            time.sleep(0.05)


class AllNodesProcess(NodeProcess):
    """`mm_ros up` without a tracker source, which runs all nodes of CHAIN; `parameters` are NODE.NAME=value."""

    def __init__(self, name: str, avatar: str, log: Path, **parameters: Any) -> None:
        self.name, self.log = name, log
        self._command = [sys.executable, "-m", "mm_ros", "up", "--trackers", "none", "--avatar", avatar]
        for key, value in parameters.items():
            self._command += ["-p", f"{key}={value}"]
        self.start()


class Client:
    """Publishes trackers and calibration, and stores the messages of the given topics."""

    def __init__(self, avatar: str, topics: tuple[str, ...]) -> None:
        self.node = rclpy.create_node("test_client", namespace=avatar)
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.received: dict[str, list[Any]] = {t: [] for t in topics}
        self.arrived: dict[str, list[float]] = {t: [] for t in topics}
        for topic in topics:
            t = graph.TOPICS[topic]
            self.node.create_subscription(
                message_class(t.type), t.name, lambda m, topic=topic: self._keep(topic, m), listener_qos(t.qos)
            )
        self._last_ns = self.newest_pose_ns = 0
        self._sent_s = 0.0
        self.trackers = self.publisher("trackers")
        self.calibration = self.publisher("calibration")

    def _keep(self, topic: str, msg: Any) -> None:
        self.received[topic].append(msg)
        self.arrived[topic].append(time.monotonic())
        if topic == "pose":
            self.newest_pose_ns = stamp_from_ros(msg.header.stamp)

    def publisher(self, topic: str) -> Any:
        t = graph.TOPICS[topic]
        return self.node.create_publisher(message_class(t.type), t.name, publisher_qos(t.qos))

    def calibrate(self, calibration: Calibration) -> None:
        self.calibration.publish(calibration_to_ros(calibration, self.now_ns()))

    def now_ns(self) -> int:
        return int(self.node.get_clock().now().nanoseconds)

    def send(self, frame: TrackerFrame) -> None:
        self.trackers.publish(trackers_to_ros(frame))

    def play(
        self, frames: list[TrackerFrame], pace: float = 60.0, patience: float = 5.0, even: bool = False
    ) -> list[int]:
        """Send tracker frames, at most `pace` per second, and return their stamps. Each frame waits for the pose of the
        frame before, so that a busy machine loses no frame (`mm_ros bench graph` measures losses at full rate).

        If `even` is true, the stamps are 1 / `pace` apart however slow the machine is, except after stale poses and
        after a pause that counts as a gap.
        """
        stamps: list[int] = []
        for frame in frames:
            due = time.monotonic() + 1 / pace
            evenly = even and self._goes_on()
            stamps.append(self.send_at(frame, self._last_ns + round(1e9 / pace)) if evenly else self.send_now(frame))
            self.spin_until(lambda stamp=stamps[-1]: self.newest_pose_ns >= stamp, patience)
            self.spin(due - time.monotonic())
        return stamps

    def send_now(self, frame: TrackerFrame) -> int:
        """Send a tracker frame with the present time as stamp (later than all earlier stamps); return the stamp."""
        return self.send_at(frame, max(self.now_ns(), self._last_ns + 1_000_000))

    def _goes_on(self) -> bool:
        """Return whether the last frame was sent a short time ago and no stale pose was made after it."""
        self.spin(0.001)  # reads poses that have arrived
        return 0 < self.newest_pose_ns <= self._last_ns and time.monotonic() - self._sent_s < GAP_S

    def send_at(self, frame: TrackerFrame, stamp_ns: int) -> int:
        frame.stamp_ns, self._sent_s = stamp_ns, time.monotonic()
        self._last_ns = stamp_ns
        frame.sampled_ns[frame.state != LOST] = frame.stamp_ns
        self.send(frame)
        return frame.stamp_ns

    def spin(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.executor.spin_once(max(0.0, min(0.02, until - time.monotonic())))

    def spin_until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Receive messages until `done()` is true, which is checked after each message and 50 times per second."""
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() >= until:
                return False
            self.executor.spin_once(max(0.0, min(0.02, until - time.monotonic())))
        return True

    def call(self, kind: Any, service: str, request: Any, seconds: float = PATIENCE_S) -> Any:
        client = self.node.create_client(kind, service)
        assert client.wait_for_service(timeout_sec=seconds), f"no node offers {service}"
        answer = answer_of(client, request, self.spin_until)
        self.node.destroy_client(client)
        return answer

    def close(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()


class World:
    """The four nodes of CHAIN for one avatar, and a client that sends the trackers of a walking clip."""

    def __init__(
        self, avatar: str, folder: Path, topics: tuple[str, ...] = ("pose", "/tf"), one_process: bool = False,
        **parameters: Any,
    ) -> None:  # fmt: skip
        self.avatar = avatar
        self.clip = walking_clip()
        self.calibration = from_skeleton(self.clip.skeleton)
        self._track = track_of(self.clip)
        self.client = Client(avatar, topics)
        self.client.calibrate(self.calibration)
        warm()
        self.nodes: dict[str, NodeProcess] = {}
        try:
            for name in ("mm_ros_up",) if one_process else CHAIN:
                kind = AllNodesProcess if one_process else NodeProcess
                self.nodes[name] = kind(name, avatar, folder / f"{name}.log", **parameters.get(name, {}))
            for process in self.nodes.values():
                process.wait_ready(len(CHAIN) if one_process else 1)
            heard = self.client.spin_until(self._connected, PATIENCE_S)
            ended = [n.said() for n in self.nodes.values() if n.process.poll() is not None]
            assert not ended, ended
            assert heard, "the nodes did not find each other"
            # DDS connects each topic by itself, so that poses can arrive some time before other topics.
            heard = self.client.spin_until(self._answers_on_each_topic, PATIENCE_S)
            assert heard, [topic for topic, messages in self.client.received.items() if not messages]
        except BaseException:
            end(*(n.process for n in self.nodes.values()))
            raise

    def _connected(self) -> bool:
        return self.client.trackers.get_subscription_count() >= 3 and (
            self.client.calibration.get_subscription_count() >= len(CHAIN)
        )

    def _answers_on_each_topic(self) -> bool:
        return all(self.client.received.values()) or not self.client.play(self.frames(0.0, 0.1), patience=0.5)

    def frames(self, first: float = 0.0, seconds: float = 2.0) -> list[TrackerFrame]:
        a = round(first * 90)
        return [self._track.frame(i) for i in range(a, min(len(self._track), a + round(seconds * 90)))]

    def walk(self, seconds: float = 2.0, first: float = 0.0) -> list[int]:
        return self.client.play(self.frames(first, seconds), even=True)

    def walk_without_loss(
        self, seconds: float = 2.0, epoch: int = 0, travels_at: int | None = None
    ) -> tuple[list[TrackerFrame], list[Any]]:
        """Send a walk, and return its frames and poses; if a frame is lost, repeat the walk in a new epoch.

        At the frame with the number `travels_at`, the play space moves by stick.
        """
        for attempt in range(ATTEMPTS):
            self.reset_all()
            self.forget()
            frames = self.frames(0.0, seconds)
            for frame in frames:
                frame.epoch = epoch + attempt
            if travels_at is not None:
                frames[travels_at].new_from_old = np.array([0.02, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
            sent = self.client.play(frames)
            got = self.client.received["pose"]
            if [stamp_from_ros(m.header.stamp) for m in got[: len(sent)]] == sent:
                return frames, got[: len(sent)]
        stale = sum(m.stale for m in got)
        raise AssertionError(f"{ATTEMPTS} walks lost samples: {len(got)} poses, {stale} stale, of {len(sent)}")

    def reset_all(self) -> None:
        for name in CHAIN:
            self.client.call(Trigger, f"/{self.avatar}/{name}/reset", Trigger.Request())

    def walks_on(self, seconds: float = PATIENCE_S, poses: int = 15) -> bool:
        """Send trackers, and return whether `poses` frames get a pose within `seconds`; check that all TF is finite."""
        until, answered = time.monotonic() + seconds, 0
        frames = self.frames(0.0, 3.0)
        while time.monotonic() < until and answered < poses:
            self.client.received["/tf"].clear()
            stamp = self.client.play([frames[answered]], patience=0.5, even=True)[0]
            answered += self.client.newest_pose_ns == stamp
            assert all(all_finite(tf) for tf in self.client.received["/tf"])
        return answered >= poses

    def settle(self, seconds: float = 0.3) -> None:
        self.client.spin(seconds)

    def forget(self) -> None:
        for kept in (self.client.received, self.client.arrived):
            for messages in kept.values():
                messages.clear()

    def fresh_poses(self) -> list[Any]:
        return [m for m in self.client.received["pose"] if not m.stale]

    def close(self) -> dict[str, int]:
        """End each node by Ctrl-C, and return the exit codes of the nodes."""
        try:
            return {name: process.stop() for name, process in self.nodes.items()}
        finally:
            end(*(n.process for n in self.nodes.values()))
            self.client.close()


@cache
def walking_clip() -> Clip:
    """Return a generated walk of more than five seconds."""
    walks = [c for c in make_clips(0) if c.name.startswith("walk") and c.seconds > 5.0]
    return walks[2]


def track_of(clip: Clip) -> TrackerTrack:
    return simulate_clip(clip, Simulation())


def all_finite(tf: Any) -> bool:
    values = []
    for t in tf.transforms:
        p, q = t.transform.translation, t.transform.rotation
        values.append((p.x, p.y, p.z, q.x, q.y, q.z, q.w))
    return bool(np.isfinite(values).all())


def undeclared_leaps(poses: list[Any], most_m: float = 0.3) -> list[float]:
    """Return the distances [m] above `most_m` by which a joint moves from one pose to the next of the same epoch and
    run."""
    out, last = [], None
    for pose in map(avatar_pose_from_ros, poses):
        positions, rotations = pose.positions.astype(np.float64), pose.rotations.astype(np.float64)
        positions[0], rotations[0] = pose.root[:3], pose.root[3:]
        joints = rot.forward_kinematics(np.array(PARENTS), positions, rotations)[0]
        if last is not None and last[0] == (pose.epoch, pose.run):
            away = float(np.linalg.norm(joints - last[1], axis=1).max())
            if not away <= most_m:
                out.append(away)
        last = (pose.epoch, pose.run), joints
    return out


def quiet_environment() -> None:
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
