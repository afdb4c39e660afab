"""The running graph as a ROS user sees it, with the real `ros2` command line where it is installed."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import PATIENCE_S, running

from mm_ros.ros import graph

ROS2 = shutil.which("ros2")
pytestmark = pytest.mark.skipif(ROS2 is None, reason="the real `ros2` is not here: source a ROS 2 setup first")

CHECKOUT = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")])),
    "PYTHONUNBUFFERED": "1",
    "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
}
START_S = 240.0


@pytest.fixture(scope="module", autouse=True)
def up(tmp_path_factory):
    log = tmp_path_factory.mktemp("tools") / "log"
    command = [sys.executable, "-m", "mm_ros", "up", "--avatar", "tools", "--visualizer"]
    with (
        log.open("wb") as handle,
        running(command, env=ENVIRONMENT, cwd=CHECKOUT, stdout=handle, stderr=subprocess.STDOUT) as process,
    ):
        until = time.monotonic() + START_S
        while log.read_text().count("]: ready") < 6:
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield
    ros2("daemon", "stop")  # `ros2` starts the daemon, which would outlive the tests


def ros2(*words: str, seconds: float = 60.0) -> str:
    """Return the output of `ros2`; after `seconds` the command is ended by Ctrl-C."""
    assert ROS2 is not None
    options = {"env": ENVIRONMENT, "cwd": CHECKOUT, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with running([ROS2, *words], text=True, **options) as process:
        try:
            return process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            return process.communicate(timeout=PATIENCE_S)[0]


def started_topics() -> list[graph.Topic]:
    nodes = graph.nodes_for("vr", ["visualizer"])
    quiet = {"joint_states"}  # only with a URDF
    names = {t for n in nodes for t in n.outputs} - quiet
    return [graph.TOPICS[name] for name in sorted(names)]


def full_name(topic: graph.Topic) -> str:
    return topic.name if topic.name.startswith("/") else f"/tools/{topic.name}"


def test_topic_list_shows_every_topic_with_its_type():
    shown = dict(re.findall(r"^(\S+) \[(\S+)\]$", ros2("topic", "list", "-t", "--no-daemon", "--spin-time", "3"), re.M))
    assert {full_name(t): t.type for t in started_topics()}.items() <= shown.items()


def test_topic_echo_prints_a_pose():
    said = ros2("topic", "echo", "--once", "--no-daemon", "--spin-time", "3", "/tools/pose")
    assert "angular_velocities" in said and "frame_id: map" in said


def test_topic_hz_is_the_trackers_rate():
    said = ros2("topic", "hz", "--window", "200", "/tools/trackers", seconds=8.0)
    rates = [float(r) for r in re.findall(r"average rate: ([\d.]+)", said)]
    assert rates and 45.0 < rates[-1] < 100.0, said


def test_param_set_is_answered_and_a_wrong_value_is_refused_with_the_reason():
    node = "/tools/motion_matcher"
    flags = ("--no-daemon", "--spin-time", "3")
    assert "successful" in ros2("param", "set", *flags, node, "responsiveness", "1.5")
    assert "1.5" in ros2("param", "get", *flags, node, "responsiveness")
    refused = ros2("param", "set", *flags, node, "weights", "left_knee=1.0")
    assert "left_foot_position" in refused, refused
    told = ros2("param", "describe", *flags, node, "search_interval")
    assert "[s]" in told and "Max value: 10" in told, told


def test_a_service_is_called():
    said = ros2("service", "call", "/tools/pose_postprocessor/reset", "std_srvs/srv/Trigger")
    assert "success=True" in said, said
