import numpy as np
import pytest

from mm_ros.core.clip import Clip
from mm_ros.core.errors import MmRosError
from mm_ros.core.skeleton import J, default_skeleton
from mm_ros.offline.thesis_bench import lines, measure, part_of


def clip(name: str, frames: int) -> Clip:
    rotations = np.zeros((frames, J, 4), np.float32)
    rotations[..., 0] = 1
    positions = np.tile(default_skeleton().offsets, (frames, 1, 1))
    return Clip(name, 60.0, default_skeleton(), positions, rotations)


def test_a_smaller_part_lies_within_a_larger_one():
    clips = [clip(f"c{i}", 10 + i) for i in range(40)]
    parts = [{c.name for c in part_of(clips, share)} for share in (0.1, 0.25, 1.0)]
    assert parts[0] < parts[1] < parts[2]
    assert len(parts[2]) == 40
    frames = sum(len(c) for c in part_of(clips, 0.25))
    assert frames == pytest.approx(0.25 * sum(len(c) for c in clips), abs=50)


def test_no_part_is_refused_in_words():
    with pytest.raises(MmRosError, match="share"):
        part_of([clip("a", 10)], 0.0)


def test_the_table_sets_ours_beside_the_thesis():
    row = {"share": 1.0, "frames": 9, "position_accuracy_m": 0.3, "root_error_cm": 6.0, "poses": 5, "seconds": 1.0}
    row |= {"at_the_clamp": 0.1}
    assert "19 cm" in lines({"rows": [row]})[1] and "6932" in lines({"rows": [row]})[1]


@pytest.mark.parametrize(("data", "users"), [([], [clip("a", 90)]), ([clip("a", 90)], [])])
def test_nobody_to_measure_is_a_sentence(data, users):
    with pytest.raises(MmRosError, match="no clips for the"):
        measure(data, users)
