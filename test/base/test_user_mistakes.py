"""User mistakes end with one sentence and an exit code other than 0, and no file of the user is lost."""

import json
import lzma
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from bvh_dialects import DIALECTS, walks
from processes import PATIENCE_S, alive, children, running, wait_until

from mm_ros.cli.main import main
from mm_ros.motion.bvh.reader import write_bvh
from mm_ros.motion.importing.export import to_bvh
from mm_ros.sessions.session import read_session


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    path = tmp_path / "wälk 1.bvh"
    write_bvh(to_bvh(walks()["walk 1.3"], DIALECTS["Xsens"]), path)
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The sentence of the refusal."""
    try:
        code = main([str(w) for w in words])
    except SystemExit as end:  # raised by argparse
        code = end.code
    said = capsys.readouterr().err
    assert code == 2, said
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("skip_start: a", "skip_start: expected a count of frames, came 'a'"),
        ("skip_end: -5", "skip_end: expected a count of frames, came -5"),
        ("floor_m: high", "floor_m: expected a number"),
        ("tags: [[walk, a, b]]", "tags: expected names, or [name, start_s, stop_s]"),
        ("joints: [a, b]", "joints: expected canonical joint: joint of the file"),
        ("rate: .nan", "rate: expected a number above 0"),
    ],
)
def test_an_override_of_the_wrong_kind(walk: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]):
    options = walk.with_name("options.yaml")
    options.write_text(text)
    assert says in refused(capsys, "import", walk, "--options", options)


def test_a_number_may_be_a_subject_and_a_single_tag_needs_no_list(walk: Path):
    options = walk.with_name("options.yaml")
    options.write_text("subject: 7\ntags: limp\n")
    assert main(["import", str(walk), "--options", str(options)]) == 0


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("weight: heavy", "weight: expected a number, came 'heavy'"),
        ("kind: [x]", "kind: expected a name"),
        ("times: []", "times: expected a list of seconds"),
    ],
)
def test_a_feature_of_the_wrong_kind(walk: Path, row: str, says: str, capsys: pytest.CaptureFixture[str]):
    features, database = walk.with_name("features.yaml"), walk.with_name("a.mmdb")
    features.write_text(f"features:\n- {{name: a, kind: trajectory_position, {row}}}\n".replace(
        "kind: trajectory_position, kind", "kind"))  # fmt: skip
    assert says in refused(capsys, "import", walk, "-o", database, "--features", features)
    assert not walk.with_name("a.report.md").exists()  # checked before the work


@pytest.mark.parametrize("option", ["--options", "--map", "--features"])
def test_a_file_that_is_no_text(walk: Path, option: str, capsys: pytest.CaptureFixture[str]):
    binary = walk.with_name("b.yaml")
    binary.write_bytes(b"\x80\xff\x00")
    said = refused(capsys, "import", walk, option, binary, "-o", walk.with_name("a.mmdb"))
    assert "is not YAML" in said


def test_broken_archives(walk: Path, capsys: pytest.CaptureFixture[str]):
    whole = walk.with_name("a.tar.xz")
    with tarfile.open(whole, "w:xz") as tar:
        tar.add(walk, "a.bvh")
    data = bytearray(whole.read_bytes())
    data[len(data) // 2] ^= 0xFF
    whole.write_bytes(data)
    with pytest.raises(lzma.LZMAError):
        lzma.decompress(data)
    assert "is no archive that can be unpacked" in refused(capsys, "import", whole)
    locked = walk.with_name("locked.zip")
    with zipfile.ZipFile(locked, "w") as archive:
        archive.write(walk, "a.bvh")
    data = bytearray(locked.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1  # flag: a password is needed
    locked.write_bytes(data)
    assert "is no archive that can be unpacked" in refused(capsys, "import", locked)


def test_what_cannot_be_written_is_said_before_the_work(walk: Path, capsys: pytest.CaptureFixture[str]):
    folder = walk.parent
    assert "is a folder" in refused(capsys, "import", walk, "-o", folder)
    assert "cannot be written" in refused(capsys, "import", walk, "--json", walk / "x.json")
    assert "one of the files to import" in refused(capsys, "import", walk, "-o", walk, "--force")
    assert walk.stat().st_size > 1000


def test_a_map_and_a_report_are_not_written_over(walk: Path, capsys: pytest.CaptureFixture[str]):
    mine = walk.with_name("mine.yaml")
    mine.write_text("hips: Pelvis  # an hour of work\n")
    assert "exists already" in refused(capsys, "import", walk, "--draft-map", mine)
    assert "exists already" in refused(capsys, "import", walk, "--report", mine)
    assert "an hour" in mine.read_text()
    assert main(["import", str(walk), "--draft-map", str(mine), "--force"]) == 0


def test_json_to_stdout_is_json_alone(walk: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["info", str(walk), "--json", "-"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["kind"] == "motion"
    assert "Time spent at each velocity" in said.err


def test_a_pipe_gets_the_json_and_stays_a_pipe(walk: Path):
    """A temporary file that is renamed would replace /dev/stdout or /dev/null."""
    pipe = walk.with_name("pipe")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert main(["info", str(walk), "--json", str(pipe)]) == 0
    assert pipe.is_fifo()
    assert json.loads(os.read(reader, 1 << 20))["kind"] == "motion"
    os.close(reader)


def test_a_pipe_in_place_of_motion_is_refused_and_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    os.mkfifo(tmp_path / "walk.bvh")
    assert "it is not a regular file" in refused(capsys, "info", tmp_path / "walk.bvh")
    assert "it is not a regular file" in refused(capsys, "import", tmp_path / "walk.bvh")
    assert "there is no such file" in refused(capsys, "info", tmp_path / "run.bvh")


def test_behind_a_link_the_link_stays(walk: Path):
    there, link = walk.with_name("there.json"), walk.with_name("link.json")
    there.write_text("{}")
    link.symlink_to(there)
    assert main(["info", str(walk), "--json", str(link)]) == 0
    assert link.is_symlink() and json.loads(there.read_text())["kind"] == "motion"


def test_a_session_that_could_not_be_written_to_its_end_leaves_nothing(tmp_path: Path, monkeypatch):
    from mm_ros.sessions import session as io

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(io.SessionWriter, "write_frame", interrupted)
    table = tmp_path / "poses.csv"
    table.write_text(HEAD + "".join(f"{i / 90},head,0,{i * 1e-4},1.7,0,0,0,1\n" for i in range(300)))
    assert main(["session", "from-csv", str(table), "-o", str(tmp_path / "s")]) == 130
    assert [p.name for p in tmp_path.iterdir()] == ["poses.csv"]
    monkeypatch.undo()
    assert main(["session", "from-csv", str(table), "-o", str(tmp_path / "s")]) == 0
    assert sorted(p.name for p in (tmp_path / "s").iterdir()) == ["metadata.yaml", "s.mcap"]


HEAD = "t,role,x,y,z,qx,qy,qz,qw\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "nan,head,0,0,1.7,0,0,0,1\n", "line 2: expected t,role"),
        (HEAD + "inf,head,0,0,1.7,0,0,0,1\n", "line 2: expected t,role"),
        (HEAD + "1,tail,0,0,1.7,0,0,0,1\n", "no rows of role 'head'"),
        (HEAD + "1,head,0,0,1e300,0,0,0,1\n", "line 2: expected t,role"),
        (HEAD + "0,head,0,0,1.7,0,0,0,1\n1e308,head,0,0,1.7,0,0,0,1\n", "times lie up to 1e+308 s from the start"),
        (HEAD + "0,head,0,0,1.7,0,0,0,1\n1e15,head,0,0,1.7,0,0,0,1\n", "times lie up to 1e+15 s from the start"),
        ("\x00\x01", "expected the columns"),
        ("", "expected the columns"),
    ],
)
def test_a_table_that_is_none(tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]):
    table = tmp_path / "poses.csv"
    table.write_text(text)
    assert says in refused(capsys, "session", "from-csv", table, "-o", tmp_path / "s")
    table.write_bytes(b"\xba\xff" * 50)
    assert "not a comma-separated table" in refused(capsys, "session", "from-csv", table, "-o", tmp_path / "s")


def test_a_table_with_unix_times(tmp_path: Path):
    """1.7e9 s after the start of the session would be beyond ROS's stamps."""
    table = tmp_path / "poses.csv"
    table.write_text(HEAD + "".join(f"{1_700_000_000 + i / 90},head,0,{i * 1e-4},1.7,0,0,0,1\n" for i in range(300)))
    assert main(["session", "from-csv", str(table), "-o", str(tmp_path / "s")]) == 0
    assert read_session(tmp_path / "s").seconds == pytest.approx(299 / 90, abs=1e-3)


