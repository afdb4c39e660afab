"""Captured elbows against the elbow rule."""

from pathlib import Path

import numpy as np
from elbows import deviation

from mm_ros.motion.importing import load_clips


def deviations(folder: Path, names: tuple[str, ...]) -> np.ndarray:
    """(3, clips) as `deviation`, mean of each clip."""
    return np.array([deviation(clip).mean(0) for clip in load_clips([folder / f"{name}.bvh" for name in names])]).T


def test_elbows_are_near_those_of_people(cmu_locomotion: Path) -> None:
    """The rule alone, for given shoulders and hands."""
    names = ("09_01", "35_01", "91_36", "127_03")
    off_rule, _, off_line = deviations(cmu_locomotion / "cmu_locomotion", names)
    assert (off_line > 0.04).all()
    assert (off_rule < 0.4 * off_line).all()


def test_the_fingers_show_where_the_elbow_is(cmu_general: Path) -> None:
    """Also when the wrists are bent at random: nearer elbows in reaches and gestures."""
    off_rule, with_fingers, _ = deviations(cmu_general / "cmu_general", ("16_01", "82_02", "83_02", "120_05"))
    assert (with_fingers < 0.95 * off_rule).all()
