"""Recurrent members of the facing network: plain members with a state of gated recurrent units (GRU).

The errors of recurrent members differ from the errors of plain members, so the mean of both kinds is more accurate. The
output is computed at every frame, but the state changes only at ticks, which are about 30 frames per second, so that
the results at 72, 90 and 120 Hz agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mm_ros.body.types import F64

SEEN = 50  # number of inputs that the GRU reads; these are all inputs except the averages
TICK = 0.0265  # minimum time between two updates of the state (ticks) [s]: 33 ms at 90 and 120 Hz, 28 ms at 72 Hz


class RecurrentMembers(nn.Module):
    """Recurrent members of the facing network, whose first layer also reads a state of `units` numbers.

    At the start of the training, recurrent members have the weights of plain members.
    """

    def __init__(self, units: int, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> None:
        super().__init__()
        members, inputs, width = weights[0].shape
        self.units = units
        # The last axis of the weights has three blocks: for the gates `keep` and `reset`, and for the new state.
        self.into = _uniform(math.sqrt(3 / SEEN), members, SEEN, 3 * units)
        self.into_bias = nn.Parameter(torch.zeros(members, 1, 3 * units))
        self.back = _uniform(math.sqrt(1 / units), members, units, 3 * units)
        self.back_bias = nn.Parameter(torch.zeros(members, 1, units))
        self.remembered = _uniform(0.1 * math.sqrt(6 / (inputs + units)), members, units, width)
        self.weights = nn.ParameterList(w.detach().clone() for w in weights)
        self.biases = nn.ParameterList(b.detach().clone() for b in biases)
        with torch.no_grad():
            self.into_bias[..., :units] = 2.0  # the bias 2.0 lets the state change slowly at the start of the training

    def nothing(self, count: int) -> Tensor:
        return torch.zeros(len(self.into), count, self.units)

    def heard(self, x: Tensor) -> Tensor:
        """Compute the part of the gate activations (M, N, 3 units) that comes from the normalized inputs (N, D)."""
        return torch.baddbmm(self.into_bias, x[:, :SEEN].expand(len(self.into), -1, -1), self.into)

    def tick(self, heard: Tensor, memory: Tensor) -> Tensor:
        """Return the new state (M, N, units) after the state `memory` and the gate activations `heard`."""
        own, n = torch.bmm(memory, self.back), self.units
        keep, reset = torch.sigmoid(heard[..., : 2 * n] + own[..., : 2 * n]).split(n, -1)
        new = torch.tanh(heard[..., 2 * n :] + reset * (own[..., 2 * n :] + self.back_bias))
        return new + keep * (memory - new)

    def read(self, x: Tensor, memory: Tensor) -> Tensor:
        """Return the outputs (M, N, OUTPUTS) for normalized inputs (N, D) and the state `memory` (M, N, units)."""
        h = torch.baddbmm(self.biases[0], x.expand(len(self.into), -1, -1), self.weights[0])
        h = h + torch.bmm(memory, self.remembered)
        for w, b in zip(self.weights[1:], self.biases[1:], strict=True):
            h = torch.baddbmm(b, torch.relu(h), w)
        return h


def _uniform(bound: float, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


def tick_of_frame(dt: F64) -> tuple[list[int], NDArray[np.int64]]:
    """Return the frames that update the state (ticks), and for each frame (F,) the number of the last tick so far."""
    at: list[int] = []
    count, since = np.empty(len(dt), np.int64), math.inf
    for frame, passed in enumerate(dt.tolist()):
        since += passed
        if since >= TICK:
            at.append(frame)
            since = 0.0
        count[frame] = len(at) - 1
    return at, count
