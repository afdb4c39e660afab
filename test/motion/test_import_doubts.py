"""Imports with wrong or ambiguous rates, units, names and skeletons."""

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from animals import NAMINGS, quadruped
from bvh_dialects import DIALECTS, LIMBS_LAFAN, SPINE_LAFAN, SPINE_XSENS, names_of, walk, walks

from mm_ros.base.errors import MmRosError
from mm_ros.base.workers import mapped
from mm_ros.body.skeleton import HEAD
from mm_ros.cli.main import main
from mm_ros.cli.training import read_clips
from mm_ros.motion.bvh.reader import Bvh, write_bvh
from mm_ros.motion.cleaning.clips import MOST_FRAMES, sample_times
from mm_ros.motion.importing import import_files, load_clips
from mm_ros.motion.importing.doctor import UNITS
from mm_ros.motion.importing.export import Dialect, to_bvh
from mm_ros.motion.importing.report import short_report
from mm_ros.tracking.sources import make_source


def imported(folder: Path, bvh: Bvh, name: str = "walk_01.bvh"):
    write_bvh(bvh, folder / name)
    return import_files([folder / name])


def assumed(found, what: str):
    return next(a for a in found.actors[0].assumptions if a.what == what)


def with_frame_time(bvh: Bvh, text: str) -> Bvh:
    return replace(bvh, frame_time=float(text), frame_time_text=text)


def at_100_hz(name: str) -> Bvh:
    clip = walks()[name]
    from mm_ros.motion.cleaning.clips import resample

    return to_bvh(resample(clip, 100.0), DIALECTS["Xsens"])


def reported(folder: Path, bvh: Bvh) -> dict[str, dict]:
    """Return the assumptions about a file from the JSON of `mm_ros import`, by what they are about."""
    write_bvh(bvh, folder / "walk_01.bvh")
    assert main(["import", str(folder / "walk_01.bvh"), "--json", str(folder / "report.json")]) == 0
    (actor,) = json.loads((folder / "report.json").read_text())["actors"]
    return {a["what"]: a for a in actor["assumptions"]}


# --- rates -----------------------------------------------------------------------------------------------------------


def test_a_short_frame_time_is_the_rate_whose_period_it_is(tmp_path: Path):
    found = imported(tmp_path, with_frame_time(at_100_hz("walk 1.3"), "0.01"))
    assert assumed(found, "rate").value == "100 Hz" and not assumed(found, "rate").doubtful
    assert len(found.clips[0]) == pytest.approx(len(walk()), abs=2)


def jumps(bvh: Bvh, count: int = 5) -> Bvh:
    """Add repeated jumps of 0.31 m, in file units of 1 cm at 60 Hz."""
    motion = bvh.motion.copy()
    t = np.arange(30) / 60
    for k in range(count):
        motion[40 * k + 20 : 40 * k + 50, 1] += 100 * (9.81 / 2) * t * (29 / 60 - t)
    return replace(bvh, motion=motion)


def test_physics_that_contradicts_a_short_frame_time_is_a_doubt(tmp_path: Path):
    """The motion is 60 Hz, and '0.02' may mean 60 or 50."""
    bvh = jumps(to_bvh(walks()["idle"], DIALECTS["Xsens"]))
    note = assumed(imported(tmp_path, with_frame_time(bvh, "0.02")), "rate")
    assert note.value == "50 Hz" and note.doubtful and "'0.02' may also mean 60 Hz" in note.why
    note = assumed(imported(tmp_path, with_frame_time(bvh, "0.017")), "rate")
    assert note.value == "60 Hz" and not note.doubtful


@pytest.mark.parametrize("text", ["60", "16.6667", "1e-9", "1e-300", "1e300"])
def test_an_absurd_frame_time_is_estimated_from_the_steps_and_said(text: str, tmp_path: Path):
    found = imported(tmp_path, with_frame_time(to_bvh(walk(), DIALECTS["Xsens"]), text))
    assert found.files[0].rate == 60 and len(found.clips[0]) == len(walk())
    note = next(n for n in found.files[0].notes if n.what == "rate")
    assert note.doubtful and f"Frame Time: {text}" in note.why
    assert f"Frame Time: {text}" in short_report(found)


