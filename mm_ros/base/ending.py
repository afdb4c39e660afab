"""Handling of Ctrl-C: it raises KeyboardInterrupt and sets a variable, and the process ends with one line of text.

Python can raise KeyboardInterrupt between any two instructions. If Python is called by C++ code of rclpy,
KeyboardInterrupt becomes a RuntimeError. If Python is called by C code through ctypes, as by LLVM while numba compiles,
KeyboardInterrupt is lost. Therefore the variable `_asked` records the Ctrl-C, and a lost KeyboardInterrupt is repeated.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

LINE = "mm_ros: stopped by Ctrl-C"
PARENT = "MM_ROS_PARENT"  # environment variable with the id of the parent process; a process ends when its parent ends
AGAIN_S = 0.02
_COMMANDS = ("mm_ros", "mm_ros.ros.nodes")
_asked = False
_again: threading.Timer | None = None  # repeats a lost KeyboardInterrupt


def asked() -> bool:
    """Return whether a signal has requested the end of this process, even if its KeyboardInterrupt was lost."""
    return _asked


def forget() -> None:
    global _asked
    _asked = False
    _cancel()


def remember(*numbers: signal.Signals) -> None:
    """Make the signals `numbers` raise KeyboardInterrupt and make `asked()` return True after a signal."""
    sys.unraisablehook = _repeat_what_was_lost
    threading.excepthook = _quiet_once_asked
    for number in numbers:
        signal.signal(number, _raise)


def ignore_more() -> None:
    """Ignore each further Ctrl-C or SIGTERM while the process cleans up."""
    while threading.current_thread() is threading.main_thread():
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            return
        except KeyboardInterrupt:  # A second Ctrl-C can arrive before the signals are ignored.
            continue


def is_unhandled() -> bool:
    """Return whether SIGINT still has Python's own signal handler or the handler that `during_imports` installs."""
    return signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _end_at_once)


def say_line() -> None:
    """Print the line of a process that a Ctrl-C ends."""
    _cancel()
    if PARENT not in os.environ:
        print(LINE, file=sys.stderr, flush=True)


def exit_by_code() -> None:
    """Make Python exit with the exit code of the command instead of killing itself by SIGINT.

    `python -m` kills itself at its exit if KeyboardInterrupt has left the last call of `exec` or `eval` with a text,
    even if the exception was handled later. The decorator `dataclass`, for example, calls `exec` while modules are
    imported. The empty text here becomes the last call.
    """
    exec("")


def during_imports() -> None:
    """Make a Ctrl-C during the imports of the command `mm_ros` print one line instead of a traceback.

    The installed commands and `mm_ros demo` start Python with SIGINT blocked, because a Ctrl-C during Python's start
    prints a traceback.
    """
    if not _is_command() or threading.current_thread() is not threading.main_thread():
        return
    if is_unhandled():
        signal.signal(signal.SIGINT, _end_at_once)
    # SIGINT is also unblocked in a background process of a shell, because nodes handle SIGINT there, too.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _is_command() -> bool:
    """Return whether this process is a command of mm_ros, rather than another program that imports mm_ros."""
    name, given = (sys.argv or [""])[0], sys.orig_argv
    if name == "-m":  # While `python -m` imports the package, `sys.argv[0]` is "-m".
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
    """Print no exceptions of threads after a Ctrl-C, because a thread of a process pool then raises an exception."""
    if not _asked:
        threading.__excepthook__(raised)


def _repeat_what_was_lost(lost: Any) -> None:
    """Send SIGINT again if the KeyboardInterrupt of a Ctrl-C was lost in a C callback or in a destructor."""
    global _again
    if not _asked:
        sys.__unraisablehook__(lost)
    if not (_asked and issubclass(lost.exc_type, KeyboardInterrupt)):
        return
    _cancel()
    _again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
    _again.daemon = True
    _again.start()


def _cancel() -> None:
    """Do not repeat a lost KeyboardInterrupt any more."""
    if _again is not None:
        _again.cancel()
