"""The project's `njit`: cached on disk, IEEE arithmetic, NumPy's rules for division by zero.

No fastmath: the graph and `evaluate` must agree bit for bit, and NaN must stay visible.
`NUMBA_DISABLE_JIT=1`, numba's own switch, works too (coverage, debugging).
"""

from collections.abc import Callable
from typing import Any, TypeVar, overload

import numba

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
