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

from mm_ros.base.errors import MmRosError

Item = TypeVar("Item")
Out = TypeVar("Out")
SPAWN = multiprocessing.get_context("spawn")
_KILLED = "a helper process was killed (is there memory enough?); fewer --jobs need less"

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


def mapped(
    function: Callable[[Item], Out], items: Sequence[Item], jobs: int, chunk: int = 1,
    lost: Callable[[Item], Out] | None = None,
) -> Iterator[Out]:  # fmt: skip
    """In order, over `jobs` processes; with one job or one item right here.

    Spawned, not forked: a fork would copy the locks of numba's, onnxruntime's and the caller's threads. An executor,
    not multiprocessing.Pool: that waits without end for the result of a process that was killed. When a process is
    killed, `lost` makes the result of the item that kills it; without it, that is an error.
    """
    if jobs <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    done = 0
    while done < len(items):
        try:
            for out in _pooled(function, items[done:], jobs, chunk):
                done += 1
                yield out
        except BrokenProcessPool:
            if lost is None:
                raise MmRosError(_KILLED) from None
            # It was one of those that were being worked on: once more, one after the other in a single process.
            try:
                for out in _pooled(function, items[done : done + (jobs + 1) * chunk], 1, 1):
                    done += 1
                    yield out
            except BrokenProcessPool:
                out = lost(items[done])
                done += 1
                yield out


def _pooled(function: Callable[[Item], Out], items: Sequence[Item], jobs: int, chunk: int) -> Iterator[Out]:
    with ProcessPoolExecutor(min(jobs, len(items)), mp_context=SPAWN) as pool:
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
    try:
        with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
            return pool.submit(function, item).result()
    except BrokenProcessPool:
        raise MmRosError(_KILLED) from None
