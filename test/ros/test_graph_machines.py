"""Two machines: the bridge on one, the other nodes on the other; the link delays, loses and stops packets."""

import itertools
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from net_link import Link, missing_rights
from processes import PATIENCE_S, end, warm

from mm_ros.motion.default_database import default_database_path

CHECKOUT = Path(__file__).resolve().parents[2]
START_S = 150.0
WALK_MPS, POP_M = 5.0, 0.15  # speed of the root, and its jump between two poses, are at most these


@pytest.fixture(scope="module")
def link():
    why = missing_rights()
    if why:
        pytest.skip(why)
    made = Link()
    yield made
    made.close()


class Machines:
    def __init__(self, link, folder):
        self.link, self.poses_file, self._started = link, folder / "poses", []
        self.logs = folder / "log"
        # UDP only, because DDS would use the shared memory of both "machines".
        self._environment = os.environ | {
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET",
            "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4",
        }

    def start(self):
        self._start(1, ["-m", "mm_ros", "up", "--avatar", "far", "--trackers", "none"])
        self._start(1, [str(CHECKOUT / "test" / "net_listener.py"), "far"], self.poses_file)
        self._start(0, ["-m", "mm_ros.ros.nodes", "tracker_bridge", "--ros-args", "-r", "__ns:=/far"])

    def _start(self, side, words, out=None):
        with (out or self.logs).open("ab") as handle, self.logs.open("ab") as log:
            self._started.append(
                subprocess.Popen(
                    self.link.command(side, sys.executable, *words),
                    env=self._environment | {"PYTHONPATH": str(CHECKOUT)},
                    cwd=CHECKOUT,
                    stdout=handle,
                    stderr=log,
                )
            )

    def poses(self, after=0.0):
        lines = self.poses_file.read_text().splitlines()[:-1]  # the last line may be incomplete
        return [p for p in map(json.loads, lines) if p["at"] > after]

    def wait_for(self, wanted, seconds):
        """Wait until `wanted(poses)` is true for the poses received from now on; return them."""
        since, until = time.time(), time.monotonic() + seconds
        while time.monotonic() < until:
            poses = self.poses(since)
            if wanted(poses):
                return poses
            assert all(p.poll() is None for p in self._started), self.logs.read_text()
            time.sleep(0.25)
        raise AssertionError(f"{len(self.poses(since))} poses came within {seconds} s:\n{self.logs.read_text()}")

    def close(self):
        end(*self._started)


@pytest.fixture(scope="module")
def machines(link, tmp_path_factory):
    default_database_path()
    warm()
    made = Machines(link, tmp_path_factory.mktemp("machines"))
    try:
        made.start()
        made.wait_for(fresh(30), START_S)
        yield made
    finally:
        made.close()


def fresh(count):
    return lambda poses: sum(not p["stale"] for p in poses) >= count


def assert_nothing_pops(poses):
    for a, b in itertools.pairwise(poses):
        gap = abs(b["stamp"] - a["stamp"])
        assert math.dist(a["root"], b["root"]) < POP_M + WALK_MPS * gap, (a, b)


def test_poses_come_over_a_good_link(machines, link):
    assert_nothing_pops(machines.wait_for(fresh(150), PATIENCE_S))
    assert link.passed > 100, "the messages did not pass the link"


def test_delay_and_loss_on_the_link_stop_nothing(machines, link):
    link.delay_s, link.jitter_s, link.loss = 0.03, 0.02, 0.05
    dropped = link.dropped
    assert_nothing_pops(machines.wait_for(fresh(150), PATIENCE_S))
    assert link.dropped > dropped
    link.delay_s = link.jitter_s = link.loss = 0.0


def test_a_link_that_breaks_brings_the_avatar_to_a_stand_and_it_walks_on(machines, link):
    link.cut = True
    still = machines.wait_for(lambda poses: len(poses) > 20 and all(p["stale"] for p in poses[-20:]), PATIENCE_S)
    assert_nothing_pops(still)
    link.cut = False
    assert_nothing_pops(machines.wait_for(fresh(60), PATIENCE_S))
