"""Pack the arguments of a compiled function into one array, because each array argument costs numba 0.8 µs per call."""

from __future__ import annotations

from typing import Any, TypeVar

import numba
import numpy as np

T = TypeVar("T", bound=tuple[Any, ...])


def packed(values: T) -> tuple[Any, T]:
    """Copy a NamedTuple of arrays, numbers and NamedTuples into one structured array (1,).

    Return the structured array, whose element 0 has the fields of `values`, and a NamedTuple of views into this array.
    If compilation is disabled, the first result is a list whose element 0 is the NamedTuple of views.
    """
    memory = np.zeros(1, _dtype(values))
    views = _views(values, memory)
    return ([views] if numba.config.DISABLE_JIT else memory), views


def _dtype(values: Any) -> np.dtype[Any]:
    fields: list[Any] = []
    for name, value in zip(values._fields, values, strict=True):
        if isinstance(value, tuple):
            fields.append((name, _dtype(value)))
        else:
            array = np.asarray(value)
            fields.append((name, array.dtype, array.shape))
    return np.dtype(fields, align=True)


def _views(values: Any, memory: Any) -> Any:
    out = []
    for name, value in zip(values._fields, values, strict=True):
        if isinstance(value, tuple):
            out.append(_views(value, memory[name]))
            continue
        memory[name][0] = value
        out.append(memory[name][0] if np.ndim(value) else value)
    return type(values)(*out)
