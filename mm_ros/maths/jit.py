"""The project's `njit`: cached on disk, IEEE arithmetic, NumPy's rules for division by zero.

No fastmath: the graph and `evaluate` must agree bit for bit, and NaN must stay visible.
`NUMBA_DISABLE_JIT=1`, numba's own switch, works too (coverage, debugging).
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

import numba
from numba.core import caching

from mm_ros.base.cache import kernels_key

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS = {"cache": True, "error_model": "numpy", "fastmath": False}


@overload
def njit(function: _Function) -> _Function: ...


@overload
def njit(**options: Any) -> Callable[[_Function], _Function]: ...


def njit(function: _Function | None = None, **options: Any) -> Any:
    """`@njit` or `@njit(inline="always")`; options are passed to numba after the project's own."""
    decorate = numba.njit(**{**_OPTIONS, **options})
    return decorate if function is None else decorate(function)


_PACKAGE = Path(__file__).resolve().parents[1]
_Locator: Any = getattr(caching, "UserProvidedCacheLocator", None) or caching._UserProvidedCacheLocator


class SharedLocator(_Locator):  # type: ignore[misc]
    """Place where numba caches kernels, shared by all checkouts with the same sources (checked with numba 0.68).

    numba separates checkouts by their paths, so that each new clone would compile for more than a minute.
    """

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Return None for files outside this package: numba then asks its own locators."""
        return super().from_function(py_func, py_file) if _PACKAGE in Path(py_file).resolve().parents else None

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        return str(Path(py_file).resolve().relative_to(_PACKAGE).parent)

    def get_source_stamp(self) -> str:
        return kernels_key()


def _save(self: Any, key: Any, data: Any) -> None:
    """Save a kernel in a file whose name contains the hash of the kernel's signature.

    numba would number the files instead. Two processes that compile two signatures of one function at the same time
    would then choose the same number. The index could refer to the code of the other signature, and calling this code
    would crash the process.
    """
    name = self._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:15], 16))
    self._save_data(name, data)
    self._save_index(self._load_index() | {key: name})


caching.CacheImpl._locator_classes.insert(0, SharedLocator)
caching.IndexDataCacheFile.save = _save
