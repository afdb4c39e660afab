"""The composed graph with each kind of input, and with less TF: `mm_ros up` as a user starts it."""

import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

import rclpy
from geometry_msgs.msg import PoseStamped, Twist, Vector3
from graph_harness import Client, NodeProcess, track_of, walking_clip
from nav_msgs.msg import Path
from processes import PATIENCE_S, end, warm
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from toys import with_tiny_hands

from mm_ros.base.own_python import module_command
from mm_ros.body.types import HEAD_ROLE, LEFT_HAND_ROLE, RIGHT_HAND_ROLE
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.files import read_database, write_database
from mm_ros.ros.bench.graph import family
from mm_ros.ros.conversions import pose_to_ros, stamp_from_ros, stamp_to_ros


@pytest.fixture(scope="module", autouse=True)
def ros():
    warm()
    rclpy.init()
    yield
    rclpy.try_shutdown()


class Up(NodeProcess):
    def __init__(self, avatar, log, *words):
        self.name, self.log = "mm_ros up", log
        self._command = module_command("mm_ros", "up", "--avatar", avatar, *words)
        self.start()


@contextmanager
def up(tmp_path, avatar, *words, nodes=5):
    client = Client(avatar, ("pose", "/tf", "trajectory", "trackers"))
    try:
        with Up(avatar, tmp_path / "log", *words) as process:
            process.wait_ready(nodes)
            yield client
            assert process.stop() == 0, process.said()
    finally:
        client.close()


USERS = """
left: {source: synthetic, seed: 3}
right: {source: synthetic, seed: 4, place: [0, 5]}
"""


def test_a_crash_of_one_process_stops_its_own_avatars_alone_and_they_come_back(tmp_path):
    (tmp_path / "users.yaml").write_text(USERS)
    clients = [Client(avatar, ("pose",)) for avatar in ("left", "right")]

    def until(done):
        return clients[0].spin_until(lambda: clients[1].spin(0.002) or done(*map(poses, clients)), PATIENCE_S)

    try:
        words = ("--users", str(tmp_path / "users.yaml"), "--per-process", "1")
        with Up("unused", tmp_path / "log", *words) as up:
            up.wait_ready(10)
            assert until(lambda a, b: min(a, b) > 30)
            before = sorted(family(up.process.pid)[1:])[:2]  # a spare process is younger
            os.kill(before[0], signal.SIGKILL)
            for client in clients:
                client.spin(0.05)  # poses on their way
                client.received["pose"].clear()
            assert until(lambda a, b: max(a, b) > 15)
            killed, other = sorted(clients, key=poses)
            assert poses(killed) < poses(other)
            killed.received["pose"].clear()
            assert until(lambda a, b: poses(killed) > 30), up.said()
            after = family(up.process.pid)[1:]
            assert before[1] in after and before[0] not in after
            assert "it is started again" in up.said()
            assert up.stop() == 0, up.said()
    finally:
        for client in clients:
            client.close()


def test_the_published_urdf_of_a_database_with_a_bone_of_a_fifth_of_a_millimetre(tmp_path):
    usual = read_database(default_database_path())
    path = tmp_path / "tiny.mmdb"
    write_database(replace(usual, skeleton=with_tiny_hands(usual.skeleton, 2e-4)), path)
    client = Client("tiny", ("robot_description",))
    try:
        with Up("tiny", tmp_path / "log", "--trackers", "synthetic", "--database", str(path)) as process:
            bodies = client.received["robot_description"]
            assert client.spin_until(lambda: bool(bodies), PATIENCE_S), process.said()
            lengths = [float(n) for n in re.findall(r'<cylinder [^>]*length="([^"]*)"', bodies[-1].data)]
            assert sum(n < 2e-4 for n in lengths) > 2 and min(lengths) > 0
            assert process.stop() == 0, process.said()
    finally:
        client.close()


def poses(client):
    return len(client.received["pose"])


def frames_of(client, avatar):
    """Child frames of this avatar on TF, without its name."""
    names = {t.child_frame_id for m in client.received["/tf"] for t in m.transforms}
    return {n.partition("/")[2] for n in names if n.startswith(f"{avatar}/")}


