"""Handling of Ctrl-C: the request is stored, and the process ends with one line.

Python raises KeyboardInterrupt between any two instructions. In a conversion called by rclpy's C++ the exception
becomes a RuntimeError; in a ctypes callback (LLVM's, while numba compiles) it is lost. Therefore the request is stored,
and the signal is repeated when its exception was lost.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

LINE = "mm_ros: stopped by Ctrl-C"
PARENT = "MM_ROS_PARENT"  # id of the process that ends its children and prints LINE for all of them
AGAIN_S = 0.02
_COMMANDS = ("mm_ros", "mm_ros.ros.nodes")  # files that the installed commands and `python -m` run
_asked = False


def asked() -> bool:
    """Whether a signal requested the end of this process, even if its exception was lost."""
    return _asked


def forget() -> None:
    global _asked
    _asked = False


def remember(*numbers: signal.Signals) -> None:
    """Make these signals raise KeyboardInterrupt and set `asked`. A request that was stored before is kept."""
    sys.unraisablehook = _repeat_what_was_lost
    threading.excepthook = _quiet_once_asked
    for number in numbers:
        signal.signal(number, _raise)


def ignore_more() -> None:
    """Ignore further requests while the process cleans up."""
    while threading.current_thread() is threading.main_thread():
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            return
        except KeyboardInterrupt:  # another Ctrl-C arrived in the meantime
            continue


def is_unhandled() -> bool:
    """Whether the handler of Ctrl-C is Python's own one or that of `during_imports`."""
    return signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end_at_once)


def say_once() -> None:
    if PARENT not in os.environ:
        print(LINE, file=sys.stderr, flush=True)


def during_imports() -> None:
    """While the command `mm_ros` imports its modules, a Ctrl-C ends it with one line instead of a traceback.

    `mm_ros demo` starts its processes with Ctrl-C blocked, because Ctrl-C during Python's start prints a traceback.
    """
    if not _is_command() or threading.current_thread() is not threading.main_thread():
        return
    if is_unhandled():
        signal.signal(signal.SIGINT, _end_at_once)
    # SIGINT is also unblocked when a shell ignores it for background processes, because the nodes handle it later
    # anyway.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _is_command() -> bool:
    """Whether this is `mm_ros …`, `ros2 run mm_ros NODE` or `python -m` with either, rather than a program that imports
    mm_ros.
    """
    name, given = (sys.argv or [""])[0], sys.orig_argv
    if name == "-m":  # Python imports the package before it runs the module
        return given[given.index("-m") + 1] in _COMMANDS
    return os.path.basename(name) in _COMMANDS


def _end_at_once(_number: int, _frame: FrameType | None) -> None:
    if PARENT not in os.environ:
        os.write(2, f"{LINE}\n".encode())
    os._exit(130)


def _raise(_number: int, _frame: FrameType | None) -> None:
    global _asked
    _asked = True
    raise KeyboardInterrupt


def _quiet_once_asked(raised: Any) -> None:
    """Suppress exceptions of threads after Ctrl-C: a process pool that it interrupts raises in its own thread."""
    if not _asked:
        threading.__excepthook__(raised)


def _repeat_what_was_lost(lost: Any) -> None:
    """Repeat a Ctrl-C whose exception was lost in a C callback or in the destructor of a half-made object."""
    if not _asked:
        sys.__unraisablehook__(lost)
    if not (_asked and issubclass(lost.exc_type, KeyboardInterrupt)):
        return
    timer = threading.Timer(AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