def test_a_table_as_a_spreadsheet_writes_it(tmp_path: Path):
    table = tmp_path / "poses.csv"
    rows = "".join(f"{i / 90},head,0,{i * 1e-4},1.7,0,0,0,1\n" for i in range(300))
    table.write_bytes(("\ufeff" + HEAD + rows + "\n").replace("\n", "\r\n").encode())
    assert main(["session", "from-csv", str(table), "-o", str(tmp_path / "s")]) == 0


def test_a_compression_that_a_storage_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = tmp_path / "poses.csv"
    table.write_text(HEAD + "0,head,0,0,1.7,0,0,0,1\n")
    how = ("--storage", "sqlite3", "--compression", "storage")
    assert "no compression of its own" in refused(capsys, "session", "from-csv", table, "-o", tmp_path / "s", *how)
    assert not (tmp_path / "s").exists()


def test_what_a_killed_recorder_leaves_is_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table, session = tmp_path / "poses.csv", tmp_path / "s"
    table.write_text(HEAD + "".join(f"{i / 90},head,0,{i * 1e-4},1.7,0,0,0,1\n" for i in range(300)))
    assert main(["session", "from-csv", str(table), "-o", str(session)]) == 0
    (session / "metadata.yaml").unlink()
    file = session / "s.mcap"
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])
    assert main(["info", str(session)]) == 0
    said = capsys.readouterr().out
    assert f"{file} is missing, incomplete or broken" in said
    assert re.search(r"readable /\S+/trackers\s+2\d\d messages", said), said
    file.write_bytes(b"not a bag at all")
    assert str(file) in refused(capsys, "info", session)


