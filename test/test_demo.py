"""`mm_ros demo` as a user ends it: by Ctrl-C, by SIGTERM, by a mistake."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hostile_folder import HostileFolder

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mm_ros.msg", reason="the messages are not built")

from mm_ros import cli
from mm_ros.own_python import module_command

START_S, END_S = 150.0, 90.0


class Demo:
    def __init__(self, folder, *words):
        self._log = folder / "log"
        self.folder = HostileFolder(folder / "downloads")
        command = module_command("mm_ros", "demo", "--headless", "--output", str(folder / "out"), *words)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "ROS_DOMAIN_ID": "83"}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.folder.path)

    def said(self):
        return self._log.read_text(errors="replace")

    def wait_for(self, text):
        until = time.monotonic() + START_S
        while text not in self.said():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < until, f"{text!r} not within {START_S:g} s: {self.said()}"
            time.sleep(0.05)

    def end(self, number):
        self.process.send_signal(number)
        try:
            return self.process.wait(END_S)
        finally:
            self.process.kill()


@pytest.fixture(scope="module")
def warm():
    subprocess.run([sys.executable, "-m", "mm_ros", "warm", "--quiet"], check=True, timeout=400)


@pytest.mark.slow
def test_ctrl_c_ends_with_the_summary_and_the_film(tmp_path, warm):
    demo = Demo(tmp_path, "--seconds", "300", "--json", str(tmp_path / "summary.json"))
    demo.wait_for("facing error")
    assert demo.end(signal.SIGINT) == 0, demo.said()
    assert "summary" in demo.said()
    assert "Traceback" not in demo.said()
    assert json.loads((tmp_path / "summary.json").read_text())["poses"] > 0
    assert (tmp_path / "out.png").stat().st_size > 1000
    assert demo.folder.imported() == []  # nor did the graph that it started


@pytest.mark.slow
def test_sigterm_before_the_first_pose_ends_quietly(tmp_path, warm):
    demo = Demo(tmp_path)
    demo.wait_for("2/3 graph")
    time.sleep(0.5)
    assert demo.end(signal.SIGTERM) in (0, 130), demo.said()
    assert "Traceback" not in demo.said()


def test_a_session_that_is_not_there_is_a_sentence(tmp_path):
    demo = Demo(tmp_path, "--session", str(tmp_path / "none"))
    demo.process.wait(60)
    assert demo.process.returncode == 2
    assert "does not exist. Make one" in demo.said()


@pytest.mark.parametrize("port", ["0", "65536", "99999999", "-1", "http"])
@pytest.mark.parametrize("verb", ["demo", "view"])
def test_a_port_that_cannot_be_is_refused_before_anything_is_done(verb, port, capsys):
    with pytest.raises(SystemExit):
        cli.main([verb, f"--port={port}"])
    assert f"expected a port, 1 to 65535, came '{port}'" in capsys.readouterr().err
