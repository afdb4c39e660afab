"""mm_ros record and mm_ros replay as processes, one into the other."""

import itertools
import resource
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy", reason="no ROS here")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from processes import running, wait_until
from rclpy.executors import SingleThreadedExecutor
from rclpy.serialization import serialize_message
from ros_calls import answer_of
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool

from mm_ros.body.landmarks import Landmarks
from mm_ros.ros import graph
from mm_ros.ros.conversions import (
    avatar_pose_from_ros,
    calibration_from_ros,
    landmarks_to_ros,
    skeleton_from_ros,
    trackers_from_ros,
)
from mm_ros.ros.qos import listener_qos, message_class
from mm_ros.sessions.bag import Bag, BagWriter
from mm_ros.sessions.session import INPUTS, SessionWriter, read_session, write_session
from mm_ros.tracking.session_making import session_of_clips
from mm_ros.tracking.sources.synthetic import user_clip

FIRST_VERSION = Path(__file__).parents[1] / "data" / "v1"
PATIENCE_S = 180.0  # limit of waits on a busy machine


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    path = tmp_path_factory.mktemp("sessions") / "walk"
    write_session(path, session_of_clips([user_clip(3.0)]))
    return path


def started(*words, **options):
    """`mm_ros WORDS` for the length of a block."""
    command = [sys.executable, "-m", "mm_ros", *map(str, words)]
    return running(command, stdout=subprocess.PIPE, text=True, **options)


@contextmanager
def recording(path, *words):
    """A recorder of anna's topics; its bag is complete when the block ends."""
    with started("record", "-o", path, "--avatar", "anna", *words) as recorder:
        assert "recording" in recorder.stdout.readline()
        yield recorder
        recorder.send_signal(signal.SIGINT)
        recorder.communicate(timeout=PATIENCE_S)
        assert recorder.returncode == 0


class Ear:
    def __init__(self):
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("ear", namespace="anna", context=self.context)
        self.heard = {name: [] for name in INPUTS}
        for name, heard in self.heard.items():
            t = graph.TOPICS[name]
            self.node.create_subscription(message_class(t.type), t.name, heard.append, listener_qos(t.qos))
        self.clock = []
        self.node.create_subscription(Clock, "/clock", self.clock.append, listener_qos(graph.TOPICS["/clock"].qos))
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)

    def until(self, condition, seconds=PATIENCE_S):
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


def assert_same_messages(session, again):
    """Each message of each topic was received once, in order."""
    for name in INPUTS:
        assert stamps(again, f"/anna/{name}") == stamps(session, f"/avatar/{name}"), name


def stamps(session, topic):
    return [m.decode().header.stamp for m in Bag(session).messages({topic})]


def test_replayed_is_recorded_again(walk, tmp_path):
    """record | replay: every message arrives, in order, the calibration too; the bag is whole.

    Also where the recorder stalls over the end of the replay, whose shared memory ends with its process.
    """
    with (
        recording(tmp_path / "again") as recorder,
        started("replay", walk, "--avatar", "anna", "--wait-for", 1, "--clock") as player,
    ):
        assert "in /anna" in player.stdout.readline()
        time.sleep(1.5)
        recorder.send_signal(signal.SIGSTOP)
        time.sleep(2.5)  # a replay that does not wait for subscribers would have ended by then
        recorder.send_signal(signal.SIGCONT)
        output, _ = player.communicate(timeout=PATIENCE_S)
        assert player.returncode == 0, output
    assert_same_messages(walk, tmp_path / "again")
    first, again = read_session(walk), read_session(tmp_path / "again")
    assert again.damage == ""
    for f, g in zip(first.frames, again.frames, strict=True):
        np.testing.assert_array_equal(f.positions, g.positions)
    assert again.calibration.head_height == first.calibration.head_height
    assert again.truth_skeleton.hash == first.truth_skeleton.hash
    assert set(Bag(tmp_path / "again").topics) == {
        f"/anna/{name}" for name in ("trackers", "calibration", "truth", "truth_skeleton", "landmarks")
    }


