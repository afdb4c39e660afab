"""Networks on disk: loaded with one thread, refused with a sentence."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mm_ros.base.errors import MmRosError
from mm_ros.facing import model_file as onnx_model
from mm_ros.facing.inputs import INPUTS, PAPER_INPUTS, layout_hash
from mm_ros.facing.model_file import MODELS, VERSION, OnnxModel, load_facing_model
from mm_ros.facing.orientation import OrientationSettings

GOOD = {"kind": "facing", "version": str(VERSION), "layout_hash": layout_hash()}


@pytest.fixture
def made(tmp_path):
    """A network that doubles three numbers, with the metadata asked for."""

    def make(metadata):
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "x"], ["y"])], "double",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        for key, value in metadata.items():
            entry = model.metadata_props.add()
            entry.key, entry.value = key, value
        path = tmp_path / "made.onnx"
        onnx.save(model, str(path))
        return path

    return make


def test_it_runs(made):
    model = OnnxModel(made(GOOD), "facing", layout_hash())
    out, remembered = model.step(np.array([[1, 2, 3]], np.float32), model.nothing(), True)
    assert out.tolist() == [[2, 4, 6]] and out.dtype == np.float32 and remembered is None


def test_files_of_the_first_version_remember_nothing_and_run(made):
    model = OnnxModel(made(GOOD | {"version": "1"}), "facing", layout_hash())
    assert not model.remembers
    assert model.sequence(np.ones((4, 3), np.float32), np.full(4, 0.01)).tolist() == [[2, 2, 2]] * 4


def counter(metadata):
    """A network that remembers how many ticks there were, and answers with that."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["remembered", "tick"], ["remembered_now"]),
         helper.make_node("Mul", ["x", "remembered_now"], ["y"])], "counter",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)
         for n, shape in (("x", ["n", 1]), ("remembered", ["n", 1]), ("tick", [1]))],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 1]) for n in ("y", "remembered_now")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    for key, value in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    return model.SerializeToString()


def test_a_network_that_remembers_does_so_at_ticks(tmp_path):
    path = tmp_path / "counter.onnx"
    path.write_bytes(counter(GOOD | {"tick_s": "0.03"}))
    model = OnnxModel(path)
    assert model.remembers and model.nothing().tolist() == [[0]]
    ones = np.ones((7, 1), np.float32)
    assert model.sequence(ones, np.full(7, 0.012))[:, 0].tolist() == [1, 1, 1, 2, 2, 2, 3]
    assert model.sequence(ones[:2], np.full(2, 0.012))[:, 0].tolist() == [1, 1]  # a session begins with nothing


@pytest.mark.parametrize("said", [{}, {"tick_s": "often"}])
def test_a_network_that_remembers_must_say_when(tmp_path, said):
    path = tmp_path / "counter.onnx"
    path.write_bytes(counter(GOOD | said))
    with pytest.raises(MmRosError, match=r"expected tick_s in seconds, came (nothing|often)"):
        OnnxModel(path)


def test_one_thread_and_no_spinning(made, monkeypatch):
    seen = {}
    real = onnx_model.ort.InferenceSession

    def spy(path, options, providers):
        seen["options"], seen["providers"] = options, providers
        return real(path, options, providers=providers)

    monkeypatch.setattr(onnx_model.ort, "InferenceSession", spy)
    OnnxModel(made(GOOD))
    assert seen["options"].intra_op_num_threads == seen["options"].inter_op_num_threads == 1
    assert seen["options"].get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert seen["providers"] == ["CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"layout_hash": "00ff"}, f"input layout 00ff, but this mm_ros has layout {layout_hash()}"),
        ({"version": str(VERSION + 1)}, f"version {VERSION + 1}; this mm_ros reads up to {VERSION}"),
        ({"version": "new"}, "version new"),
        ({"kind": "decompressor"}, "kind 'decompressor', expected 'facing'"),
    ],
)
def test_what_does_not_fit_is_refused(made, change, sentence):
    with pytest.raises(MmRosError, match=sentence):
        OnnxModel(made(GOOD | change), "facing", layout_hash())


def test_a_network_of_somebody_else_is_refused(made):
    with pytest.raises(MmRosError, match="lacks kind, version, layout_hash"):
        OnnxModel(made({}))


def test_a_missing_file_lists_those_that_are_there(tmp_path):
    with pytest.raises(MmRosError, match=r"does not exist.*facing\.onnx"):
        OnnxModel(tmp_path / "none.onnx")


def test_what_is_no_network_is_refused(tmp_path):
    path = tmp_path / "text.onnx"
    path.write_text("hello")
    with pytest.raises(MmRosError, match="not a network that onnxruntime can load"):
        OnnxModel(path)


@pytest.mark.parametrize("name", ["facing", "facing_paper_r1", "facing_paper_r50"])
def test_shipped_networks_are_small_and_name_their_source(name):
    path = MODELS / f"{name}.onnx"
    assert path.stat().st_size < 1_000_000
    model = OnnxModel(path)
    assert "mocap.cs.cmu.edu" in model.metadata["credit"] and "NSF EIA-0196217" in model.metadata["credit"]
    assert model.width == (INPUTS if name == "facing" else PAPER_INPUTS)
    assert model.figures()


def test_the_default_network_says_how_it_was_made():
    metadata = OnnxModel(MODELS / "facing.onnx").metadata
    normalization = json.loads(metadata["normalization"])
    assert len(normalization["mean"]) == len(normalization["scale"]) == INPUTS
    assert {"layout", "outputs", "rate_hz", "data", "training", "date", "tick_s", "memory"} <= set(metadata)


def test_settings_choose_the_file():
    assert load_facing_model(OrientationSettings(predictor="hmd_forward")) is None
    for r in (1, 50):
        model = load_facing_model(OrientationSettings(predictor="paper", paper_r=r))
        assert model is not None and model.metadata["r"] == str(r)
    with pytest.raises(MmRosError, match="facing_paper_r7"):
        load_facing_model(OrientationSettings(predictor="paper", paper_r=7))
    with pytest.raises(MmRosError, match="kind 'facing_paper', expected 'facing'"):
        load_facing_model(OrientationSettings(model=str(MODELS / "facing_paper_r1.onnx")))
