"""Faults of a real room: the graph recovers by itself each time, TF stays finite, and no node ends.

Each fault is tried on a process for each node, and on all nodes in one process.
"""

import itertools
import math
import os
import shutil
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

import rclpy
from graph_harness import ATTEMPTS, CHAIN, NodeProcess, World, all_finite, undeclared_leaps
from processes import PATIENCE_S, children, wait_until
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from std_srvs.srv import Trigger

from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import rest_pose, still_trajectory
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.features import HORIZON_S
from mm_ros.ros import graph
from mm_ros.ros.conversions import (
    avatar_pose_to_ros,
    calibration_to_ros,
    skeleton_to_ros,
    stamp_from_ros,
    stamp_to_ros,
    trackers_to_ros,
    trajectory_to_ros,
)
from mm_ros.ros.qos import listener_qos, message_class

TOPICS = ("pose", "/tf", "/diagnostics", "robot_description")


@pytest.fixture(scope="module", autouse=True)
def ros():
    rclpy.init()
    yield
    rclpy.try_shutdown()


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Return a copy of the database that the test may remove."""
    path = tmp_path_factory.mktemp("database") / "own.mmdb"
    shutil.copy(default_database_path(), path)
    return path


@pytest.fixture(scope="module", params=["processes", "composed"])
def world(request, ros, database, tmp_path_factory):
    w = World(
        f"faults_{request.param}", tmp_path_factory.mktemp("faults"), TOPICS, request.param == "composed",
        motion_matcher={"database": database}, mm_ros_up={"motion_matcher.database": database},
    )  # fmt: skip
    yield w
    w.close()


@pytest.fixture(autouse=True)
def no_node_ends(world):
    assert world.walks_on(), "the graph did not walk before the test"
    world.forget()
    yield
    for name, node in world.nodes.items():
        assert node.process.poll() is None, f"{name} ended: {node.said()}"
        assert "Traceback" not in node.said(), f"{name}: {node.said()}"


def said_by(world, node):
    """Return level and message of each status of a node since the last `forget`."""
    wanted = f"{world.avatar}/{node}"
    statuses = [s for m in world.client.received["/diagnostics"] for s in m.status]
    return [(s.level[0], s.message) for s in statuses if s.name == wanted]


def hears(world, node, words, seconds=PATIENCE_S):
    return world.client.spin_until(lambda: any(words in m for _, m in said_by(world, node)), seconds)


def refuses(world, node, publisher, msg, words):
    """Publish until the node reports a refusal: the first message can come before all readers are matched."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        publisher.publish(msg)
        if hears(world, node, words, 0.5):
            return True
    return False


def restart(node):
    starts = node.said().count("]: ready")
    node.start()
    node.wait_ready(starts + (1 if node.name in CHAIN or node.name == "tracker_bridge" else len(CHAIN)))


def test_a_process_that_is_killed_joins_again(world):
    for process in world.nodes.values():
        process.kill()
        world.client.play(world.frames(0.0, 0.3), patience=0.0)
        restart(process)
        assert world.walks_on()
    assert world.client.received["pose"] and not undeclared_leaps(world.client.received["pose"])


def test_a_killed_process_of_nodes_is_replaced_by_the_spare_one_of_its_program(world):
    """The poses go on without a leap, unless they are declared new."""
    for process in world.nodes.values():
        first = children(process.process.pid)[0]
        wait_until(lambda pid=process.process.pid: len(children(pid)) == 2, PATIENCE_S, "the spare process")
        spare = next(pid for pid in children(process.process.pid) if pid != first)
        wait_until(lambda pid=spare: threads(pid) > 5, PATIENCE_S, "DDS in the spare process")
        starts = process.said().count("]: ready")
        world.walk(0.3)
        os.kill(first, signal.SIGKILL)
        process.wait_ready(starts + (1 if process.name in CHAIN else len(CHAIN)))
        assert world.walks_on()
        assert first not in children(process.process.pid) and spare in children(process.process.pid)
    assert not undeclared_leaps(world.client.received["pose"])


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def test_the_avatar_of_a_user_who_walked_away_during_a_kill_is_declared_new(world):
    post = world.nodes.get("pose_postprocessor") or world.nodes["mm_ros_up"]
    world.walk(0.3)
    last = world.client.received["pose"][-1]
    post.kill()
    world.client.play(world.frames(2.5, 1.0), patience=0.0)
    restart(post)
    world.forget()
    world.walk(0.3, first=3.5)
    first = world.fresh_poses()[0]
    assert math.dist(first.root[:2], last.root[:2]) > 1.0
    assert first.run != last.run


