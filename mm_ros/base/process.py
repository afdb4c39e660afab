"""What a process of nodes does for the machine: rests its memory, ends with its parent, shares it with its like."""

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

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # loaded here: between fork and exec nothing may be loaded
TERMINAL_S = 0.3  # Ctrl-C of a terminal goes to the whole group; whoever has not heard it by then is told
POLITE_S = 8.0
RETURN_S = 1.0
LOOK_S = 0.1  # between two looks for children that have ended


def settle() -> None:
    """After the start: what is there stays, so the collector need not walk through it inside of a frame again."""
    gc.collect()
    _libc_call("malloc_trim", 0)
    gc.freeze()


def end_with_parent(parent: int = 0) -> None:
    """End by SIGTERM when the parent ends; `ros2 launch` leaves its processes alone when it gets SIGTERM or is killed.

    Not by SIGINT, which a shell's background processes ignore and which an import that is under way may swallow.

    `parent`: its process id; without one, what the environment says. Linux only.
    """
    expected = parent or int(os.environ.get(ending.PARENT, "0") or 0)
    if not expected or expected not in (os.getppid(), parent):
        return  # started by somebody else, who may outlive the launch or not
    _libc_call("prctl", _PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != expected:  # it ended just before
        os.kill(os.getpid(), signal.SIGTERM)


def _libc_call(name: str, *arguments: int) -> None:
    """Where there is no such function (another libc, another system) nothing is done."""
    function = getattr(_LIBC, name, None)
    if function is not None and sys.platform == "linux":
        function(*arguments)


def run_each(starts: Sequence[Callable[[], int]]) -> int:
    """Each in a process forked from this one, so that modules, kernels and models are in memory once.

    Who is killed comes back after a second; who ends by itself, as after a user's mistake, ends all with its code.
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
    """Id and status of a child that has ended.

    Not `os.wait()`: when a signal comes just before that blocks, or its exception is swallowed, it would wait on.
    """
    while True:
        if ending.asked():
            raise KeyboardInterrupt
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            return pid, status
        time.sleep(LOOK_S)


def _fork(start: Callable[[], int], children: dict[int, Callable[[], int]]) -> None:
    """Of the child only `start` runs; the parent's own clean-up is not its business.

    Ctrl-C waits meanwhile: the parent has to know its child first, and the child to stand where it can be ended.
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
    """Nobody is waited for without end: who does not hear Ctrl-C is killed."""
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
    except ChildProcessError:  # Ctrl-C came between its end and our hearing of it
        return True
