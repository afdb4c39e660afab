"""Files that would exhaust the machine or send control characters to a terminal are refused in one sentence."""

import gzip
import io
import json
import os
import sqlite3
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from bvh_dialects import DIALECTS, walks

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import read_yaml
from mm_ros.base.text import printable
from mm_ros.cli.main import main
from mm_ros.motion import shared_data as data
from mm_ros.motion.bvh.reader import format_bvh
from mm_ros.motion.importing.export import to_bvh
from mm_ros.motion.shared_data import unpacked
from mm_ros.sessions.bag import Bag
from mm_ros.sessions.limits import expand_lz4, expand_zstd, zstd
from mm_ros.sessions.session import read_session, write_session
from mm_ros.tracking.session_making import session_of_clips

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Limit archives to 8 MB, so that the bombs of these tests are small."""
    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(data, "LEAST_MOST_BYTES", 8_000_000)
    return tmp_path / "cache"


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(w) for w in words]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def small_bvh() -> bytes:
    return format_bvh(to_bvh(walks()["walk 1.3"].cut(0, 40), DIALECTS["Xsens"])).encode()


# --- archives --------------------------------------------------------------------------------------------------------


class Zeros(io.RawIOBase):
    """A stream of `size` zero bytes, without the memory for them."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        n = min(len(buffer), self.left)
        buffer[:n] = bytes(n)
        self.left -= n
        return n


