"""Imports of procedural motion with known truth, written in the dialects of different software."""

import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bvh_dialects import DIALECTS, walk, walks

from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.skeleton import HEAD, LEFT_FOOT, LEFT_HAND, LEFT_TOES, RIGHT_FOOT, RIGHT_HAND
from mm_ros.maths import rotations as rot
from mm_ros.motion.bvh.reader import Bvh, write_bvh
from mm_ros.motion.importing import ImportOptions, Overrides, import_files, load_clips, read_options
from mm_ros.motion.importing.export import Dialect, to_bvh
from mm_ros.motion.importing.load import start_to_skip
from mm_ros.motion.importing.report import markdown, short_report, write_report
from mm_ros.motion.kinds import root_motion


def written(folder: Path, bvh: Bvh, name: str = "walk_01.bvh") -> Path:
    path = folder / name
    write_bvh(bvh, path)
    return path


def assumed(found, what: str):
    return next(a for a in found.actors[0].assumptions if a.what == what)


def remarks(found, what: str):
    return [n for f in found.files for n in f.notes if n.what == what]


def errors_m(clip: Clip, truth: Clip, joints: tuple[int, ...]) -> np.ndarray:
    """Mean distance of joints after alignment by one rotation and shift on the floor."""
    n = min(len(clip), len(truth))
    p, q = (x[:n].astype(float) for x in truth.globals())
    r, s = (x[:n].astype(float) for x in clip.globals())
    turn = np.median(rot.wrap_angle(rot.yaw_of(s[:, 0]) - rot.yaw_of(q[:, 0])))
    r = rot.rotate(np.broadcast_to(rot.from_yaw(-turn), (*r.shape[:-1], 4)), r)
    r += (p[:, 1] - r[:, 1]).mean(0) * [1, 1, 0]
    return np.linalg.norm(r - p, axis=-1).mean(0)[list(joints)]


@pytest.mark.parametrize("name", list(DIALECTS))
def test_every_dialect_is_understood_without_a_word(name: str, tmp_path: Path):
    truth = walk()
    found = import_files([written(tmp_path, to_bvh(truth, DIALECTS[name]))])
    clip = found.clips[0]
    assert clip.skeleton.leg_length == pytest.approx(truth.skeleton.leg_length, abs=2e-3)
    assert clip.rate == 60 and len(clip) == len(truth)
    assert errors_m(clip, truth, (LEFT_FOOT, RIGHT_FOOT, LEFT_TOES, HEAD)).max() < 0.01
    assert errors_m(clip, truth, (LEFT_HAND, RIGHT_HAND)).max() < 0.02
    velocity, _ = root_motion(clip)
    fast = np.linalg.norm(velocity, axis=1) > 0.4
    assert np.median(np.abs(np.degrees(np.arctan2(velocity[fast, 1], velocity[fast, 0])))) < 10
    assert assumed(found, "up").value == DIALECTS[name].up
    family = name.split(",")[0].split(" metres")[0]
    if name != "nameless" and "without" not in name and "down" not in name:
        assert family in assumed(found, "joints").value


def test_a_sideways_walk_faces_sideways(tmp_path: Path):
    clip = load_clips([written(tmp_path, to_bvh(walks()["side 0.5"], DIALECTS["LAFAN1"]))])[0]
    velocity, _ = root_motion(clip)
    fast = np.linalg.norm(velocity, axis=1) > 0.3
    assert abs(np.median(np.degrees(np.arctan2(velocity[fast, 1], velocity[fast, 0])))) == pytest.approx(90, abs=5)


def test_left_and_right_swapped_is_seen(tmp_path: Path):
    d = DIALECTS["Xsens"]
    other = {"left": "right", "right": "left"}
    names = {
        c: d.names[c.replace(c.split("_")[0], other[c.split("_")[0]])] if c.split("_")[0] in other else n
        for c, n in d.names.items()
    }
    truth = walk()
    found = import_files([written(tmp_path, to_bvh(truth, replace(d, names=names)))])
    note = assumed(found, "left and right")
    assert note.value == "swapped" and note.doubtful
    assert errors_m(found.clips[0], truth, (LEFT_FOOT, RIGHT_FOOT, LEFT_HAND)).max() < 0.02