def answered(world, frame):
    """Send a frame until a pose has come, so that user and avatar do not walk on meanwhile on a busy machine."""
    until = time.monotonic() + PATIENCE_S
    while world.client.play([frame], patience=0.5, even=True)[0] != world.client.newest_pose_ns:
        assert time.monotonic() < until, "no pose came"


def test_a_listener_that_finds_the_restarted_process_late_sees_no_undeclared_leap(world):
    """As in DDS after a kill: the publisher and a listener may find each other only after the first poses."""
    post = world.nodes.get("pose_postprocessor") or world.nodes["mm_ros_up"]
    t = graph.TOPICS["pose"]
    late = []

    def listening():
        return world.client.node.create_subscription(message_class(t.type), t.name, late.append, listener_qos(t.qos))

    listener = listening()
    assert world.walks_on() and late
    world.walk(0.3)
    last = world.client.received["pose"][-1]
    post.kill()
    world.client.node.destroy_subscription(listener)
    restart(post)
    world.forget()
    late.clear()
    # More than 0.3 m farther; the user stands there if the listener is found late.
    frames = itertools.chain(world.frames(1.0, 3.0), itertools.repeat(world.frames(3.9, 0.1)[-1]))
    answered(world, next(frames))
    until = time.monotonic() + 0.6  # the process waits for its listeners for at most 1.5 s
    while time.monotonic() < until:
        answered(world, next(frames))
    listener, until = listening(), time.monotonic() + PATIENCE_S
    while len(late) < 50:
        assert time.monotonic() < until, "the late listener received too few poses"
        answered(world, next(frames))
    world.client.node.destroy_subscription(listener)
    assert math.dist(late[-1].root[:2], last.root[:2]) > 0.3
    assert not undeclared_leaps([last, late[0]])
    assert not undeclared_leaps(late)


@pytest.fixture
def bridge(world, tmp_path):
    """Bridge that ends with its test, so that it does not drive the avatar in later tests."""
    made = NodeProcess("tracker_bridge", world.avatar, tmp_path / "bridge.log")
    try:
        made.wait_ready()
        yield made
    finally:
        made.kill()


def test_the_bridge_is_killed_and_joins_again(world, bridge):
    def follows():
        world.forget()
        return world.client.spin_until(lambda: len(world.fresh_poses()) > 20, PATIENCE_S)

    assert follows()
    bridge.kill()
    world.forget()
    assert world.client.spin_until(lambda: any(m.stale for m in world.client.received["pose"]), PATIENCE_S)
    restart(bridge)
    assert follows()
    assert bridge.stop() == 0, bridge.said()
    world.client.calibrate(world.calibration)
    assert world.walks_on()


def test_paused_trackers_bring_the_avatar_to_a_stand_and_resumed_ones_move_it(world, bridge):
    world.forget()
    assert world.client.spin_until(lambda: len(world.fresh_poses()) > 10, PATIENCE_S)
    assert world.client.call(Trigger, f"/{world.avatar}/pause", Trigger.Request()).success
    world.forget()
    assert world.client.spin_until(lambda: any(m.stale for m in world.client.received["pose"]), PATIENCE_S)
    assert hears(world, "tracker_bridge", "paused")
    assert world.client.call(Trigger, f"/{world.avatar}/resume", Trigger.Request()).success
    world.forget()
    assert world.client.spin_until(lambda: len(world.fresh_poses()) > 10, PATIENCE_S)
    assert bridge.stop() == 0, bridge.said()
    world.client.calibrate(world.calibration)


def test_without_trackers_the_avatar_stands_where_it_is_and_walks_on(world):
    world.client.play(world.frames(1.0, 1.0))
    poses = world.client.received["pose"]
    assert world.client.spin_until(lambda: poses[-1].stale, PATIENCE_S)
    # On a busy machine the trackers can be late between two samples too, and poses be stale for that time.
    fresh = max(i for i, m in enumerate(poses) if not m.stale)
    first = poses[fresh + 1]
    silent_ns = stamp_from_ros(first.header.stamp) - stamp_from_ros(poses[fresh].header.stamp)
    assert silent_ns >= 150_000_000  # not before silent_s
    began = np.array(first.root[:2])
    world.forget()
    assert hears(world, "trajectory_predictor", "no trackers")

    def stands() -> bool:
        """After a corrective step, which takes a second or two."""
        latest = world.client.received["pose"][-60:]
        return len(latest) == 60 and np.mean([np.linalg.norm(m.root_velocity[:2]) for m in latest]) < 0.1

    assert world.client.spin_until(stands, PATIENCE_S)
    standing = world.client.received["pose"][-60:]
    assert all(m.stale for m in standing)
    assert math.dist(began, standing[-1].root[:2]) < 0.5
    assert world.walks_on()

    def trackers_are_back() -> bool:
        """Walk on. The first status may still describe the time before; on a busy machine samples can be late again."""
        world.forget()
        world.walk(2.5)
        later = [message for _, message in said_by(world, "trajectory_predictor")[1:]]
        return bool(later) and not any("no trackers" in message for message in later)

    assert any(trackers_are_back() for _ in range(ATTEMPTS))


