"""`--tune`: a search without results ends."""

import threading
import time

import pytest

pytest.importorskip("torch", reason="training needs torch: mm_ros setup train")

from mm_ros.base.errors import MmRosError
from mm_ros.facing.training.tune import patiently


def test_a_search_whose_workers_are_frozen_ends_with_a_sentence():
    never = threading.Event()
    with pytest.raises(MmRosError, match=r"no trial has reported a result .*\(3 came before\)"):
        patiently(never.wait, lambda: 3, patience=0.1)
    never.set()


def test_a_search_that_goes_on_telling_is_waited_for():
    told = []

    def search():
        for k in range(12):
            told.append(k)
            time.sleep(0.05)
        return "best"

    assert patiently(search, lambda: len(told), patience=0.3) == "best"
    with pytest.raises(ZeroDivisionError):
        patiently(lambda: 1 / 0, lambda: 0, patience=5.0)
