"""The check that no process outlives the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE_S, alive, wait_until

LEAKS = """
import subprocess, sys

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]

def test_a_child():
    subprocess.Popen(SLEEPS)

def test_an_orphan():
    start = f"import subprocess; subprocess.Popen({SLEEPS!r}, start_new_session=True)"
    subprocess.run([sys.executable, "-c", start], check=True)
"""
ENDED = """
import subprocess, sys

def test_a_child():
    p = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    p.kill()
    p.wait()
"""
FAILING_SET_UP = """
import pytest, rclpy

@pytest.fixture(scope="module")
def ros():
    rclpy.init()
    raise OSError("no browser")
    yield

def test_it(ros):
    pass
"""
NEXT_FILE = """
import rclpy

def test_it():
    rclpy.init()
    rclpy.shutdown()
"""


PARALLEL = ("-p", "xdist.plugin", "-n", "2")


def run_of(folder: Path, tests: str, *options: str) -> "subprocess.CompletedProcess[str]":
    (folder / "test_inside.py").write_text(tests)
    (folder / "conftest.py").write_text("import leftover_processes\nleftover_processes.PATIENCE_S = 0.2\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ("-p", "leftover_processes", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *options, "."]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("options", [(), PARALLEL], ids=["one process", "two workers"])
def test_a_run_that_leaves_processes_fails_names_their_tests_and_ends_them(tmp_path, options):
    if options:
        pytest.importorskip("xdist")
    done = run_of(tmp_path, LEAKS, *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    left = [line for line in done.stdout.splitlines() if "time.sleep(600)" in line]
    assert len(left) == 2
    assert {line.rsplit("::", 1)[1].split()[0] for line in left} == {"test_a_child", "test_an_orphan"}
    wait_until(lambda: not any(alive(int(line.split(":")[0])) for line in left), PATIENCE_S, "the end of both")


def test_a_run_that_ends_its_processes_passes(tmp_path):
    done = run_of(tmp_path, ENDED)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_set_up_that_leaves_ros_initialized_fails_its_own_file_only(tmp_path):
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    (tmp_path / "test_next.py").write_text(NEXT_FILE)
    done = run_of(tmp_path, FAILING_SET_UP)
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