def test_time_that_jumps_back_starts_everything_anew(world):
    for back_s in (1.0, 100.0, 1e9):
        first_ns = world.client.now_ns() - round(back_s * 1e9)
        sent = []
        for i, frame in enumerate(world.frames(0.0, 0.5)):
            frame.stamp_ns = first_ns + i * 11_111_111
            sent.append(frame.stamp_ns)
            world.client.send(frame)
            world.client.spin_until(lambda last=sent[-1]: world.client.newest_pose_ns == last, 0.5)

        def most_became_poses(sent=sent) -> bool:
            stamps = {stamp_from_ros(m.header.stamp) for m in world.client.received["pose"]}
            return len(stamps & set(sent)) > len(sent) // 2

        assert world.client.spin_until(most_became_poses, PATIENCE_S), f"{back_s} s back"
    assert world.walks_on()


def test_a_new_epoch_starts_everything_anew(world):
    frames = world.frames(2.0, 0.5)
    for frame in frames:
        frame.epoch = 77
    world.client.play(frames)
    assert any(m.epoch == 77 for m in world.fresh_poses())
    assert all(all_finite(tf) for tf in world.client.received["/tf"])


def test_a_tracker_that_is_not_a_number_is_refused_and_said(world):
    publish = world.client.trackers.publish
    for frame in world.frames(0.0, 0.2):
        frame.stamp_ns = world.client.now_ns()
        msg = trackers_to_ros(frame)
        msg.trackers[0].pose.position.x = math.nan
        publish(msg)
        world.client.spin(0.01)
    assert hears(world, "trajectory_predictor", "NaN")
    assert world.walks_on()


def test_what_is_not_a_number_between_the_nodes_is_refused(world):
    now = stamp_to_ros(world.client.now_ns())
    desired = trajectory_to_ros(still_trajectory(HORIZON_S))
    desired.source, desired.header.stamp, desired.yaw = "vr", now, math.nan
    pose = avatar_pose_to_ros(rest_pose(default_skeleton()))
    pose.header.stamp, pose.root[0] = now, math.inf
    publishers = {"trajectory": (desired, "motion_matcher"), "matched_pose": (pose, "pose_postprocessor")}
    for topic, (msg, node) in publishers.items():
        publisher = world.client.publisher(topic)
        assert world.client.spin_until(lambda p=publisher: p.get_subscription_count() > 0, PATIENCE_S)
        assert refuses(world, node, publisher, msg, topic)
        world.client.node.destroy_publisher(publisher)
    assert world.walks_on()


def test_one_absurd_size_between_the_nodes_is_refused_and_good_poses_go_on(world):
    """Some cases of test_absurd_messages.py over DDS."""
    now = stamp_to_ros(world.client.now_ns())
    trackers = trackers_to_ros(world.frames(0.0, 0.1)[0])
    trackers.header.stamp, trackers.trackers[0].pose.position.z = now, 1e308
    desired = trajectory_to_ros(still_trajectory(HORIZON_S))
    desired.source, desired.header.stamp, desired.velocity[0] = "vr", now, 1e30
    pose = avatar_pose_to_ros(rest_pose(default_skeleton()))
    pose.header.stamp, pose.positions[0] = now, -1e9
    measured = calibration_to_ros(world.calibration, world.client.now_ns())
    measured.head_height = 1e30
    absurd = {
        "trackers": (trackers, "trajectory_predictor"), "trajectory": (desired, "motion_matcher"),
        "matched_pose": (pose, "pose_postprocessor"), "calibration": (measured, "motion_matcher"),
    }  # fmt: skip
    for topic, (msg, node) in absurd.items():
        world.forget()
        publisher = world.client.publisher(topic)
        assert world.client.spin_until(lambda p=publisher: p.get_subscription_count() > 0, PATIENCE_S)
        assert refuses(world, node, publisher, msg, f"{topic}: ")
        assert any("expected" in m and "came" in m for _, m in said_by(world, node))
        world.client.node.destroy_publisher(publisher)
        assert world.walks_on()
    world.client.calibrate(world.calibration)


