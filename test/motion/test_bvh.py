"""The BVH reader and writer: accepted files, and messages for refused files."""

from pathlib import Path

import numpy as np
import pytest
from bvh_dialects import DIALECTS, walk

from mm_ros.base.errors import MmRosError
from mm_ros.maths import rotations as rot
from mm_ros.motion.bvh.reader import format_bvh, rate_of, read_bvh, write_bvh
from mm_ros.motion.importing.export import to_bvh
from mm_ros.motion.shared_data import dataset

TINY = """HIERARCHY
ROOT Hips
{
  OFFSET 0 1 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
  JOINT Knee of Leg
  {
    OFFSET 0 -0.5 0
    CHANNELS 3 Xrotation Yrotation Zrotation
    End Site
    {
      OFFSET 0 -4e-1 0.1
    }
  }
}
MOTION
Frames: 2
Frame Time: 0.0333333
0 1 0  0 0 0  0 0 0
0.5 1.0E0 -2.5e-1 90 0 0 0 0 -1e1
"""


def read(text: str | bytes):
    return read_bvh("tiny.bvh", text if isinstance(text, bytes) else text.encode())


def refusal(text: str) -> str:
    with pytest.raises(MmRosError) as caught:
        read(text)
    return str(caught.value)


def test_reads_names_channels_and_numbers():
    bvh = read(TINY)
    assert bvh.names == ("Hips", "Knee of Leg")
    assert bvh.channels == ((0, 1, 2, 5, 3, 4), (3, 4, 5))
    assert bvh.rate == 30.0
    assert bvh.motion[1].tolist() == [0.5, 1.0, -0.25, 90, 0, 0, 0, 0, -10]
    assert bvh.end_offsets.tolist() == [[0, -0.4, 0.1]]


@pytest.mark.parametrize("ends", ["\r\n", "\r", "\n\n"])
def test_any_line_ends_give_the_same(ends: str):
    assert np.array_equal(read(TINY.replace("\n", ends)).motion, read(TINY).motion)


def test_tabs_byte_order_mark_and_no_last_line_end():
    assert np.array_equal(read("\ufeff" + TINY.replace("  ", "\t").rstrip("\n")).motion, read(TINY).motion)


def test_numbers_are_read_as_python_reads_them():
    words = ["0.1", "-123.456789", "1e-7", "3.14159265358979", "+5", "-.25", "7.", "100000.000001", "-0"]
    line = " ".join(words)
    bvh = read(TINY.replace("0 1 0  0 0 0  0 0 0", line))
    assert bvh.motion[0].tolist() == [float(w) for w in words]


def test_write_then_read_is_equal(tmp_path: Path):
    bvh = read(TINY)
    path = tmp_path / "out.bvh"
    write_bvh(bvh, path)
    again = read_bvh(path)
    assert again.names == bvh.names and again.channels == bvh.channels and again.rate == bvh.rate
    for name in ("parents", "offsets", "end_parents", "end_offsets", "motion"):
        assert np.array_equal(getattr(again, name), getattr(bvh, name))
    assert format_bvh(again) == format_bvh(bvh)


def test_global_poses_by_hand():
    positions, rotations = read(TINY).globals()
    # frame 1: hips turned 90 degrees about z: the leg points along +x
    assert positions[1, 0] == pytest.approx([0.5, 1, -0.25])
    assert positions[1, 1] == pytest.approx([1.0, 1, -0.25])
    assert rot.rotate(rotations[1, 0], np.array([0.0, -1, 0])) == pytest.approx([1, 0, 0])


def test_channel_order_is_the_order_of_application():
    text = TINY.replace("Zrotation Xrotation Yrotation", "Yrotation Zrotation Xrotation")
    text = text.replace("0.5 1.0E0 -2.5e-1 90 0 0", "0 1 0 90 90 0")
    _, q = read(text).globals()
    y, z = rot.exp(np.array([0, np.pi / 2, 0])), rot.exp(np.array([0, 0, np.pi / 2]))
    assert np.abs(q[1, 0] @ rot.multiply(y, z)) == pytest.approx(1)


def test_root_offset_that_repeats_the_first_frame_is_not_added():
    positions, _ = read(TINY).globals()
    assert positions[0, 0].tolist() == [0, 1, 0]


def six_channels(position: str) -> str:
    text = TINY.replace("CHANNELS 3 Xrotation", "CHANNELS 6 Xposition Yposition Zposition Xrotation")
    text = text.replace("0 1 0  0 0 0  0 0 0", f"0 1 0 0 0 0 {position} 0 0 0")
    return text.replace("90 0 0 0 0 -1e1", f"90 0 0 {position} 0 0 -1e1")


