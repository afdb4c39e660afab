"""SONIC's messages over a real ZeroMQ socket on the loopback."""

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
zmq = pytest.importorskip("zmq", reason="pyzmq is not installed (extra 'robot-out')")

from robots import HUMANOID
from test_formats import read_sonic

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import LEFT_UPPER_LEG, default_skeleton
from mm_ros.body.types import AvatarPose, rest_pose
from mm_ros.maths import rotations as rot
from mm_ros.robot.figure import read_figure
from mm_ros.robot.guard import Command
from mm_ros.ros.senders import SonicSender

BASE = np.array([0.0, 0, 0.7, 1, 0, 0, 0])


def received(tmp_path, kind: str, topic: str, command: Command, pose: AvatarPose | None = None, most: int = 200):
    """The header and fields of a message that a real subscriber receives after `most` commands or earlier."""
    address = f"ipc://{tmp_path}/{kind}"
    sender = SonicSender(read_figure(HUMANOID), address, kind)
    receiver = zmq.Context.instance().socket(zmq.SUB)
    try:
        receiver.setsockopt(zmq.SUBSCRIBE, topic.encode())
        receiver.connect(address)
        if pose is not None:
            sender.take(pose, default_skeleton())
        for _ in range(most):  # a subscriber gets what is sent after it has connected
            sender.send(command, BASE)
            if receiver.poll(50):
                break
        return read_sonic(receiver.recv(), topic)
    finally:
        receiver.close(0)
        sender.close()


def test_a_subscriber_receives_the_present_frame_and_predictions(tmp_path):
    command = Command(np.linspace(0, 1, 29), np.full(29, 0.5))
    header, got = received(tmp_path, "sonic", "pose", command)
    assert header["v"] == 1 and got["joint_pos"].shape == (46, 29)  # 0.9 s ahead at 50 Hz
    assert got["joint_pos"][0] == pytest.approx(command.positions, abs=1e-6)
    assert (got["joint_pos"][-1] > got["joint_pos"][0]).all() and np.diff(got["frame_index"]).tolist() == [1] * 45
    assert got["body_quat"][0] == pytest.approx([1, 0, 0, 0])


def test_a_body_starts_from_standing_and_moves_within_the_limits(tmp_path):
    pose = rest_pose(default_skeleton())
    pose.rotations[LEFT_UPPER_LEG] = rot.exp(np.array([0.0, -1.0, 0.0]))  # the thigh forward: −y turns −z to +x
    header, got = received(tmp_path, "sonic_body", "pose", Command(np.zeros(29), np.zeros(29), 1.0), pose)
    assert header["v"] == 3 and got["smpl_pose"].shape == (46, 21, 3) and got["smpl_joints"].shape == (46, 24, 3)
    hips, thigh, arm = got["smpl_pose"][0][[0, 1, 15]]
    assert -1.0 < hips[0] < 0.0 and np.abs(hips[1:]).max() == 0.0  # x of SMPL is our y; 6 rad/s at most
    assert np.abs(thigh).max() == 0.0 and -1.31 < arm[2] < 0.0  # from hanging to the T-pose; z of SMPL is our x
    points = got["smpl_joints"][0]
    assert points[0] == pytest.approx([0, 0, 0]) and points[1][1] > 0 > points[2][1]  # left is +y
    assert points[4][0] > points[5][0]  # the left knee is in front


def test_the_planner_is_switched_on_and_gets_walking_and_three_points(tmp_path):
    command = Command(np.zeros(29), np.zeros(29))
    _, got = received(tmp_path, "sonic_planner", "command", command)
    assert {name: int(value[0]) for name, value in got.items()} == {"start": 1, "stop": 0, "planner": 1}
    header, got = received(tmp_path, "sonic_planner", "planner", command)
    assert got["mode"].tolist() == [0] and got["facing"] == pytest.approx([1, 0, 0]) and header["v"] == 1
    assert got["vr_position"].shape == (9,) and got["vr_orientation"].shape == (12,)


def test_an_address_that_cannot_be_opened_is_a_sentence():
    with pytest.raises(MmRosError, match="cannot be opened"):
        SonicSender(read_figure(HUMANOID), "tcp://256.1.1.1:1")