def slower_header(bvh: Bvh, factor: float) -> Bvh:
    return replace(bvh, frame_time=bvh.frame_time / factor, frame_time_text="")


def test_a_header_that_says_twice_the_rate_is_found_out(tmp_path: Path):
    paths = [
        written(tmp_path, slower_header(to_bvh(walks()[n], DIALECTS["Mixamo"]), 2), f"s_{i}.bvh")
        for i, n in enumerate(("walk 1.3", "walk 1.55", "run 2.5", "run 3.1"))
        if n in walks()
    ]
    found = import_files(paths)
    note = assumed(found, "rate")
    assert note.doubtful and note.value == "60 Hz" and "the header states 120 Hz" in note.why
    assert len(found.clips[0]) == len(walk())
    assert found.files[0].rate == 60


def test_a_true_header_is_believed(tmp_path: Path):
    found = import_files([written(tmp_path, to_bvh(walk(), DIALECTS["Mixamo"]))])
    assert assumed(found, "rate").value == "60 Hz" and not assumed(found, "rate").doubtful


def with_t_pose(bvh: Bvh, frames: int) -> Bvh:
    t = np.zeros((frames, bvh.motion.shape[1]))
    t[:, :3] = bvh.motion[0, :3]
    return replace(bvh, motion=np.concatenate([t, bvh.motion]))


@pytest.mark.parametrize("frames", [1, 60])
def test_added_t_pose_frames_are_cut(frames: int, tmp_path: Path):
    found = import_files([written(tmp_path, with_t_pose(to_bvh(walk(), DIALECTS["Mixamo"]), frames))])
    note = remarks(found, "start")[0]
    assert note.value == f"{frames} frame(s) cut" and "T-pose" in note.why
    assert abs(len(found.clips[0]) - len(walk())) <= 1


def test_a_t_pose_in_the_first_frame_serves_where_the_zero_pose_does_not(tmp_path: Path):
    bvh = to_bvh(walk(), DIALECTS["LAFAN1"])
    still = replace(
        walk(), positions=walk().positions[:1].copy(), rotations=np.tile([1.0, 0, 0, 0], (1, 23, 1)).astype(np.float32)
    )
    still.positions[0, 0] = 0
    t = to_bvh(still, DIALECTS["LAFAN1"])
    found = import_files([written(tmp_path, replace(bvh, motion=np.concatenate([t.motion, bvh.motion])))])
    assert assumed(found, "reference").value == "first frame"
    assert errors_m(found.clips[0], walk(), (LEFT_FOOT, LEFT_HAND, HEAD)).max() < 0.01


def test_a_spike_of_one_frame_is_bridged(tmp_path: Path):
    bvh = to_bvh(walk(), DIALECTS["Mixamo"])
    at = next(i for i, n in enumerate(bvh.names) if n.endswith("LeftUpLeg"))
    bvh.motion[100, 3 + 3 * at : 6 + 3 * at] += 60  # the foot goes 0.6 m and back within 1/30 s
    found = import_files([written(tmp_path, bvh)])
    note = remarks(found, "glitch")[0]
    assert "bridged" in note.value and "left" in note.why and "m/s at frame" in note.why
    assert errors_m(found.clips[0], walk(), (LEFT_FOOT,)).max() < 0.012


def test_a_body_that_is_suddenly_elsewhere_cuts_the_clip(tmp_path: Path):
    bvh = to_bvh(walk(), DIALECTS["Mixamo"])
    bvh.motion[150:, 0] += 300  # 3 m
    found = import_files([written(tmp_path, bvh)])
    assert [c.name for c in found.clips] == ["walk_01_part1", "walk_01_part2"]
    assert remarks(found, "glitch")[0].value == "clip cut there"


def test_the_floor_is_where_the_toes_stand(tmp_path: Path):
    bvh = to_bvh(walk(), DIALECTS["Xsens"])
    bvh.motion[:, 1] += 37.0
    found = import_files([written(tmp_path, bvh)])
    assert remarks(found, "floor")[0].value == "+0.370 m"
    assert errors_m(found.clips[0], walk(), (LEFT_TOES,)).max() < 0.01


