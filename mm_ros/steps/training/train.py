"""Train the step network on random windows of motion, and write it to an ONNX file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mm_ros import __version__
from mm_ros.base.errors import MmRosError
from mm_ros.body.types import F64
from mm_ros.facing.model_file import VERSION
from mm_ros.facing.training.train import weights_hash, write
from mm_ros.steps.inputs import BLOCKS, INPUTS, TICK_S, layout_hash
from mm_ros.steps.outputs import AHEAD_S
from mm_ros.steps.training.augment import Augmentation, Window, window
from mm_ros.steps.training.data import Source
from mm_ros.steps.training.network import NetworkPlan, StepNetwork, loss, onnx_of

Tell = Callable[[str, int, int], None]  # callback to show progress: a text, finished batches, all batches
CHECKPOINT = 500  # The step network is measured after every `CHECKPOINT` batches of the training.
NORMALIZED_BY = 200  # Mean and standard deviation of the inputs are computed from `NORMALIZED_BY` windows.


@dataclass(frozen=True)
class TrainOptions:
    seed: int = 0
    batches: int = 2000
    windows: int = 32  # number of windows (pieces of motion) per training batch
    ticks: int = 300  # length of each window in time steps of 1/60 s
    learning_rate: float = 2.5e-3
    # Smaller learning rate with which an existing network is trained further, so that it keeps its accuracy.
    learning_rate_again: float = 1e-3
    weight_decay: float = 0.02
    procedural: float = 0.15  # share of windows from subjects whose name begins with "procedural"
    plan: NetworkPlan = field(default_factory=NetworkPlan)
    augmentation: Augmentation = field(default_factory=Augmentation)


def shares_of(sources: Sequence[Source], procedural: float) -> F64:
    """Return the probability (S,) with which each clip of `sources` is drawn for the training. The sum of the
    probabilities of procedural clips is `procedural`. Within captured and within procedural motion, the probability of
    a clip is proportional to its duration.
    """
    length = np.array([len(s) for s in sources], np.float64)
    made = np.array([s.subject.startswith("procedural") for s in sources])
    for group, share in ((made, procedural), (~made, 1 - procedural)):
        if group.any():
            length[group] *= share / length[group].sum()
    return np.asarray(length / length.sum())


def fit(
    sources: Sequence[Source], options: TrainOptions, tell: Tell,
    checkpoint: Callable[[StepNetwork, int], None] | None = None, start: StepNetwork | None = None,
) -> StepNetwork:  # fmt: skip
    """Train a new network, or continue to train the network `start`. The function `checkpoint` is called every 500
    batches (`CHECKPOINT`) and after the last batch."""
    if not sources:
        raise MmRosError("there is no motion to train on: all clips are shorter than a second, or left out")
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    rng = np.random.default_rng([options.seed, 7])
    shares = shares_of(sources, options.procedural)
    network = start or StepNetwork(options.plan)

    def drawn(count: int) -> list[Window]:
        return [window(sources, shares, options.ticks, options.augmentation, rng) for _ in range(count)]

    if start is None:
        network.normalize_by(torch.from_numpy(np.concatenate([w.inputs[::10] for w in drawn(NORMALIZED_BY)])))
    rate = options.learning_rate if start is None else options.learning_rate_again
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=options.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=options.batches + 1, pct_start=0.08
    )
    mean = 0.0
    for k in range(options.batches):
        batch = stacked(drawn(options.windows))
        out, _ = network(batch["inputs"])
        value = loss(out, batch)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        mean += (float(value.detach()) - mean) * (0.02 if k else 1.0)
        if (k + 1) % 20 == 0:
            tell(f"fit, loss {mean:.3f}, batch", k + 1, options.batches)
        if checkpoint is not None and ((k + 1) % CHECKPOINT == 0 or k + 1 == options.batches):
            checkpoint(network, k + 1)
    with torch.no_grad():  # The network's weights are rounded, because the ONNX file stores them in half precision.
        for p in network.parameters():
            p.copy_(p.half().float())
    return network


def stacked(windows: Sequence[Window]) -> dict[str, Tensor]:
    names = Window.__dataclass_fields__
    return {n: torch.from_numpy(np.ascontiguousarray(np.stack([getattr(w, n) for w in windows]))) for n in names}


def metadata_of(
    network: StepNetwork, options: TrainOptions, sources: Sequence[Source], left_out: Sequence[str], credit: str,
    figures: dict[str, Any],
) -> dict[str, str]:  # fmt: skip
    """Make the metadata of the step network's ONNX file. All metadata values are text, as the ONNX format requires."""
    return {
        "kind": "steps",
        "version": str(VERSION),
        "mm_ros": __version__,
        "layout_hash": layout_hash(),
        "layout": json.dumps(BLOCKS),
        "inputs": str(INPUTS),
        "tick_s": f"{TICK_S:.9f}",
        "ahead_s": json.dumps(AHEAD_S),
        "weights_hash": weights_hash(network),
        "outputs": "mm_ros/steps/outputs.py: moves, contact, touchdown, ankle, velocity, scales; look-ahead",
        "credit": credit,
        "data": json.dumps({
            "clips": len(sources),
            "subjects": sorted({s.subject for s in sources}),
            "left_out": sorted(left_out),
            "minutes": round(sum(len(s) for s in sources) * TICK_S / 60, 1),
        }),
        "date": date.today().isoformat(),
        "training": json.dumps(asdict(options)),
        "figures": json.dumps(figures),
    }  # fmt: skip


def save(network: StepNetwork, path: Path, metadata: dict[str, str]) -> Path:
    return write(path, onnx_of(network, metadata))
