"""The decorator `njit`, which compiles a function with the numba options of this project.

The compiled functions are stored on the disk. Division by zero returns infinity or NaN, as in NumPy. Numba's option
`fastmath` is off, because the ROS nodes and `mm_ros evaluate` must compute bit-identical results. The environment
variable `NUMBA_DISABLE_JIT=1` disables compilation, for debugging and for measurements of test coverage.
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
    """Compile a function. Arguments of the decorator, as in `@njit(inline="always")`, are passed to `numba.njit`."""
    decorate = numba.njit(**{**_OPTIONS, **options})
    return decorate if function is None else decorate(function)


_PACKAGE = Path(__file__).resolve().parents[1]
_Locator: Any = getattr(caching, "UserProvidedCacheLocator", None) or caching._UserProvidedCacheLocator


class SharedLocator(_Locator):  # type: ignore[misc]
    """Path of numba's cache, which all checkouts with the same source code share (checked with numba 0.68).

    By default, numba uses another cache for each path of a checkout, so each new clone would compile for over a minute.
    """

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Return None for a function outside `mm_ros`, so that numba uses its default cache for this function."""
        return super().from_function(py_func, py_file) if _PACKAGE in Path(py_file).resolve().parents else None

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        return str(Path(py_file).resolve().relative_to(_PACKAGE).parent)

    def get_source_stamp(self) -> str:
        return kernels_key()


def _save(self: Any, key: Any, data: Any) -> None:
    """Save compiled code in a file whose name contains the hash of the signature of the compiled function.

    By default, numba numbers the files of compiled code. If two processes compile one function for different argument
    types at the same time, both could choose the same number, load the code of the other process, and crash.
    """
    name = self._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:15], 16))
    self._save_data(name, data)
    self._save_index(self._load_index() | {key: name})


caching.CacheImpl._locator_classes.insert(0, SharedLocator)
caching.IndexDataCacheFile.save = _save
