"""Trains the facing network on random variants of motion capture, validates it, and writes it to an ONNX file."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mm_ros import __version__
from mm_ros.base.errors import MmRosError
from mm_ros.body.clip import Clip
from mm_ros.body.types import F64
from mm_ros.facing.inputs import BLOCKS, INPUTS, TAUS, layout_hash, paper_layout_hash
from mm_ros.facing.model_file import VERSION
from mm_ros.facing.orientation import OrientationSettings
from mm_ros.facing.training.augment import Augmentation, variant
from mm_ros.facing.training.data import Motion, motion_of, sessions, without_head_bias
from mm_ros.facing.training.network import FacingNetwork, NetworkPlan, loss
from mm_ros.facing.training.onnx_graph import onnx_of, onnx_of_paper
from mm_ros.facing.training.paper import PaperNetwork, train_paper
from mm_ros.facing.training.recurrent import TICK
from mm_ros.facing.training.streams import MAX_RATE, fit_recurrent
from mm_ros.facing.training.validate import measure, merged
from mm_ros.maths import rotations as rot

# callback that reports progress: the name of the task, how many of its parts are done, and how many parts it has
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class TrainOptions:
    seed: int = 0
    variants: int = 8  # number of random variants of each motion in a training epoch
    epochs: int = 6  # number of epochs; each has new random variants of the motions, as making variants is quick
    batch: int = 1024
    learning_rate: float = 2e-3
    weight_decay: float = 2.0  # weight decay; facing error on held-out subjects: 6.6° with 0.1, 6.2° with 2
    jitter: float = 0.05
    joined: int = 6  # maximum number of clips that are joined to one long motion
    stride: int = 3  # every third frame is the first of a pair of training frames
    plan: NetworkPlan = field(default_factory=NetworkPlan)
    augmentation: Augmentation = field(default_factory=Augmentation)
    # Recurrent members are trained with more clips in which the head looks around, because they would learn too easily
    # that heads mostly turn with bodies.
    recurrent_augmentation: Augmentation = field(
        default_factory=lambda: replace(Augmentation(), look_around=0.9, look_sideways=0.1)
    )
    paper_steps: int = 2000
    folds: int = 2


@dataclass
class Pool:
    """Training data of the facing network: N pairs of neighbouring frames.

    `inputs` (N, 2, D) are the inputs in half precision, and `targets` (N, 2) the true facings minus the headings [rad].
    """

    inputs: Tensor
    targets: Tensor
    rates: Tensor
    dt: Tensor

    def __len__(self) -> int:
        return len(self.dt)


def pool_of(motions: list[Motion], options: TrainOptions, tell: Tell, epoch: int = 0) -> Pool:
    parts: list[tuple[Any, ...]] = []
    for k in range(options.variants):
        rng = np.random.default_rng([options.seed, epoch * options.variants + k])
        joined = sessions(motions, options.joined, rng)
        parts += [_pairs(motion, joined, options, rng) for motion in joined]
        tell("variants", k + 1, options.variants)
    return Pool(*(torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True)))


def _pairs(motion: Motion, donors: list[Motion], options: TrainOptions, rng: np.random.Generator) -> tuple[Any, ...]:
    v = variant(motion, options.augmentation, rng, donors)
    inputs, headings = v.inputs()
    rates = np.gradient(np.unwrap(v.yaw), v.dt)
    i = np.arange(rng.integers(options.stride), len(inputs) - 1, options.stride)
    i = i[np.abs(rates[i]) < MAX_RATE]
    relative = rot.wrap_angle(v.yaw - headings).astype(np.float32)
    return (
        np.stack([inputs[i], inputs[i + 1]], axis=1).astype(np.float16),
        np.stack([relative[i], relative[i + 1]], axis=1),
        rates[i].astype(np.float32),
        np.full(len(i), v.dt, np.float32),
    )


def fit(motions: list[Motion], options: TrainOptions, tell: Tell) -> FacingNetwork:
    torch.manual_seed(options.seed)
    pool = pool_of(motions, options, tell)
    network = FacingNetwork(INPUTS, options.plan)
    network.normalize_by(pool.inputs[::37, 0].float())
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)
    each = max(1, len(pool) // options.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, options.learning_rate, total_steps=each * options.epochs + 1, pct_start=0.1
    )
    shuffle = torch.Generator().manual_seed(options.seed)
    for epoch in range(options.epochs):
        if epoch:
            del pool  # frees a gigabyte of memory before the next training data are made
            pool = pool_of(motions, options, tell, epoch)
        batches = torch.randperm(len(pool), generator=shuffle).split(options.batch)[:each]
        for done, i in enumerate(batches, 1):
            _fit_batch(network, optimizer, pool, i, options.jitter)
            schedule.step()
            if done % 50 == 0 or done == len(batches):
                tell(f"fit, epoch {epoch + 1} of {options.epochs}:", done, len(batches))
    if options.plan.memory:
        del pool
        network.remembering(options.plan.memory)
        fit_recurrent(network, motions, options, tell)
    network.round_to_half()
    return network


def _fit_batch(network: FacingNetwork, optimizer: torch.optim.Optimizer, pool: Pool, i: Tensor, jitter: float) -> None:
    members = len(network.weights[0])
    out = network.members(pool.inputs[i].float().flatten(0, 1)).reshape(members, len(i), 2, -1)
    wanted = pool.targets[i].expand(members, -1, -1)
    value = loss(out, wanted, pool.rates[i].expand(members, -1), jitter, pool.dt[i])
    optimizer.zero_grad(set_to_none=True)
    value.backward()
    optimizer.step()


def folds_of(clips: Sequence[Clip], count: int) -> list[set[str]]:
    """Divide the captured persons (subjects) into `count` groups whose clips have about the same total duration."""
    seconds: dict[str, float] = {}
    for clip in clips:
        seconds[clip.subject] = seconds.get(clip.subject, 0.0) + clip.seconds
    groups: list[set[str]] = [set() for _ in range(count)]
    loads = [0.0] * count
    for subject in sorted(seconds, key=lambda s: (-seconds[s], s)):
        k = loads.index(min(loads))
        groups[k].add(subject)
        loads[k] += seconds[subject]
    return [g for g in groups if g]


@dataclass
class Outcome:
    network: FacingNetwork
    papers: dict[str, PaperNetwork]
    # facing errors, with three nested keys: head yaw ("as captured" or "without head bias"), predictor, condition
    figures: dict[str, Any]


def train(
    clips: Sequence[Clip], options: TrainOptions, tell: Tell, early: Callable[[Outcome], None] | None = None
) -> Outcome:
    """Train the facing network on all clips, and measure the errors of the training by cross-validation over persons.

    The cross-validation trains further networks without some subjects, and measures their errors on these subjects.
    `early` is called before the cross-validation with the networks that were trained on all subjects.
    """
    torch.set_num_threads(1)
    subjects = {c.subject for c in clips}
    if options.folds > 0 and len(subjects) < 2:
        raise MmRosError(
            f"validation on held-out subjects needs two subjects or more, came {len(subjects)} "
            f"({', '.join(sorted(subjects))}). Give more data, or --folds 0 to skip the validation."
        )
    motions = without_head_bias([motion_of(c) for c in clips])
    outcome = Outcome(*_networks(motions, options, "all subjects", tell), {})
    if options.folds > 0:
        if early is not None:
            early(outcome)
        outcome.figures = cross_validated(clips, motions, options, tell)
    return outcome


def cross_validated(clips: Sequence[Clip], motions: list[Motion], options: TrainOptions, tell: Tell) -> dict[str, Any]:
    results: dict[str, list[Any]] = {"as captured": [], "without head bias": []}
    groups = folds_of(clips, min(options.folds, len({c.subject for c in clips})))
    for k, held in enumerate(groups):
        name = f"fold {k + 1} of {len(groups)}"
        network, papers = _networks([m for m in motions if m.subject not in held], options, name, tell)
        own = [c for c in clips if c.subject in held]
        for title, unbiased in (("as captured", False), ("without head bias", True)):
            results[title].append(
                measure(
                    own, network.sequence, papers, options.seed, remove_bias=unbiased,
                    tell=partial(tell, f"{name}: measure"),
                )
            )  # fmt: skip
    return {title: merged(parts) for title, parts in results.items()}


def _networks(
    motions: list[Motion], options: TrainOptions, name: str, tell: Tell
) -> tuple[FacingNetwork, dict[str, PaperNetwork]]:
    def here(what: str, done: int, of: int) -> None:
        tell(f"{name}: {what}", done, of)

    network = fit(motions, options, here)
    papers = {}
    for r in (1, 50) if options.paper_steps else ():
        papers[f"paper r={r}"] = train_paper(
            motions, r, options.paper_steps, options.seed, partial(here, f"paper r={r}")
        )
    return network, papers


def metadata_of(outcome: Outcome, options: TrainOptions, clips: Sequence[Clip], credit: str) -> dict[str, str]:
    """Return the metadata of the facing network's ONNX file, with texts as values, because ONNX stores only texts."""
    network = outcome.network
    return {
        "kind": "facing",
        "version": str(VERSION),
        "mm_ros": __version__,
        "layout_hash": layout_hash(),
        "layout": json.dumps([*BLOCKS, ["time constants of the averages, s", list(TAUS)]]),
        "weights_hash": weights_hash(network),
        "outputs": "sine and cosine of the facing against the heading, log of the Laplace scale (rad), rate (rad/s)",
        "rate_hz": "any; trained on 48 to 75 frames a second, averages exact in dt",
        **_memory_of(network),
        "normalization": json.dumps({"mean": _numbers(network.mean), "scale": _numbers(network.scale)}),
        "credit": credit,
        "data": json.dumps({
            "clips": len(clips),
            "subjects": sorted({c.subject for c in clips}),
            "minutes": round(sum(c.seconds for c in clips) / 60, 1),
        }),
        "date": date.today().isoformat(),
        "training": json.dumps(asdict(options)),
        "smoothing": json.dumps(OrientationSettings.defaults()),
        "figures": json.dumps(rounded(outcome.figures)),
    }  # fmt: skip


