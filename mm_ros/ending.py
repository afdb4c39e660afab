"""Ctrl-C that is remembered.

Python raises KeyboardInterrupt wherever it stands. Where that is inside of a conversion that rclpy's C++ has called,
what comes out is a RuntimeError; and who lives through errors, as the callbacks of nodes do, would live through it.
"""

from __future__ import annotations

import signal
from types import FrameType

_asked = False


def asked() -> bool:
    """Somebody wants us to end, whatever has become of the exception."""
    return _asked


def forget() -> None:
    global _asked
    _asked = False


def remember(*numbers: signal.Signals) -> None:
    """From now on these signals raise KeyboardInterrupt, and `asked` is true after one, also after an earlier one."""
    for number in numbers:
        signal.signal(number, _raise)


def _raise(_number: int, _frame: FrameType | None) -> None:
    global _asked
    _asked = True
    raise KeyboardInterrupt