def test_an_absurd_frame_time_without_steps_is_refused(tmp_path: Path):
    with pytest.raises(MmRosError, match=r"idle.bvh: 'Frame Time: 120' means .* expected 5 to 1000.*--true-rate"):
        imported(tmp_path, with_frame_time(to_bvh(walks()["idle"], DIALECTS["Xsens"]), "120"), "idle.bvh")
    assert main(["import", str(tmp_path / "idle.bvh"), "--true-rate", "60"]) == 0


def test_the_resampler_makes_no_more_frames_than_memory_holds():
    with pytest.raises(MmRosError, match=r"105001 frames at 0.00833333 Hz last 12600120 s; expected at most 10000 s"):
        sample_times(105_001, 1 / 120, 60.0)
    with pytest.raises(MmRosError, match="Is the rate right"):
        sample_times(10, 1e-300, 60.0)
    assert len(sample_times(MOST_FRAMES, 60.0, 60.0)) == MOST_FRAMES


# --- a process that is killed ----------------------------------------------------------------------------------------


def test_a_killed_process_costs_one_item():
    items = [f"{i} * 10" for i in range(12)]
    items[7] = "__import__('os').kill(__import__('os').getpid(), 9)"
    out = list(mapped(eval, items, 2, 4, lost=lambda item: -1))
    assert out == [-1 if i == 7 else i * 10 for i in range(12)]
    with pytest.raises(MmRosError, match="helper process was killed"):
        list(mapped(eval, items, 2, 4))


KILLER = """
import os, signal, sys
import mm_ros.motion.importing.load as load

look, convert = load._look, load._convert

def deadly_look(item):
    if item[0].endswith("a_07.bvh"):
        os.kill(os.getpid(), signal.SIGKILL)
    return look(item)

def deadly_convert(item):
    if item[1].path.endswith("a_05.bvh"):
        os.kill(os.getpid(), signal.SIGKILL)
    return convert(item)

load._look, load._convert = deadly_look, deadly_convert
if __name__ == "__main__":
    from mm_ros.cli.main import main
    sys.exit(main())
"""


