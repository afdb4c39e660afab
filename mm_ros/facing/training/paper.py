"""The facing network of Ponton 2022, trained by the paper's Algorithm 1: r frames in a row, loss of the last one only.

The paper's network has two hidden layers of 32 units with ReLU, and is trained by the mean squared error on motion at
60 Hz, without augmentation. In contrast to the paper, the optimizer is AdamW (decoupled weight decay), and batches and
learning rate are larger, because the training runs on one core. The network gets its previous prediction as a direction
on the floor; in the paper, it gets the prediction as six free numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mm_ros.body.types import F32, F64
from mm_ros.facing.inputs import PAPER_INPUTS, heading_of, paper_inputs_step
from mm_ros.facing.training.augment import NONE, variant
from mm_ros.facing.training.data import Motion
from mm_ros.maths.jit import njit
from mm_ros.tracking.simulation import TrackerTrack

WIDTH = 32
TRACKERS = 36  # number of network inputs for the trackers; the remaining inputs are the prediction of the frame before


class PaperNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(PAPER_INPUTS))
        self.register_buffer("scale", torch.ones(PAPER_INPUTS))
        self.layers = nn.Sequential(
            nn.Linear(PAPER_INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 6)
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers((x - self.mean) / self.scale)
        return out


def tables(motions: list[Motion]) -> tuple[F32, F64, F64, list[int]]:
    """Return four tables of all frames (rows) of all clips: the network inputs from trackers (N, 36), the headings (N,)
    [rad], the true facings (N,) [rad], and the index of the first row of each clip."""
    rng = np.random.default_rng(0)
    rows, headings, yaws, firsts, at = [], [], [], [], 0
    full, held = np.empty(PAPER_INPUTS), (1.0, 0.0)
    for motion in motions:
        v = variant(motion, NONE, rng)
        firsts.append(at)
        for f in range(len(v.yaw)):
            held = heading_of(v.rotations[f, 0], *held)
            paper_inputs_step(
                v.rotations[f], v.velocities[f], v.angular_velocities[f], v.state[f], held[0], held[1], 0.0, full
            )
            rows.append(full[:TRACKERS].astype(np.float32))
            headings.append(np.arctan2(held[1], held[0]))
        yaws.append(v.yaw)
        at += len(v.yaw)
    return np.array(rows), np.array(headings), np.concatenate(yaws), firsts


def train_paper(
    motions: list[Motion], r: int, steps: int, seed: int, tell: Callable[[int, int], None] | None = None,
    batch: int = 256, rate: float = 1e-3, decay: float = 0.035,
) -> PaperNetwork:  # fmt: skip
    torch.manual_seed(seed)
    rows, headings, yaws, firsts = tables(motions)
    stops = [*firsts[1:], len(rows)]
    starts = np.concatenate([np.arange(a + 1, max(a + 1, b - r)) for a, b in zip(firsts, stops, strict=True)])
    network = PaperNetwork()
    network.mean[:TRACKERS] = torch.from_numpy(rows.mean(0))
    network.scale[:TRACKERS] = torch.from_numpy(rows.std(0)).clamp(min=1e-3)
    x, relative = torch.from_numpy(rows), torch.from_numpy((yaws - headings).astype(np.float32))
    turns = torch.from_numpy(np.diff(headings, prepend=headings[:1]).astype(np.float32))
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    rng = np.random.default_rng(seed)
    for step in range(steps):
        i = torch.from_numpy(rng.choice(starts, batch))
        # The network gets the facing of the frame before: the true one in the first of r frames, then the predicted
        # one.
        c, s = torch.cos(relative[i - 1]), torch.sin(relative[i - 1])
        out = torch.empty(0)
        for j in range(r):
            out, c, s = _unrolled(network, x[i + j], turns[i + j], c, s)
        wanted = relative[i + r - 1]
        zero = torch.zeros_like(wanted)
        truth = torch.stack([torch.cos(wanted), torch.sin(wanted), zero, zero, zero, zero + 1], 1)
        error = nn.functional.mse_loss(out, truth)
        optimizer.zero_grad(set_to_none=True)
        error.backward()
        optimizer.step()
        schedule.step()
        if tell:
            tell(step + 1, steps)
    return network


def _unrolled(
    network: PaperNetwork, x: Tensor, turn: Tensor, c: Tensor, s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Predict the facing in one frame; the facing of the last frame (cos, sin) is rotated to this frame's heading."""
    tc, ts = torch.cos(turn), torch.sin(turn)
    c, s = c * tc + s * ts, s * tc - c * ts
    zero = torch.zeros_like(c)
    out = network(torch.cat([x, torch.stack([c, s, zero, zero, zero, zero + 1], 1)], 1))
    n = torch.sqrt(out[:, 0] ** 2 + out[:, 1] ** 2 + 1e-8)
    return out, out[:, 0] / n, out[:, 1] / n


def run_freely(network: PaperNetwork, track: TrackerTrack, headings: F64) -> F64:
    """Return the facings (F,) [rad] that the paper's network predicts, each from its prediction for the frame
    before."""
    weights = [t.detach().numpy().astype(np.float64) for t in network.layers.parameters()]
    mean, scale = network.mean.numpy().astype(np.float64), network.scale.numpy().astype(np.float64)
    return np.asarray(
        _run_freely(
            track.rotations, track.velocities, track.angular_velocities, track.state, headings,
            mean, scale, *weights,
        )
    )  # fmt: skip


@njit
def _run_freely(
    rotations: F64, velocities: F64, angular_velocities: F64, state: NDArray[np.uint8], headings: F64,
    mean: F64, scale: F64, w0: F64, b0: F64, w1: F64, b1: F64, w2: F64, b2: F64,
) -> F64:  # fmt: skip
    out, row = np.empty(len(headings)), np.empty(PAPER_INPUTS)
    yaw = headings[0]
    for f in range(len(headings)):
        c, s = math.cos(headings[f]), math.sin(headings[f])
        paper_inputs_step(
            rotations[f], velocities[f], angular_velocities[f], state[f], c, s, yaw - headings[f], row
        )
        h = np.maximum(w0 @ ((row - mean) / scale) + b0, 0.0)
        y = w2 @ np.maximum(w1 @ h + b1, 0.0) + b2
        yaw = headings[f] + math.atan2(y[1], y[0])
        out[f] = yaw
    return out
