"""Processes that run nodes: fork child processes that share memory, replace killed ones, and end with the parent."""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from mm_ros.base import ending

_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29
WAKE_NS = 1_000  # Linux may wake a sleeping thread up to this time [ns] too late; the default of Linux is 50 µs.
# Python collects garbage after 10,000 new objects. A collection after 700 objects (default) delays one of 16 frames by
# 0.05 ms.
COLLECT_AFTER = 10_000
_LIBC = ctypes.CDLL(None)  # libc is loaded at import, because no library may be loaded between fork and exec.
# A terminal sends Ctrl-C to all child processes; after 0.3 s, the parent sends SIGINT to those that still run.
TERMINAL_S = 0.3
POLITE_S = 8.0
RETURN_S = 0.3  # A child process that was killed soon after its start is replaced after this pause [s].
STABLE_S = 5.0
SPARE_AFTER_S = 2.0  # The spare process is forked 2 s after the other processes, because their start needs the CPU.
LOOK_S = 0.5  # The parent process checks every 0.5 s whether the KeyboardInterrupt of a Ctrl-C was lost.


def settle() -> None:
    """Exclude all present objects from garbage collection, so that forked processes share their memory. `settle` also
    makes Linux wake sleeping threads with a smaller delay."""
    gc.collect()
    _libc_call("malloc_trim", 0)
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    _libc_call("prctl", _PR_SET_TIMERSLACK, WAKE_NS)


def end_with_parent(parent: int = 0) -> None:
    """Make Linux send SIGTERM to this process when the parent process ends, for example when `ros2 launch` is killed.

    SIGTERM is used, because background processes of a shell ignore SIGINT, and because SIGINT can be lost in an import.
    `parent` is the id of the parent process; if it is 0, the environment variable MM_ROS_PARENT has the id.
    """
    expected = parent or int(os.environ.get(ending.PARENT, "0") or 0)
    if not expected or expected not in (os.getppid(), parent):
        return  # MM_ROS_PARENT is missing, or names a process that is not the parent of this process.
    _libc_call("prctl", _PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != expected:  # The parent process ended before the call of prctl, so Linux will not send SIGTERM.
        os.kill(os.getpid(), signal.SIGTERM)


def _libc_call(name: str, *arguments: int) -> None:
    function = getattr(_LIBC, name, None)
    if function is not None and sys.platform == "linux":
        function(*arguments)


Start = Callable[[], int]
Prepared = Callable[[], AbstractContextManager[None]]


def run_each(starts: Sequence[Start], prepared: Prepared | None = None) -> int:
    """Run each function of `starts` in a forked process, so that the processes share modules and models in memory.

    A child process that was killed by a signal is replaced. If a child process exits by itself, for example after a
    mistake of the user, the other child processes are ended, and `run_each` returns the exit code. If `prepared` is
    given, a spare process enters this context in advance, to replace a killed one without delay.
    """
    settle()
    children = _Children(starts, prepared)
    ending.remember(signal.SIGTERM, signal.SIGINT)
    try:
        for i in range(len(starts)):
            children.start(i)
        while True:
            pid, status = children.wait_for_one()
            code = os.waitstatus_to_exitcode(status)
            if code >= 0 and not children.is_spare(pid):
                return code
            children.replace(pid, -code)
    except KeyboardInterrupt:
        return 0
    finally:
        ending.ignore_more()
        _end(children.pids())


class _Children:
    """The forked child processes: one for each function, and a spare one that replaces the next killed one."""

    def __init__(self, starts: Sequence[Start], prepared: Prepared | None) -> None:
        self._starts, self._prepared = starts, prepared
        self._running: dict[int, tuple[int, float]] = {}  # maps a child process's id to function index and start time
        self._spare = 0  # process id; 0: none
        self._to_spare = -1  # write end of the pipe to the spare child process; −1 if there is none
        self._spare_due_s = 0.0

    def pids(self) -> set[int]:
        return {*self._running, self._spare} - {0}

    def is_spare(self, pid: int) -> bool:
        return pid == self._spare

    def start(self, index: int) -> None:
        self._spare_due_s = time.monotonic() + SPARE_AFTER_S
        self._fork(self._starts[index], lambda pid: self._has_started(pid, index))

    def replace(self, pid: int, number: int) -> None:
        """Replace the child process `pid` that was killed by the signal `number`."""
        if pid == self._spare:
            self._forget_spare()
            if number <= 0:  # A spare process that failed by itself is not replaced, because a new one would fail, too.
                self._prepared = None
            return
        index, begun_s = self._running.pop(pid)
        print(f"mm_ros: process {pid} died of signal {number}; it is started again", file=sys.stderr, flush=True)
        if time.monotonic() - begun_s < STABLE_S:
            time.sleep(RETURN_S)
        if not self._use_spare(index):
            self.start(index)

    def wait_for_one(self) -> tuple[int, int]:
        """Wait for the end of a child process and return its process id and exit status.

        `os.wait()` is not used, because a signal that arrives just before the call would not end the wait.
        """
        while True:
            if ending.asked():
                raise KeyboardInterrupt
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                return pid, status
            if self._prepared is not None and not self._spare and time.monotonic() > self._spare_due_s:
                self._start_spare(self._prepared)
            _wait_for_end(self.pids())

    def _start_spare(self, prepared: Prepared) -> None:
        from_parent, self._to_spare = os.pipe()

        def wait_for_work() -> int:
            with prepared():
                try:
                    index = os.read(from_parent, 1)[0]
                except KeyboardInterrupt:
                    ending.ignore_more()
                    return 0
                return self._starts[index]()

        def started(pid: int) -> None:
            self._spare = pid

        self._fork(wait_for_work, started)
        os.close(from_parent)

    def _use_spare(self, index: int) -> bool:
        if not self._spare:
            return False
        pid = self._spare
        try:
            os.write(self._to_spare, bytes([index]))
        except BrokenPipeError:  # The spare process can end just before the parent process writes to the pipe.
            return False
        self._forget_spare()
        self._has_started(pid, index)
        return True

    def _forget_spare(self) -> None:
        os.close(self._to_spare)
        self._spare, self._to_spare = 0, -1
        self._spare_due_s = time.monotonic() + SPARE_AFTER_S

    def _has_started(self, pid: int, index: int) -> None:
        self._running[pid] = index, time.monotonic()

    def _fork(self, run: Start, register: Callable[[int], None]) -> None:
        """Run a function in a forked child process, which exits without the clean-up code of the parent process.

        Signals stay blocked until the parent has stored the process id and the child has entered its `try` block.
        """
        me = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        pid = os.fork()
        if pid:
            register(pid)
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            return
        code = 1
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            end_with_parent(me)
            code = run()
        except KeyboardInterrupt:
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _wait_for_end(pids: set[int]) -> None:
    handles = [os.pidfd_open(pid) for pid in pids]
    try:
        select.select(handles, [], [], LOOK_S)
    finally:
        for handle in handles:
            os.close(handle)


def _end(pids: set[int]) -> None:
    pids = _left_after(pids, TERMINAL_S)
    for number, seconds in ((signal.SIGINT, POLITE_S), (signal.SIGKILL, POLITE_S)):
        for pid in pids:
            os.kill(pid, number)
        pids = _left_after(pids, seconds)


def _left_after(pids: set[int], seconds: float) -> set[int]:
    until = time.monotonic() + seconds
    while pids and time.monotonic() < until:
        time.sleep(0.02)
        pids = {pid for pid in pids if not _is_gone(pid)}
    return pids


def _is_gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:  # A `waitpid` that Ctrl-C interrupted has already taken the exit status of this child.
        return True
