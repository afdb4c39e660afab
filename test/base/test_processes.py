"""Helper processes: results in order, and no wait for a killed process."""

import math
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import domains
import pytest
from processes import running

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


def test_no_two_test_processes_have_the_same_dds_domain() -> None:
    code = "import domains, os; os.getpid = lambda: 7; print(domains.own_domain(), flush=True); input()"
    command, pipe = [sys.executable, "-c", code], subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(Path(domains.__file__).parent)}
    with ExitStack() as stack:
        started = [
            stack.enter_context(running(command, stdin=pipe, stdout=pipe, text=True, env=environment)) for _ in range(3)
        ]
        assert len({process.stdout.readline() for process in started} - {""}) == 3