def test_the_same_motion_twice_is_taken_once(tmp_path: Path):
    bvh = to_bvh(walk(), DIALECTS["Xsens"])
    written(tmp_path, bvh, "a_01.bvh")
    written(tmp_path, bvh, "b_01.bvh")
    found = import_files([tmp_path])
    assert len(found.clips) == 1
    assert "holds the same motion as" in found.refused[0][1]


def test_what_cannot_be_read_is_refused_and_the_others_go_on(tmp_path: Path):
    written(tmp_path, to_bvh(walk(), DIALECTS["Xsens"]), "good_01.bvh")
    (tmp_path / "bad_01.bvh").write_text(
        "HIERARCHY\nROOT a\n{\n OFFSET 0 0 0\n CHANNELS 0\n}\nMOTION\nFrames: 0\nFrame Time: 1\n"
    )
    found = import_files([tmp_path])
    assert len(found.clips) == 1 and "the motion is empty" in found.refused[0][1]
    with pytest.raises(MmRosError, match="the motion is empty"):
        import_files([tmp_path], ImportOptions(strict=True))


def test_a_table_lamp_is_no_human(tmp_path: Path):
    lamp = Bvh(
        ("base", "arm", "shade"), np.array([-1, 0, 1]),
        np.array([[0, 0, 0], [0, 1, 0], [0, 1, 0.0]]), ((0, 1, 2), (3,), (3,)),
        np.zeros(0, np.int64), np.zeros((0, 3)), 1 / 30, np.zeros((20, 5)),
    )  # fmt: skip
    with pytest.raises(MmRosError, match=r"unknown skeleton: hips, head.*base, arm, shade.*--draft-map"):
        import_files([written(tmp_path, lamp)])


def test_a_map_says_which_joint_is_which(tmp_path: Path):
    odd = Dialect({n: f"q{(i * 7) % 22}" for i, n in enumerate(DIALECTS["LAFAN1"].names)})
    path = written(tmp_path, to_bvh(walk(), odd))
    found = import_files([path], ImportOptions(every=Overrides(joints=odd.names)))
    assert assumed(found, "joints").value == "given map"
    assert errors_m(found.clips[0], walk(), (LEFT_FOOT, LEFT_HAND)).max() < 0.01
    with pytest.raises(MmRosError, match="joint 'q99' is not in"):
        import_files([path], ImportOptions(every=Overrides(joints={**odd.names, "hips": "q99"}), strict=True))


def test_overrides_from_yaml(tmp_path: Path):
    path = written(tmp_path, to_bvh(walk(), DIALECTS["Xsens"]))
    options = tmp_path / "options.yaml"
    options.write_text(
        'unit_to_m: 0.02\nfiles:\n  "walk_*.bvh": {skip_start: 30, rate: 30, tags: [calm, [limp, 1.0, 2.0]]}\n'
    )
    found = import_files([path], read_options(options))
    clip = found.clips[0]
    assert clip.skeleton.leg_length == pytest.approx(2 * walk().skeleton.leg_length, rel=1e-3)
    assert len(clip) == pytest.approx(2 * (len(walk()) - 30), abs=2)
    assert ("calm", 0, len(clip)) in clip.tags and ("limp", 60, 120) in clip.tags


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("upp: Y+", "'upp' is unknown. Keys: up, unit_to_m"),
        ("up: W", "up: 'W' is not among X\\+, X-"),
        ("rate: -3", "rate: expected a number above 0, came -3"),
        ("files: [1]", "files: expected file names with keys below"),
        ("a: [", "is not YAML"),
    ],
)
def test_wrong_overrides_are_sentences(text: str, sentence: str, tmp_path: Path):
    path = tmp_path / "o.yaml"
    path.write_text(text)
    with pytest.raises(MmRosError, match=sentence):
        read_options(path)


@pytest.mark.parametrize("kind", ["zip", "tar.xz"])
def test_archives_are_read_and_cannot_write_outside(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path / "cache"))
    path = written(tmp_path, to_bvh(walk(), DIALECTS["Xsens"]))
    archive = tmp_path / f"motion.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as z:
            z.write(path, "../../inside/walk_01.bvh")
    else:
        with tarfile.open(archive, "w:xz") as t:
            t.add(path, "inside/walk_01.bvh")
    found = import_files([archive])
    assert len(found.clips) == 1
    assert str(found.files[0].path).startswith(str(tmp_path / "cache"))


