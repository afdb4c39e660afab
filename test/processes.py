"""Child processes of a test, which end with the `with` block that started them, even if the test fails."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from mm_ros.base.own_python import module_command

POLITE_S = 30.0
PATIENCE_S = 120.0  # maximum time [s] to wait for a certain event, long enough for a busy machine


@cache
def warm() -> None:
    """Build the default database and compile the kernels once, because a test's processes would all do it at once."""
    subprocess.run(module_command("mm_ros", "warm", "--quiet"), check=True)


def installed_command(name: str) -> str:
    """Return the path of the installed command or node `name`."""
    beside = Path(sys.executable).parent
    found = shutil.which(name, path=f"{beside}{os.pathsep}{beside.parent}/lib/mm_ros{os.pathsep}{os.environ['PATH']}")
    assert found, f"{name} is not installed"
    return found


@contextmanager
def running(command: list[str], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Context with a process that runs `command`; the options are those of `subprocess.Popen`."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        end(process)


def end(*processes: "subprocess.Popen[Any]") -> None:
    """Send Ctrl-C to all processes, and after 30 s SIGKILL to those that still run."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
    until = time.monotonic() + POLITE_S
    for process in processes:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def wait_until(done: Callable[[], object], seconds: float, what: str = "it") -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, f"{what}: not within {seconds:g} s"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Return whether a process runs; an ended process stays in /proc until its parent has read the exit code."""
    return state_and_parent(pid)[0] not in "ZX"


def state_and_parent(pid: int) -> tuple[str, int]:
    """Return the state of a process in /proc ("X" if the process does not exist), and the id of its parent process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[1])


def children(pid: int) -> list[int]:
    """Return the ids of the processes that the process `pid` has started and that still exist."""
    out: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended since it was listed
            out += map(int, task.read_text().split())
    return out
