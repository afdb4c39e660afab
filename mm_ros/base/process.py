"""Processes of nodes: freeze the heap before fork, end with the parent, fork and restart children."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence

from mm_ros.base import ending

_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29
WAKE_NS = 1_000  # Linux may delay each wake-up by this time; its default is 50 µs.
# New objects before a garbage collection; with Python's default of 700, one of 16 frames is delayed by 0.05 ms
COLLECT_AFTER = 10_000
_LIBC = ctypes.CDLL(None)  # libc is loaded here, because nothing may be loaded between fork and exec
TERMINAL_S = 0.3  # Ctrl-C of a terminal reaches the whole group; remaining processes get SIGINT after this time
POLITE_S = 8.0
RETURN_S = 0.3
LOOK_S = 0.1  # time between two checks for ended children


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


def run_each(starts: Sequence[Callable[[], int]]) -> int:
    """Run each function in a forked process, so that modules, kernels and models are in memory once.

    A child that was killed by a signal is restarted after RETURN_S. A child that exits, as after a user's mistake, ends
    all others; its exit code is returned.
    """
    settle()
    children: dict[int, Callable[[], int]] = {}
    ending.remember(signal.SIGTERM, signal.SIGINT)
    try:
        for start in starts:
            _fork(start, children)
        while True:
            pid, status = _wait_for_one()
            start, code = children.pop(pid), os.waitstatus_to_exitcode(status)
            if code >= 0:
                return code
            print(f"mm_ros: process {pid} died of signal {-code}; it is started again", file=sys.stderr, flush=True)
            time.sleep(RETURN_S)
            _fork(start, children)
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(set(children))


def _wait_for_one() -> tuple[int, int]:
    """Id and status of an ended child.

    `os.wait()` is not used, because it would keep blocking when a signal arrives just before the call or its exception
    is lost.
    """
    while True:
        if ending.asked():
            raise KeyboardInterrupt
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            return pid, status
        time.sleep(LOOK_S)


def _fork(start: Callable[[], int], children: dict[int, Callable[[], int]]) -> None:
    """Run `start` in a forked child, which exits without the parent's clean-up.

    Signals are blocked until the parent has registered the child and the child is inside its `try`.
    """
    me = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    pid = os.fork()
    if pid:
        children[pid] = start
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        return
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        end_with_parent(me)
        code = start()
    except KeyboardInterrupt:
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


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
