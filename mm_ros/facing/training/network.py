"""Facing network in torch, and its loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from mm_ros.body.types import F32, F64
from mm_ros.facing.inputs import mirror
from mm_ros.facing.training.recurrent import RecurrentMembers, tick_of_frame

OUTPUTS = 4  # sine, cosine of facing minus heading; log of the Laplace scale (rad); rate (rad/s)
MIRRORED = (-1.0, 1.0, 1.0, -1.0)  # factors between the outputs of a motion and of its mirror image
MIN_LOG_SCALE = -4.0  # lower limit of the predicted logarithm of the error, so that the loss stays finite
TINY = 1e-9  # added to lengths before a division, so that the divisor is not 0
CLIP = 8.0  # limit of the normalized inputs, in standard deviations, because larger values are tracking errors


@dataclass(frozen=True)
class NetworkPlan:
    width: int = 128
    layers: int = 2
    members: int = 4  # number of networks of each kind (plain, recurrent), whose outputs are averaged
    memory: int = 48  # state size of each recurrent member; 0: no recurrent members


class FacingNetwork(nn.Module):
    """Ensemble of members, evaluated as one batched product.

    Each member is evaluated for the motion and for its mirror image, so that the mean is symmetric. Half of the members
    are recurrent (`recurrent`), if the plan has recurrent members.
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
        """Set mean and scale; the scale has a minimum, because some inputs may be constant in the training data (for
        example when all hands are tracked).
        """
        self.mean.copy_(inputs.mean(0))
        self.scale.copy_(inputs.std(0).clamp(min=0.02))

    def normalized(self, x: Tensor) -> Tensor:
        return ((x - self.mean) / self.scale).clamp(-CLIP, CLIP)

    def remembering(self, units: int) -> None:
        """Add as many recurrent members with state size `units`, initialised with the plain members' weights."""
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
        """Compute the outputs (N, OUTPUTS) from inputs (N, D) and from the states of the motion and its mirror image
        (M, N, units).
        """
        parts = []
        for k, (own, back) in enumerate(((x, torch.ones(OUTPUTS)), (mirrored(x), torch.tensor(MIRRORED)))):
            parts.append(self.members(own) * back)
            if self.recurrent is not None and memory is not None:
                parts.append(self.recurrent.read(self.normalized(own), memory[k]) * back)
        out = torch.cat(parts)
        # The length of (sine, cosine) has no meaning, so the directions of all members get equal weight.
        directions = out[..., :2] / (out[..., :2].norm(dim=-1, keepdim=True) + TINY)
        return torch.cat([directions, out[..., 2:]], -1).mean(0)

    def sequence(self, inputs: F32, dt: F64) -> F32:
        """Outputs (F, OUTPUTS) for a whole session (F, D); `dt` (F,) is the time since the previous frame [s]."""
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
        """Round the weights to half precision, as the file stores them; the errors do not change measurably."""
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(p.half().float())


def mirrored(x: Tensor) -> Tensor:
    order, signs = mirror()
    return x[:, torch.from_numpy(order)] * torch.from_numpy(signs)


def wrapped(angle: Tensor) -> Tensor:
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def loss(out: Tensor, target: Tensor, rate: Tensor, jitter: float, dt: Tensor | float) -> Tensor:
    """Loss of `out` (…, 2 frames, 4) for `target` (…, 2), facing minus heading [rad], and `rate` (…,) [rad/s].

    The terms are the Laplace likelihood of the angle, the error of the rate, and the error of the change between the
    two frames. `jitter` is the weight of the last term; without it the output jitters.
    """
    angle = torch.atan2(out[..., 0], out[..., 1])
    error = wrapped(angle - target)
    log_scale = out[..., 2].clamp(min=MIN_LOG_SCALE, max=1.5)
    likelihood = (error.abs() * torch.exp(-log_scale) + log_scale).mean()
    rate_error = (out[..., 3].mean(-1) - rate).abs().mean()
    change = (wrapped(error[..., 1] - error[..., 0]) / dt).abs().mean()
    # A length of (sine, cosine) near one keeps the direction well conditioned.
    length = (out[..., 0] ** 2 + out[..., 1] ** 2 - 1).square().mean()
    return likelihood + 0.3 * rate_error + jitter * change + 0.02 * length