def test_a_killed_process_costs_the_import_one_file(tmp_path: Path):
    """SIGKILL is what the kernel sends when memory runs out."""
    motion = tmp_path / "motion"
    motion.mkdir()
    for i, name in enumerate(list(walks())[:8]):
        write_bvh(to_bvh(walks()[name].cut(0, 45), DIALECTS["Xsens"]), motion / f"a_{i:02}.bvh")
    script = tmp_path / "killer.py"
    script.write_text(KILLER)
    done = subprocess.run(
        [sys.executable, script, "import", motion, "--jobs", "2", "--quiet"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "a_07.bvh: the process that read it was killed" in done.stdout
    assert "a_05.bvh: the process that converted it was killed" in done.stdout
    assert "6 clips" in done.stdout and "2 file(s) refused" in done.stdout


# --- units and proportions -------------------------------------------------------------------------------------------

METRES = {u.name: u.metres for u in UNITS}
ADULT_LEG = 0.82


def of_size(share: float, unit: str) -> Dialect:
    return replace(DIALECTS["Xsens"], unit_to_m=METRES[unit] / share)


@pytest.mark.parametrize("unit", list(METRES))
@pytest.mark.parametrize("share", [1.0, 1.15])
def test_an_adult_in_any_unit(share: float, unit: str, tmp_path: Path):
    found = imported(tmp_path, to_bvh(walk(), of_size(share, unit)))
    assert assumed(found, "unit").value.startswith(f"{unit} (")
    assert found.clips[0].skeleton.leg_length == pytest.approx(share * ADULT_LEG, rel=0.01)


@pytest.mark.parametrize(
    ("height_m", "units"),
    [(0.9, ("m", "cm", "mm")), (1.1, ("m", "cm", "mm", "inch")), (1.3, ("m", "cm", "inch")), (2.2, ("m", "cm", "mm"))],
)
def test_people_of_any_size(height_m: float, units: tuple[str, ...], tmp_path: Path):
    """Ambiguous sizes (0.9 m in inches is 2.0 m in CMU's unit, 2.2 m in inches is 0.9 m in cm): see the next test."""
    for unit in units:
        found = imported(tmp_path, to_bvh(walk(), of_size(height_m / 1.72, unit)))
        assert assumed(found, "unit").value.startswith(f"{unit} (")
        assert found.clips[0].skeleton.leg_length == pytest.approx(height_m / 1.72 * ADULT_LEG, rel=0.01)
        assert not [n for n in found.actors[0].assumptions if n.warning]
        if height_m < 1.4:
            assert assumed(found, "unit").doubtful


@pytest.mark.parametrize(("height_m", "unit"), [(0.9, "inch"), (2.2, "inch"), (1.1, "inch / 0.45 (CMU)")])
def test_a_size_that_may_be_another_one_is_doubted(height_m: float, unit: str, tmp_path: Path):
    note = assumed(imported(tmp_path, to_bvh(walk(), of_size(height_m / 1.72, unit))), "unit")
    assert note.doubtful and f"{height_m / 1.72 * ADULT_LEG:.2f} m" in note.why


CMU_NAMES = Dialect({**names_of(SPINE_LAFAN, (*LIMBS_LAFAN[:-1], "{S}ToeBase")), "chest": "LowerBack"})


@pytest.mark.parametrize(
    ("height_m", "names", "unit", "came", "doubtful"),
    [
        (0.9, CMU_NAMES, "inch", "inch / 0.45 (CMU)", True),
        (0.9, DIALECTS["Xsens"], "inch / 0.45 (CMU)", "dm", True),
        (1.72, CMU_NAMES, "inch / 0.45 (CMU)", "inch / 0.45 (CMU)", False),
        (1.72, DIALECTS["Xsens"], "cm", "cm", False),
    ],
)
def test_an_adult_who_may_be_a_child_is_doubted(
    height_m: float, names: Dialect, unit: str, came: str, doubtful: bool, tmp_path: Path
):
    note = reported(tmp_path, to_bvh(walk(), replace(names, unit_to_m=METRES[unit] * 1.72 / height_m)))["unit"]
    assert note["value"].startswith(f"{came} (") and note["doubtful"] is doubtful
    assert (f"with {unit} it would be 0.43 m" in note["why"]) is doubtful


def test_falls_decide_between_two_units(tmp_path: Path):
    """Legs of 43 units are a child of 0.9 m in cm, or 2.3 m in inches. Only one unit gives falls of 9.8 m/s²."""
    child = jumps(to_bvh(walks()["idle"], of_size(0.9 / 1.72, "cm")))
    assert assumed(imported(tmp_path, child), "unit").value.startswith("cm (")
    giant = jumps(to_bvh(walks()["idle"], of_size(2.2 / 1.72, "inch")))
    giant.motion[:, 1] = (giant.motion[:, 1] - giant.motion[0, 1]) / 2.54 + giant.motion[0, 1]
    assert assumed(imported(tmp_path, giant), "unit").value.startswith("inch (")


def head_in_room(bvh: Bvh, metres: float = 0.01) -> Bvh:
    """Give the head six channels, with positions in room axes."""
    at = bvh.names.index("Head")
    positions, _ = bvh.globals()
    column = sum(len(c) for c in bvh.channels[:at])
    motion = np.insert(bvh.motion, [column] * 3, positions[:, at], axis=1)
    channels = tuple((0, 1, 2, *c) if j == at else c for j, c in enumerate(bvh.channels))
    return replace(bvh, motion=motion, channels=channels)


def test_a_head_with_positions_of_the_room_stays_on_the_neck(tmp_path: Path):
    found = imported(tmp_path, head_in_room(to_bvh(walk(), DIALECTS["Xsens"])))
    note = assumed(found, "positions")
    assert note.doubtful and "Head in room axes" in note.value
    truth = walk().skeleton
    assert found.clips[0].skeleton.head_height == pytest.approx(truth.head_height, abs=0.02)
    height = np.median(found.clips[0].globals()[0][:, HEAD, 2] - walk().globals()[0][: len(found.clips[0]), HEAD, 2])
    assert abs(height) < 0.02


def test_proportions_of_no_person_are_a_loud_doubt(tmp_path: Path):
    bvh = to_bvh(walk(), DIALECTS["Xsens"])
    offsets = bvh.offsets.copy()
    offsets[bvh.names.index("Head")] *= 15  # a neck of 1.5 m
    found = imported(tmp_path, replace(bvh, offsets=offsets))
    note = assumed(found, "proportions")
    assert note.doubtful and note.warning and "head joint above the floor" in note.why
    assert "WARNING" in short_report(found).splitlines()[-1] and "head joint" in short_report(found).splitlines()[-1]


def test_a_head_that_is_levelled_far_is_a_doubt(tmp_path: Path):
    for nod, doubtful in ((10, False), (25, True)):
        bvh = to_bvh(walk(), DIALECTS["Xsens"])
        at = sum(len(c) for c in bvh.channels[: bvh.names.index("Head")])
        bvh.motion[:, at] += nod  # about the axis that points left
        note = assumed(imported(tmp_path, bvh), "head")
        assert note.doubtful is doubtful, note


def test_a_head_that_is_pitched_too_far_to_be_levelled_is_a_doubt(tmp_path: Path):
    bvh = to_bvh(walk(), DIALECTS["Xsens"])
    bvh.motion[:, sum(len(c) for c in bvh.channels[: bvh.names.index("Head")])] += 70
    note = reported(tmp_path, bvh)["head"]
    assert note["doubtful"] and note["value"].startswith("pitched by +") and "not levelled" in note["value"]


# --- names -----------------------------------------------------------------------------------------------------------


def ends_instead_of(bvh: Bvh, *words: str) -> Bvh:
    """Replace joints with one of these words by end sites of their parents."""
    gone = [j for j, n in enumerate(bvh.names) if any(w in n for w in words)]
    stay = [j for j in range(len(bvh.names)) if j not in gone]
    first = np.cumsum([0, *(len(c) for c in bvh.channels)])
    columns = [c for j in stay for c in range(first[j], first[j + 1])]
    ends = [e for e, p in enumerate(bvh.end_parents) if p in stay]
    new = {j: i for i, j in enumerate(stay)}
    return replace(
        bvh,
        names=tuple(bvh.names[j] for j in stay),
        parents=np.array([new.get(int(bvh.parents[j]), -1) for j in stay]),
        offsets=bvh.offsets[stay],
        channels=tuple(bvh.channels[j] for j in stay),
        end_parents=np.array([new[int(p)] for p in [*bvh.end_parents[ends], *bvh.parents[gone]]]),
        end_offsets=np.concatenate([bvh.end_offsets[ends], bvh.offsets[gone]]),
        motion=bvh.motion[:, columns],
    )


@pytest.mark.parametrize("name", ["Xsens", "Mixamo", "Bandai-Namco", "nameless"])
def test_wrists_that_are_end_sites_are_hands(name: str, tmp_path: Path):
    bvh = to_bvh(walk(), DIALECTS[name])
    words = ("Wrist", "Hand")
    if name == "nameless":
        words = tuple(DIALECTS[name].names[f"{s}_hand"] for s in ("left", "right"))
    found = imported(tmp_path, ends_instead_of(bvh, *words))
    clip, truth = found.clips[0], walk()
    for joint in ("left_hand", "right_hand"):
        at = clip.skeleton.index(joint)
        apart = np.linalg.norm(np.diff(clip.globals()[0][:, [at, at - 1]], axis=1), axis=-1)
        assert np.median(apart) == pytest.approx(float(np.linalg.norm(truth.skeleton.offsets[at])), abs=0.005)


def acclaim_names() -> Dialect:
    """Lower-case names with one letter for the side, as in ASF files, where hip joints are above the femurs."""
    words = ("clavicle", "humerus", "radius", "hand", "femur", "tibia", "foot", "toes")
    spine = ("root", "lowerback", "upperback", "thorax", "lowerneck", "head")
    return Dialect(names_of(dict(zip(SPINE_LAFAN, spine, strict=True)), tuple("{l}" + w for w in words)))


def with_joint_above(bvh: Bvh, at: int, name: str) -> Bvh:
    """Insert a joint half way between `at` and its parent."""
    parents = np.where(bvh.parents >= at, bvh.parents + 1, bvh.parents)
    offsets = np.insert(bvh.offsets, at, bvh.offsets[at] / 2, axis=0)
    offsets[at + 1] /= 2
    column = sum(len(c) for c in bvh.channels[:at])
    return replace(
        bvh,
        names=(*bvh.names[:at], name, *bvh.names[at:]),
        parents=np.concatenate([parents[:at], [bvh.parents[at], at], parents[at + 1 :]]),
        offsets=offsets,
        channels=(*bvh.channels[:at], (3, 4, 5), *bvh.channels[at:]),
        end_parents=np.where(bvh.end_parents >= at, bvh.end_parents + 1, bvh.end_parents),
        motion=np.insert(bvh.motion, [column] * 3, 0.0, axis=1),
    )


def test_sides_of_lower_case_names_are_read(tmp_path: Path):
    bvh = to_bvh(walk(), acclaim_names())
    assert {"lfemur", "rhumerus", "lclavicle"} <= set(bvh.names)
    for side in "lr":
        bvh = with_joint_above(bvh, bvh.names.index(f"{side}femur"), f"{side}hipjoint")
    found = imported(tmp_path, bvh)
    assert "by words" in assumed(found, "joints").value
    assert assumed(found, "left and right").value == "as named"
    assert "added" not in assumed(found, "joints").why
    assert found.clips[0].skeleton.leg_length == pytest.approx(ADULT_LEG, abs=0.01)


def test_a_collar_and_a_shoulder_are_two_joints(tmp_path: Path):
    """Lower-case names with end sites for wrists belong to no known family."""
    words = ("collar", "shoulder", "elbow", "wrist", "hip", "knee", "ankle", "toe")
    bvh = to_bvh(walk(), Dialect(names_of(SPINE_XSENS, tuple("{l}" + w for w in words))))
    found = imported(tmp_path, ends_instead_of(bvh, "wrist"))
    assert "by words" in assumed(found, "joints").value
    skeleton, truth = found.clips[0].skeleton, walk().skeleton
    for joint in ("left_upper_arm", "left_lower_arm", "left_hand", "right_foot"):
        at = skeleton.index(joint)
        assert np.linalg.norm(skeleton.offsets[at]) == pytest.approx(np.linalg.norm(truth.offsets[at]), abs=0.01), joint


# --- animals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("up", ["y", "z"])
@pytest.mark.parametrize("naming", list(NAMINGS))
def test_a_four_legged_animal_is_refused(naming: str, up: str, tmp_path: Path):
    with pytest.raises(MmRosError, match="this skeleton is a four-legged animal"):
        imported(tmp_path, quadruped(naming, up=up))


def test_a_person_with_a_tail_is_doubted(tmp_path: Path):
    bvh = to_bvh(walk(), DIALECTS["Xsens"])
    tail = replace(
        bvh, names=(*bvh.names, "Tail01"), parents=np.append(bvh.parents, 0), channels=(*bvh.channels, (3,)),
        offsets=np.concatenate([bvh.offsets, [[0, -5, -10.0]]]), motion=np.pad(bvh.motion, ((0, 0), (0, 1))),
    )  # fmt: skip
    note = assumed(imported(tmp_path, tail), "species")
    assert note.doubtful and note.warning and "Tail01" in note.why


def long_arms(leg_lengths: float, name: str = "walk 1.3") -> Bvh:
    """Return a walk on a skeleton whose arms are that many leg lengths long. The arms of people have about 0.65."""
    bvh = to_bvh(walks()[name], DIALECTS["Xsens"])
    offsets = bvh.offsets.copy()
    offsets[["Elbow" in n or "Wrist" in n for n in bvh.names]] *= leg_lengths / 0.645
    return replace(bvh, offsets=offsets)


def test_arms_that_are_too_long_are_loud_and_their_correction_is_a_doubt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = reported(tmp_path, long_arms(0.92))
    assert rows["species"]["doubtful"] and "arms 0.92 times as long" in rows["species"]["why"]
    assert "WARNING: actor1: species" in capsys.readouterr().out
    assert rows["proportions"]["doubtful"] and "arms are changed by -29%" in rows["proportions"]["why"]
    rows = reported(tmp_path, long_arms(0.75))
    assert "species" not in rows and "WARNING" not in capsys.readouterr().out
    assert not rows["proportions"]["doubtful"] and "arms are changed by -14%" in rows["proportions"]["why"]


# --- doubts in other commands ----------------------------------------------------------------------------------------


def doubtful_files(folder: Path) -> Path:
    """Write one usual file, one file that is refused, one with an absurd rate, and one with impossible proportions."""
    good, still = (to_bvh(walks()[name], DIALECTS["Xsens"]) for name in ("walk 1.3", "idle"))
    folder.mkdir()
    write_bvh(good, folder / "good_1.bvh")
    write_bvh(with_frame_time(still, "120"), folder / "refused_1.bvh")
    write_bvh(with_frame_time(to_bvh(walks()["walk 1"], DIALECTS["Xsens"]), "60"), folder / "fast_1.bvh")
    write_bvh(long_arms(1.16, "walk 0.7"), folder / "arms_1.bvh")
    return folder


def assert_doubts_printed(folder: Path, err: str) -> None:
    assert f"mm_ros: refused: {folder / 'refused_1.bvh'}: 'Frame Time: 120' means" in err
    assert "mm_ros: WARNING: actor1: proportions: 1.16 (arm (0.95 m)" in err
    assert "mm_ros: doubtful: fast_1.bvh: rate: 60 Hz ('Frame Time: 60' means" in err
    assert err.index("refused:") < err.index("WARNING:") < err.index("doubtful:")


def test_commands_print_refused_files_and_doubts_to_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    folder = doubtful_files(tmp_path / "motion")
    assert main(["session", "from-bvh", str(folder), "--only", "good", "-o", str(tmp_path / "out")]) == 0
    out, err = capfd.readouterr()
    assert_doubts_printed(folder, err)
    assert "mm_ros:" not in out
    # Marked footfalls end the command after the files are read, because they belong to one recording.
    assert main(["evaluate", str(folder), "--footfalls", str(tmp_path / "marks.csv"), "--json", "-"]) == 2
    out, err = capfd.readouterr()
    assert_doubts_printed(folder, err)
    assert out == "" and "came 3" in err


def test_training_prints_refused_files_and_doubts_to_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """All `mm_ros train` commands read motion by this function. The commands themselves need torch."""
    folder = doubtful_files(tmp_path / "motion")
    clips, _ = read_clips(argparse.Namespace(data=[folder], options=None))
    out, err = capfd.readouterr()
    assert_doubts_printed(folder, err)
    assert len(clips) == 3 and "mm_ros:" not in out


def test_the_source_of_motion_capture_prints_refused_files_and_doubts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    folder = doubtful_files(tmp_path / "motion")
    make_source("mocap", str(folder))
    assert_doubts_printed(folder, capfd.readouterr().err)


def test_many_doubts_are_printed_in_few_lines(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    for i in range(30):
        (tmp_path / f"broken_{i}\n.bvh").write_text("HIERARCHY")
    write_bvh(to_bvh(walk(), DIALECTS["Xsens"]), tmp_path / "walk_01.bvh")
    assert len(load_clips([tmp_path])) == 1
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 21 and lines[-1].startswith("mm_ros: 10 more lines like these")
