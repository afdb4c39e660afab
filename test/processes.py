"""Processes of a test: each is ended when its block ends, whatever became of the test."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

POLITE_S = 30.0


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
