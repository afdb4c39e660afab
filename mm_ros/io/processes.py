"""Helper processes and Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started in here do not hear a terminal's Ctrl-C: who started them ends them, without a word.

    By the mask, which they inherit; a handler would come too late for one that is still importing.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
