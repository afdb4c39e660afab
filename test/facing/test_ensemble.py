"""The compiled facing network against onnxruntime, and the networks that it does not compute."""

import numpy as np
import pytest

from mm_ros.facing.ensemble import Ensemble
from mm_ros.facing.model_file import MODELS, OnnxModel, graph_of

FACING = MODELS / "facing.onnx"


@pytest.fixture
def both():
    """The shipped network, compiled and in onnxruntime."""
    compiled, plain = OnnxModel(FACING, "facing"), OnnxModel(FACING, "facing")
    assert compiled._compiled is not None
    plain._compiled = None
    return compiled, plain


def test_the_shipped_network_gives_what_onnxruntime_gives(both):
    compiled, plain = both
    rng = np.random.default_rng(3)
    one, other = compiled.nothing(), plain.nothing()
    for _ in range(200):
        inputs = (rng.normal(size=(1, compiled.width)) * 2).astype(np.float32)
        tick = bool(rng.integers(2))
        got, now = compiled.step(inputs, one, tick)
        expected, other = plain.step(inputs, other, tick)
        assert got.shape == expected.shape and got.dtype == expected.dtype and now.shape == other.shape
        np.testing.assert_allclose(got, expected, atol=3e-6)
        np.testing.assert_allclose(now, other, atol=3e-6)
        one = now


def test_the_state_changes_at_ticks_only_and_the_one_before_is_kept(both):
    compiled, _ = both
    start, inputs = compiled.nothing(), np.ones((1, compiled.width), np.float32)
    assert compiled.step(inputs, start, False)[1] is start
    now = compiled.step(inputs, start, True)[1]
    assert not start.any() and now.any()


@pytest.mark.parametrize("name", ["steps.onnx", "facing_paper_r1.onnx", "learned_procedural.onnx"])
def test_other_graphs_are_left_to_onnxruntime(name):
    assert Ensemble.of(*graph_of(MODELS / name)) is None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("order", lambda w: w + 1), ("order", lambda w: w - 1), ("w1_half", lambda w: w[:, :, :-1]),
        ("into_half", lambda w: w[..., :-1]), ("halves", lambda w: w[::-1] + 1), ("to", lambda w: w + 1000),
        ("unmirror", lambda w: w[:1]), ("gates_and_new", lambda w: w[::-1]), ("mean", lambda w: w[:0]),
    ],
)  # fmt: skip
def test_weights_of_other_shapes_or_indices_are_left_to_onnxruntime(name, change):
    nodes, weights = graph_of(FACING)
    assert Ensemble.of(nodes, weights) is not None
    assert Ensemble.of(nodes, {**weights, name: change(weights[name])}) is None
    del weights[name]
    assert Ensemble.of(nodes, weights) is None


@pytest.mark.parametrize("name", ["facing.onnx", "steps.onnx"])
def test_nodes_and_weights_are_those_that_the_onnx_package_reads(name):
    onnx = pytest.importorskip("onnx", reason="the extra train is not installed")
    graph = onnx.load(str(MODELS / name)).graph
    nodes, weights = graph_of(MODELS / name)
    assert nodes == [n.SerializeToString() for n in graph.node]
    assert weights.keys() == {t.name for t in graph.initializer}
    for tensor in graph.initializer:
        np.testing.assert_array_equal(weights[tensor.name], onnx.numpy_helper.to_array(tensor))
