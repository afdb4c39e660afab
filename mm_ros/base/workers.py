"""Helper processes for parallel work, which handle Ctrl-C and report items whose process was killed."""

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
# The option `-I` of Python prevents helper processes from importing modules of the current folder. `-I` is set by an
# internal function of multiprocessing, which was checked with Python 3.10 to 3.12.
multiprocessing.util._args_from_interpreter_flags = lambda: ["-I", *_flags()]  # type: ignore[attr-defined]


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Block SIGINT in the processes that are started in this context, so that Ctrl-C prints none of their tracebacks.

    SIGINT is blocked by the signal mask, which new processes inherit. A signal handler would be too late, because a new
    process installs it only after its imports.
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
    """Yield `function(item)` for each item in order, computed by `jobs` processes, or by this process if one suffices.

    Each process is spawned, because a fork would copy locks that threads of numba, onnxruntime or the caller hold.
    `ProcessPoolExecutor` is used, because multiprocessing.Pool waits forever for a killed process. If an item kills its
    process, `lost(item)` is yielded instead; if `lost` is None, MmRosError is raised.
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
            # The unfinished items are computed one by one, to find the item that kills its process.
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
        except KeyboardInterrupt:  # After a Ctrl-C, the pool must not wait for the items that it has started.
            for process in list(getattr(pool, "_processes", {}).values()):
                process.terminate()
            raise


def in_its_own(function: Callable[[Item], Out], item: Item) -> Out:
    """Return `function(item)`, computed in a new process whose memory is freed afterwards."""
    try:
        with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
            return pool.submit(function, item).result()
    except BrokenProcessPool:
        raise MmRosError(_KILLED) from None