def _memory_of(network: FacingNetwork) -> dict[str, str]:
    if network.recurrent is None:
        return {}
    return {
        "tick_s": str(TICK),
        "memory": "`remembered` in, `remembered_now` out (member, motion or mirror image, row, unit); zeros at the "
        "start of a session. `tick` is 1 at the first frame and after tick_s since the last tick; else 0.",
    }  # fmt: skip


def weights_hash(network: torch.nn.Module) -> str:
    """Return a hash of a network's weights, which is equal after trainings with equal seed and data on one machine."""
    digest = hashlib.blake2b(digest_size=8)
    for name, value in sorted(network.state_dict().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()


def save(outcome: Outcome, path: Path, options: TrainOptions, clips: Sequence[Clip], credit: str) -> list[Path]:
    """Write the network to `path`, and the paper's networks to `<name>_paper_r1.onnx` and `<name>_paper_r50.onnx`."""
    metadata = metadata_of(outcome, options, clips, credit)
    written = [write(path, onnx_of(outcome.network, metadata))]
    for name, paper in outcome.papers.items():
        own = {k: metadata[k] for k in ("version", "mm_ros", "credit", "data", "date")}
        own |= {"kind": "facing_paper", "layout_hash": paper_layout_hash(), "r": name.split("=")[1], "rate_hz": "60"}
        own["figures"] = json.dumps({t: rounded(f.get(name, {})) for t, f in outcome.figures.items()})
        paper_path = path.with_name(f"{path.stem}_{name.replace(' ', '_').replace('=', '')}.onnx")
        written.append(write(paper_path, onnx_of_paper(paper, own)))
    return written


def write(path: Path, content: bytes) -> Path:
    """Write a temporary file and rename it to `path`, so that a process that reads the old file is not disturbed."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
    return path


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return round(value, 2) if isinstance(value, float) else value


def _numbers(t: Tensor) -> list[float]:
    a: F64 = t.detach().numpy().astype(np.float64)
    return [float(f"{x:.6g}") for x in a]