def test_a_message_with_too_few_numbers_is_refused(world):
    pose = avatar_pose_to_ros(rest_pose(default_skeleton()))
    pose.rotations = pose.rotations[:8]
    publisher = world.client.publisher("matched_pose")
    assert world.client.spin_until(lambda: publisher.get_subscription_count() > 0, PATIENCE_S)
    assert refuses(world, "pose_postprocessor", publisher, pose, "expected")
    world.client.node.destroy_publisher(publisher)
    assert world.walks_on()


def test_a_foreign_skeleton_and_pose_are_ignored(world):
    stranger = default_skeleton().scaled(1.7)
    skeletons, poses = world.client.publisher("skeleton"), world.client.publisher("matched_pose")
    for publisher in (skeletons, poses):
        assert world.client.spin_until(lambda p=publisher: p.get_subscription_count() > 0, PATIENCE_S)
    skeletons.publish(skeleton_to_ros(stranger, world.client.now_ns(), "stranger"))
    unknown = replace(rest_pose(stranger), skeleton=12345, stamp_ns=world.client.now_ns())
    assert refuses(world, "pose_postprocessor", poses, avatar_pose_to_ros(unknown), "skeleton 3039")
    bad = skeleton_to_ros(stranger, world.client.now_ns(), "bad")
    bad.joints = ["one"]
    skeletons.publish(bad)
    assert world.walks_on()
    world.client.node.destroy_publisher(skeletons)
    world.client.node.destroy_publisher(poses)


def test_the_database_is_removed_and_replaced_while_running(world, database):
    kept = database.with_name("kept")
    os.rename(database, kept)
    assert world.walks_on()
    other = database.with_name("other")
    other.write_bytes(b"this is no database")
    os.replace(other, database)
    assert world.walks_on()
    matcher = world.nodes.get("motion_matcher") or world.nodes["mm_ros_up"]
    matcher.kill()
    matcher.start()
    assert matcher.process.wait(PATIENCE_S) == 2
    assert str(database) in matcher.said()
    os.replace(kept, database)
    restart(matcher)
    assert world.walks_on()


def test_a_storm_of_parameters_does_not_stop_the_avatar(world):
    storm = {
        "motion_matcher": ("quality", "responsiveness", "position_accuracy"),
        "pose_postprocessor": ("blend_halflife", "lock_halflife"),
        "trajectory_predictor": ("velocity_halflife",),
        "orientation_predictor": ("halflife",),
    }
    clients = {n: world.client.node.create_client(SetParameters, f"{n}/set_parameters") for n in storm}
    assert all(c.wait_for_service(timeout_sec=PATIENCE_S) for c in clients.values())
    futures = []
    rng = np.random.default_rng(0)
    for frame in world.frames(0.0, 1.0):
        for node, names in storm.items():
            value = ParameterValue(
                type=ParameterType.PARAMETER_DOUBLE, double_value=float(rng.choice([0.02, 0.1, 0.3, 1e6, math.nan]))
            )
            request = SetParameters.Request(parameters=[Parameter(name=n, value=value) for n in names])
            futures.append(clients[node].call_async(request))
        world.client.play([frame], patience=0.05)
        # A node queues ten requests and DDS drops the others, so the eighth before this one is waited for.
        world.client.spin_until(lambda: all(f.done() for f in futures[-32:-28]), 1.0)
    world.client.spin_until(lambda: all(f.done() for f in futures), 10.0)
    answers = [f.result() for f in futures if f.done()]
    assert len(answers) > len(futures) / 2
    assert any(r.successful for a in answers for r in a.results)
    assert any(not r.successful for a in answers for r in a.results)
    last = [c.call_async(SetParameters.Request()) for c in clients.values()]
    assert world.client.spin_until(lambda: all(f.done() for f in last), PATIENCE_S)
    assert world.walks_on()
    for client in clients.values():
        world.client.node.destroy_client(client)


def test_a_thousand_samples_a_second_are_survived(world):
    frame = world.frames(0.0, 0.1)[0]
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        world.client.send_now(frame)
        world.client.executor.spin_once(0.0)
        time.sleep(0.0007)
    assert world.walks_on()
    assert all(all_finite(tf) for tf in world.client.received["/tf"])
