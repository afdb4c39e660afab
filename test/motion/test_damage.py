"""A damaged database is refused or works like an intact one; it never ends the process."""

import base64
import io
import json
import math
import os
import time
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flipped_bits import CORRECT, END_MARGIN_S, REFUSED, WRONG, answers, campaign, flips, index_part, without_checksums
from toys import toy_database

from mm_ros.base.checksums import BodyChecksums
from mm_ros.base.errors import MmRosError
from mm_ros.base.sealed_onnx import sealed, unsealed
from mm_ros.facing.model_file import MODELS, session
from mm_ros.matching.model_file import DEFAULT_MODEL, LearnedModel
from mm_ros.motion.files import _header, read_database, write_database
from mm_ros.search import make_engine


@pytest.fixture(scope="module")
def database():
    plain = toy_database()
    engine = make_engine(
        "tree", plain.features, plain.range_starts, plain.range_stops, plain.tags,
        ends_excluded_frames=round(END_MARGIN_S * plain.rate), usual_weights=plain.layout.column_weights(),
    )  # fmt: skip
    return replace(plain, search_arrays=engine.to_arrays())


@pytest.fixture
def path(database, tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("MM_ROS_CACHE", str(tmp_path / "cache"))
    write_database(database, tmp_path / "a.mmdb")
    return tmp_path / "a.mmdb"


def test_a_flipped_bit_is_refused_or_does_no_harm(path: Path):
    changed = flips(index_part(path).values(), 12, seed=0)
    found = campaign(path.read_bytes(), changed, path.with_name("b.mmdb"), answers(path))
    assert set(found) <= {REFUSED, CORRECT} and found[REFUSED] > 200, found


def test_a_flipped_bit_in_a_file_without_checksums_ends_no_process(path: Path):
    truth, old = answers(path), path.with_name("old.mmdb")
    old.write_bytes(without_checksums(path.read_bytes()))
    assert all(map(np.array_equal, answers(old), truth))
    found = campaign(old.read_bytes(), flips(index_part(old).values(), 16, seed=1), path.with_name("b.mmdb"), truth)
    assert set(found) <= {REFUSED, CORRECT, WRONG} and found[REFUSED] > 20, found


def damage(path: Path, name: str) -> None:
    """Flip a bit in the middle of this array."""
    with path.open("rb") as handle:
        data = bytearray(handle.read())
    header = _header(path)[0]
    entry = header["arrays"][name]
    data[len(data) - header["bytes"] + entry["at"] + 400] ^= 16
    path.unlink()
    path.write_bytes(data)


def test_damaged_motion_is_refused_or_reported_from_the_background(path: Path):
    damage(path, "rotations")
    with pytest.raises(MmRosError, match=r"a\.mmdb: is damaged: bytes \d+ to \d+ do not fit their checksum"):
        read_database(path)
    said: list[str] = []
    database = read_database(path, said.append)
    until = time.monotonic() + 60
    while not said and time.monotonic() < until:
        time.sleep(0.01)
    assert "is damaged" in said[0] and len(said) == 1
    assert isinstance(database.positions.base, np.memmap) or not database.positions.flags.owndata


def test_a_file_is_checked_once_and_again_when_it_has_changed(path: Path, monkeypatch):
    read: list[int] = []
    checked = BodyChecksums.check

    def counting(self, start=0, stop=None):
        read.append(start)
        checked(self, start, stop)

    monkeypatch.setattr(BodyChecksums, "check", counting)
    read_database(path)
    first = len(read)
    assert first > 0
    read_database(path)
    assert len(read) == first
    os.utime(path, ns=(1, 1))
    read_database(path)
    assert len(read) == 2 * first


def test_checksums_of_a_later_version_are_a_sentence(path: Path):
    data = path.read_bytes().replace(b'"version":1', b'"version":2')
    head = bytearray(data)
    length = int.from_bytes(head[16:24], "little")
    head[12:16] = zlib.crc32(head[24 : 24 + length]).to_bytes(4, "little")
    path.unlink()
    path.write_bytes(head)
    with pytest.raises(MmRosError, match="has checksums of version 2; expected 1"):
        read_database(path)


def learned(tmp_path: Path, change) -> Path:
    """Write a changed copy of the learned engine that is part of mm_ros."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    model = onnx.load_from_string(unsealed(DEFAULT_MODEL.read_bytes()))
    change(onnx, model, {p.key: p for p in model.metadata_props})
    onnx.save(model, tmp_path / "a.onnx")
    return tmp_path / "a.onnx"


def fewer_joints(onnx, model, metadata):
    with np.load(io.BytesIO(base64.b64decode(metadata["digest"].value))) as stored:
        arrays = {name: stored[name] for name in stored.files}
    arrays["positions"] = arrays["positions"][:, :-1]
    out = io.BytesIO()
    np.savez(out, **arrays)
    metadata["digest"].value = base64.b64encode(out.getvalue()).decode()


def endless_weight(onnx, model, metadata):
    metadata["weights"].value = json.dumps([math.inf, *json.loads(metadata["weights"].value)[1:]])


def short_poses(onnx, model, metadata):
    node = next(n for n in model.graph.node if "pose" in n.output)
    node.output[list(node.output).index("pose")] = "whole_pose"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(10), "first_ten"))
    model.graph.node.append(onnx.helper.make_node("Gather", ["whole_pose", "first_ten"], ["pose"], axis=1))
    del next(o for o in model.graph.output if o.name == "pose").type.tensor_type.shape.dim[:]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (fewer_joints, r"is broken: database: positions must be float32 \(100, 23, 3\), came float32 \(100, 22, 3\)"),
        (endless_weight, "is broken: its weights must be 0 or more and finite"),
        (short_poses, r"is broken: 'pose' must be float32 \(1, 140\), came float32 \(1, 10\)"),
    ],
)
def test_a_learned_model_with_other_sizes_is_refused(change, sentence: str, tmp_path: Path):
    with pytest.raises(MmRosError, match=sentence):
        LearnedModel(learned(tmp_path, change))


def test_metadata_that_is_no_text_is_a_sentence(tmp_path: Path):
    data = unsealed(DEFAULT_MODEL.read_bytes())
    (tmp_path / "a.onnx").write_bytes(data.replace(b"procedural, made by", b"procedural, m\xffde by"))
    with pytest.raises(MmRosError, match="are not UTF-8 text"):
        LearnedModel(tmp_path / "a.onnx")


@pytest.mark.parametrize("name", ["facing", "facing_paper_r1", "facing_paper_r50", "learned_procedural", "steps"])
def test_one_flipped_bit_in_a_network_of_the_package_is_noticed(name: str, tmp_path: Path):
    content = (MODELS / f"{name}.onnx").read_bytes()
    assert unsealed(content) != content, "seal it: path.write_bytes(mm_ros.base.sealed_onnx.sealed(path.read_bytes()))"
    damaged = tmp_path / "damaged.onnx"
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(unsealed(content)), 20):
        flipped = bytearray(content)
        flipped[at] ^= 1 << rng.integers(8)
        damaged.write_bytes(flipped)
        with pytest.raises(MmRosError, match=r"damaged\.onnx is damaged: its checksum"):
            session(damaged)


def test_a_network_without_a_checksum_is_read_as_before(tmp_path: Path):
    """Files of older versions have none."""
    content = (MODELS / "facing_paper_r1.onnx").read_bytes()
    old = tmp_path / "old.onnx"
    old.write_bytes(unsealed(content))
    assert session(old).get_modelmeta().custom_metadata_map.keys() == (
        session(MODELS / "facing_paper_r1.onnx").get_modelmeta().custom_metadata_map.keys() - {"mm_ros_sha256"}
    )
    assert sealed(old.read_bytes()) == sealed(content) == content
