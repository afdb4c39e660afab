"""Helper processes: results in order, and no wait for a killed process."""

import math
import os

import pytest

from mm_ros.base.errors import MmRosError
from mm_ros.base.workers import in_its_own, mapped


@pytest.mark.parametrize(("jobs", "chunk"), [(1, 1), (2, 1), (2, 3)])
def test_results_come_in_the_order_of_the_items(jobs: int, chunk: int):
    assert list(mapped(math.factorial, range(7), jobs, chunk)) == [1, 1, 2, 6, 24, 120, 720]


def test_a_helper_that_ends_before_its_work_is_a_sentence():
    with pytest.raises(MmRosError, match="helper process was killed"):
        list(mapped(os._exit, [9] * 6, 2))
    with pytest.raises(MmRosError, match="helper process was killed"):
        in_its_own(os._exit, 9)


def test_who_stops_asking_is_not_held():
    results = mapped(math.factorial, range(50), 2)
    assert next(results) == 1
    results.close()
    assert list(results) == []


def test_a_process_of_its_own():
    pid = "__import__('os').getpid()"
    assert len({in_its_own(eval, pid), in_its_own(eval, pid), os.getpid()}) == 3
