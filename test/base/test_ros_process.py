"""Processes of nodes: forked, ended with their parent; the executor, and the direct publication of TF."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from processes import PATIENCE_S, alive, children, running, wait_until
from rclpy.serialization import deserialize_message
from tf2_msgs.msg import TFMessage

from mm_ros.base.errors import MmRosError
from mm_ros.body.skeleton import default_skeleton
from mm_ros.body.types import rest_pose
from mm_ros.ros.bench.graph import measuring
from mm_ros.ros.several import side_by_side
from mm_ros.ros.tf import PoseTf

EACH = """
import os, sys, time
from mm_ros.base.process import run_each
def stay():
    os.write(1, b"here\\n"); time.sleep(600); return 0
sys.exit(run_each([stay, {second}]))
"""


@contextmanager
def started(code):
    """A process that has reported its first child."""
    with running([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "here\n"
        yield process


def wait_until_gone(pids):
    wait_until(lambda: not any(map(alive, pids)), PATIENCE_S, f"the end of {pids}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_those_who_were_forked_end_with_their_parent(number):
    with started(EACH.format(second="stay")) as process:
        assert process.stdout.readline() == "here\n"
        forked = children(process.pid)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == (-9 if number == signal.SIGKILL else 0)
        assert len(forked) == 2
        wait_until_gone(forked)


def test_one_that_is_killed_comes_back():
    with started(EACH.format(second="stay")) as process:
        assert process.stdout.readline() == "here\n"
        os.kill(children(process.pid)[0], signal.SIGKILL)
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


SPARE = """
import contextlib, os, sys, time
from mm_ros.base import process
process.SPARE_AFTER_S = 0.1
def say(word):
    os.write(1, f"{word} {os.getpid()}\\n".encode())
@contextlib.contextmanager
def prepared():
    say("spare")
    yield
    say("closed")
def stay(name):
    say(name); time.sleep(600); return 0
sys.exit(process.run_each([lambda: stay("first"), lambda: stay("second")], prepared))
"""


def said(process):
    word, pid = process.stdout.readline().split()
    return word, int(pid)


def test_a_spare_process_takes_the_place_of_a_killed_one():
    with running([sys.executable, "-c", SPARE], stdout=subprocess.PIPE, text=True) as process:
        started = dict(said(process) for _ in range(3))
        assert set(started) == {"first", "second", "spare"}
        for name in ("second", "first", "first"):
            os.kill(started[name], signal.SIGKILL)
            back = dict(said(process) for _ in range(2))
            assert back[name] == started["spare"] and back["spare"] not in started.values()
            started |= back
        os.kill(started["spare"], signal.SIGKILL)  # the next one takes its place
        started["spare"] = said(process)[1]
        os.kill(started["second"], signal.SIGKILL)
        back = dict(said(process) for _ in range(2))
        assert back["second"] == started["spare"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        words = process.stdout.read()
        assert f"closed {back['spare']}" in words, words
        wait_until_gone([*started.values(), *back.values()])


def test_a_spare_process_that_fails_ends_nothing():
    code = SPARE.replace('say("spare")', 'say("spare"); raise ValueError')
    with running([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        started = dict(said(process) for _ in range(3))
        wait_until_gone([started["spare"]])
        os.kill(started["first"], signal.SIGKILL)
        word, pid = said(process)
        assert word == "first" and pid not in started.values()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


def test_an_interrupt_that_is_swallowed_still_ends_all():
    swallowed = """
import os, signal, sys, time
from mm_ros.base import ending
from mm_ros.base.process import run_each
def stay():
    os.write(1, b"here\\n"); time.sleep(600); return 0
def swallow(number, frame):
    ending._asked = True
real = ending.remember
ending.remember = lambda *numbers: [real(*numbers), signal.signal(signal.SIGINT, swallow)]
sys.exit(run_each([stay]))
"""
    with started(swallowed) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


def test_one_that_ends_by_itself_ends_all_with_its_code():
    with started(EACH.format(second="lambda: 2")) as process:
        assert process.wait(PATIENCE_S) == 2


def test_one_that_does_not_hear_is_killed():
    deaf = """
import os, signal, sys, time
from mm_ros.base import process
process.POLITE_S = 0.5
def deaf():
    signal.signal(signal.SIGINT, signal.SIG_IGN); os.write(1, b"here\\n"); time.sleep(600); return 0
sys.exit(process.run_each([deaf]))
"""
    with started(deaf) as process:
        forked = children(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        wait_until_gone(forked)


def test_users_side_by_side_differ_in_name_seed_and_room():
    users = side_by_side("avatar", 3)
    assert [u.avatar for u in users] == ["avatar1", "avatar2", "avatar3"]
    assert len({u.seed for u in users}) == len({u.place for u in users}) == 3


def test_no_avatars_are_refused():
    with pytest.raises(MmRosError, match="1 to 64"):
        side_by_side("avatar", 0)


@pytest.mark.parametrize("avatar", ["a", "ab", "abc", "abcd", "avatar11"])
def test_tf_by_the_short_way_is_the_same_message(avatar):
    rng = np.random.default_rng(len(avatar))
    pose = rest_pose(default_skeleton())
    pose.stamp_ns = 1_763_000_000_123_456_789
    pose.positions[:], pose.rotations[:] = rng.normal(size=(23, 3)), rng.normal(size=(23, 4))
    pose.root[:3] = rng.normal(size=3)
    frames = PoseTf(avatar)
    assert deserialize_message(frames.serialized(pose), TFMessage) == frames.message(pose)


def test_sigterm_ends_a_benchmark_between_two_rounds_as_ctrl_c_does():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), measuring():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


SWALLOWED = """
import signal, sys
from mm_ros.ros.node import AvatarNode, run_all

class Node(AvatarNode):
    NAME = "joystick_control"
    def __init__(self):
        super().__init__()
        tick = self.guarded("timer", self.tick) if {guarded} else self.tick
        self.create_timer(0.01, tick)
        self.start()

    def tick(self):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            {instead}

sys.exit(run_all([Node]))
"""


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("instead", ["raise RuntimeError('Unable to convert')", "pass"])
def test_a_ctrl_c_that_a_conversion_swallows_still_ends_the_nodes(guarded, instead):
    script = SWALLOWED.format(guarded=guarded, instead=instead)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 0
    assert "Traceback" not in ended.stdout + ended.stderr
