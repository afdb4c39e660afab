"""The launch files with the real `ros2 launch`, where it is installed."""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from processes import PATIENCE_S

from mm_ros.base.share import share_folder

ROS2 = shutil.which("ros2")
pytestmark = pytest.mark.skipif(ROS2 is None, reason="the real `ros2 launch` is not here: source a ROS 2 setup first")

CHECKOUT = Path(__file__).resolve().parents[2]
FILES = sorted(f.name for f in (share_folder() / "launch").glob("*.launch.py"))
START_S = 240.0


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def command(file: str, *arguments: str) -> list[str]:
    assert ROS2 is not None
    return [ROS2, "launch", str(share_folder() / "launch" / file), *arguments]


def run(file: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(file, *arguments), env=environment(), cwd=CHECKOUT, capture_output=True, text=True, timeout=120
    )


class Launched:
    """`ros2 launch` in its own process group, which receives Ctrl-C as in a terminal."""

    def __init__(self, log: Path, file: str, *arguments: str) -> None:
        self.log = log
        with log.open("wb") as handle:
            self.process = subprocess.Popen(
                command(file, *arguments),
                env=environment(),
                cwd=CHECKOUT,
                stdout=handle,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str, times: int = 1) -> None:
        until = time.monotonic() + START_S
        while self.said().count(words) < times:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < until, f"'{words}' came {self.said().count(words)} times:\n{self.said()}"
            time.sleep(0.2)

    def pids(self) -> list[int]:
        return [int(p) for p in re.findall(r"process started with pid \[(\d+)\]", self.said())]

    def interrupt(self) -> int:
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> "Launched":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):  # the whole group has ended
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def launch(tmp_path):
    logs = itertools.count()
    with ExitStack() as started:
        yield lambda *words: started.enter_context(Launched(tmp_path / f"{next(logs)}.log", *words))


def assert_all_gone(one: Launched) -> None:
    assert [p for p in one.pids() if Path(f"/proc/{p}").exists()] == []
    assert "Traceback" not in one.said(), one.said()


@pytest.mark.parametrize("file", FILES)
def test_a_launch_file_says_what_its_arguments_mean(file):
    done = run(file, "--show-args")
    assert done.returncode == 0, done.stderr
    assert "'composed'" in done.stdout
    assert "no description" not in done.stdout.lower()


@pytest.mark.parametrize(
    ("file", "argument", "words"),
    [
        ("avatar.launch.py", "database:=/nowhere/x.mmdb", "mm_ros import"),
        ("multi.launch.py", "avatars:=none", "not a whole number"),
        ("replay.launch.py", "loop:=true", "session:=FOLDER"),
    ],
)
def test_a_mistake_is_a_sentence_and_an_exit_code(file, argument, words):
    done = run(file, argument)
    assert done.returncode != 0
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_five_processes_start_one_that_is_killed_comes_back_and_ctrl_c_ends_all(launch):
    one = launch("avatar.launch.py", "avatar:=launched")
    one.wait_for("]: ready", 5)
    os.kill(int(re.findall(r"pose_postprocessor-\d+\]: process started with pid \[(\d+)\]", one.said())[-1]), 9)
    one.wait_for("[launched.pose_postprocessor]: ready", 2)
    assert one.interrupt() == 0, one.said()
    assert_all_gone(one)


def test_several_avatars_in_one_process(launch):
    one = launch("multi.launch.py", "avatars:=2", "composed:=true")
    one.wait_for("[avatar1.pose_postprocessor]: ready")
    one.wait_for("[avatar2.pose_postprocessor]: ready")
    assert one.interrupt() == 0, one.said()
    assert_all_gone(one)


def test_a_session_is_replayed_through_the_graph(launch, tmp_path):
    session = tmp_path / "session"
    subprocess.run(
        [sys.executable, "-m", "mm_ros", "synth", "session", "--seconds", "3", "-o", str(session)],
        env=environment(), cwd=CHECKOUT, check=True, timeout=120,
    )  # fmt: skip
    one = launch("replay.launch.py", f"session:={session}", "avatar:=replayed", "loop:=true")
    one.wait_for("]: ready", 4)
    assert one.interrupt() == 0, one.said()
    assert_all_gone(one)


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(p for child in children for p in family(int(child)))]


@pytest.mark.parametrize(("end", "composed"), [(signal.SIGTERM, "false"), (signal.SIGKILL, "true")])
def test_a_launch_that_is_ended_hard_leaves_no_process(launch, end, composed):
    """`ros2 launch` does not end its processes on SIGTERM, and cannot on SIGKILL."""
    one = launch("multi.launch.py", "avatars:=2", f"composed:={composed}")
    one.wait_for("pose_postprocessor]: ready", 2)
    started = family(one.process.pid)[1:]
    assert len(started) >= (2 if composed == "true" else 10)
    one.process.send_signal(end)
    one.process.wait(PATIENCE_S)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and any(alive(p) for p in started):
        time.sleep(0.1)
    assert not [p for p in started if alive(p)], one.said()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
