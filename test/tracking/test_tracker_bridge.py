"""The bridge as a node: sources, calibration by service, poses of another bridge."""

import copy
import dataclasses
import time

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy", reason="no ROS here")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from fields import CALIBRATION, LANDMARKS, POSE, SKELETON, TRACKERS, OneTracker, check_fields
from geometry_msgs.msg import PoseStamped
from processes import PATIENCE_S
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from mm_ros.base.errors import MmRosError
from mm_ros.body.types import CHEST_ROLE, LOST, TRACKED, Calibration, TrackerFrame
from mm_ros.ros import graph
from mm_ros.ros.conversions import (
    avatar_pose_from_ros,
    calibration_from_ros,
    landmarks_from_ros,
    stamp_from_ros,
    trackers_from_ros,
)
from mm_ros.ros.nodes.tracker_bridge import TrackerBridge
from mm_ros.ros.qos import listener_qos, message_class
from mm_ros.sessions.session import write_session
from mm_ros.sessions.tables import COLUMNS
from mm_ros.tracking.files import read_calibration
from mm_ros.tracking.hands import FittedHands
from mm_ros.tracking.landmark_simulation import COMMON
from mm_ros.tracking.session_making import session_of_clips
from mm_ros.tracking.sources.synthetic import user_clip


class Bench:
    """A bridge and a listening node on one executor."""

    def __init__(self, **parameters):
        given = [Parameter(name, value=value) for name, value in parameters.items()]
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.bridge = TrackerBridge(parameter_overrides=given, namespace="anna", context=self.context)
        self.node = rclpy.create_node("listener", namespace="anna", context=self.context)
        self.heard = {
            name: []
            for name in ("trackers", "calibration", "truth", "truth_skeleton", "landmarks", "/tf", "/diagnostics")
        }
        for name, heard in self.heard.items():
            t = graph.TOPICS[name]
            self.node.create_subscription(message_class(t.type), t.name, heard.append, listener_qos(t.qos))
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.bridge)
        self.executor.add_node(self.node)

    def until(self, condition, seconds=PATIENCE_S):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, {name: len(heard) for name, heard in self.heard.items()}
            self.executor.spin_once(timeout_sec=0.05)

    def call(self, name):
        client = self.node.create_client(Trigger, name)
        self.until(client.service_is_ready)
        future = client.call_async(Trigger.Request())
        self.until(future.done)
        return future.result()

    def close(self):
        self.bridge.close()
        self.bridge.destroy_node()
        self.node.destroy_node()
        self.executor.shutdown()
        rclpy.shutdown(context=self.context)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("MM_ROS_USERS", str(tmp_path / "users"))
    made = []

    def make(**parameters):
        made.append(Bench(**parameters))
        return made[-1]

    yield make
    for b in made:
        b.close()


def test_a_synthetic_user_with_truth_and_measures(bench):
    b = bench(source="synthetic", seed=3)
    b.until(lambda: len(b.heard["trackers"]) > 60 and len(b.heard["truth"]) > 60)
    frames = [trackers_from_ros(m) for m in b.heard["trackers"]]
    assert (frames[-1].state[:3] == TRACKED).all()
    steps = np.diff([f.stamp_ns for f in frames]) * 1e-9
    np.testing.assert_allclose(steps[steps < 0.02], 1 / 90, atol=1e-6)
    truths = {stamp_from_ros(m.header.stamp): avatar_pose_from_ros(m) for m in b.heard["truth"]}
    both = [f for f in frames if f.stamp_ns in truths]
    assert len(both) > 30
    for f in both:  # the head is above the true root
        assert np.linalg.norm(f.positions[0, :2] - truths[f.stamp_ns].root[:2]) < 0.5
    calibration = calibration_from_ros(b.heard["calibration"][-1])
    assert calibration.calibrated and calibration.head_height == pytest.approx(1.67, abs=0.01)
    assert b.heard["truth_skeleton"][-1].hash == b.heard["truth"][-1].skeleton
    names = {t.child_frame_id for m in b.heard["/tf"] for t in m.transforms}
    assert names == {"anna/tracker/head", "anna/tracker/left_hand", "anna/tracker/right_hand"}
    assert "nothing to calibrate" in b.call("calibrate").message


def pose(node, stamp_ns, z=1.6, x=0.0):
    msg = PoseStamped()
    msg.header.stamp.sec, msg.header.stamp.nanosec = stamp_ns // 10**9, stamp_ns % 10**9
    msg.pose.position.x, msg.pose.position.z = x, z
    msg.pose.orientation.w = 1.0
    return msg


