"""The end of `mm_ros demo`: by Ctrl-C, by SIGTERM, by a wrong argument."""

import fcntl
import json
import os
import pty
import signal
import socket
import subprocess
import termios
import time
from contextlib import ExitStack

import pytest
from hostile_folder import HostileFolder

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

import processes
from chromium import free_port
from processes import PATIENCE_S, alive, children, end, wait_until

from mm_ros.base.own_python import module_command
from mm_ros.cli import main as cli

START_S, END_S = 150.0, 90.0


class Demo:
    def __init__(self, folder, *words, **options):
        self._log = folder / "log"
        self.folder = HostileFolder(folder / "downloads")
        command = module_command("mm_ros", "demo", "--output", str(folder / "out"), *words)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        options["cwd"] = self.folder.path
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)

    def output(self):
        return self._log.read_text(errors="replace")

    def wait_for(self, text):
        until = time.monotonic() + START_S
        while text not in self.output():
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < until, f"{text!r} not within {START_S:g} s: {self.output()}"
            time.sleep(0.05)

    def end(self, number):
        self.process.send_signal(number)
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the demo does not end within {END_S:g} s: {self.output()}") from None


@pytest.fixture
def start(tmp_path):
    """Function that starts a demo, which ends with the test."""
    with ExitStack() as started:
        yield lambda *words, **options: started.enter_context(Demo(tmp_path, *words, **options))


@pytest.fixture(scope="module")
def warm():
    processes.warm()


@pytest.mark.slow
def test_ctrl_c_ends_with_the_summary_and_the_film(tmp_path, start, warm):
    demo = start("--headless", "--seconds", "300", "--json", str(tmp_path / "summary.json"))
    demo.wait_for("facing error")
    assert demo.end(signal.SIGINT) == 0, demo.output()
    assert "summary" in demo.output()
    assert "Traceback" not in demo.output()
    assert json.loads((tmp_path / "summary.json").read_text())["poses"] > 0
    assert (tmp_path / "out.png").stat().st_size > 1000
    assert demo.folder.imported() == []  # the graph that it started imports nothing from the folder either


@pytest.mark.slow
def test_sigterm_before_the_first_pose_ends_quietly(start, warm):
    demo = start("--headless")
    demo.wait_for("2/3 graph")
    time.sleep(0.5)
    assert demo.end(signal.SIGTERM) in (0, 130), demo.output()
    assert "Traceback" not in demo.output()


def take_terminal():
    """Run in the demo's process: make its standard input its controlling terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests that run under nohup ignore it


@pytest.mark.slow
@pytest.mark.parametrize("end_of_it", ["terminal closed", "killed"])
def test_graph_and_page_end_with_the_demo(start, warm, end_of_it):
    pytest.importorskip("viser", reason="viser is not installed (extra [viewer])")
    ours, its = pty.openpty()
    port = free_port()
    demo = start("--port", str(port), stdin=its, start_new_session=True, preexec_fn=take_terminal)
    os.close(its)
    demo.wait_for("3/3 viewer" if end_of_it == "terminal closed" else "first pose")
    wait_until(lambda: len(children(demo.process.pid)) == 2, PATIENCE_S, "graph and page")
    started = children(demo.process.pid)
    if end_of_it == "killed":
        demo.process.kill()
    os.close(ours)
    assert demo.process.wait(PATIENCE_S) == (-signal.SIGKILL if end_of_it == "killed" else -signal.SIGHUP)
    try:
        wait_until(lambda: not any(map(alive, started)), PATIENCE_S, f"the end of {started}")
    finally:
        for pid in filter(alive, started):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: can_be_opened(port), PATIENCE_S, f"the end of the page at port {port}")


def can_be_opened(port):
    """The process that serves the page is a child of one that the demo started, and may end after it."""
    with socket.socket() as page:
        page.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            page.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def test_a_missing_session_is_reported_in_one_sentence(tmp_path, start):
    demo = start("--session", str(tmp_path / "none"))
    demo.process.wait(PATIENCE_S)
    assert demo.process.returncode == 2
    assert "does not exist. Make one" in demo.output()


@pytest.mark.parametrize("port", ["0", "65536", "99999999", "-1", "http"])
@pytest.mark.parametrize("verb", ["demo", "view"])
def test_an_invalid_port_is_refused_before_any_work(verb, port, capsys):
    with pytest.raises(SystemExit):
        cli.main([verb, f"--port={port}"])
    assert f"expected a port, 1 to 65535, came '{port}'" in capsys.readouterr().err