def bomb(path: Path, name: str = "walk.bvh") -> Path:
    size = 10_000_000
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped, zipped.open(name, "w") as out:
            for _ in range(size // (1 << 20) + 1):
                out.write(bytes(1 << 20))
        return path
    entry = tarfile.TarInfo(name)
    entry.size = size
    with gzip.open(path, "wb", 1) as out, tarfile.open(fileobj=out, mode="w|") as archive:
        archive.addfile(entry, Zeros(size))
    return path


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.tar.gz"])
def test_an_archive_that_grows_too_much_is_refused(name: str, tmp_path: Path, cache: Path, capsys):
    path = bomb(tmp_path / name)
    assert path.stat().st_size < 80_000
    said = refusal(capsys, "info", path)
    assert f"{name}: would unpack to more than 8 MB from" in said and "Nothing was unpacked" in said
    assert not list((cache / "data").iterdir())


def test_what_is_not_wanted_of_an_archive_counts_too(tmp_path: Path, cache: Path):
    with pytest.raises(MmRosError, match="would unpack to more than"):
        unpacked(bomb(tmp_path / "a.tar.gz", "film.bin"))


def test_a_header_of_an_archive_that_never_ends(tmp_path: Path, cache: Path):
    """tarfile reads a PAX header of any size into memory."""
    entry = tarfile.TarInfo("h")
    entry.type, entry.size = tarfile.XHDTYPE, 1 << 40
    path = tmp_path / "a.tar.gz"
    with gzip.open(path, "wb", 1) as out:
        out.write(entry.tobuf())
        for _ in range(12):
            out.write(bytes(1 << 20))
    with pytest.raises(MmRosError, match=r"a\.tar\.gz: (would unpack|is no archive)"):
        unpacked(path)
    assert not list((cache / "data").iterdir())


def test_a_name_in_an_archive_that_no_file_can_have(tmp_path: Path, cache: Path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("x" * 300 + ".bvh")
        archive.addfile(entry, io.BytesIO())
    with pytest.raises(MmRosError, match="is no archive that can be unpacked"):
        unpacked(path)


def test_what_a_killed_process_has_unpacked_is_removed(tmp_path: Path, cache: Path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("walk.bvh", small_bvh())
    target = unpacked(path)
    half = target.with_name(f".{target.name}.part")
    target.rename(half)
    (half / "half.bvh").write_text("HIERARCHY")
    assert [p.name for p in unpacked(path).iterdir()] == ["walk.bvh"]
    assert not half.exists()


# --- bags ------------------------------------------------------------------------------------------------------------


def recorded(folder: Path, storage: str, compression: str = "none") -> Path:
    session = session_of_clips([walks()["walk 1.3"].cut(0, 40)])
    write_session(folder / "s", session, storage, compression)
    return folder / "s"


@pytest.mark.parametrize("metadata", [True, False])
def test_a_chunk_that_grows_to_gigabytes(metadata: bool, tmp_path: Path, capsys):
    path = recorded(tmp_path, "mcap", "storage")
    file = path / "s.mcap"
    whole = file.read_bytes()
    start = whole.index(b"\x06", 8)
    while b"zstd" not in whole[start : start + 60]:
        start = whole.index(b"\x06", start + 1)
    (length,) = struct.unpack_from("<Q", whole, start + 1)
    squeezed = zstd.compress(bytes(300 << 20), 1)
    header = whole[start + 9 : start + 9 + 16] + struct.pack("<QI", 300 << 20, 0) + struct.pack("<I", 4) + b"zstd"
    chunk = header + struct.pack("<Q", len(squeezed)) + squeezed
    file.write_bytes(whole[:start] + struct.pack("<BQ", 6, len(chunk)) + chunk + whole[start + 9 + length :])
    if not metadata:
        (path / "metadata.yaml").unlink()
    assert "s" in refusal(capsys, "info", path)


@pytest.mark.parametrize("expand", [expand_zstd, expand_lz4])
def test_bytes_are_expanded_no_further_than_motion_goes(expand):
    lz4 = pytest.importorskip("lz4.frame")
    compress = zstd.compress if expand is expand_zstd else lz4.compress
    assert expand(compress(b"motion" * 100)) == b"motion" * 100
    with pytest.raises(MmRosError, match="bytes in it expand to"):
        expand(compress(bytes(70 << 20)))
    with pytest.raises(MmRosError, match="expand to 99999999999"):
        expand(compress(b"motion"), 99_999_999_999)


def test_a_whole_bag_of_a_compressed_file(tmp_path: Path, capsys):
    path = recorded(tmp_path, "mcap", "file")
    assert len(read_session(path).frames) > 50
    file = path / "s.mcap.zstd"
    file.write_bytes(zstd.compress(bytes(70 << 20), 1))
    assert "bytes in it expand to" in refusal(capsys, "info", path)


@pytest.mark.parametrize("table", ["messages", "topics"])
def test_a_table_that_is_a_view_without_end(table: str, tmp_path: Path, capsys):
    path = recorded(tmp_path, "sqlite3")
    database = sqlite3.connect(path / "s.db3")
    columns = [c[1] for c in database.execute(f"PRAGMA table_info({table})")]
    database.execute(f"ALTER TABLE {table} RENAME TO old")
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT "
    database.execute(f"CREATE VIEW {table} AS {endless}{', '.join(f'n AS {c}' for c in columns)} FROM r")
    database.commit()
    database.close()
    assert f"'{table}' is not a plain table" in refusal(capsys, "info", path)


def test_reading_that_fails_in_the_middle_goes_on_with_what_is_whole(tmp_path: Path):
    """The chunk's bytes are damaged; its index is whole, so that opening the file succeeds."""
    session = session_of_clips([walks()["walk 1.3"].cut(0, 200)])
    write_session(tmp_path / "s", session, "mcap", "storage")
    file = tmp_path / "s" / "s.mcap"
    whole = bytearray(file.read_bytes())
    at = whole.index(b"\x28\xb5\x2f\xfd")
    whole[at + 80_000 : at + 200_000] = b"\xff" * 120_000
    file.write_bytes(whole)
    bag = Bag(tmp_path / "s")
    assert not bag.damage
    messages = list(bag.messages())
    assert "is damaged" in bag.damage and str(tmp_path / "s") in bag.damage
    assert len({(m.topic, m.logged_ns) for m in messages}) == len(messages) > 50
    assert len(read_session(tmp_path / "s").frames) > 20


def test_a_namespace_that_ros_does_not_have(tmp_path: Path, capsys):
    path = recorded(tmp_path, "mcap")
    for file in path.iterdir():
        file.write_bytes(file.read_bytes().replace(b"/avatar/", b"/av t-r/"))
    assert main(["info", str(path)]) == 0  # only a replay needs it as a namespace
    assert "'av t-r' is not a valid ROS namespace" in refusal(capsys, "replay", path)


# --- YAML ------------------------------------------------------------------------------------------------------------


def yaml_bomb(key: str) -> str:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    return "\n".join([*rows, f"{key}: *a8\n"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (yaml_bomb("features").encode(), "grows to more than 200000 elements by its aliases"),
        (b"[" * 5000, "is nested too deeply"),
        (b"[" * 100 + b"]" * 100, "is nested too deeply"),
        (b"a: &a [*a]", "holds itself"),
        (b"a: caf\xe9", "byte 6 is not UTF-8"),
        (b"a: 2020-99-99", "is not YAML"),
        (b"? [a]\n: b", "is not YAML"),
        (b"a" * (5 << 20), "is longer than 4 MB"),
    ],
)
def test_yaml_that_cannot_be_used(text: bytes, says: str, tmp_path: Path, capsys):
    file, motion = tmp_path / "x.yaml", tmp_path / "walk.bvh"
    file.write_bytes(text)
    motion.write_bytes(small_bvh())
    for option in ("--options", "--map", "--features") if b"*a8" in text else ("--options",):
        said = refusal(capsys, "import", motion, option, file, "-o", tmp_path / "a.mmdb")
        assert says in said and str(file) in said and len(said) < 600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["walk.bvh", "x.yaml"]


def test_yaml_that_people_write_is_read(tmp_path: Path):
    file = tmp_path / "x.yaml"
    file.write_text("a: &a [1, 2]\nb: *a\nc: {d: {e: [f]}}\n")
    assert read_yaml(file) == {"a": [1, 2], "b": [1, 2], "c": {"d": {"e": ["f"]}}}


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"OFFSET 0.0", b"OFFSET 1e300", "'1e300' is too large; expected at most 1e+09"),
        (b"Frame Time: ", b"Frame Time: -", "expected more than 0 s"),
        (b"HIERARCHY\n", b"HIERARCHY\n" + b"".join(b"JOINT x\n{\n" for _ in range(3000)), "JOINT 'x' is outside"),
        (b"{\n", b"{\n" + b"".join(b"JOINT x\n{\n" for _ in range(3000)), "more than 200 joints in one chain"),
    ],
)
def test_motion_that_cannot_be(old: bytes, new: bytes, says: str, tmp_path: Path, capsys):
    good = small_bvh()
    assert old in good
    (tmp_path / "a.bvh").write_bytes(good.replace(old, new, 1))
    assert says in refusal(capsys, "info", tmp_path / "a.bvh")


