"""mm_ros record and mm_ros replay as processes, one into the other."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy", reason="no ROS here")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from rclpy.executors import SingleThreadedExecutor
from rclpy.serialization import serialize_message
from ros_calls import answer_of
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool

from mm_ros import graph
from mm_ros.core.landmarks import Landmarks
from mm_ros.io.bag import Bag, BagWriter
from mm_ros.io.session import INPUTS, SessionWriter, read_session, write_session
from mm_ros.io.session_making import session_of_clips
from mm_ros.ros.conversions import landmarks_to_ros, trackers_from_ros
from mm_ros.ros.qos import message_class, subscription_qos
from mm_ros.trackers.synthetic import user_clip

DOMAIN = 1 + (os.getpid() + 50) % 100
ENVIRONMENT = dict(os.environ, ROS_DOMAIN_ID=str(DOMAIN), ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST")


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    path = tmp_path_factory.mktemp("sessions") / "walk"
    write_session(path, session_of_clips([user_clip(3.0)]))
    return path


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "mm_ros", *map(str, words)], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )


class Ear:
    def __init__(self):
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=DOMAIN)
        self.node = rclpy.create_node("ear", namespace="anna", context=self.context)
        self.heard = {name: [] for name in INPUTS}
        for name, heard in self.heard.items():
            t = graph.TOPICS[name]
            self.node.create_subscription(message_class(t.type), t.name, heard.append, subscription_qos(t.qos))
        self.clock = []
        self.node.create_subscription(Clock, "/clock", self.clock.append, subscription_qos(graph.TOPICS["/clock"].qos))
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)

    def until(self, condition, seconds=30.0):
        assert self.spin_until(condition, seconds), {name: len(heard) for name, heard in self.heard.items()}

    def spin_until(self, condition, seconds):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= end:
                return False
            self.executor.spin_once(timeout_sec=0.05)
        return True

    def listen(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.executor.spin_once(timeout_sec=0.05)

    def frames(self):
        return [trackers_from_ros(m) for m in self.heard["trackers"]]

    def close(self):
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)


@pytest.fixture
def ear():
    made = Ear()
    yield made
    made.close()


def stop(process):
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    return output


def test_replayed_is_recorded_again(walk, tmp_path):
    """record | replay: every message arrives, in order, the calibration too; the bag is whole."""
    recorder = start("record", "-o", tmp_path / "again", "--avatar", "anna")
    assert "recording" in recorder.stdout.readline()
    player = start("replay", walk, "--avatar", "anna", "--wait-for", 1, "--clock")
    output, _ = player.communicate(timeout=90)
    assert player.returncode == 0, output
    time.sleep(0.5)
    stop(recorder)
    assert recorder.returncode == 0
    first, again = read_session(walk), read_session(tmp_path / "again")
    assert again.damage == ""
    assert len(again.frames) >= len(first.frames) - 2  # discovery of the second publisher may be a message late
    stamps = {f.stamp_ns: f for f in first.frames}
    for f in again.frames:
        np.testing.assert_array_equal(f.positions, stamps[f.stamp_ns].positions)
    assert again.calibration.head_height == first.calibration.head_height
    assert again.truth_skeleton.hash == first.truth_skeleton.hash
    assert set(Bag(tmp_path / "again").topics) == {
        f"/anna/{name}" for name in ("trackers", "calibration", "truth", "truth_skeleton", "landmarks")
    }


def with_landmarks(walk, path):
    """The same session, and landmarks to every third message of its trackers."""
    bag, sent = Bag(walk), {}
    rng = np.random.default_rng(0)
    with BagWriter(path) as writer:
        for topic, kind in bag.topics.items():
            writer.add_topic(topic, kind)
        writer.add_topic("/avatar/landmarks", "mm_ros/msg/Landmarks")
        for i, message in enumerate(bag.messages()):
            writer.write(message.topic, message.logged_ns, message.data)
            if message.topic == "/avatar/trackers" and i % 3 == 0:
                ns = message.logged_ns
                sent[ns] = seen = Landmarks(ns, rng.normal(size=(33, 3)), np.ones(33, np.float32))
                writer.write("/avatar/landmarks", ns, serialize_message(landmarks_to_ros(seen)))
    return sent


def test_a_cameras_landmarks_are_recorded_and_come_again(walk, ear, tmp_path):
    sent = with_landmarks(walk, tmp_path / "seen")
    recorder = start("record", "-o", tmp_path / "again", "--avatar", "anna")
    assert "recording" in recorder.stdout.readline()
    player = start("replay", tmp_path / "seen", "--avatar", "anna", "--wait-for", 2, "--clock")
    ear.until(lambda: len(ear.heard["landmarks"]) >= len(sent) - 2, 60.0)
    player.communicate(timeout=90)
    time.sleep(0.5)
    stop(recorder)
    again = [m.decode() for m in Bag(tmp_path / "again").messages({"/anna/landmarks"})]
    assert len(again) >= len(sent) - 2
    for m in (*ear.heard["landmarks"], *again):
        seen = sent[m.header.stamp.sec * 10**9 + m.header.stamp.nanosec]
        np.testing.assert_array_equal(np.asarray(m.positions), np.asarray(seen.positions, np.float32).ravel())
    assert len(read_session(tmp_path / "again").frames) > 0.9 * len(read_session(walk).frames)


def test_in_the_present_with_loop(walk, ear):
    player = start("replay", walk, "--avatar", "anna", "--wait-for", 1, "--loop", "--start", 2.5)
    try:
        ear.until(lambda: len(ear.heard["trackers"]) > 120)
    finally:
        stop(player)
    frames = ear.frames()
    age_s = [time.time() - f.stamp_ns * 1e-9 for f in frames]
    assert max(age_s) < 60 and min(age_s) > -1
    assert {f.epoch for f in frames} >= {0, 1}
    assert (np.diff([f.stamp_ns for f in frames]) > 0).all()
    assert ear.heard["calibration"] and ear.heard["truth_skeleton"] and ear.heard["truth"]
    stamps = {f.stamp_ns for f in frames}
    both = [m for m in ear.heard["truth"] if m.header.stamp.sec * 10**9 + m.header.stamp.nanosec in stamps]
    assert len(both) > 0.5 * len(ear.heard["truth"])  # truth and trackers still meet by stamp


def test_clock_and_pause(walk, ear):
    player = start("replay", walk, "--avatar", "anna", "--wait-for", 1, "--clock", "--loop")
    try:
        ear.until(lambda: len(ear.heard["trackers"]) > 30)
        client = ear.node.create_client(SetBool, "replay/pause")
        ear.until(client.service_is_ready)
        assert "paused" in answer_of(client, SetBool.Request(data=True), ear.spin_until).message
        ear.listen(0.5)
        count, ticks = len(ear.heard["trackers"]), len(ear.clock)
        ear.listen(1.0)
        assert len(ear.heard["trackers"]) == count and len(ear.clock) > ticks
        assert ear.clock[-1].clock == ear.clock[ticks].clock  # time stands still, and is still told
        assert answer_of(client, SetBool.Request(data=False), ear.spin_until).success
        ear.until(lambda: len(ear.heard["trackers"]) > count + 10)
    finally:
        stop(player)
    first = read_session(walk).frames[0].stamp_ns
    assert ear.frames()[0].stamp_ns - first < 2 * 10**9  # its own stamps


def test_nothing_to_record_is_said(tmp_path):
    done = start("record", "-o", tmp_path / "none", "--avatar", "nobody", "--seconds", 1)
    done.communicate(timeout=60)
    assert done.returncode == 1
    with pytest.raises(Exception, match="not one message"):
        read_session(tmp_path / "none", "nobody")


def test_mistakes_are_sentences(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mm_ros", "replay", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert done.returncode == 2 and "does not exist" in done.stderr and "Traceback" not in done.stderr


def test_a_namespace_that_ros_does_not_take_is_a_sentence_and_another_can_be_given(tmp_path, walk, ear):
    session = read_session(walk)
    with SessionWriter(tmp_path / "odd", avatar="9 lives\x1b[31m", truth=False) as writer:
        for frame in session.frames:
            writer.write_frame(frame)
    words = [sys.executable, "-m", "mm_ros", "replay", str(tmp_path / "odd")]
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    assert done.returncode == 2
    assert r"its namespace '9 lives\x1b[31m' cannot be one of ROS; give another with --avatar" in done.stderr
    assert "Traceback" not in done.stderr
    player = start("replay", tmp_path / "odd", "--avatar", "anna", "--wait-for", 1)
    try:
        ear.until(lambda: len(ear.heard["trackers"]) > 10)
    finally:
        stop(player)
