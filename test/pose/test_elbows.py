"""Captured elbows against the elbow rule."""

from pathlib import Path

import numpy as np
from elbows import deviation

from mm_ros.motion.importing import load_clips


def test_elbows_are_near_those_of_people(cmu_locomotion: Path) -> None:
    """The rule alone, for given shoulders and hands."""
    names = ("09_01", "35_01", "91_36", "127_03")
    clips = load_clips([cmu_locomotion / "cmu_locomotion" / f"{name}.bvh" for name in names])
    off_rule, off_line = np.array([deviation(clip).mean(0) for clip in clips]).T
    assert (off_line > 0.04).all()
    assert (off_rule < 0.4 * off_line).all()