@pytest.mark.parametrize("devices", [("--rate", "0"), ("--rate", "-5"), ("--noise", "nan"), ("--seed", "-1")])
def test_devices_that_cannot_be(walk: Path, devices: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    said = refused(capsys, "session", "from-bvh", walk, "-o", walk.with_name("s"), *devices)
    assert f"argument {devices[0]}: expected a" in said


def test_a_picture_of_an_unknown_kind(walk: Path, capsys: pytest.CaptureFixture[str]):
    assert "is not a picture" in refused(capsys, "info", walk, "--plot", walk.with_name("x.foo"))


def test_ctrl_c_in_the_middle_ends_all_processes_quietly(walk: Path):
    """Ctrl-C as a terminal sends it: to the whole process group, including helpers during their imports."""
    for i in range(8):
        (walk.parent / f"w{i}.bvh").write_bytes(walk.read_bytes().replace(b"\n0.", b"\n%d." % i, 1))
    heard = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "  # where tests run behind
    command = [sys.executable, "-c", heard + "from mm_ros.cli.main import main; sys.exit(main())"]
    command += ["import", walk.parent, "-o", walk.with_name("a.mmdb"), "--jobs", "2"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    with running(command, **options) as process:
        while len(helpers := children(process.pid)) < 2:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130 and said.strip() == "mm_ros: stopped by Ctrl-C", said
    assert not walk.with_name("a.mmdb").exists()
    wait_until(lambda: not any(map(alive, helpers)), PATIENCE_S, "the end of the helpers")


@pytest.mark.parametrize(
    ("camera", "says"),
    [
        ("rate=0", "simulated camera: rate: expected 1 to 1000, came 0"),
        ("pitch=nan", "pitch: expected -86 to 86 degrees, came nan"),
        ("field_of_view=0", "field_of_view: expected 11 to 160 degrees"),
        ("seed=inf", "seed: expected a number, came 'inf'"),
        ("rate", "rate: expected a number, came ''"),
        ("zoom=2", "'zoom' does not exist. Names: rate, field_of_view"),
    ],
)
def test_a_simulated_camera_that_cannot_be(tmp_path: Path, camera: str, says: str, capsys: pytest.CaptureFixture[str]):
    words = ("synth", "session", "-o", tmp_path / "seen", "--seconds", 1, "--simulated-camera", camera)
    assert says in refused(capsys, *words)
    assert not (tmp_path / "seen").exists()
