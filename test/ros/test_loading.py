"""Files named by a parameter: they are loaded while the graph continues; unreadable files are refused."""

import os
import shutil
import threading
import time

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

import rclpy
from graph_harness import Client
from processes import PATIENCE_S
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import open_regular
from mm_ros.body.types import Calibration, still_trajectory
from mm_ros.motion.default_database import default_database_path
from mm_ros.motion.features import HORIZON_S
from mm_ros.motion.files import read_database
from mm_ros.ros.conversions import trajectory_to_ros
from mm_ros.ros.loop import Loop
from mm_ros.ros.nodes import motion_matcher

WAIT_S = PATIENCE_S


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path, make):
    make(tmp_path / "x")
    for read in (open_regular, read_database):
        with pytest.raises(MmRosError, match=r"x: cannot be read \(it is not a regular file\)"):
            read(tmp_path / "x")


@pytest.mark.parametrize("name", ["/dev/zero", "/nowhere/x", "a\0b"])
def test_a_device_a_missing_file_and_a_name_that_cannot_be_are_sentences(name):
    with pytest.raises(MmRosError, match="cannot be read"):
        open_regular(name)


class Matching:
    """Matcher in this process, spun by a separate thread, and a publisher of trajectories."""

    def __init__(self):
        self.loop = Loop()
        self.node = motion_matcher.MotionMatcher(loop=self.loop, namespace="loading")
        self.thread = threading.Thread(target=self.loop.spin, daemon=True)
        self.thread.start()
        self.client = Client("loading", ("matched_pose",))
        self.client.calibrate(Calibration(calibrated=True))
        self._trajectory = self.client.publisher("trajectory")
        self._set = self.client.node.create_client(SetParameters, "/loading/motion_matcher/set_parameters")
        assert self._set.wait_for_service(WAIT_S)

    def goes_on(self, source="vr"):
        """Return whether ten more poses arrive."""
        wanted, until = len(self.client.received["matched_pose"]) + 10, time.monotonic() + WAIT_S
        desired = trajectory_to_ros(still_trajectory(HORIZON_S))
        desired.source = source
        while len(self.client.received["matched_pose"]) < wanted and time.monotonic() < until:
            desired.header.stamp = self.client.node.get_clock().now().to_msg()
            self._trajectory.publish(desired)
            self.client.spin(0.02)
        return len(self.client.received["matched_pose"]) >= wanted

    def ask(self, value, name="database"):
        given = Parameter(name, value=str(value)).to_parameter_msg()
        return self._set.call_async(SetParameters.Request(parameters=[given]))

    def answer(self, future):
        assert self.client.spin_until(future.done, WAIT_S)
        return future.result().results[0]

    def close(self):
        self.loop.stop()
        self.thread.join(10)
        self.client.close()
        self.node.destroy_node()


@pytest.fixture(scope="module")
def matching():
    rclpy.init()
    made = Matching()
    yield made
    made.close()
    rclpy.try_shutdown()


def test_the_graph_goes_on_while_a_database_is_read_and_then_takes_it(matching, tmp_path, monkeypatch):
    own, may_go_on, reading = tmp_path / "own.mmdb", threading.Event(), threading.Event()
    shutil.copy(default_database_path(), own)

    def slow(path, *more):
        reading.set()
        assert may_go_on.wait(WAIT_S)
        return read_database(path, *more)

    monkeypatch.setattr(motion_matcher, "read_database", slow)
    try:
        assert matching.goes_on()
        before = matching.node._database
        asked = matching.ask(own)
        assert matching.client.spin_until(reading.is_set, WAIT_S)
        assert matching.goes_on()
        assert not asked.done()
        assert matching.node._database is before
    finally:
        may_go_on.set()
    assert matching.answer(asked).successful
    assert matching.node._database is not before
    assert matching.goes_on()


def test_a_pipe_and_a_broken_file_are_refused_and_the_old_one_stays(matching, tmp_path):
    os.mkfifo(tmp_path / "pipe.mmdb")
    (tmp_path / "broken.mmdb").write_bytes(b"MMROSDB\0" + b"\xff" * 100)
    before = matching.node._database
    for name in ("pipe.mmdb", "broken.mmdb", "none.mmdb"):
        answer = matching.answer(matching.ask(tmp_path / name))
        assert not answer.successful
        assert name in answer.reason
        assert matching.node._database is before
        assert matching.goes_on()


def test_a_change_of_the_followed_source_takes_effect_at_once(matching):
    assert matching.goes_on()
    try:
        assert matching.answer(matching.ask("path", "follow")).successful
        assert matching.goes_on("path")
    finally:
        for value in ("vr", ""):
            assert matching.answer(matching.ask(value, "follow")).successful
            assert matching.goes_on()
