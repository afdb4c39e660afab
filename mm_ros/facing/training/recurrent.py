"""Recurrent members of the facing network: a gated recurrent unit (GRU) added to the inputs of a plain member.

The errors of recurrent members differ from those of plain members, so the mean of both kinds is better. The state
changes only at ticks of about 30 Hz while the output is computed at every frame, so that results at 72, 90 and 120 Hz
agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mm_ros.body.types import F64

SEEN = 50  # number of inputs of the GRU: those of the current frame, without the averages
TICK = 0.0265  # s; minimum time between two ticks, which gives 33 ms at 90 and 120 Hz, 28 ms at 72 Hz


class RecurrentMembers(nn.Module):
    """Members that start as plain members whose first layer also reads a state of `units` numbers."""

    def __init__(self, units: int, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> None:
        super().__init__()
        members, inputs, width = weights[0].shape
        self.units = units
        # The three blocks of weights: keep gate, reset gate, new state
        self.into = _uniform(math.sqrt(3 / SEEN), members, SEEN, 3 * units)
        self.into_bias = nn.Parameter(torch.zeros(members, 1, 3 * units))
        self.back = _uniform(math.sqrt(1 / units), members, units, 3 * units)
        self.back_bias = nn.Parameter(torch.zeros(members, 1, units))
        self.remembered = _uniform(0.1 * math.sqrt(6 / (inputs + units)), members, units, width)
        self.weights = nn.ParameterList(w.detach().clone() for w in weights)
        self.biases = nn.ParameterList(b.detach().clone() for b in biases)
        with torch.no_grad():
            self.into_bias[..., :units] = 2.0  # at the start of the training, the gate keeps the state

    def nothing(self, count: int) -> Tensor:
        return torch.zeros(len(self.into), count, self.units)

    def heard(self, x: Tensor) -> Tensor:
        """Compute the part of the gate activations (M, N, 3 units) that comes from the normalized inputs (N, D)."""
        return torch.baddbmm(self.into_bias, x[:, :SEEN].expand(len(self.into), -1, -1), self.into)

    def tick(self, heard: Tensor, memory: Tensor) -> Tensor:
        """Update the state: `heard` (M, N, 3 units), memory (M, N, units) → memory (M, N, units)."""
        own, n = torch.bmm(memory, self.back), self.units
        keep, reset = torch.sigmoid(heard[..., : 2 * n] + own[..., : 2 * n]).split(n, -1)
        new = torch.tanh(heard[..., 2 * n :] + reset * (own[..., 2 * n :] + self.back_bias))
        return new + keep * (memory - new)

    def read(self, x: Tensor, memory: Tensor) -> Tensor:
        """Outputs (M, N, OUTPUTS) for normalized inputs (N, D) and memory (M, N, units)."""
        h = torch.baddbmm(self.biases[0], x.expand(len(self.into), -1, -1), self.weights[0])
        h = h + torch.bmm(memory, self.remembered)
        for w, b in zip(self.weights[1:], self.biases[1:], strict=True):
            h = torch.baddbmm(b, torch.relu(h), w)
        return h


def _uniform(bound: float, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


def tick_of_frame(dt: F64) -> tuple[list[int], NDArray[np.int64]]:
    """Frames of the ticks, and for each frame (F,) the index of the last tick at or before this frame."""
    at: list[int] = []
    count, since = np.empty(len(dt), np.int64), math.inf
    for frame, passed in enumerate(dt.tolist()):
        since += passed
        if since >= TICK:
            at.append(frame)
            since = 0.0
        count[frame] = len(at) - 1
    return at, count
