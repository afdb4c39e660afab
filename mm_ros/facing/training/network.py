"""The facing network in torch, and its loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from mm_ros.body.types import F32, F64
from mm_ros.facing.inputs import mirror
from mm_ros.facing.training.recurrent import RecurrentMembers, tick_of_frame

OUTPUTS = 4  # sine, cosine of the facing against the heading; log of the Laplace scale (rad); rate (rad/s)
MIRRORED = (-1.0, 1.0, 1.0, -1.0)  # what the outputs of the mirrored motion are against these
MIN_LOG_SCALE = -4.0
TINY = 1e-9
CLIP = 8.0  # standard deviations; what lies farther out is a mistake of the trackers


@dataclass(frozen=True)
class NetworkPlan:
    width: int = 128
    layers: int = 2
    members: int = 4  # networks of each kind whose answers are averaged in one file
    memory: int = 48  # numbers that each of the second kind remembers; 0: none of that kind


class FacingNetwork(nn.Module):
    """Members side by side as one batched product: an ensemble costs one pass.

    Each answers for the motion and for its mirror image; the mean of all prefers neither side. Half of them remember
    (`recurrent`), if there are such.
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
        """Inputs that never vary (all hands tracked) must not blow up later: their spread has a floor."""
        self.mean.copy_(inputs.mean(0))
        self.scale.copy_(inputs.std(0).clamp(min=0.02))

    def normalized(self, x: Tensor) -> Tensor:
        return ((x - self.mean) / self.scale).clamp(-CLIP, CLIP)

    def remembering(self, units: int) -> None:
        """From here on as many members again, that begin as these do and learn to remember."""
        self.recurrent = RecurrentMembers(units, list(self.weights), list(self.biases))

    def members(self, x: Tensor) -> Tensor:
        """Of the first kind: (N, D) or (M, N, D) → (M, N, OUTPUTS)."""
        h = self.normalized(x)
        if h.dim() == 2:
            h = h.expand(len(self.weights[0]), -1, -1)
        for i, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = torch.baddbmm(b, h, w)
            if i + 1 < len(self.weights):
                h = torch.relu(h)
        return h

    def forward(self, x: Tensor, memory: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """(N, D) and what is remembered of the motion and of its image (M, N, units) → (N, OUTPUTS)."""
        parts = []
        for k, (own, back) in enumerate(((x, torch.ones(OUTPUTS)), (mirrored(x), torch.tensor(MIRRORED)))):
            parts.append(self.members(own) * back)
            if self.recurrent is not None and memory is not None:
                parts.append(self.recurrent.read(self.normalized(own), memory[k]) * back)
        out = torch.cat(parts)
        # Members differ in the length of (sine, cosine), which means nothing: each direction counts the same.
        directions = out[..., :2] / (out[..., :2].norm(dim=-1, keepdim=True) + TINY)
        return torch.cat([directions, out[..., 2:]], -1).mean(0)

    def sequence(self, inputs: F32, dt: F64) -> F32:
        """A whole session (F, D), dt (F,) s since the frame before → (F, OUTPUTS), as the stage would hear it."""
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
        """As the file keeps them: half precision, which no figure notices."""
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(p.half().float())


def mirrored(x: Tensor) -> Tensor:
    order, signs = mirror()
    return x[:, torch.from_numpy(order)] * torch.from_numpy(signs)


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