def with_landmarks(walk, path):
    """The same session, with landmarks for every third message of its trackers."""
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
    """Every message of /clock is read, and the clock never runs backward between the topics of the session."""
    sent = with_landmarks(walk, tmp_path / "seen")
    with recording(tmp_path / "again"):
        words = ("--avatar", "anna", "--wait-for", 2, "--clock")
        with started("replay", tmp_path / "seen", *words) as player:
            ear.until(lambda: len(ear.heard["landmarks"]) == len(sent))
            ear.until(lambda: player.poll() is not None)
    again = [m.decode() for m in Bag(tmp_path / "again").messages({"/anna/landmarks"})]
    assert len(again) == len(sent)
    for m in (*ear.heard["landmarks"], *again):
        seen = sent[m.header.stamp.sec * 10**9 + m.header.stamp.nanosec]
        np.testing.assert_array_equal(np.asarray(m.positions), np.asarray(seen.positions, np.float32).ravel())
    assert_same_messages(tmp_path / "seen", tmp_path / "again")
    ear.until(lambda: len(ear.clock) >= 2 * len(read_session(walk).frames))
    assert backward(ear.clock) == []


def backward(clock):
    """Backward steps of /clock [ns]."""
    ns = [m.clock.sec * 10**9 + m.clock.nanosec for m in clock]
    return [b - a for a, b in itertools.pairwise(ns) if b < a]


