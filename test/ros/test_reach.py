"""With LOCALHOST no other machine receives messages: tested from a second network namespace."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from net_link import Link, missing_rights
from processes import PATIENCE_S

from mm_ros.base.cache import cache_root
from mm_ros.base.own_python import module_command
from mm_ros.base.share import share_folder
from mm_ros.ros.reach import PROFILES, RANGE, profile, settle_reach

OURS = str(share_folder() / "config" / "this_machine.xml")
PARENTS = str(cache_root() / "dds" / "this_machine_13.xml")
STRANGER = Path(__file__).parents[1] / "net_stranger.py"


@pytest.mark.parametrize(
    ("before", "asked", "after"),
    [
        ({}, "LOCALHOST", {RANGE: "LOCALHOST", PROFILES: "this process"}),
        ({RANGE: "LOCALHOST"}, "", {RANGE: "LOCALHOST", PROFILES: "this process"}),
        ({RANGE: "LOCALHOST", PROFILES: OURS}, "", {RANGE: "LOCALHOST", PROFILES: "this process"}),
        ({RANGE: "LOCALHOST", PROFILES: PARENTS}, "", {RANGE: "LOCALHOST", PROFILES: "this process"}),
        ({RANGE: "LOCALHOST", PROFILES: "mine.xml"}, "", {RANGE: "LOCALHOST", PROFILES: "mine.xml"}),
        ({RANGE: "SUBNET"}, "LOCALHOST", {RANGE: "SUBNET"}),
        ({RANGE: "SUBNET", PROFILES: OURS}, "", {RANGE: "SUBNET"}),
        ({RANGE: "SUBNET", PROFILES: PARENTS}, "", {RANGE: "SUBNET"}),
        ({RANGE: "SUBNET", PROFILES: "mine.xml"}, "", {RANGE: "SUBNET", PROFILES: "mine.xml"}),
        ({}, "", {}),
    ],
)
def test_the_profile_follows_the_range(before, asked, after, monkeypatch):
    for name in (RANGE, PROFILES, "SKIP_DEFAULT_XML_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    settle_reach(asked)
    own = {"this process": str(profile(os.getpid()))}
    after = {name: own.get(value, value) for name, value in after.items()}
    assert {name: os.environ[name] for name in (RANGE, PROFILES) if name in os.environ} == after
    assert os.environ["SKIP_DEFAULT_XML_FILE"] == "1"


PORTS = """
import os, re, sys, time
from mm_ros.ros.reach import PROFILES, profile
os.environ[PROFILES] = str(profile(int(sys.argv[1])))
import rclpy
rclpy.init()
node = rclpy.create_node("ports")
inodes = {os.readlink(fd) for fd in (f"/proc/self/fd/{n}" for n in range(200)) if os.path.islink(fd)}
rows = [line.split() for line in open("/proc/self/net/udp").readlines()[1:]]
print(*{int(row[1][9:], 16) for row in rows if f"socket:[{row[9]}]" in inodes}, flush=True)
time.sleep(60)
"""


def test_a_restarted_process_has_other_ports_for_data_than_the_one_that_was_killed():
    """Other processes send to the ports of a killed one for up to two seconds, also after these were made anew."""
    first = 7400 + 250 * int(os.environ["ROS_DOMAIN_ID"])

    def data_ports(pid):
        process = subprocess.Popen([sys.executable, "-c", PORTS, str(pid)], stdout=subprocess.PIPE, text=True)
        try:
            ports = {int(port) - first for port in process.stdout.readline().split()}
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        return {p for p in ports if 0 < p < 250 and p % 2}

    killed, restarted = data_ports(1000), data_ports(1001)
    assert killed and restarted
    assert not killed & restarted


def test_without_a_cache_the_common_profile_is_used(monkeypatch):
    monkeypatch.setattr("mm_ros.ros.reach.writable_root", lambda: Path("/proc/nothing"))
    assert profile(1) == Path(OURS)


ENDPOINTS = """
import rclpy
from std_msgs.msg import String
def own_kb():
    return int(next(l for l in open("/proc/self/smaps_rollup") if l.startswith("Anonymous:")).split()[1])
rclpy.init()
node = rclpy.create_node("endpoints")
before = own_kb()
kept = [node.create_publisher(String, f"t{i}", 256) for i in range(40)]
kept += [node.create_subscription(String, f"t{i}", print, 5) for i in range(40)]
print(own_kb() - before)
"""


def test_the_profile_saves_half_of_the_memory_of_readers_and_writers():
    def kb(**environment):
        plain = {k: v for k, v in os.environ.items() if k != PROFILES} | {RANGE: "LOCALHOST"}
        command = [sys.executable, "-c", ENDPOINTS]
        ran = subprocess.run(
            command, env=plain | environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        assert "XML" not in ran.stderr, ran.stderr
        return int(ran.stdout)

    assert kb(**{PROFILES: OURS}) < 0.6 * kb()


class Machine:
    """Processes in the two namespaces of a link; `found` are nodes that the foreign process of that name discovered."""

    def __init__(self, link: Link, folder: Path) -> None:
        self._link, self._folder = link, folder
        self._started: list[subprocess.Popen[bytes]] = []
        # UDP only, because DDS would use the shared memory of both namespaces.
        plain = {k: v for k, v in os.environ.items() if k not in (PROFILES, "SKIP_DEFAULT_XML_FILE")}
        self._environment = plain | {"FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"}

    def start(self, name: str, side: int, command: list[str], **environment: str) -> None:
        with (self._folder / name).open("wb") as out:
            self._started.append(
                subprocess.Popen(
                    self._link.command(side, *command),
                    env=self._environment | environment, stdout=out, stderr=subprocess.STDOUT, cwd=self._folder,
                )
            )  # fmt: skip

    def node(self, avatar: str, **environment: str) -> None:
        command = module_command("mm_ros.ros.nodes", "path_control", "--ros-args", "-r", f"__ns:=/{avatar}")
        self.start(avatar, 0, command, ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST", **environment)
        self.wait_for(avatar, "ready")

    def said(self, name: str) -> str:
        return (self._folder / name).read_text(errors="replace")

    def wait_for(self, name: str, words: str, seconds: float = 90.0) -> None:
        until = time.monotonic() + seconds
        while words not in self.said(name):
            assert time.monotonic() < until, f"{words} did not come to {name}: {self.said(name)}"
            time.sleep(0.1)

    def close(self) -> None:
        for process in self._started:
            process.kill()
        for process in self._started:
            process.wait()


@pytest.fixture
def machine(tmp_path: Path):
    why = missing_rights()
    if why:
        pytest.skip(why)
    link = Link()
    made = Machine(link, tmp_path)
    try:
        yield made
    finally:
        made.close()
        link.close()


def test_a_foreign_process_that_sends_to_our_ports_gets_no_answer(machine):
    machine.node("closed")
    machine.node("by_range_alone", **{PROFILES: ""})  # this node must be found, else the test has no power
    stranger = [sys.executable, str(STRANGER)]
    machine.start("outside", 1, stranger, ROS_AUTOMATIC_DISCOVERY_RANGE="SUBNET", ROS_STATIC_PEERS="10.99.8.1")
    machine.start("inside", 0, stranger, ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST")
    machine.wait_for("inside", "/closed/path_control")
    machine.wait_for("outside", "/by_range_alone/path_control")
    time.sleep(2.0)  # further time in which the closed node could be found
    assert "/closed" not in machine.said("outside")
