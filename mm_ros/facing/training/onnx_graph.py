"""Converts facing networks to ONNX files, without the ONNX exporter of torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from mm_ros.facing.inputs import mirror
from mm_ros.facing.training.network import CLIP, MIRRORED, OUTPUTS, TINY, FacingNetwork
from mm_ros.facing.training.onnx_bytes import onnx_bytes
from mm_ros.facing.training.paper import PaperNetwork
from mm_ros.facing.training.recurrent import SEEN, RecurrentMembers

Shapes = dict[str, list[str | int]]


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        return self._kept(name, np.ascontiguousarray(value, np.float32))

    def half(self, name: str, value: Any) -> str:
        """Store the constant `name` in half precision; the graph casts the constant to float32."""
        from onnx import TensorProto

        kept = self._kept(f"{name}_half", np.ascontiguousarray(value, np.float16))
        return self.node("Cast", [kept], name, to=TensorProto.FLOAT)

    def _kept(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def indices(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(value, np.int64), name))
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        return self.nodes_of(op, inputs, [output], **attributes)[0]

    def nodes_of(self, op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> list[str]:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))
        return outputs

    def normalize(self, x: str, mean: Any, scale: Any) -> str:
        x = self.node("Sub", [x, self.constant("mean", mean)], "centred")
        return self.node("Mul", [x, self.constant("inverse_scale", 1 / scale)], "normalized")

    def layers(self, x: str, weights: list[Any], biases: list[Any], name: str, last: str = "") -> str:
        """Add linear layers with ReLU between them to the graph; each of `weights` has the shape (inputs, outputs)."""
        for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
            final = i + 1 == len(weights)
            operands = [x, self.constant(f"w{name}_{i}", w), self.constant(f"b{name}_{i}", b)]
            x = self.node("Gemm", operands, last if final and last else f"product{name}_{i}")
            x = x if final else self.node("Relu", [x], f"relu{name}_{i}")
        return x

    def serialized(self, inputs: Shapes, outputs: Shapes, metadata: dict[str, str]) -> bytes:
        from onnx import TensorProto, helper

        def typed(shapes: Shapes) -> list[Any]:
            return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

        graph = helper.make_graph(self.nodes, "facing", typed(inputs), typed(outputs), self.constants)
        return onnx_bytes(graph, metadata)


def onnx_of(network: FacingNetwork, metadata: dict[str, str]) -> bytes:
    """Return the ONNX file of the whole ensemble, including the mirror image and the normalization of the inputs.

    The network in the file maps inputs (N, D) to outputs (N, OUTPUTS). If the network has recurrent members, the second
    input and output is their state, and the third input `tick` is 1 for frames that update the state, and otherwise 0.
    """
    graph = _Graph()
    x = _both_images(graph, network)
    layers = _layers(network)
    members, recurrent = len(layers[0][0]), network.recurrent
    if recurrent is not None:
        more = _layers(recurrent)
        layers = [
            (np.concatenate([w, w2]), np.concatenate([b, b2])) for (w, b), (w2, b2) in zip(layers, more, strict=True)
        ]
    for i, (w, b) in enumerate(layers):  # (M, 2, N, …)
        x = graph.node("MatMul", [x, graph.half(f"w{i}", w[:, None])], f"product{i}")
        x = graph.node("Add", [x, graph.half(f"b{i}", b[:, None])], f"sum{i}")
        if i == 0 and recurrent is not None:
            x = _heard(graph, x, members, recurrent)
        x = graph.node("Relu", [x], f"relu{i}") if i + 1 < len(layers) else x
    unmirror = graph.constant("unmirror", np.array([np.ones(OUTPUTS), MIRRORED])[:, None])
    x = graph.node("Mul", [x, unmirror], "unmirrored")
    angle, others = graph.nodes_of("Split", [x, graph.indices("two_two", [2, 2])], ["angle", "others"], axis=-1)
    length = graph.node("ReduceL2", [angle], "length", axes=[-1], keepdims=1)
    length = graph.node("Add", [length, graph.constant("tiny", np.float32(TINY))], "length_")
    x = graph.node("Concat", [graph.node("Div", [angle, length], "direction"), others], "united", axis=-1)
    graph.node("ReduceMean", [x], "facing", axes=[0, 1], keepdims=0)
    inputs: Shapes = {"trackers": ["n", len(network.mean)]}
    outputs: Shapes = {"facing": ["n", OUTPUTS]}
    if recurrent is not None:
        shape: list[str | int] = [members, 2, "n", recurrent.units]
        inputs |= {"remembered": shape, "tick": [1]}
        outputs |= {"remembered_now": shape}
    return graph.serialized(inputs, outputs, metadata)


def _layers(of: FacingNetwork | RecurrentMembers) -> list[tuple[Any, Any]]:
    return [(w.detach().numpy(), b.detach().numpy()) for w, b in zip(of.weights, of.biases, strict=True)]


def _both_images(graph: _Graph, network: FacingNetwork) -> str:
    order, signs = mirror()
    image = graph.node("Gather", ["trackers", graph.indices("order", order)], "swapped", axis=1)
    image = graph.node("Mul", [image, graph.constant("signs", signs)], "mirrored")
    first = graph.indices("first", [0])
    both = [graph.node("Unsqueeze", [x, first], f"{x}_") for x in ("trackers", image)]
    x = graph.node("Concat", both, "both", axis=0)
    x = graph.normalize(x, network.mean.numpy(), network.scale.numpy())
    limits = [graph.constant("low", np.float32(-CLIP)), graph.constant("high", np.float32(CLIP))]
    return graph.node("Clip", [x, *limits], "clipped")


def _heard(graph: _Graph, first: str, members: int, recurrent: RecurrentMembers) -> str:
    memory = _ticked(graph, recurrent)
    said = graph.node("MatMul", [memory, graph.half("hears", recurrent.remembered.detach().numpy()[:, None])], "said")
    halves = graph.indices("halves", [members, members])
    plain, own = graph.nodes_of("Split", [first, halves], ["plain", "own"], axis=0)
    return graph.node("Concat", [plain, graph.node("Add", [own, said], "own_and_said")], "all", axis=0)


def _ticked(graph: _Graph, recurrent: RecurrentMembers) -> str:
    """Add the new state: the result of `RecurrentMembers.tick` if the input `tick` is 1, otherwise the old state."""
    units, node = recurrent.units, graph.node

    def weights(name: str) -> str:
        return graph.half(name, getattr(recurrent, name).detach().numpy()[:, None])

    bounds = [graph.indices(name, [v]) for name, v in (("from", 0), ("to", SEEN), ("axis", 2))]
    seen = node("Slice", ["clipped", *bounds], "seen")
    heard = node("Add", [node("MatMul", [seen, weights("into")], "heard_"), weights("into_bias")], "heard")
    own = node("MatMul", ["remembered", weights("back")], "own_")
    parts = graph.indices("gates_and_new", [2 * units, units])
    input_gates, input_new = graph.nodes_of("Split", [heard, parts], ["input_gates", "input_new"], axis=-1)
    own_gates, own_new = graph.nodes_of("Split", [own, parts], ["own_gates", "own_new"], axis=-1)
    gates = node("Sigmoid", [node("Add", [input_gates, own_gates], "gates_")], "gates")
    two = graph.indices("keep_and_reset", [units, units])
    keep, reset = graph.nodes_of("Split", [gates, two], ["keep", "reset"], axis=-1)
    own_new = node("Mul", [reset, node("Add", [own_new, weights("back_bias")], "own_new_")], "own_new_reset")
    new = node("Tanh", [node("Add", [input_new, own_new], "new_")], "new")
    # The next graph nodes compute the new state: remembered + tick (1 - keep) (new - remembered).
    change = node("Sub", [new, "remembered"], "change")
    change = node("Sub", [change, node("Mul", [keep, change], "change_kept_out")], "change_let_in")
    return node("Add", ["remembered", node("Mul", [change, "tick"], "change_now")], "remembered_now")


def onnx_of_paper(network: PaperNetwork, metadata: dict[str, str]) -> bytes:
    graph = _Graph()
    x = graph.normalize("trackers", network.mean.numpy(), network.scale.numpy())
    parameters = [p.detach().numpy() for p in network.layers.parameters()]
    graph.layers(x, [w.T for w in parameters[::2]], parameters[1::2], "", "facing")
    return graph.serialized({"trackers": ["n", len(network.mean)]}, {"facing": ["n", 6]}, metadata)
