"""Define the step network in torch with its loss, and convert the network to an ONNX file and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mm_ros.base.errors import MmRosError
from mm_ros.facing.model_file import OnnxModel
from mm_ros.facing.training.onnx_bytes import onnx_bytes
from mm_ros.steps.inputs import INPUTS, layout_hash
from mm_ros.steps.outputs import (
    AHEAD,
    ANKLE,
    CONTACT,
    EVENT,
    FEET,
    LOG_SCALE,
    LOG_SPEED_SCALE,
    MOVES,
    OUTPUTS,
    VELOCITY,
)

CLIP = 8.0  # Inputs are limited to `CLIP` standard deviations, because larger values are tracking errors.
# Minimum and maximum of the logarithms of the expected errors that the network reports.
MIN_LOG, MAX_LOG = -4.6, 0.7


@dataclass(frozen=True)
class NetworkPlan:
    first: int = 80  # number of outputs of the linear layer before the recurrent layers
    units: int = 128  # size of the state of each of the two recurrent layers


class StepNetwork(nn.Module):
    """Network that consists of a linear layer, two recurrent layers (GRU) and another linear layer."""

    def __init__(self, plan: NetworkPlan) -> None:
        super().__init__()
        self.plan = plan
        self.register_buffer("mean", torch.zeros(INPUTS))
        self.register_buffer("scale", torch.ones(INPUTS))
        self.first = nn.Linear(INPUTS, plan.first)
        self.recurrent = nn.GRU(plan.first, plan.units, num_layers=2, batch_first=True)
        self.last = nn.Linear(plan.units, OUTPUTS)

    def normalize_by(self, inputs: Tensor) -> None:
        """Normalize the network's inputs by mean and standard deviation of the training data `inputs`. The standard
        deviation is at least 0.02, because some inputs may be constant in the training data."""
        self.mean.copy_(inputs.mean(0))
        self.scale.copy_(inputs.std(0).clamp(min=0.02))

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Compute the outputs (B, T, OUTPUTS) and the state (2, B, units) from the inputs `x` (B, T, INPUTS)."""
        x = ((x - self.mean) / self.scale).clamp(-CLIP, CLIP)
        h, state = self.recurrent(torch.relu(self.first(x)), state)
        return self.last(h), state


