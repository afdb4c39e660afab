"""Processes of a test: each is ended when its block ends, whatever became of the test."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mm_ros.base.own_python import module_command

POLITE_S = 30.0
PATIENCE_S = 120.0  # for what must come: a machine that does much else is no failure


@cache
def warm() -> None:
    """Build the database and compile the kernels once, before a test's processes all do at the same time."""
    subprocess.run(module_command("mm_ros", "warm", "--quiet"), check=True)


@contextmanager
def running(command: list[str], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """The started process; `options` are those of `subprocess.Popen`."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        end(process)


def end(*processes: "subprocess.Popen[Any]") -> None:
    """Ctrl-C to all, as a user does, and SIGKILL to those that are still there after a while."""
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
    """Whether a process runs: one that has ended stays in /proc until its parent has asked for its exit code."""
    return state_and_parent(pid)[0] not in "ZX"


def state_and_parent(pid: int) -> tuple[str, int]:
    """State as /proc has it, X for a process that does not exist, and the id of the parent."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[1])


def children(pid: int) -> list[int]:
    """Ids of the processes that the threads of this one have started."""
    return [int(c) for task in Path(f"/proc/{pid}/task").glob("*/children") for c in task.read_text().split()]
