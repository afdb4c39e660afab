"""Helper processes: work spread over them, Ctrl-C, and what becomes of us when one dies."""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from mm_ros.core.errors import MmRosError

Item = TypeVar("Item")
Out = TypeVar("Out")
SPAWN = multiprocessing.get_context("spawn")

_flags = multiprocessing.util._args_from_interpreter_flags  # type: ignore[attr-defined]
# Python starts helper processes by `-c`, which searches the current folder first; then they take over our own path.
# Isolated ones start with the standard library alone.
multiprocessing.util._args_from_interpreter_flags = lambda: ["-I", *_flags()]  # type: ignore[attr-defined]


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


def mapped(function: Callable[[Item], Out], items: Sequence[Item], jobs: int, chunk: int = 1) -> Iterator[Out]:
    """In order, over `jobs` processes; with one job or one item right here.

    Spawned, not forked: a fork would copy the locks of numba's, onnxruntime's and the caller's threads. An executor,
    not multiprocessing.Pool: that waits without end for the result of a process that was killed.
    """
    if jobs <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    with _dead_is_said(), ProcessPoolExecutor(min(jobs, len(items)), mp_context=SPAWN) as pool:
        with deaf_to_ctrl_c():
            results = pool.map(function, items, chunksize=chunk)
        try:
            yield from results
        except KeyboardInterrupt:  # the pool would wait for what they have begun
            for process in list(getattr(pool, "_processes", {}).values()):
                process.terminate()
            raise


def in_its_own(function: Callable[[Item], Out], item: Item) -> Out:
    """In a new process that ends with it: what it takes of memory is its own."""
    with _dead_is_said(), ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        return pool.submit(function, item).result()


@contextmanager
def _dead_is_said() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise MmRosError("a helper process was killed (is there memory enough?); fewer --jobs need less") from None