def hear_hangups():
    """For the recorder's process: under nohup it would inherit that SIGHUP is ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def bytes_in(folder):
    return sum(file.stat().st_size for file in folder.iterdir())


def test_a_full_disk_and_kills_leave_recordings_that_can_be_read(walk, ear, tmp_path):
    """A closed terminal sends SIGHUP."""
    signals = {"killed": signal.SIGKILL, "hung_up": signal.SIGHUP}
    cases = [("full", "mcap"), ("full", "sqlite3"), ("killed", "sqlite3"), ("hung_up", "mcap")]
    with ExitStack() as stack:
        recorders = {}
        for end, storage in cases:
            words = ("record", "-o", tmp_path / f"{end}_{storage}", "--avatar", "anna", "--storage", storage)
            recorders[end, storage] = stack.enter_context(
                started(*words, stderr=subprocess.PIPE, preexec_fn=hear_hangups)
            )
        for (end, _), recorder in recorders.items():
            assert "recording" in recorder.stdout.readline()
            if end == "full":  # a limit of the file size replaces a full disk
                resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, (200_000, 200_000))
        stack.enter_context(started("replay", walk, "--avatar", "anna", "--wait-for", 5, "--clock"))
        ear.until(lambda: len(ear.heard["trackers"]) > 180)
        for end, storage in cases:  # a recorder may be slower than this process
            if end in signals:
                wait_until(lambda f=tmp_path / f"{end}_{storage}": bytes_in(f) > 60_000, PATIENCE_S, f"{end} {storage}")
        for (end, _), recorder in recorders.items():
            if end in signals:
                recorder.send_signal(signals[end])
        said = {name: recorder.communicate(timeout=PATIENCE_S) for name, recorder in recorders.items()}
    sent = [f.stamp_ns for f in read_session(walk).frames]
    for (end, storage), recorder in recorders.items():
        _, errors = said[end, storage]
        assert "Traceback" not in errors
        back = read_session(tmp_path / f"{end}_{storage}")
        assert [f.stamp_ns for f in back.frames] == sent[: len(back.frames)]
        assert back.calibration is not None
        assert bool(back.damage) == (end in ("full", "killed"))
        assert recorder.returncode == {"full": 2, "killed": -signal.SIGKILL}.get(end, 0), errors
        if end == "full":
            assert errors.startswith("mm_ros: ") and errors.count("\n") == 1 and "can be read" in errors


def test_in_the_present_with_loop(walk, ear):
    with started("replay", walk, "--avatar", "anna", "--wait-for", 1, "--loop", "--start", 2.5):
        ear.until(lambda: len(ear.heard["trackers"]) > 120)
        ear.until(lambda: all(ear.heard[name] for name in ("calibration", "truth_skeleton", "truth")))
    frames = ear.frames()
    age_s = [time.time() - f.stamp_ns * 1e-9 for f in frames]
    assert max(age_s) < 60 and min(age_s) > -1
    assert {f.epoch for f in frames} >= {0, 1}
    assert (np.diff([f.stamp_ns for f in frames]) > 0).all()
    stamps = {f.stamp_ns for f in frames}
    both = [m for m in ear.heard["truth"] if m.header.stamp.sec * 10**9 + m.header.stamp.nanosec in stamps]
    assert len(both) > 0.5 * len(ear.heard["truth"])  # truth and trackers still meet by stamp


def test_clock_and_pause(walk, ear):
    how = ("--clock", "--loop", "--start", 1.5, "--world-frame", "odom")
    with started("replay", walk, "--avatar", "anna", "--wait-for", 1, *how):
        ear.until(lambda: len(ear.heard["trackers"]) > 30)
        client = ear.node.create_client(SetBool, "replay/pause")
        ear.until(client.service_is_ready)
        assert "paused" in answer_of(client, SetBool.Request(data=True), ear.spin_until).message
        count = -1
        while count != (count := len(ear.heard["trackers"])):
            ear.listen(0.5)  # messages on their way
        ticks = len(ear.clock)
        ear.listen(1.0)
        ear.until(lambda: len(ear.clock) > ticks)
        assert len(ear.heard["trackers"]) == count
        assert ear.clock[-1].clock == ear.clock[ticks].clock  # the time stands still and is still published
        assert answer_of(client, SetBool.Request(data=False), ear.spin_until).success
        ear.until(lambda: ear.heard["trackers"][-1].epoch > 0 and backward(ear.clock))
    assert all(step < -2_500_000_000 for step in backward(ear.clock))  # only loops
    first = read_session(walk).frames[0].stamp_ns
    assert ear.frames()[0].stamp_ns - first < 2 * 10**9  # its own stamps
    assert {m.header.frame_id for name in ("trackers", "calibration") for m in ear.heard[name]} == {"odom"}


def test_ctrl_c_ends_a_replay_that_waits_for_a_graph(walk, ear):
    with started("replay", walk, "--avatar", "unheard", "--wait-for", 1) as player:
        ear.until(lambda: ("replay", "/unheard") in ear.node.get_node_names_and_namespaces())
        player.send_signal(signal.SIGINT)
        assert player.wait(PATIENCE_S) in (0, 130)  # 130: it came while the node was still being made


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_session_of_the_first_version_plays(storage, ear):
    """Calibration and skeleton had other fields then; they are converted to the present definitions."""
    session = read_session(FIRST_VERSION / storage)
    with started("replay", FIRST_VERSION / storage, "--avatar", "anna", "--wait-for", 1, "--loop"):
        ear.until(lambda: all(ear.heard.values()))
    assert calibration_from_ros(ear.heard["calibration"][-1]).head_height == session.calibration.head_height
    assert skeleton_from_ros(ear.heard["truth_skeleton"][-1]).hash == session.truth_skeleton.hash
    assert {avatar_pose_from_ros(m).skeleton for m in ear.heard["truth"]} == {session.truth_skeleton.hash}


def test_nothing_to_record_is_said(tmp_path):
    with started("record", "-o", tmp_path / "none", "--avatar", "nobody", "--seconds", 1) as done:
        done.communicate(timeout=PATIENCE_S)
        assert done.returncode == 1
    with pytest.raises(Exception, match="not one message"):
        read_session(tmp_path / "none", "nobody")


def test_mistakes_are_sentences(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mm_ros", "replay", str(tmp_path / "none")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "does not exist" in done.stderr and "Traceback" not in done.stderr


def test_a_namespace_that_ros_does_not_take_is_a_sentence_and_another_can_be_given(tmp_path, walk, ear):
    session = read_session(walk)
    with SessionWriter(tmp_path / "odd", avatar="9 lives\x1b[31m", truth=False) as writer:
        for frame in session.frames:
            writer.write_frame(frame)
    words = [sys.executable, "-m", "mm_ros", "replay", str(tmp_path / "odd")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert r"its namespace '9 lives\x1b[31m' is not a valid ROS namespace; choose another with --avatar" in done.stderr
    assert "Traceback" not in done.stderr
    with started("replay", tmp_path / "odd", "--avatar", "anna", "--wait-for", 1):
        ear.until(lambda: len(ear.heard["trackers"]) > 10)
