import numpy as np
import pytest
from bvh_dialects import walks

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import J, default_skeleton
from mm_ros.cli.main import main
from mm_ros.evaluation.benchmarks import search as search_bench
from mm_ros.evaluation.benchmarks import search_data
from mm_ros.evaluation.benchmarks import thesis as thesis_bench
from mm_ros.evaluation.benchmarks.thesis import lines, measure, part_of
from mm_ros.motion import procedural
from mm_ros.motion import shared_data as data


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


def test_an_empty_part_is_refused():
    with pytest.raises(MmRosError, match="share"):
        part_of([clip("a", 10)], 0.0)


def test_the_table_has_the_figures_of_the_thesis():
    row = {"share": 1.0, "frames": 9, "position_accuracy_m": 0.3, "root_error_cm": 6.0, "poses": 5, "seconds": 1.0}
    row |= {"at_the_clamp": 0.1}
    assert "19 cm" in lines({"rows": [row]})[1] and "6932" in lines({"rows": [row]})[1]


@pytest.mark.parametrize(("motion", "users"), [([], [clip("a", 90)]), ([clip("a", 90)], [])])
def test_no_clips_are_reported_in_one_sentence(motion, users):
    with pytest.raises(MmRosError, match="no clips for the"):
        measure(motion, users)


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    """A machine without the shared data."""
    monkeypatch.delenv("MM_ROS_DATA", raising=False)
    monkeypatch.setattr(data, "BESIDE", tmp_path / "nowhere")


def test_without_the_shared_data_procedural_people_take_its_place(no_data, monkeypatch, capsys):
    seen = {}

    def measured(database_clips, users, tell):
        seen.update(database={c.name for c in database_clips}, users={c.name for c in users})
        return {"rows": []}

    monkeypatch.setattr(procedural, "make_clips", lambda seed: [clip(f"{seed}-{i}", 200) for i in range(20)])
    monkeypatch.setattr(thesis_bench, "measure", measured)
    assert main(["bench", "thesis"]) == 0
    said = capsys.readouterr().err
    assert "procedural motion is used" in said and "mocap.cs.cmu.edu" in said and "MM_ROS_DATA" in said
    assert seen["database"] == {f"0-{i}" for i in range(20)} and seen["users"] == {f"1-{i}" for i in range(20)}


def test_a_named_folder_that_is_not_there_is_refused_with_what_it_should_hold(no_data, monkeypatch, capsys):
    monkeypatch.setenv("MM_ROS_DATA", "/nowhere/data")
    assert main(["bench", "thesis"]) == 2
    said = capsys.readouterr().err
    assert "/nowhere/data" in said and "cmu_locomotion" in said and "mocap.cs.cmu.edu" in said


def test_the_search_bench_takes_procedural_motion_and_says_so(no_data, monkeypatch, capsys):
    stick_trajectories = search_data.stick_trajectories
    monkeypatch.setattr(search_data, "stick_trajectories", lambda frames, seed: stick_trajectories(frames // 10, seed))
    monkeypatch.setattr(search_data, "make_clips", lambda seed: list(walks().values()))
    case = search_data.make_case(1500, search_data.motion_features(lambda *_: None))
    assert len(case.features) == 1500 and case.made_of.startswith("1500 frames of procedural motion")
    assert all(len(s.queries) > 100 for s in case.streams.values())

    figures = dict.fromkeys(("median_us", "p99_us", "recall", "regret", "memory_mb", "build_ms"), 1.0)
    result = {"small": {"ours": figures, "_data": {"made_of": case.made_of}}, "cpu": "a processor", "load_1_min": 0.1}
    monkeypatch.setattr(search_bench, "run_bench", lambda *_: result)
    assert main(["bench", "search", "--sizes", "small", "--quiet"]) == 0
    said = capsys.readouterr()
    assert "procedural motion is used" in said.err and "1500 frames of procedural motion" in said.out
