"""Ctrl-C sent to the whole process group, as by a terminal, ends each command with one line at any stage."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import processes
import pytest
from chromium import free_port

from mm_ros.base.ending import LINE
from mm_ros.base.own_python import module_command

TOP = Path(__file__).resolve().parents[2]
WAIT_S = processes.PATIENCE_S
SIGINT_ON = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "  # the test run may ignore it
)
MM_ROS = [sys.executable, "-c", SIGINT_ON + "from mm_ros.cli.main import main; sys.exit(main())"]


class Running:
    """A process in its own group; its output and that of its children goes to a file."""

    def __init__(self, log: Path, *command: object, **more: object) -> None:
        self._log = log
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(TOP)}
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdout=out, stderr=out, start_new_session=True, env=environment, **more
            )

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        for pid in [*processes.children(self.process.pid), self.process.pid]:
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + WAIT_S
        while text not in self.output():
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < until, f"{text!r} was not printed: {self.output()}"
            time.sleep(0.01)

    def ctrl_c(self) -> str:
        """Send Ctrl-C and return the text that is printed afterwards."""
        before, children = len(self.output()), processes.children(self.process.pid)
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(WAIT_S)
        until = time.monotonic() + WAIT_S
        while any(Path(f"/proc/{pid}").exists() for pid in children):
            assert time.monotonic() < until, f"still running: {children}"
            time.sleep(0.02)
        assert "Traceback" not in self.output() and "Exception" not in self.output(), self.output()
        return self.output()[before:]


@pytest.fixture(scope="module")
def warm() -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    pytest.importorskip("mm_ros.msg", reason="the messages are not built")
    processes.warm()


@pytest.mark.parametrize("stage", ["1/3 database", "2/3 graph", "3/3 viewer", "tracker_bridge]: ready"])
def test_a_demo_that_starts_ends_with_one_line(stage: str, tmp_path: Path, warm: None):
    with Running(tmp_path / "log", *MM_ROS, "demo", "--port", free_port()) as demo:
        demo.wait_for(stage)
        after = demo.ctrl_c()
        assert demo.process.returncode == 130
        assert after.count("stopped") == 1 and after.strip().splitlines()[-1] == LINE, after


WAYS = {
    "python -m mm_ros": ["-m", "mm_ros", "info", "none"],
    "mm_ros": module_command("mm_ros", "info", "none")[1:],
    "ros2 run mm_ros": module_command("mm_ros.ros.nodes", "motion_matcher")[1:],
}


@pytest.mark.parametrize("way", WAYS)
def test_while_modules_are_imported_it_is_one_line(way: str, tmp_path: Path):
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with Running(tmp_path / "log", sys.executable, "-X", "importtime", *WAYS[way], **heard) as info:
        info.wait_for("mm_ros._version")  # imported after mm_ros.base.ending and before the command's modules
        info.ctrl_c()
        assert info.process.returncode == 130
        assert info.output().count(LINE) == 1


@pytest.mark.parametrize(("command", "words"), [("mm_ros", ["info", "none"]), ("path_control", [])])
def test_while_python_starts_it_is_one_line(command: str, words: list[str], tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    more = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), "timeout": WAIT_S}
    more["env"] = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([processes.installed_command(command), *words], capture_output=True, text=True, **more)
    assert (done.returncode, done.stderr) == (130, f"{LINE}\n")


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN])
def test_what_a_demo_starts_can_be_ended_by_it(handler: signal.Handlers):
    """It starts with Ctrl-C blocked; of a demo in a shell's background the signal is ignored too."""

    def as_the_demo_does() -> None:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    code = "import signal, sys; sys.argv = ['mm_ros']; import mm_ros; print(signal.pthread_sigmask(0, []))"
    more = {"preexec_fn": as_the_demo_does, "timeout": WAIT_S}
    done = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, **more)
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.parametrize("stage", ["making", "installing"])
def test_set_up_ends_with_one_line_and_leaves_no_partial_environment(stage: str, tmp_path: Path):
    venv = tmp_path / "venv"
    if stage == "installing":  # a Python whose pip never ends
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python").write_text("#!/bin/sh\nsleep 1000\n")
        (venv / "bin" / "python").chmod(0o755)
    script = TOP / "build_support" / "setup_venv.py"
    run = SIGINT_ON + "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    with Running(tmp_path / "log", sys.executable, "-c", run, script, "--venv", venv) as setup:
        setup.wait_for(f"-- {stage}")
        after = setup.ctrl_c()
        assert setup.process.returncode == 130
        assert after.strip() == "mm_ros: stopped by Ctrl-C; the next call goes on from here"
    assert venv.exists() == (stage == "installing")


def lines_of(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SIGINT_ON + code], cwd=TOP, capture_output=True, text=True, timeout=WAIT_S
    )
    return (done.stdout + done.stderr).splitlines()


def test_a_request_that_a_callback_has_lost_is_repeated():
    """LLVM's callbacks lose the KeyboardInterrupt in this way while numba compiles."""
    code = (
        "import ctypes, os, time\nfrom mm_ros.base import ending\nending.remember(signal.SIGINT)\n"
        "lost = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "try:\n    lost()\n    print('lost', flush=True)\n    time.sleep(100)\n"
        "except KeyboardInterrupt:\n    print('ended')"
    )
    assert lines_of(code) == ["lost", "ended"]


@pytest.mark.parametrize(
    ("program", "call", "code"),
    [
        (
            "mm_ros.__main__ import command",
            "from mm_ros.cli import main\nmain._flushed = interrupt\nsys.exit(command())",
            130,
        ),
        (
            "mm_ros.ros.nodes.__main__ import main, graph",
            "from types import SimpleNamespace as S\n"
            "graph.node = lambda _: S(node_class=lambda: S(preload=lambda: handled()))\n"
            "main.__globals__['keep_running'] = lambda *_: 0\nsys.exit(main([]))",
            0,
        ),
    ],
    ids=["mm_ros", "ros2 run mm_ros"],
)
def test_a_ctrl_c_during_exec_gives_the_exit_code_of_the_command(program: str, call: str, code: int, tmp_path: Path):
    """`dataclass` calls `exec` while modules are imported; `python -m` would then kill itself by SIGINT at its end."""
    if "ros.nodes" in program:
        pytest.importorskip("rclpy", reason="rclpy is not installed")
    (tmp_path / "interrupted.py").write_text(
        f"import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nfrom {program}\n"
        "def interrupt(_=None):\n    exec('import os, signal; os.kill(os.getpid(), signal.SIGINT)')\n"
        f"def handled():\n    try:\n        interrupt()\n    except KeyboardInterrupt:\n        pass\n{call}"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(TOP)])}
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (code, f"{LINE}\n" if code else "")


def test_a_lost_request_is_not_repeated_after_the_line():
    code = (
        "import ctypes, os\nfrom mm_ros.base import ending\nending.AGAIN_S = 60.0\nending.remember(signal.SIGINT)\n"
        "ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGINT))()\n"
        "ending.say_line()\nending._again.join(30.0)\nprint('running' if ending._again.is_alive() else 'ended')"
    )
    assert lines_of(code) == ["ended", LINE]


def test_thread_errors_after_ctrl_c_are_silent_and_others_are_not():
    """The manager thread of a process pool fails in this way when its processes have ended."""
    code = (
        "import threading\nfrom mm_ros.base import ending\nending.remember(signal.SIGINT)\n"
        "ending._asked = {}\nt = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join()"
    )
    assert lines_of(code.format(True)) == []
    assert "ZeroDivisionError: division by zero" in lines_of(code.format(False))