def test_a_broken_archive_is_a_sentence(tmp_path: Path):
    (tmp_path / "a.zip").write_bytes(b"no zip")
    with pytest.raises(MmRosError, match="is no archive that can be unpacked"):
        import_files([tmp_path / "a.zip"])


def test_two_processes_give_what_one_gives(tmp_path: Path):
    for i, name in enumerate(list(walks())[:8]):
        written(tmp_path, to_bvh(walks()[name].cut(0, 90), DIALECTS["Xsens"]), f"a_{i:02}.bvh")
    one, two = (import_files([tmp_path], ImportOptions(jobs=n)) for n in (1, 2))
    assert [c.name for c in one.clips] == [c.name for c in two.clips]
    assert all(np.array_equal(a.rotations, b.rotations) for a, b in zip(one.clips, two.clips, strict=True))


def test_the_report_says_what_was_assumed_and_shows_the_skeleton(tmp_path: Path):
    found = import_files([written(tmp_path, to_bvh(walk(), DIALECTS["Bandai-Namco"]))])
    text = markdown(found, "r.svg")
    for part in ("## Actor", "| up | Y+ |", "Bandai-Namco", "![skeleton", "mean posture", "options.yaml"):
        assert part in text
    assert "1 clips" in short_report(found)
    write_report(found, tmp_path / "r.md")
    picture = (tmp_path / "r.svg").read_text()
    assert picture.startswith("<svg") and picture.count("<line") > 80 and "left side" in picture


def test_a_known_lie_is_corrected_where_nobody_walks(tmp_path: Path):
    names = {
        **{c: n.removeprefix("mixamorig:") for c, n in DIALECTS["Mixamo"].names.items()},
        "spine": "LowerBack", "chest": "Spine", "upper_chest": "Spine1",
    }  # fmt: skip
    bvh = slower_header(to_bvh(walks()["idle"], Dialect(names)), 2)
    found = import_files([written(tmp_path, bvh, "143_09.bvh")])
    assert assumed(found, "rate").value == "60 Hz" and "known to be wrong" in assumed(found, "rate").why
    assert "mocap.cs.cmu.edu" in found.licence
    other = import_files([written(tmp_path, bvh, "stand.bvh")])
    assert assumed(other, "rate").value == "120 Hz" and not other.licence


def test_an_added_t_pose_is_seen_though_a_foot_flickers(tmp_path: Path):
    """CMU 35_02: a toe marker jumps by 30 degrees per frame after the T-pose."""
    bvh = with_t_pose(to_bvh(walk(), DIALECTS["Mixamo"]), 1)
    motion, column = bvh.motion.copy(), toe_column(bvh)
    motion[1:12, column] += 30.0 * (np.arange(11) % 2)
    assert start_to_skip(replace(bvh, motion=motion)) == 1
    motion[1:, column] += 180.0
    assert start_to_skip(replace(bvh, motion=np.roll(motion, -6, axis=0))) == 0  # one joint alone is no T-pose


def toe_column(bvh: Bvh) -> int:
    at = 0
    for name, codes in zip(bvh.names, bvh.channels, strict=True):
        if "LeftToe" in name:
            return at + len(codes) - 1
        at += len(codes)
    raise AssertionError(bvh.names)


def test_feet_that_flicker_are_calmed_and_said(tmp_path: Path):
    """CMU 35_01: a foot oscillates by 40 degrees per frame in the swing."""
    bvh = to_bvh(walk(), DIALECTS["Mixamo"])
    motion, column = bvh.motion.copy(), toe_column(bvh)
    motion[40:46, column] += 50.0 * (np.arange(6) % 2)
    found = import_files([written(tmp_path, replace(bvh, motion=motion))])
    assert any("left_toes flickers" in n.why for n in remarks(found, "glitch"))
    turn = np.abs(rot.log(rot.multiply(rot.inverse(rotations(found)[:-1]), rotations(found)[1:]))).max()
    assert np.degrees(turn) < 20
    calm = import_files([written(tmp_path, bvh, "walk_02.bvh")])
    assert not any("flickers" in n.why for n in remarks(calm, "glitch"))


def rotations(found):
    return found.clips[0].rotations[:, LEFT_TOES].astype(np.float64)
