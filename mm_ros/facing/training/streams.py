"""Trains the recurrent members of the facing network on many parallel sequences of motion.

The sequences are cut into chunks; the network's state at the end of a chunk is the start state of the next chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mm_ros.facing.training.augment import variant
from mm_ros.facing.training.data import Motion, sessions
from mm_ros.facing.training.network import FacingNetwork, loss
from mm_ros.maths import rotations as rot

if TYPE_CHECKING:
    from mm_ros.facing.training.train import TrainOptions

STREAMS, CHUNK = 48, 64  # number of parallel sequences, and number of state updates (ticks) in a chunk of a sequence
JUDGED = 3  # the loss uses every third update of the state (tick), because neighbouring updates differ little
EACH = 2  # number of frames at 60 Hz from one update of the state (tick) to the next
LEARNING_RATE, WEIGHT_DECAY = 2.5e-3, 0.2  # options of the optimizer AdamW
PASSES = 1.5  # number of random variants per motion, divided by the number with which the plain members are trained
MAX_RATE = 12.0  # turn rate [rad/s] above which a frame is not used, because faster turns are errors of the capture


@dataclass
class Streams:
    """Training data of T ticks (state updates) in B parallel sequences (T, B, …), each of several long motions."""

    inputs: Tensor  # inputs (T, B, 2, D) of the frame of each tick and of the next frame, in half precision
    targets: Tensor  # (T, B, 2)
    rates: Tensor
    dt: Tensor
    goes_on: Tensor  # (T, B) 0 at the first tick of a long motion, at which the network state is reset; else 1

    def __len__(self) -> int:
        return len(self.dt)

    def __getitem__(self, which: Any) -> Streams:
        return Streams(*(a[which] for a in vars(self).values()))

    def chunks(self) -> Iterator[Streams]:
        for first in range(0, max(len(self) // CHUNK, 1) * CHUNK, CHUNK):
            yield self[first : first + CHUNK]


def streams_of(motions: list[Motion], options: TrainOptions, number: int) -> Streams:
    rng = np.random.default_rng([options.seed, 1, number])
    joined = sessions(motions, options.joined, rng)
    parts = [_ticks(joined[i], joined, options, rng) for i in rng.permutation(len(joined))]
    whole = [torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True)]
    count = max(1, min(STREAMS, len(whole[0]) // CHUNK))
    length = len(whole[0]) // count
    return Streams(*(a[: count * length].reshape(count, length, *a.shape[1:]).transpose(0, 1) for a in whole))


def _ticks(motion: Motion, donors: list[Motion], options: TrainOptions, rng: np.random.Generator) -> tuple[Any, ...]:
    v = variant(motion, options.recurrent_augmentation, rng, donors)
    inputs, headings = v.inputs()
    rates = np.gradient(np.unwrap(v.yaw), v.dt).astype(np.float32)
    relative = rot.wrap_angle(v.yaw - headings).astype(np.float32)
    i = np.arange(rng.integers(EACH), len(inputs) - 1, EACH)
    goes_on = np.ones(len(i), np.float32)
    goes_on[:1] = 0
    return (
        np.stack([inputs[i], inputs[i + 1]], axis=1).astype(np.float16),
        np.stack([relative[i], relative[i + 1]], axis=1),
        rates[i],
        np.full(len(i), v.dt, np.float32),
        goes_on,
    )


def fit_recurrent(
    network: FacingNetwork, motions: list[Motion], options: TrainOptions, tell: Callable[[str, int, int], None]
) -> None:
    """Train the recurrent members of a network on new random variants, without a change of the plain members."""
    members = network.recurrent
    assert members is not None
    optimizer = torch.optim.AdamW(members.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    passes, schedule, steps, done = round(PASSES * options.variants * options.epochs), None, 0, 0
    for k in range(passes):
        streams = streams_of(motions, options, k)
        if schedule is None:
            steps = passes * max(len(streams) // CHUNK, 1)
            schedule = torch.optim.lr_scheduler.OneCycleLR(
                optimizer, LEARNING_RATE, total_steps=steps + 1, pct_start=0.1
            )
        memory = members.nothing(streams.dt.shape[1])
        for chunk in streams.chunks():
            if done == steps:  # learning rates are planned by the first pass, but a later pass may have more chunks
                break
            memory = _fit_chunk(network, optimizer, chunk, memory, options.jitter, done % JUDGED)
            schedule.step()
            done += 1
        tell("fit recurrent members, variants", k + 1, passes)


def _fit_chunk(
    network: FacingNetwork, optimizer: torch.optim.Optimizer, chunk: Streams, memory: Tensor, jitter: float, first: int
) -> Tensor:
    members = network.recurrent
    assert members is not None
    x = network.normalized(chunk.inputs.float())
    ticks, streams = chunk.dt.shape
    gate_inputs = members.heard(x[:, :, 0].flatten(0, 1)).unflatten(1, (ticks, streams))
    states = []
    for t in range(ticks):
        memory = members.tick(gate_inputs[:, t], memory * chunk.goes_on[t][:, None])
        states.append(memory)
    at = slice(min(first, ticks - 1), None, JUDGED)
    judged, kept = chunk[at], torch.stack(states, 1)[:, at]
    # The recurrent state is updated once per tick (2 frames at 60 Hz), so both frames of a tick use the same state.
    both = kept.unsqueeze(3).expand(-1, -1, -1, 2, -1).flatten(1, 3)
    count = len(members.into)
    out = members.read(x[at].flatten(0, 2), both).reshape(count, -1, 2, 4)
    rates = judged.rates.flatten()
    sane = torch.nonzero(rates.abs() < MAX_RATE)[:, 0]
    targets = judged.targets.flatten(0, 1)[sane].expand(count, -1, -1)
    value = loss(out[:, sane], targets, rates[sane].expand(count, -1), jitter, judged.dt.flatten()[sane]) * count
    optimizer.zero_grad(set_to_none=True)
    value.backward()
    torch.nn.utils.clip_grad_norm_(members.parameters(), 5.0 * count)
    optimizer.step()
    return memory.detach()