def loss(out: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Compute the training loss: the weighted sum of negative log likelihoods of all outputs at valid time steps."""
    valid = batch["valid"]
    total = valid.sum().clamp(min=1.0)
    feet = out[..., : 2 * FEET].unflatten(-1, (2, FEET))

    def flags(at: int, name: str, positive: float) -> Tensor:
        weight = torch.tensor(positive)
        values = nn.functional.binary_cross_entropy_with_logits(
            feet[..., at], batch[name], reduction="none", pos_weight=weight
        )
        return (values.mean(-1) * valid).sum() / total

    def laplace(value: Tensor, target: Tensor, log_scale: Tensor, weight: Tensor, count: int) -> Tensor:
        log_scale = log_scale.clamp(MIN_LOG, MAX_LOG)
        error = (value - target).square().sum(-1).add(1e-8).sqrt()
        each = error * torch.exp(-log_scale) + log_scale
        return (each * weight).sum() / (weight.sum().clamp(min=1.0))

    both = valid[..., None].expand(-1, -1, 2)
    value = flags(MOVES, "moves", 1.0) + 0.5 * flags(CONTACT, "contact", 1.0) + flags(EVENT, "event", 3.0)
    value = value + 0.5 * laplace(feet[..., ANKLE], batch["ankles"], feet[..., LOG_SCALE], both, 3)
    value = value + 0.2 * laplace(feet[..., VELOCITY], batch["velocities"], feet[..., LOG_SPEED_SCALE], both, 3)
    ahead = out[..., 2 * FEET :].unflatten(-1, (3, AHEAD))
    weight = batch["ahead_valid"]
    value = value + 0.15 * laplace(ahead[..., :2], batch["ahead"], ahead[..., 4], weight, 2)
    direction = torch.stack([torch.cos(batch["turned"]), torch.sin(batch["turned"])], -1)
    return value + 0.1 * laplace(ahead[..., 2:4], direction, ahead[..., 5], weight, 2)


def network_of(path: Path) -> StepNetwork:
    """Read the network from a file that `onnx_of` has written, and raise MmRosError for other files."""
    import onnx
    from onnx import numpy_helper

    OnnxModel(path, "steps", layout_hash())  # `OnnxModel` raises an error for damaged files and other networks.
    kept = {i.name: numpy_helper.to_array(i).astype(np.float32) for i in onnx.load(path).graph.initializer}
    try:
        units, first = kept["w_last_half"].shape[0], kept["w_first_half"].shape[1]
        order = np.r_[units : 2 * units, 0:units, 2 * units : 3 * units]
        weights = {
            "mean": kept["mean"], "scale": 1 / kept["inverse"],
            "first.weight": kept["w_first_half"].T, "first.bias": kept["b_first"],
            "last.weight": kept["w_last_half"].T, "last.bias": kept["b_last"],
        }  # fmt: skip
        for k in range(2):
            weights[f"recurrent.weight_ih_l{k}"] = kept[f"into_{k}_half"][0][order]
            weights[f"recurrent.weight_hh_l{k}"] = kept[f"back_{k}_half"][0][order]
            for name, values in zip(("ih", "hh"), np.split(kept[f"bias_{k}"][0], 2), strict=True):
                weights[f"recurrent.bias_{name}_l{k}"] = values[order]
        network = StepNetwork(NetworkPlan(first, units))
        network.load_state_dict({name: torch.from_numpy(values.copy()) for name, values in weights.items()})
    except (KeyError, IndexError, ValueError, RuntimeError) as error:
        raise MmRosError(f"{path} was not written by `mm_ros train steps`: {error}") from error
    return network


def onnx_of(network: StepNetwork, metadata: dict[str, str]) -> bytes:
    """Return the content of an ONNX file that runs the step network for one time step.

    The graph maps inputs (1, INPUTS) and the state (2, 1, units) to outputs (1, OUTPUTS) and the new state.
    """
    from onnx import TensorProto, helper, numpy_helper

    constants: list[Any] = []
    nodes: list[Any] = []

    def constant(name: str, value: Any, kind: Any = np.float32) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value, kind), name))
        return name

    def half(name: str, value: Any) -> str:
        """Store a constant of the ONNX graph in half precision; the graph casts the constant to float32."""
        kept = constant(f"{name}_half", value, np.float16)
        return node("Cast", [kept], name, to=TensorProto.FLOAT)

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def weights(name: str) -> Any:
        return network.get_parameter(name).detach().numpy()

    units = network.plan.units
    x = node("Sub", ["trackers", constant("mean", network.mean.numpy())], "centred")
    x = node("Mul", [x, constant("inverse", 1 / network.scale.numpy())], "normalized")
    x = node("Clip", [x, constant("low", np.float32(-CLIP)), constant("high", np.float32(CLIP))], "clipped")
    x = node("Gemm", [x, half("w_first", weights("first.weight").T), constant("b_first", weights("first.bias"))], "g")
    x = node("Relu", [x], "h_first")
    parts = constant("ones", [1, 1], np.int64)
    nodes.append(helper.make_node("Split", ["remembered", parts], ["old_0", "old_1"], axis=0))
    axis = constant("time", [0], np.int64)
    for k in range(2):
        # The gates of a GRU layer have the order reset, update, new in torch, and update, reset, new in ONNX.
        order = np.r_[units : 2 * units, 0:units, 2 * units : 3 * units]
        into = weights(f"recurrent.weight_ih_l{k}")[order][None]
        back = weights(f"recurrent.weight_hh_l{k}")[order][None]
        biases = np.concatenate([weights(f"recurrent.bias_{n}_l{k}")[order] for n in ("ih", "hh")])[None]
        sequence = node("Unsqueeze", [x, axis], f"sequence_{k}")
        operands = [sequence, half(f"into_{k}", into), half(f"back_{k}", back), constant(f"bias_{k}", biases), ""]
        outputs = [f"all_{k}", f"new_{k}"]
        nodes.append(
            helper.make_node(
                "GRU", [*operands, f"old_{k}"], outputs, hidden_size=units, linear_before_reset=1
            )
        )
        x = node("Squeeze", [f"new_{k}", axis], f"h_{k}")
    node("Concat", ["new_0", "new_1"], "remembered_now", axis=0)
    node("Gemm", [x, half("w_last", weights("last.weight").T), constant("b_last", weights("last.bias"))], "steps")
    shape = [2, 1, units]
    value = helper.make_tensor_value_info
    # The ONNX graph ignores its input `tick`, which exists because `OnnxModel` gives the same inputs to every recurrent
    # network.
    inputs = [
        value("trackers", TensorProto.FLOAT, [1, INPUTS]), value("remembered", TensorProto.FLOAT, shape),
        value("tick", TensorProto.FLOAT, [1]),
    ]
    outputs_ = [value("steps", TensorProto.FLOAT, [1, OUTPUTS]), value("remembered_now", TensorProto.FLOAT, shape)]
    return onnx_bytes(helper.make_graph(nodes, "steps", inputs, outputs_, constants), metadata)
