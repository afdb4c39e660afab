"""The timeline gives each sample one verdict."""

import numpy as np
import pytest

from mm_ros.body.timeline import ADVANCE, CARRY, DROP, HOLD, RESET, Timeline, is_identity
from mm_ros.body.types import identity_pose

MS = 1_000_000


@pytest.mark.parametrize(
    ("stamp_ms", "epoch", "verdict", "dt"),
    [
        (1011, 3, ADVANCE, 0.011),
        (1000, 3, DROP, 0),
        (950, 3, DROP, 0),
        (900, 3, DROP, 0),
        (899, 3, RESET, 0),
        (1500, 3, ADVANCE, 0.5),
        (1501, 3, HOLD, 0),
        (1011, 4, RESET, 0),
        (1000, 4, RESET, 0),
        (0, 4, RESET, 0),
        (990, 2, DROP, 0),
        (1011, 0, RESET, 0),
    ],
)
def test_after_a_sample_at_one_second_of_epoch_three(stamp_ms, epoch, verdict, dt):
    timeline = Timeline()
    assert timeline.judge(1000 * MS, 3).verdict == RESET  # the first of all
    got = timeline.judge(stamp_ms * MS, epoch, identity_pose())
    assert got.verdict == verdict and got.dt == pytest.approx(dt)


def test_recentre_carries_and_the_stick_advances():
    moved = identity_pose()
    moved[0] = 0.5
    timeline = Timeline()
    timeline.judge(0, 1)
    assert timeline.judge(10 * MS, 1, moved) == (ADVANCE, pytest.approx(0.01))
    assert timeline.judge(20 * MS, 2, moved) == (CARRY, pytest.approx(0.01))


def test_a_dropped_sample_leaves_no_trace():
    timeline = Timeline()
    timeline.judge(100 * MS)
    timeline.judge(60 * MS)
    assert timeline.judge(110 * MS).dt == pytest.approx(0.01)


def test_identity_in_both_covers():
    assert is_identity(identity_pose()) and is_identity(np.array([0, 0, 0, -1.0, 0, 0, 0]))
    assert not is_identity(np.array([0, 0, 0, np.cos(0.01), 0, 0, np.sin(0.01)]))