def test_position_channels_replace_the_offset_or_count_from_it():
    for position in ("0 -0.5 0", "0 0 0"):
        positions, _ = read(six_channels(position)).globals()
        assert positions[0, 1] == pytest.approx([0, 0.5, 0])


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        (".0083333", 120),
        ("0.008333", 120),
        ("0.0333333", 30),
        ("0.033", 30),
        ("0.016667", 60),
        ("0.04", 25),
        ("0.01", 100),
        ("0.02", 50),
        ("0.1", 10),
        ("0.05", 20),
        ("0.017", 60),
        ("0.0166", 60),
        ("0.008", 120),
        ("0.0333667", 29.97),
    ],
)
def test_frame_time_names_a_rate(text: str, rate: float):
    assert rate_of(float(text), text) == pytest.approx(rate, rel=1e-4)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("Frames: 2", "Frames: 3", "line 17: 'Frames: 3', but 2 lines of numbers follow"),
        ("Frames: 2", "Frames: 1", "line 17: 'Frames: 1', but more lines of numbers follow"),
        ("90 0 0 0 0 -1e1", "90 0 0 0", "line 20: expected 9 numbers (the channels of the hierarchy), came 7"),
        ("90 0 0 0 0 -1e1", "90 0 0 0 0 1 2", "line 20: expected 9 numbers (the channels of the hierarchy), came 10"),
        ("-2.5e-1", "nan", "line 20: 'nan' is not a finite number"),
        ("-2.5e-1", "1,5", "line 20: '1,5' is not a finite number"),
        ("Xrotation Yrotation Zrotation", "Xrotation Yrotation Xscale", "channel 'Xscale' is unknown. Channels: X"),
        ("CHANNELS 3", "CHANNELS 4", "line 9: CHANNELS: count is 4, but 3 names follow"),
        ("OFFSET 0 -0.5 0", "OFFSET 0 -0.5", "line 8: OFFSET: expected 3 numbers, came 2"),
        ("OFFSET 0 -0.5 0", "OFFSET 0 x 0", "line 8: 'x' is not a number"),
        ("MOTION", "MOTON", "there is no line 'MOTION'"),
        ("Frame Time: 0.0333333", "Frame Time: 0", "line 18: Frame Time: expected more than 0 s, came 0"),
        ("Frame Time: 0.0333333\n", "", "line 18: expected 'Frame Time: <seconds>', came '0 1 0  0 0 0  0 0 0'"),
        ("  JOINT", "  JONT", "line 6: 'JONT' is unknown; expected ROOT, JOINT, End Site, OFFSET or CHANNELS"),
        ("}\nMOTION", "MOTION", "1 '{' are never closed"),
        ("}\nMOTION", "}\nJOINT x\nMOTION", "JOINT 'x' is outside of any joint"),
        ("}\nMOTION", "}\nROOT x\nMOTION", "joint 'x' has no '{' and no OFFSET"),
    ],
)  # fmt: skip
def test_refuses_in_a_sentence_that_names_file_and_line(old: str, new: str, sentence: str):
    assert old in TINY
    said = refusal(TINY.replace(old, new, 1))
    assert said.startswith("tiny.bvh") and sentence in said


def test_empty_motion_is_refused():
    assert "the motion is empty" in refusal(TINY[: TINY.index("0 1 0  0")].replace("Frames: 2", "Frames: 0"))


def test_a_missing_file_is_a_sentence():
    with pytest.raises(MmRosError, match="cannot be read"):
        read_bvh("no/such/file.bvh")


def real_file() -> Path:
    try:
        return dataset("cmu_locomotion") / "69_01.bvh"
    except MmRosError as error:
        pytest.skip(str(error))


def procedural_file(tmp_path: Path) -> Path:
    path = tmp_path / "walk.bvh"
    write_bvh(to_bvh(walk(), DIALECTS["Mixamo"]), path)
    return path


@pytest.mark.parametrize("source", ["cmu", "procedural"])
def test_agrees_with_bvhio(source: str, tmp_path: Path):
    bvhio = pytest.importorskip("bvhio", reason="bvhio is not installed (extra bench)")
    path = real_file() if source == "cmu" else procedural_file(tmp_path)
    bvh = read_bvh(path)
    positions, _ = bvh.globals(bvh.motion[:40])
    root = bvhio.readAsHierarchy(str(path))
    for f in (0, 1, 7, 39):
        root.loadPose(f)
        theirs = {joint.Name: np.array(joint.PositionWorld) for joint, _, _ in root.layout()}
        for j, name in enumerate(bvh.names):
            assert np.abs(theirs[name] - positions[f, j]).max() < 1e-4


@pytest.mark.parametrize("source", ["cmu", "procedural"])
def test_agrees_with_pymotion(source: str, tmp_path: Path):
    pymotion = pytest.importorskip("pymotion.io.bvh", reason="upc-pymotion is not installed (extra bench)")
    from pymotion.ops.skeleton import fk

    path = real_file() if source == "cmu" else procedural_file(tmp_path)
    bvh = read_bvh(path)
    theirs = pymotion.BVH()
    theirs.load(str(path))
    q, _, parents, offsets, _, _ = theirs.get_data()
    positions, _ = fk(q, theirs.data["positions"][:, 0], offsets, parents)
    names = list(theirs.data["names"])
    ours, _ = bvh.globals()
    for j, name in enumerate(bvh.names):
        assert np.abs(positions[:, names.index(name)] - ours[:, j]).max() < 1e-4