def test_a_file_that_is_far_too_long(tmp_path: Path, capsys):
    (tmp_path / "a.bvh").write_bytes(small_bvh())
    os.truncate(tmp_path / "a.bvh", 100 << 30)  # takes no space
    assert "is 107.4 GB long; expected at most 2 GB of motion" in refusal(capsys, "info", tmp_path / "a.bvh")


def test_an_angle_that_cannot_be(tmp_path: Path, capsys):
    lines = small_bvh().split(b"\n")
    lines[-2] = b" ".join([b"1e200", *lines[-2].split(b" ")[1:]])
    (tmp_path / "a.bvh").write_bytes(b"\n".join(lines))
    assert "frame 39 holds 1e+200; expected at most 1e+09" in refusal(capsys, "info", tmp_path / "a.bvh")


# --- terminals -------------------------------------------------------------------------------------------------------


def test_control_characters_are_shown_and_not_sent():
    assert printable("a\x1b[31mb\rc\x9bd\u202ee\udcff\tf\ng") == "a\\x1b[31mb\\x0dc\\x9bd\\u202ee\\xff\\x09f\ng"
    assert printable("Größe 1.80 m – “gut”") == "Größe 1.80 m – “gut”"


@pytest.mark.parametrize("good", [True, False])
def test_a_file_name_with_an_escape_sequence(good: bool, tmp_path: Path):
    """Output on a pipe: escapes do not reach the terminal, and bytes that are not UTF-8 do not raise an error."""
    name = os.fsencode(tmp_path) + b"/\x1b]0;owned\x07 walk_\xff.bvh"
    with open(name, "wb") as out:
        out.write(small_bvh() if good else b"HIERARCHY\nMOTION\n")
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"mm_ros", b"import", name, b"-o", os.fsencode(tmp_path) + b"/a.mmdb",
         b"--stooped", b"0", b"--json", b"-"],
        capture_output=True, timeout=240, cwd=ROOT,
    )  # fmt: skip
    assert b"Traceback" not in done.stderr, done.stderr
    assert b"\x1b" not in done.stdout + done.stderr and b"\x07" not in done.stdout + done.stderr
    assert done.returncode == (0 if good else 2), done.stderr
    if good:
        assert json.loads(done.stdout)["clips"] == 1


# --- the fuzzer ------------------------------------------------------------------------------------------------------


def test_the_fuzzer_finds_nothing_in_its_first_inputs(tmp_path: Path):
    figures = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--inputs", "8", "--seconds", "200", "--seed", "7", "--patience", "60",
         "--json", figures],
        capture_output=True, text=True, timeout=400, cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}/tools:{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(sum(c.values()) for c in json.loads(figures.read_text()).values()) >= 8 * 22


