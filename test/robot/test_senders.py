"""SONIC's messages over a real ZeroMQ socket on the loopback."""

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
zmq = pytest.importorskip("zmq", reason="pyzmq is not installed (extra 'robot-out')")

from robots import HUMANOID
from test_formats import read_sonic

from mm_ros.base.errors import MmRosError
from mm_ros.robot.figure import read_figure
from mm_ros.robot.guard import Command
from mm_ros.ros.senders import SonicSender

BASE = np.array([0.0, 0, 0.7, 1, 0, 0, 0])


def test_a_subscriber_receives_the_present_frame_and_predictions(tmp_path):
    address = f"ipc://{tmp_path}/sonic"
    sender = SonicSender(read_figure(HUMANOID), address)
    receiver = zmq.Context.instance().socket(zmq.SUB)
    try:
        receiver.setsockopt(zmq.SUBSCRIBE, b"pose")
        receiver.connect(address)
        command = Command(np.linspace(0, 1, 29), np.full(29, 0.5))
        for _ in range(200):  # a subscriber gets what is sent after it has connected
            sender.send(command, BASE)
            if receiver.poll(50):
                break
        header, got = read_sonic(receiver.recv(), "pose")
    finally:
        receiver.close(0)
        sender.close()
    assert header["v"] == 1 and got["joint_pos"].shape == (46, 29)  # 0.9 s ahead at 50 Hz
    assert got["joint_pos"][0] == pytest.approx(command.positions, abs=1e-6)
    assert (got["joint_pos"][-1] > got["joint_pos"][0]).all() and np.diff(got["frame_index"]).tolist() == [1] * 45
    assert got["body_quat"][0] == pytest.approx([1, 0, 0, 0])


def test_an_address_that_cannot_be_opened_is_a_sentence():
    with pytest.raises(MmRosError, match="cannot be opened"):
        SonicSender(read_figure(HUMANOID), "tcp://256.1.1.1:1")
