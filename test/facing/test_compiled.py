"""The compiled networks of facing and steps against onnxruntime, and networks that are not compiled."""

import numpy as np
import pytest

from mm_ros.facing.compiled import compiled
from mm_ros.facing.model_file import MODELS, OnnxModel, graph_of

FACING, STEPS = MODELS / "facing.onnx", MODELS / "steps.onnx"


@pytest.fixture(params=["facing", "steps"])
def both(request):
    """A shipped network, compiled and in onnxruntime."""
    ours, plain = (OnnxModel(MODELS / f"{request.param}.onnx", request.param) for _ in range(2))
    assert ours._compiled is not None
    plain._compiled = None
    return ours, plain


def test_a_shipped_network_gives_what_onnxruntime_gives(both):
    ours, plain = both
    rng = np.random.default_rng(3)
    one, other = ours.nothing(), plain.nothing()
    for _ in range(200):
        inputs = (rng.normal(size=(1, ours.width)) * 2).astype(np.float32)
        tick = bool(rng.integers(2))
        got, now = ours.step(inputs, one, tick)
        expected, other = plain.step(inputs, other, tick)
        assert got.shape == expected.shape and got.dtype == expected.dtype and now.shape == other.shape
        np.testing.assert_allclose(got, expected, atol=3e-6)
        np.testing.assert_allclose(now, other, atol=3e-6)
        one = now


def test_the_state_of_the_facing_changes_at_ticks_only_and_the_one_before_is_kept():
    model = OnnxModel(FACING, "facing")
    start, inputs = model.nothing(), np.ones((1, model.width), np.float32)
    assert model.step(inputs, start, False)[1] is start
    now = model.step(inputs, start, True)[1]
    assert not start.any() and now.any()


@pytest.mark.parametrize("name", ["facing_paper_r1.onnx", "learned_procedural.onnx"])
def test_other_graphs_are_left_to_onnxruntime(name):
    assert compiled(*graph_of(MODELS / name)) is None


@pytest.mark.parametrize(
    ("file", "name", "change"),
    [
        (FACING, "order", lambda w: w + 1), (FACING, "order", lambda w: w - 1), (FACING, "halves", lambda w: w + 1),
        (FACING, "into_half", lambda w: w[..., :-1]), (FACING, "w1_half", lambda w: w[:, :, :-1]),
        (FACING, "to", lambda w: w + 1000), (FACING, "unmirror", lambda w: w[:1]), (FACING, "mean", lambda w: w[:0]),
        (FACING, "gates_and_new", lambda w: w[::-1]), (STEPS, "back_1_half", lambda w: w[:, :-3]),
        (STEPS, "bias_0", lambda w: w[:, 1:]), (STEPS, "ones", lambda w: w + 1), (STEPS, "w_first_half", lambda w: w.T),
    ],
)  # fmt: skip
def test_weights_of_other_shapes_or_indices_are_left_to_onnxruntime(file, name, change):
    nodes, weights = graph_of(file)
    assert compiled(nodes, weights) is not None
    assert compiled(nodes, {**weights, name: change(weights[name])}) is None
    del weights[name]
    assert compiled(nodes, weights) is None


@pytest.mark.parametrize("name", ["facing.onnx", "steps.onnx"])
def test_nodes_and_weights_are_those_that_the_onnx_package_reads(name):
    onnx = pytest.importorskip("onnx", reason="the extra train is not installed")
    graph = onnx.load(str(MODELS / name)).graph
    nodes, weights = graph_of(MODELS / name)
    assert nodes == [n.SerializeToString() for n in graph.node]
    assert weights.keys() == {t.name for t in graph.initializer}
    for tensor in graph.initializer:
        np.testing.assert_array_equal(weights[tensor.name], onnx.numpy_helper.to_array(tensor))
