"""Layers of the four networks in torch, and the forward kinematics of a human skeleton."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mm_ros.body.skeleton import HIPS, Skeleton
from mm_ros.matching.engines import pose_code as pc


@dataclass(frozen=True)
class Sizes:
    latent: int = 32
    width: int = 512
    decompressor_layers: int = 2
    stepper_layers: int = 2
    projector_layers: int = 3


class Layers(nn.Module):
    """ReLU layers with a linear skip connection, which can be set to compute a given linear map before the training."""

    def __init__(self, inputs: int, outputs: int, width: int, layers: int) -> None:
        super().__init__()
        self.straight = nn.Linear(inputs, outputs)
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([inputs, *[width] * layers]))
        self.last = nn.Linear(width, outputs, bias=False)
        for layer in self.hidden:
            nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(2))
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.straight.weight)
        nn.init.zeros_(self.straight.bias)

    def forward(self, x: Tensor) -> Tensor:
        h = x
        for layer in self.hidden:
            h = torch.relu(layer(h))
        return self.straight(x) + self.last(h)

    @torch.no_grad()
    def begin_with(self, weight: Any, bias: Any) -> None:
        """Set the linear skip connection to y = x · `weight` + `bias`."""
        self.straight.weight.copy_(torch.as_tensor(weight.T, dtype=torch.float32))
        self.straight.bias.copy_(torch.as_tensor(bias, dtype=torch.float32))


class Body(nn.Module):
    """Forward kinematics of pose vectors, relative to the root of the body."""

    def __init__(self, skeleton: Skeleton) -> None:
        super().__init__()
        self.register_buffer("offsets", torch.as_tensor(np.asarray(skeleton.offsets), dtype=torch.float32))
        depth = np.array([len(skeleton.ancestors(j)) for j in range(len(skeleton))])
        self.levels = [torch.as_tensor(np.flatnonzero(depth == k)) for k in range(2, depth.max() + 1)]
        self.parents = torch.as_tensor(np.asarray(skeleton.parents, np.int64))
        self.order = torch.cat([torch.tensor([HIPS]), *self.levels])
        self.back = torch.argsort(self.order)

    def matrices(self, codes: Tensor) -> Tensor:
        """Convert pose vectors to rotation matrices (N, MOVED, 3, 3) relative to the parent joints."""
        six = codes[:, pc.ROTATIONS].reshape(len(codes), pc.MOVED, 6)
        a = nn.functional.normalize(six[..., :3], dim=-1)
        b = six[..., 3:]
        b = nn.functional.normalize(b - (a * b).sum(-1, keepdim=True) * a, dim=-1)
        return torch.stack([a, b, torch.linalg.cross(a, b)], -1)

    def forward(self, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute joint positions (N, MOVED, 3), global rotations and local rotations (N, MOVED, 3, 3) from pose
        vectors (N, WIDTH)."""
        local = self.matrices(codes)
        where: list[Any] = [None] * len(self.parents)
        which: list[Any] = [None] * len(self.parents)
        where[HIPS], which[HIPS] = codes[:, pc.HIPS_POSITION], local[:, 0]
        for level in self.levels:
            joints, parents = level.tolist(), self.parents[level].tolist()
            turn = torch.stack([which[p] for p in parents], 1)
            base = torch.stack([where[p] for p in parents], 1)
            at = base + (turn * self.offsets[level][:, None, :]).sum(-1)
            own = turn @ local[:, level - 1]
            for k, j in enumerate(joints):
                where[j], which[j] = at[:, k], own[:, k]
        return torch.stack(where[1:], 1), torch.stack(which[1:], 1), local


def angles(a: Tensor, b: Tensor) -> Tensor:
    """Return the angles between the rotation matrices `a` and `b` (…, 3, 3) [deg]."""
    trace = (a * b).sum((-1, -2))
    return torch.rad2deg(torch.arccos(((trace - 1) / 2).clamp(-1, 1)))
