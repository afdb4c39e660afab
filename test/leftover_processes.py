"""A pytest plugin that ends processes that tests left behind, reports the tests, and makes the test run fail.

Each process that a test starts inherits a mark and the name of the test (PYTEST_CURRENT_TEST) in its environment. At
the end of the test run, the plugin searches /proc for the mark and for children of this process, so that it also finds
processes whose parent has ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from processes import alive, state_and_parent

MARK = "TEST_RUN"  # name without MM_ROS_, because tests of the cache remove variables with this prefix
PATIENCE_S = 10.0  # maximum time [s] to wait until processes end by themselves
# Helper processes that end with the test run: resource trackers of multiprocessing, and workers of pytest-xdist.
_ALLOWED = (
    *("multiprocessing.resource_tracker", "multiprocessing/resource_tracker"),
    "import sys;exec(eval(sys.stdin.readline()))",
)
# A worker of pytest-xdist keeps the mark of its parent process, which searches after all workers have ended.
_WORKER = "PYTEST_XDIST_WORKER" in os.environ

_mark = os.environ[MARK] if _WORKER else f"{os.getpid()}-{time.time_ns()}"
os.environ[MARK] = _mark
_found: list[str] = []


@pytest.hookimpl(trylast=True)  # last, because fixtures of an interrupted run end in pytest's own hook
def pytest_sessionfinish(session: Any) -> None:
    if _WORKER:
        return
    until = time.monotonic() + PATIENCE_S
    while (left := leftover()) and time.monotonic() < until:
        time.sleep(0.1)
    _found.extend(f"{pid}: {_command(pid)} (started in {_test(pid)})" for pid in left)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    if left and session.exitstatus == 0:
        session.exitstatus = 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: Any, nextitem: Any) -> Any:
    """Shut down rclpy after each test file, because after a failed set-up the next `rclpy.init` would fail."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        rclpy = sys.modules.get("rclpy")
        if rclpy is not None:
            rclpy.try_shutdown()
    return result


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _found:
        terminalreporter.section("processes left behind", red=True, bold=True)
        for line in _found:
            terminalreporter.line(line)


def leftover() -> list[int]:
    """Return the ids of running processes that this process or its descendants have started."""
    parents = {int(p.name): state_and_parent(int(p.name))[1] for p in Path("/proc").glob("[0-9]*")}
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    marked = {pid for pid in parents if _environment(pid).get(MARK) == _mark}
    return sorted(
        pid for pid in (mine | marked) - {os.getpid()} if alive(pid) and not any(a in _command(pid) for a in _ALLOWED)
    )


def _environment(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _test(pid: int) -> str:
    return _environment(pid).get("PYTEST_CURRENT_TEST", "no test")
