"""The facing network in torch, its loss, and its way into one ONNX file (built by hand: no exporter, no surprises)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mm_ros.core.orientation_inputs import mirror
from mm_ros.offline.onnx_bytes import onnx_bytes
from mm_ros.offline.orientation.paper import PaperNetwork

OUTPUTS = 4  # sine, cosine of the facing against the heading; log of the Laplace scale (rad); rate (rad/s)
MIRRORED = (-1.0, 1.0, 1.0, -1.0)  # what the outputs of the mirrored motion are against these
MIN_LOG_SCALE = -4.0
CLIP = 8.0  # standard deviations; what lies farther out is a mistake of the trackers


@dataclass(frozen=True)
class NetworkPlan:
    width: int = 128
    layers: int = 2
    members: int = 4  # networks whose answers are averaged in one file


class FacingNetwork(nn.Module):
    """Members side by side as one batched product: an ensemble costs one pass.

    Each answers for the motion and for its mirror image; the mean of all prefers neither side.
    """

    def __init__(self, inputs: int, plan: NetworkPlan) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        sizes = [inputs, *[plan.width] * plan.layers, OUTPUTS]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for a, b in pairwise(sizes):
            bound = math.sqrt((6 if b != OUTPUTS else 1) / a)
            self.weights.append(nn.Parameter(torch.empty(plan.members, a, b).uniform_(-bound, bound)))
            self.biases.append(nn.Parameter(torch.zeros(plan.members, 1, b)))

    def normalize_by(self, inputs: Tensor) -> None:
        """Inputs that never vary (all hands tracked) must not blow up later: their spread has a floor."""
        self.mean.copy_(inputs.mean(0))
        self.scale.copy_(inputs.std(0).clamp(min=0.02))

    def members(self, x: Tensor) -> Tensor:
        """(N, D) or (M, N, D) → (M, N, OUTPUTS)."""
        h = ((x - self.mean) / self.scale).clamp(-CLIP, CLIP)
        if h.dim() == 2:
            h = h.expand(len(self.weights[0]), -1, -1)
        for i, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = torch.baddbmm(b, h, w)
            if i + 1 < len(self.weights):
                h = torch.relu(h)
        return h

    def forward(self, x: Tensor) -> Tensor:
        """(N, D) → (N, OUTPUTS)."""
        order, signs = mirror()
        theirs = self.members(x[:, torch.from_numpy(order)] * torch.from_numpy(signs)).mean(0)
        return (self.members(x).mean(0) + theirs * torch.tensor(MIRRORED)) / 2


def wrapped(angle: Tensor) -> Tensor:
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def loss(out: Tensor, target: Tensor, rate: Tensor, jitter: float, dt: Tensor | float) -> Tensor:
    """`out` (…, 2 frames, 4), target (…, 2) rad against the heading, rate (…,) rad/s of the body.

    Laplace likelihood of the angle; the rate; and the change between two neighbouring frames, seen in the room.
    `jitter` weighs that last one: without it the answer trembles.
    """
    angle = torch.atan2(out[..., 0], out[..., 1])
    error = wrapped(angle - target)
    log_scale = out[..., 2].clamp(min=MIN_LOG_SCALE, max=1.5)
    likelihood = (error.abs() * torch.exp(-log_scale) + log_scale).mean()
    rate_error = (out[..., 3].mean(-1) - rate).abs().mean()
    change = (wrapped(error[..., 1] - error[..., 0]) / dt).abs().mean()
    # Length of (sine, cosine) near one keeps its direction well conditioned.
    length = (out[..., 0] ** 2 + out[..., 1] ** 2 - 1).square().mean()
    return likelihood + 0.3 * rate_error + jitter * change + 0.02 * length


class _Graph:
    """Nodes and constants of an ONNX graph, one output each."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
        return name

    def indices(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(value, np.int64), name))
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def normalize(self, x: str, mean: Any, scale: Any) -> str:
        x = self.node("Sub", [x, self.constant("mean", mean)], "centred")
        return self.node("Mul", [x, self.constant("inverse_scale", 1 / scale)], "normalized")

    def layers(self, x: str, weights: list[Any], biases: list[Any], name: str, last: str = "") -> str:
        """Products with ReLU between; weights (in, out)."""
        for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
            final = i + 1 == len(weights)
            operands = [x, self.constant(f"w{name}_{i}", w), self.constant(f"b{name}_{i}", b)]
            x = self.node("Gemm", operands, last if final and last else f"product{name}_{i}")
            x = x if final else self.node("Relu", [x], f"relu{name}_{i}")
        return x

    def serialized(self, inputs: int, outputs: int, metadata: dict[str, str]) -> bytes:
        from onnx import TensorProto, helper

        graph = helper.make_graph(
            self.nodes, "facing",
            [helper.make_tensor_value_info("trackers", TensorProto.FLOAT, ["n", inputs])],
            [helper.make_tensor_value_info("facing", TensorProto.FLOAT, ["n", outputs])],
            self.constants,
        )  # fmt: skip
        return onnx_bytes(graph, metadata)


def onnx_of(network: FacingNetwork, metadata: dict[str, str]) -> bytes:
    """Mirror image, normalization, all members and their mean as one graph: (N, D) float32 → (N, OUTPUTS)."""
    graph = _Graph()
    order, signs = mirror()
    image = graph.node("Gather", ["trackers", graph.indices("order", order)], "swapped", axis=1)
    image = graph.node("Mul", [image, graph.constant("signs", signs)], "mirrored")
    first = graph.indices("first", [0])
    both = [graph.node("Unsqueeze", [x, first], f"{x}_") for x in ("trackers", image)]
    x = graph.node("Concat", both, "both", axis=0)  # (2, N, D)
    x = graph.normalize(x, network.mean.numpy(), network.scale.numpy())
    limits = [graph.constant("low", np.float32(-CLIP)), graph.constant("high", np.float32(CLIP))]
    x = graph.node("Clip", [x, *limits], "clipped")
    layers = list(zip(network.weights, network.biases, strict=True))
    for i, (w, b) in enumerate(layers):  # (M, 2, N, …)
        x = graph.node("MatMul", [x, graph.constant(f"w{i}", w.detach().numpy()[:, None])], f"product{i}")
        x = graph.node("Add", [x, graph.constant(f"b{i}", b.detach().numpy()[:, None])], f"sum{i}")
        x = graph.node("Relu", [x], f"relu{i}") if i + 1 < len(layers) else x
    x = graph.node("Mul", [x, graph.constant("back", np.array([np.ones(OUTPUTS), MIRRORED])[:, None])], "back_again")
    graph.node("ReduceMean", [x], "facing", axes=[0, 1], keepdims=0)
    return graph.serialized(len(network.mean), OUTPUTS, metadata)


def onnx_of_paper(network: PaperNetwork, metadata: dict[str, str]) -> bytes:
    graph = _Graph()
    x = graph.normalize("trackers", network.mean.numpy(), network.scale.numpy())
    parameters = [p.detach().numpy() for p in network.layers.parameters()]
    graph.layers(x, [w.T for w in parameters[::2]], parameters[1::2], "", "facing")
    return graph.serialized(len(network.mean), 6, metadata)
