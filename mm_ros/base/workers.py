"""Helper processes: parallel work, Ctrl-C, and errors when a process is killed."""

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
_KILLED = "a helper process was killed, perhaps for lack of memory; fewer --jobs need less memory"

_flags = multiprocessing.util._args_from_interpreter_flags  # type: ignore[attr-defined]
# An internal name of multiprocessing (checked with Python 3.10 to 3.12).
# Python starts helper processes by `-c`, which searches the current folder first. With `-I` they start with the
# standard library only and then receive the path of this process.
multiprocessing.util._args_from_interpreter_flags = lambda: ["-I", *_flags()]  # type: ignore[attr-defined]


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C in processes started in this context, so that this process ends them without their tracebacks.

    Children inherit the signal mask; a handler would come too late during their imports.
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
    """Map in order over `jobs` processes; with one job or one item, in this process.

    The processes are spawned, because a fork would copy locks that threads of numba, onnxruntime or the caller hold. An
    executor is used, because multiprocessing.Pool waits forever for a killed process. When an item kills its process,
    `lost` returns the result of that item; without `lost`, MmRosError is raised.
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
            # Repeat the items in work one by one, to find the one that kills its process.
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
        except KeyboardInterrupt:  # the pool would otherwise wait for the items that have been started
            for process in list(getattr(pool, "_processes", {}).values()):
                process.terminate()
            raise


def in_its_own(function: Callable[[Item], Out], item: Item) -> Out:
    """Run one item in a new process, whose memory is freed afterwards."""
    try:
        with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
            return pool.submit(function, item).result()
    except BrokenProcessPool:
        raise MmRosError(_KILLED) from None