def test_a_sessions_landmarks_are_told_in_the_time_of_its_trackers(bench, tmp_path):
    write_session(tmp_path / "seen", session_of_clips([user_clip(2.0)], camera=COMMON))
    b = bench(source="session", path=str(tmp_path / "seen"))
    b.until(lambda: len(b.heard["landmarks"]) > 20 and len(b.heard["trackers"]) > 60)
    seen = [landmarks_from_ros(m).stamp_ns for m in b.heard["landmarks"]]
    samples = [trackers_from_ros(m).stamp_ns for m in b.heard["trackers"]]
    assert samples[0] < seen[0] < seen[-1] < samples[-1] + 50_000_000


def test_every_field_of_the_bridges_messages_is_what_it_had(bench, tmp_path):
    session = session_of_clips([user_clip(2.0)], camera=COMMON)
    session.calibration = Calibration("anna", True, "seated", 1.6, 0.02, 1.5, 0.1, 0.03, 0.04, 0.05, "unsure")
    for frame in session.frames:
        frame.epoch, frame.new_from_old = 3, np.array([0.001, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    feet = np.ones(2, bool)
    marks = {"epoch": 3, "run": 5, "segment": 6, "stale": True, "contacts": feet, "locked": feet}
    session.truth = [dataclasses.replace(pose, **marks) for pose in session.truth]
    session.sightings = [
        dataclasses.replace(s, landmarks=dataclasses.replace(s.landmarks, epoch=2)) for s in session.sightings
    ]
    write_session(tmp_path / "anna", session)
    b = bench(source="session", path=str(tmp_path / "anna"))
    frames, truths, seen = {}, {}, {}
    publish, tell, see = b.bridge._publish, b.bridge._source.truth, b.bridge._source.landmarks
    b.bridge._publish = lambda frame: (frames.update({frame.stamp_ns: copy.deepcopy(frame)}), publish(frame))

    def truth():
        told = tell()
        truths.update({} if told is None else {told.stamp_ns: told})
        return told

    def landmarks():
        new = see()
        seen.update({m.stamp_ns: m for m in new})
        return new

    b.bridge._source.truth, b.bridge._source.landmarks = truth, landmarks
    b.until(lambda: all(len(b.heard[name]) > 20 for name in ("trackers", "truth", "landmarks")))

    def pairs(topic, made):
        return [(m, made[stamp_from_ros(m.header.stamp)]) for m in b.heard[topic]]

    check_fields(pairs("trackers", frames), TRACKERS)
    check_fields([(t, OneTracker(frame, t.role)) for m, frame in pairs("trackers", frames) for t in m.trackers])
    check_fields(pairs("truth", truths), POSE, always_empty={"feet"})
    check_fields(pairs("landmarks", seen), LANDMARKS)
    check_fields([(m, session.calibration) for m in b.heard["calibration"]], CALIBRATION)
    names = {"name": lambda _: "truth"}
    check_fields([(m, session.truth_skeleton) for m in b.heard["truth_skeleton"]], {**SKELETON, **names})


def test_another_bridges_topics_then_calibrated(bench):
    b = bench(source="topics", head_topic="/quest/head", tracker_topics=["chest=/chest"], still_s=1.0, user="ben")
    chest = b.node.create_publisher(PoseStamped, "/chest", 10)
    head = b.node.create_publisher(PoseStamped, "/quest/head", 10)
    left = b.node.create_publisher(PoseStamped, "left_pose", 10)
    b.until(lambda: head.get_subscription_count() and left.get_subscription_count() and chest.get_subscription_count())
    assert not b.call("calibrate").success
    count = 0

    def send_and_look():
        nonlocal count
        now_ns = b.node.get_clock().now().nanoseconds
        left.publish(pose(b.node, now_ns - 2_000_000, 1.1))
        chest.publish(pose(b.node, now_ns, 1.3 + 0.001 * np.sin(count)))
        head.publish(pose(b.node, now_ns, 1.6 + 0.001 * np.sin(count)))
        count += 1
        for _ in range(8):
            b.executor.spin_once(timeout_sec=0.002)
        return any(calibration_from_ros(m).calibrated for m in b.heard["calibration"])

    b.until(send_and_look)
    frames = [trackers_from_ros(m) for m in b.heard["trackers"]]
    frame = next(f for f in frames if list(f.state[:3]) == [TRACKED, TRACKED, 0])
    assert any(f.state[CHEST_ROLE] == TRACKED for f in frames)
    assert frame.stamp_ns - frame.sampled_ns[1] == pytest.approx(2_000_000, abs=200_000_000)
    assert calibration_from_ros(b.heard["calibration"][-1]).head_height == pytest.approx(1.6, abs=0.002)
    answer = b.call("calibrate")
    assert answer.success, answer.message
    assert "chest: " in answer.message
    assert read_calibration("ben").head_height == pytest.approx(1.6, abs=0.002)


def test_gate_settings_are_live_parameters(bench):
    b = bench(source="synthetic")
    results = b.bridge.set_parameters([Parameter("blend_speed", value=2.0)])
    assert results[0].successful
    assert b.bridge._stages.gate.settings.blend_speed == 2.0
    assert b.bridge._stages.gate.settings.frozen_s == 0.0  # a synthetic user may stand perfectly still
    assert not b.bridge.set_parameters([Parameter("blend_speed", value=-1.0)])[0].successful
    assert "start" in b.bridge.set_parameters([Parameter("source", value="openxr")])[0].reason


def test_a_refused_change_leaves_all_as_it_was(bench):
    """This also holds when a stage has applied a part of it, or raises an unexpected exception."""
    b = bench(source="synthetic")
    apply, faults = b.bridge.apply_settings, [RuntimeError("half done")]

    def failing():
        apply()
        if faults:
            raise faults.pop()

    b.bridge.apply_settings = failing
    result = b.bridge.set_parameters([Parameter("blend_speed", value=2.0)])[0]
    assert not result.successful and "half done" in result.reason
    assert b.bridge._stages.gate.settings.blend_speed == 0.7


def test_measures_that_cannot_be_kept_do_not_end_the_bridge(bench, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MM_ROS_USERS", str(tmp_path / "file" / "users"))
    b = bench(source="topics", user="ben")
    b.bridge._stages.calibrator.measure = lambda: (True, "ben: headset at 1.60 m when standing")
    answer = b.call("calibrate")
    assert answer.success and "not saved" in answer.message
    b.bridge._stages.calibrator.current = dataclasses.replace(b.bridge._stages.calibrator.current, user="../ben")
    assert "not saved" in b.call("calibrate").message


def test_what_was_measured_without_a_request_survives_a_crash(bench):
    b = bench(source="topics", user="ben", hand_pose="steamvr_raw")
    measured = dataclasses.replace(Calibration(), user="ben", calibrated=True, head_height=1.55, arm_span=1.5)
    b.bridge._stages.calibrator.current = measured
    b.bridge._stages.calibrator.step = lambda frame: measured
    b.bridge._stages.hands.restore(FittedHands([[0.8, 0.0, -0.6], None], [[0.01, 0.02, 0.0], None]))
    b.bridge._calibrate_from(TrackerFrame(1))  # the bridge is not closed after this, as in a crash
    again = bench(source="topics", user="ben", hand_pose="steamvr_raw")
    again.until(lambda: again.heard["calibration"])
    calibration = calibration_from_ros(again.heard["calibration"][-1])
    assert calibration.calibrated and calibration.head_height == 1.55 and calibration.arm_span == 1.5
    fitted = again.bridge._stages.hands.fitted()
    assert fitted.fingers[0] == [0.8, 0.0, -0.6] and fitted.offsets == [[0.01, 0.02, 0.0], None]
    assert "hand poses are steamvr_raw" in again.bridge._stages.hands.report()
    other = bench(source="topics", user="eve", hand_pose="steamvr_raw")
    assert not other.bridge._stages.calibrator.current.calibrated


def test_the_user_gives_the_places_of_headset_and_controllers(bench):
    given = {"headset_place": [0.12, 0.0, 0.05], "grip_place": [0.01, 0.09, -0.02]}
    b = bench(source="topics", user="ben", hand_pose="steamvr_raw", **given)
    b.until(lambda: b.heard["calibration"])
    calibration = calibration_from_ros(b.heard["calibration"][-1])
    np.testing.assert_allclose(calibration.headset_in_head[:3], [0.12, 0.0, 0.05])
    np.testing.assert_allclose(calibration.right_grip_in_hand[:3], [0.01, -0.09, -0.02])
    assert b.bridge._stages.hands.grips_given and "was set" in b.bridge._stages.hands.report()
    measured = dataclasses.replace(b.bridge._stages.calibrator.current, calibrated=True)
    b.bridge._stages.calibrator.current = measured
    b.bridge._keep_measures()
    again = bench(source="topics", user="ben")  # the places are kept
    np.testing.assert_allclose(again.bridge._stages.calibrator.current.headset_in_head[:3], [0.12, 0.0, 0.05])
    assert again.bridge._stages.hands.grips_given
    with pytest.raises(MmRosError, match="headset_place: expected three numbers"):
        bench(source="topics", headset_place=[0.1, 0.2])


def table(path, frames, hands_from_s=0.0):
    """Write the devices of frames (head, hands) as a table of poses. The controllers are switched on after a while."""
    lines = [",".join(COLUMNS)]
    for f in frames:
        for role, name in enumerate(("head", "left_hand", "right_hand")):
            (w, x, y, z), at = f.rotations[role], f.positions[role]
            if role and f.stamp_ns * 1e-9 < hands_from_s:
                continue
            lines.append(f"{f.stamp_ns * 1e-9},{name},{at[0]},{at[1]},{at[2]},{x},{y},{z},{w}")
    path.write_text("\n".join(lines))
    return str(path)


def user_at_rest(seconds):
    """A user who sways, with hands that hang at the sides."""
    for i in range(int(seconds * 90)):
        f, sway = TrackerFrame(round(i * 1e9 / 90)), 0.01 * np.sin(i / 30)
        f.positions[:3] = (0.0, sway, 1.7 + sway / 5), (0.1, 0.25 + sway, 0.85), (0.1, -0.25 + sway, 0.85)
        yield f


def warned(b, words):
    return any(words in s.message for m in b.heard["/diagnostics"] for s in m.status)


@pytest.mark.parametrize("on_s", [0.0, 2.0])
def test_exchanged_controllers_are_reported_and_swapped(bench, tmp_path, on_s):
    """Also after the bridge has reported that all is well. test_hands.py: found within 0.5 s."""
    frames = list(user_at_rest(6.0))
    for f in frames:
        f.positions[[1, 2]] = f.positions[[2, 1]]
    b = bench(source="session", path=table(tmp_path / "exchanged.csv", frames, on_s), hand_pose="wrist")
    b.until(lambda: warned(b, "the controllers are in the wrong hands"))
    got = [trackers_from_ros(m) for m in b.heard["trackers"]]
    held = [f for f in got if (f.state[1:3] == TRACKED).all()]
    assert held and all(f.positions[1, 1] > 0.2 > -0.2 > f.positions[2, 1] for f in held)


def test_a_headset_that_repeats_its_pose_is_reported_as_lost(bench, tmp_path):
    """test_gate.py: it is lost once, without a new epoch."""
    frames = list(user_at_rest(8.0))
    for f in frames[90:]:
        f.positions[0] = frames[90].positions[0]
    b = bench(source="session", path=table(tmp_path / "frozen.csv", frames), hand_pose="wrist")
    b.until(lambda: warned(b, "head is lost"))
    assert any(trackers_from_ros(m).state[0] == LOST for m in b.heard["trackers"])


def test_an_origin_at_the_head_is_reported(bench, tmp_path):
    frames = list(user_at_rest(6.0))
    for f in frames:
        f.positions[:3, 2] -= 1.7
    b = bench(source="session", path=table(tmp_path / "origin.csv", frames), hand_pose="wrist")
    b.until(lambda: warned(b, "origin"))
    heads = [trackers_from_ros(m).positions[0, 2] for m in b.heard["trackers"]]
    assert heads[-1] == pytest.approx(1.68, abs=0.1)  # above the estimated floor


def test_reset_is_a_new_epoch(bench):
    b = bench(source="synthetic")
    b.until(lambda: b.heard["trackers"])
    first = b.heard["trackers"][-1].epoch
    assert b.call("tracker_bridge/reset").success
    b.until(lambda: b.heard["trackers"][-1].epoch > first)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"source": "mocap"}, "needs a path"),
        ({"source": "session", "path": "/nowhere"}, "does not exist"),
        ({"source": "topics", "topics_axes": "blender"}, "ros, openxr"),
        ({"source": "steamvr", "steamvr_serials": ["tail=LHR-1"]}, "'tail' is not among"),
        ({"source": "telepathy"}, "is not among"),
    ],
)
def test_mistakes_are_sentences(bench, parameters, words):
    with pytest.raises(MmRosError, match=words):
        bench(**parameters)
