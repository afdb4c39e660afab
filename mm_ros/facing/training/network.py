"""The facing network in torch, and the loss of its training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from mm_ros.body.types import F32, F64
from mm_ros.facing.inputs import mirror
from mm_ros.facing.training.recurrent import RecurrentMembers, tick_of_frame

# The outputs are the sine and the cosine of the facing minus the heading, the logarithm of the error (the scale of a
# Laplace distribution [rad]), and the rate of the facing [rad/s].
OUTPUTS = 4
MIRRORED = (-1.0, 1.0, 1.0, -1.0)  # factors between the outputs for a motion and for the mirror image of the motion
MIN_LOG_SCALE = -4.0  # minimum of the predicted logarithm of the error, so that the loss stays finite
TINY = 1e-9  # is added to lengths of vectors before a division, so that the divisor is not 0
CLIP = 8.0  # limit of the network's normalized inputs [standard deviations]; larger inputs are tracking errors


@dataclass(frozen=True)
class NetworkPlan:
    width: int = 128
    layers: int = 2
    members: int = 4  # number of plain members, and of recurrent members if there are any
    memory: int = 48  # size of the state of each recurrent member; if 0, the network has no recurrent members


class FacingNetwork(nn.Module):
    """The facing network: an ensemble of small networks (members), which are evaluated as one batched product.

    The network returns the mean of the outputs of all members for the motion and for its mirror image, which makes the
    network symmetric. Half of the members are recurrent if the argument `plan` asks for recurrent members.
    """

    recurrent: RecurrentMembers | None

    def __init__(self, inputs: int, plan: NetworkPlan) -> None:
        super().__init__()
        self.recurrent = None
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
        """Compute the mean and the scale by which the network normalizes its inputs from the training data `inputs`.

        The scale has a minimum, because an input may be constant in the training data, such as the inputs that mark a
        lost hand if no hand is lost.
        """
        self.mean.copy_(inputs.mean(0))
        self.scale.copy_(inputs.std(0).clamp(min=0.02))

    def normalized(self, x: Tensor) -> Tensor:
        return ((x - self.mean) / self.scale).clamp(-CLIP, CLIP)

    def remembering(self, units: int) -> None:
        """Add recurrent members with states of `units` numbers; each starts with the weights of a plain member."""
        self.recurrent = RecurrentMembers(units, list(self.weights), list(self.biases))

    def members(self, x: Tensor) -> Tensor:
        """Compute the outputs of the plain members (M, N, OUTPUTS) from inputs (N, D) or (M, N, D)."""
        h = self.normalized(x)
        if h.dim() == 2:
            h = h.expand(len(self.weights[0]), -1, -1)
        for i, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = torch.baddbmm(b, h, w)
            if i + 1 < len(self.weights):
                h = torch.relu(h)
        return h

    def forward(self, x: Tensor, memory: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Return the outputs (N, OUTPUTS) of the network for the inputs (N, D) of N frames. `memory` holds the states
        (M, N, units) of the recurrent members for the motion and for its mirror image.
        """
        parts = []
        for k, (own, back) in enumerate(((x, torch.ones(OUTPUTS)), (mirrored(x), torch.tensor(MIRRORED)))):
            parts.append(self.members(own) * back)
            if self.recurrent is not None and memory is not None:
                parts.append(self.recurrent.read(self.normalized(own), memory[k]) * back)
        out = torch.cat(parts)
        # The vector (sine, cosine) of each member gets the length 1, so that all members have the same weight.
        directions = out[..., :2] / (out[..., :2].norm(dim=-1, keepdim=True) + TINY)
        return torch.cat([directions, out[..., 2:]], -1).mean(0)

    def sequence(self, inputs: F32, dt: F64) -> F32:
        """Return the outputs (F, OUTPUTS) of the network for F successive frames with the inputs (F, D).

        `dt` (F,) is the time from the frame before to each frame [s].
        """
        with torch.no_grad():
            x = torch.from_numpy(inputs)
            out: F32 = self(x, None if self.recurrent is None else self._remembered(x, dt)).numpy()
        return out

    def _remembered(self, x: Tensor, dt: F64) -> tuple[Tensor, Tensor]:
        assert self.recurrent is not None
        at, number = tick_of_frame(dt)
        ticks = x[at]
        both = torch.stack([ticks, mirrored(ticks)], 1).flatten(0, 1)
        heard = self.recurrent.heard(self.normalized(both)).unflatten(1, (-1, 2))
        memory, found = self.recurrent.nothing(2), []
        for t in range(len(at)):
            memory = self.recurrent.tick(heard[:, t], memory)
            found.append(memory)
        kept = torch.stack(found, 1)[:, torch.from_numpy(number)]  # (M, F, 2, units)
        return kept[:, :, 0], kept[:, :, 1]

    def round_to_half(self) -> None:
        """Round the weights to half precision, as in the file, which does not change the errors measurably."""
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(p.half().float())


def mirrored(x: Tensor) -> Tensor:
    order, signs = mirror()
    return x[:, torch.from_numpy(order)] * torch.from_numpy(signs)


def wrapped(angle: Tensor) -> Tensor:
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def loss(out: Tensor, target: Tensor, rate: Tensor, jitter: float, dt: Tensor | float) -> Tensor:
    """Return the loss of the outputs `out` (…, 2, 4) for pairs of neighbouring frames.

    `target` (…, 2) is the true facing minus the heading [rad], and `rate` (…,) is its true rate [rad/s]. The loss is
    the sum of the Laplace likelihood of the angle, the error of the rate, and the error of the change of the angle
    within each pair. The error of the change has the weight `jitter`, and keeps the predicted facing from jittering.
    """
    angle = torch.atan2(out[..., 0], out[..., 1])
    error = wrapped(angle - target)
    log_scale = out[..., 2].clamp(min=MIN_LOG_SCALE, max=1.5)
    likelihood = (error.abs() * torch.exp(-log_scale) + log_scale).mean()
    rate_error = (out[..., 3].mean(-1) - rate).abs().mean()
    change = (wrapped(error[..., 1] - error[..., 0]) / dt).abs().mean()
    # The length of the vector (sine, cosine) should be near 1, because the direction of a short vector is inexact.
    length = (out[..., 0] ** 2 + out[..., 1] ** 2 - 1).square().mean()
    return likelihood + 0.3 * rate_error + jitter * change + 0.02 * length
