"""State of a kernel as one array, with views for Python."""

from typing import Any, NamedTuple

import numpy as np

from mm_ros.maths.jit import njit
from mm_ros.maths.packed import packed


class Inner(NamedTuple):
    rows: Any
    count: int


class Outer(NamedTuple):
    places: Any
    inner: Inner
    flags: Any
    halflife: float


@njit
def changed(memory):
    s = memory[0]
    s.places[1, 2] = s.halflife
    s.inner.rows[0] += s.inner.count
    s.flags[1] = 1
    return s.places[0, 0]


def test_a_kernel_and_python_see_the_same_numbers():
    given = Outer(np.arange(6.0).reshape(2, 3), Inner(np.ones(2), 3), np.zeros(2, np.int8), 0.5)
    memory, views = packed(given)
    assert changed(memory) == 0.0
    assert (views.places[1, 2], views.inner.rows[0], views.flags[1]) == (0.5, 4.0, 1)
    views.places[0, 0] = 7.0
    assert changed(memory) == 7.0
    assert type(views) is Outer and type(views.inner) is Inner and views.halflife == 0.5
    assert given.places[1, 2] == 5.0  # a copy