def test_tf_of_the_root_alone_of_all_joints_and_none(tmp_path):
    with up(tmp_path, "few", "--tf", "root") as client:
        # DDS connects each topic by itself, so that poses can arrive some time before TF.
        assert client.spin_until(lambda: poses(client) > 30 and len(client.received["/tf"]) > 5, PATIENCE_S)
        assert frames_of(client, "few") == {"root"}
        text = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="joints")
        request = SetParameters.Request(parameters=[Parameter(name="tf", value=text)])
        assert client.call(SetParameters, "/few/pose_postprocessor/set_parameters", request).results[0].successful
        assert client.spin_until(lambda: {"root", "hips", "head"} <= frames_of(client, "few"), PATIENCE_S)
        text.string_value = "off"
        assert client.call(SetParameters, "/few/pose_postprocessor/set_parameters", request).results[0].successful
        # transforms that were under way
        assert client.spin_until(lambda: time.monotonic() - client.arrived["/tf"][-1] > 0.5, PATIENCE_S)
        client.received["/tf"].clear()
        client.received["pose"].clear()
        assert client.spin_until(lambda: poses(client) > 30, PATIENCE_S)
        assert not frames_of(client, "few")
        text.string_value = "some"
        refused = client.call(SetParameters, "/few/pose_postprocessor/set_parameters", request).results[0]
        assert not refused.successful and "joints, root, off" in refused.reason


def test_poses_of_devices_on_topics(tmp_path):
    track, names = track_of(walking_clip()), ("head_pose", "left_pose", "right_pose")
    with up(tmp_path, "parts", "--trackers", "topics") as client:
        publishers, sent = [client.publisher(name) for name in names], 0

        def followed():
            nonlocal sent
            frame, now = track.frame(sent % len(track)), stamp_to_ros(client.now_ns())
            for role, publisher in zip((HEAD_ROLE, LEFT_HAND_ROLE, RIGHT_HAND_ROLE), publishers, strict=True):
                msg = PoseStamped(pose=pose_to_ros([*frame.positions[role], *frame.rotations[role]]))
                msg.header.stamp, msg.header.frame_id = now, "map"
                publisher.publish(msg)
            sent += 1
            client.spin(1 / 90)
            return sum(not m.stale for m in client.received["pose"]) > 20

        assert client.spin_until(followed, PATIENCE_S)


def test_a_velocity_command_moves_the_avatar(tmp_path):
    with up(tmp_path, "driven", "--control", "joystick", nodes=3) as client:
        commands = client.publisher("cmd_vel")

        def away():
            commands.publish(Twist(linear=Vector3(x=1.0)))
            client.spin(0.02)
            return any(m.root[0] > 0.5 for m in client.received["pose"][-1:])

        assert client.spin_until(away, PATIENCE_S)


def test_the_avatar_walks_along_a_path(tmp_path):
    with up(tmp_path, "walker", "--control", "path", nodes=3) as client:
        paths, msg = client.publisher("path"), Path()
        msg.header.frame_id = "map"
        for i in range(5):
            point = PoseStamped()
            point.pose.position.x = float(i)
            msg.poses.append(point)
        assert client.spin_until(lambda: paths.get_subscription_count() > 0, PATIENCE_S)
        paths.publish(msg)
        assert client.spin_until(lambda: any(m.root[0] > 1.0 for m in client.received["pose"][-1:]), PATIENCE_S)


def test_a_session_is_replayed_in_its_own_time(tmp_path):
    session = str(tmp_path / "session")
    subprocess.run(module_command("mm_ros", "synth", "session", "--seconds", "4", "-o", session), check=True)
    with up(tmp_path, "again", "--trackers", "none", "--use-sim-time", nodes=4) as client:
        command = module_command("mm_ros", "replay", session, "--clock", "--loop", "--avatar", "again")
        replay = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:

            def stamps(topic):
                messages = [m for m in client.received[topic] if topic != "pose" or not m.stale]
                return {stamp_from_ros(m.header.stamp) for m in messages}

            assert client.spin_until(lambda: len(stamps("trackers") & stamps("pose")) > 60, PATIENCE_S)
        finally:
            end(replay)
