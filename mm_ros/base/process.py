"""Processes of nodes: freeze the heap before fork, end with the parent, fork children and replace killed ones."""

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
WAKE_NS = 1_000  # Linux may delay each wake-up by this time; its default is 50 µs.
# New objects before a garbage collection; with Python's default of 700, one of 16 frames is delayed by 0.05 ms
COLLECT_AFTER = 10_000
_LIBC = ctypes.CDLL(None)  # libc is loaded here, because nothing may be loaded between fork and exec
TERMINAL_S = 0.3  # Ctrl-C of a terminal reaches the whole group; remaining processes get SIGINT after this time
POLITE_S = 8.0
RETURN_S = 0.3  # before a child that ran for less than STABLE_S is started again; it bounds a crash loop
STABLE_S = 5.0
SPARE_AFTER_S = 2.0  # from a start until the next spare child, which would compete with the start for the CPU
LOOK_S = 0.5  # longest wait for the end of a child: the delay of a Ctrl-C whose exception was lost


def settle() -> None:
    """Freeze the heap after the start: the garbage collector then skips these objects, and memory pages stay shared
    after a fork. From now on Linux wakes this thread without its default delay.
    """
    gc.collect()
    _libc_call("malloc_trim", 0)
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    _libc_call("prctl", _PR_SET_TIMERSLACK, WAKE_NS)


def end_with_parent(parent: int = 0) -> None:
    """End by SIGTERM when the parent ends; `ros2 launch` does not end its processes on SIGTERM or SIGKILL. Linux only.

    SIGINT is not used, because background processes of a shell ignore it and an import that is running may lose it.
    `parent`: process id of the parent; 0 takes it from the environment.
    """
    expected = parent or int(os.environ.get(ending.PARENT, "0") or 0)
    if not expected or expected not in (os.getppid(), parent):
        return  # the parent has another id than expected, so a different process has started this one
    _libc_call("prctl", _PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != expected:  # the parent ended before this process called prctl
        os.kill(os.getpid(), signal.SIGTERM)


def _libc_call(name: str, *arguments: int) -> None:
    """Call a function of libc; do nothing on systems that lack it."""
    function = getattr(_LIBC, name, None)
    if function is not None and sys.platform == "linux":
        function(*arguments)


Start = Callable[[], int]
Prepared = Callable[[], AbstractContextManager[None]]


def run_each(starts: Sequence[Start], prepared: Prepared | None = None) -> int:
    """Run each function in a forked process, so that modules, kernels and models are in memory once.

    A child that a signal killed is replaced. A child that exits, as after a user's mistake, ends all others; its exit
    code is returned. With `prepared`, a spare child waits inside that context to replace the next child that is killed.
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
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(children.pids())


class _Children:
    """Forked children: one for each function, and a spare one."""

    def __init__(self, starts: Sequence[Start], prepared: Prepared | None) -> None:
        self._starts, self._prepared = starts, prepared
        self._running: dict[int, tuple[int, float]] = {}  # index of the function and time of the start, by process id
        self._spare = 0  # process id; 0: none
        self._to_spare = -1  # pipe, by which the spare child gets the index of its function
        self._spare_due_s = 0.0

    def pids(self) -> set[int]:
        return {*self._running, self._spare} - {0}

    def is_spare(self, pid: int) -> bool:
        return pid == self._spare

    def start(self, index: int) -> None:
        self._spare_due_s = time.monotonic() + SPARE_AFTER_S
        self._fork(self._starts[index], lambda pid: self._has_started(pid, index))

    def replace(self, pid: int, number: int) -> None:
        """Start the function of a child again that signal `number` killed; start a new spare child later."""
        if pid == self._spare:
            self._forget_spare()
            if number <= 0:  # it failed by itself, and another one would too
                self._prepared = None
            return
        index, begun_s = self._running.pop(pid)
        print(f"mm_ros: process {pid} died of signal {number}; it is started again", file=sys.stderr, flush=True)
        if time.monotonic() - begun_s < STABLE_S:
            time.sleep(RETURN_S)
        if not self._use_spare(index):
            self.start(index)

    def wait_for_one(self) -> tuple[int, int]:
        """Id and status of an ended child.

        `os.wait()` is not used, because it would keep blocking when a signal arrives just before the call or its
        exception is lost.
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
        except BrokenPipeError:  # the spare child ended just now
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
        """Run a function in a forked child, which exits without the parent's clean-up.

        Signals are blocked until the parent has registered the child and the child is inside its `try`.
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
    """Wait until one of these children ends, at most LOOK_S."""
    handles = [os.pidfd_open(pid) for pid in pids]
    try:
        select.select(handles, [], [], LOOK_S)
    finally:
        for handle in handles:
            os.close(handle)


def _end(pids: set[int]) -> None:
    """End the children by SIGINT; kill those that remain after POLITE_S."""
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
    except ChildProcessError:  # an interrupted wait has already reaped the child
        return True
