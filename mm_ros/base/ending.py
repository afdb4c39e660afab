"""Ctrl-C: remembered, and answered with one line.

Python raises KeyboardInterrupt between any two instructions. Inside of a conversion that rclpy's C++ has called it
becomes a RuntimeError, inside of a callback of ctypes (LLVM's, while numba compiles) it is lost. So the request is
remembered, and repeated where it was lost.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

LINE = "mm_ros: stopped by Ctrl-C"
PARENT = "MM_ROS_PARENT"  # id of the process whose end is ours too; it prints the line for all of them
AGAIN_S = 0.02
_COMMANDS = ("mm_ros", "mm_ros.ros.nodes")  # what our wrappers and `python -m` run
_asked = False


def asked() -> bool:
    """A signal asked this process to end, whatever has become of the exception."""
    return _asked


def forget() -> None:
    global _asked
    _asked = False


def remember(*numbers: signal.Signals) -> None:
    """From now on these signals raise KeyboardInterrupt, and `asked` is true after one, also after an earlier one."""
    sys.unraisablehook = _repeat_what_was_lost
    threading.excepthook = _quiet_once_asked
    for number in numbers:
        signal.signal(number, _raise)


def is_unhandled() -> bool:
    """Ctrl-C still has Python's own handler, or ours for the time of the imports."""
    return signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end_at_once)


def say_once() -> None:
    if PARENT not in os.environ:
        print(LINE, file=sys.stderr, flush=True)


def during_imports() -> None:
    """End with the line instead of a traceback while the command `mm_ros` is still importing its modules.

    `mm_ros demo` starts its processes with Ctrl-C blocked, since Python's own start cannot be ended quietly.
    """
    if not _is_command() or threading.current_thread() is not threading.main_thread():
        return
    if is_unhandled():
        signal.signal(signal.SIGINT, _end_at_once)
    # Also where a shell's background ignores it: nodes listen to it later all the same.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _is_command() -> bool:
    """`mm_ros …`, `ros2 run mm_ros NODE`, `python -m` with either module, not a program that imports mm_ros."""
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
    """A pool of processes that Ctrl-C has torn raises in a thread of its own."""
    if not _asked:
        threading.__excepthook__(raised)


def _repeat_what_was_lost(lost: Any) -> None:
    """Of a callback of C, or of the end of an object that Ctrl-C has left half made."""
    if not _asked:
        sys.__unraisablehook__(lost)
    if not (_asked and issubclass(lost.exc_type, KeyboardInterrupt)):
        return
    timer = threading.Timer(AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
